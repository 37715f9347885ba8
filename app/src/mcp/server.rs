//! The server: answers one client on standard input and output until that client disconnects or a signal comes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mahabharatha_engine::claude::guard::features_held;
use mahabharatha_engine::lease;
use mahabharatha_engine::session::ended;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::signals;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError};
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::answer::{Errors, answer, refused};
use super::calls::{Calls, MAX_CALLS};
use super::{resources, tools};

/// Interval at which the leases of the session are renewed: shorter than any time without a call that ends one.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(15);
/// Time that reads have to end after the client has disconnected.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

const INSTRUCTIONS: &str = "Take part in a run of mahabharatha, which checks all work and merges it level by level. \
    To run a feature's tasks: `start`, then do what `next` says until it is completed, blocked or failed. \
    For each task: `claim`, `prompt`, do what the prompt says in the worktree that it names, `verify`, `complete`; then `merge` the level. \
    To do a single task of a run that others drive, begin with `claim`. \
    Write only in the worktrees of claimed tasks and only the files that the task owns; do not commit. \
    Only the answers of the tools say what is done. What you hold is released when you disconnect; its work is kept.";

#[derive(Debug, Clone)]
pub struct Options {
    /// The directory as the commands are given it.
    pub directory: PathBuf,
    /// The feature of calls that name none.
    pub feature: Option<String>,
    pub version: &'static str,
    pub errors: Errors,
}

struct Server {
    options: Options,
    calls: Arc<Calls>,
}

/// Answers until the client disconnects, or until SIGINT, SIGTERM or SIGHUP. Ends the calls that are under way, then
/// releases what the session holds. Returns whether a signal ended it.
pub fn serve(options: Options) -> Result<bool> {
    let (sender, signalled) = oneshot::channel();
    let mut sender = Some(sender);
    let handle = move |_, signal: i32| match sender.take() {
        Some(sender) => drop(sender.send(())),
        None => signals::terminate_by(signal),
    };
    signals::listen(handle)?;
    let session = lease::mcp_session();
    let first = vec!["-C".into(), options.directory.clone().into_os_string(), "--json".into()];
    let calls = Arc::new(Calls::new(first, session.clone()));
    let directory = options.directory.clone();
    let threads = 2 * MAX_CALLS as usize;
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(threads).build();
    let runtime = runtime.map_err(Error::caused("cannot start the server"))?;
    let result = runtime.block_on(async {
        let renewal = session.clone().map(|session| tokio::spawn(renew(directory.clone(), session)));
        let server = Server { options, calls: Arc::clone(&calls) };
        let result = tokio::select! {
            result = answer_client(server) => result.map(|()| false),
            _ = signalled => Ok(true),
        };
        calls.end().await;
        renewal.iter().for_each(tokio::task::JoinHandle::abort);
        result
    });
    // Standard input may block for ever.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    match session {
        Some(session) => ended::end(&directory, &session).and(result),
        None => result,
    }
}

async fn answer_client(server: Server) -> Result<()> {
    let failed = |error: String| Error::new(Kind::Failed, format!("the client cannot be served: {error}"));
    match server.serve(stdio_pipes()).await {
        Ok(serving) => serving.waiting().await.map(drop).map_err(|error| failed(error.to_string())),
        // It left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Renews what the session holds for as long as the server runs.
async fn renew(directory: PathBuf, session: String) {
    let mut ticks = interval(RENEWAL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (directory, session) = (directory.clone(), session.clone());
        let renew = move || features_held(&directory, &session).iter().for_each(|dir| lease::renew(dir, &session));
        let _ = spawn_blocking(renew).await;
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mahabharatha", self.options.version))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::listed()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let errors = self.options.errors;
        let Some(tool) = tools::find(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None));
        };
        let mut arguments = request.arguments.unwrap_or_default();
        if let (Some(feature), None | Some(Value::Null)) = (&self.options.feature, arguments.get("feature")) {
            arguments.insert("feature".to_owned(), json!(feature));
        }
        let words = match tools::words(tool.name, arguments) {
            Ok(words) => words,
            Err(why) => return Ok(refused((errors.json)(&Error::new(Kind::Usage, why))).into()),
        };
        let ended = self.calls.run(words, context.ct.cancelled()).await;
        Ok(answer(tool, ended, errors).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let directory = self.options.directory.clone();
        let listed = self.read(move || resources::list(&directory)).await?;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let directory = self.options.directory.clone();
        let contents = self.read(move || resources::read(&directory, &request.uri)).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

impl Server {
    /// Reads files on a thread for that.
    async fn read<T: Send + 'static>(&self, read: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, ErrorData> {
        let error_json = self.options.errors.json;
        let refused = |error: Error| {
            let data = Some(error_json(&error));
            match error.kind() {
                Kind::Usage => ErrorData::resource_not_found(error.message().to_owned(), data),
                _ => ErrorData::internal_error(error.message().to_owned(), data),
            }
        };
        let gone = |_| ErrorData::internal_error("the read was interrupted", None);
        spawn_blocking(read).await.map_err(gone)?.map_err(refused)
    }
}
