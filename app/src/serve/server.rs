//! Listens on loopback, and answers until a signal comes.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Project;
use mahabharatha_sys::signals;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};

use super::guard::{Guard, Token};
use super::routes;
use super::shared::Shared;

const MAX_CONNECTIONS: usize = 256;
/// Threads that read files and call git.
const MAX_READERS: usize = 8;
/// Time in which a request's head must come, also the first one of a connection and the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Pause after a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that actions and reads have to end after a signal.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// 0: any free one.
    pub port: u16,
    /// Whether the page may act on runs.
    pub actions: bool,
}

/// The page, which listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    token: Token,
    port: u16,
    shared: Shared,
}

impl Server {
    pub fn bind(project: Project, options: Options) -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
            .map_err(|error| cannot_listen(options.port, error))?;
        let cannot = |error| cannot_listen(options.port, error);
        listener.set_nonblocking(true).map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        Ok(Server { listener, token: Token::random()?, port, shared: Shared::new(project, options.actions) })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of the page. It contains the token, so it gives access to the project's features.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token.as_str())
    }

    /// Answers until SIGINT, SIGTERM or SIGHUP. Open connections end with it.
    pub fn serve(self) -> Result<()> {
        let cannot = |error| Error::caused("cannot start the server")(error);
        let (sender, stopped) = oneshot::channel();
        let mut sender = Some(sender);
        let handle = move |_, signal: i32| match sender.take() {
            Some(sender) => drop(sender.send(())),
            None => signals::terminate_by(signal),
        };
        signals::listen(handle)?;
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(MAX_READERS).build().map_err(cannot)?;
        let guard = Guard::new(self.token, self.port);
        let router = routes::router(self.shared, Arc::new(guard));
        let result = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(self.listener).map_err(cannot)?;
            tokio::select! {
                _ = stopped => Ok(()),
                () = accept(&listener, &router) => Ok(()),
            }
        });
        runtime.shutdown_timeout(GRACE_PERIOD);
        result
    }
}

/// Accepts connections, as many at once as there are places.
async fn accept(listener: &tokio::net::TcpListener, router: &Router) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // A client that leaves in the middle is no problem of ours.
            let _ = connection.await;
            drop(place);
        });
    }
}

fn cannot_listen(port: u16, error: std::io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            "Another program uses it, perhaps another `mahabharatha serve`: name another port, or \
                                 leave out --port for any free one."
        }
        ErrorKind::PermissionDenied => "Name a port from 1024 on, or leave out --port for any free one.",
        _ => "Leave out --port for any free one.",
    };
    Error::new(Kind::Failed, format!("cannot listen on 127.0.0.1:{port}: {error}")).hint(hint).source(error)
}
