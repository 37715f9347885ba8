//! The addresses of the page and its API.

use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use mahabharatha_engine::report::logs::{LogFilter, read_logs};
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_sys::bounded::{self, LARGE_FILE_BYTES};
use mahabharatha_sys::error::{Error, Result as SysResult, io};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::clean;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::actions::Asked;
use super::assets::{self, INDEX};
use super::events::{last_event, status_events};
use super::guard::{Guard, guarded};
use super::problem::Problem;
use super::shared::{Names, Shared, Wanted, blocking};
use super::{diff, output, task};
use crate::observe::{features, is_output};

/// Where the first data goes in the page.
const FIRST: &str = "<!--FIRST-->";
/// Largest status in the page. With it, the page and the files of its first paint stay below 100 KB.
const MAX_FIRST_STATUS_BYTES: usize = 28_000;

const MAX_BODY_BYTES: usize = 64 << 10;
/// Time in which the body of a request must come.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Lines of a log that are sent, the newest ones.
const MAX_LOG_LINES: usize = 5_000;

type Answer = Result<Response, Problem>;

pub fn router(shared: Shared, guard: Arc<Guard>) -> Router {
    let api = Router::new()
        .route("/", get(list))
        .route("/{feature}/status", get(status))
        .route("/{feature}/graph", get(graph))
        .route("/{feature}/events", get(events))
        .route("/{feature}/tasks/{task}", get(task_detail))
        .route("/{feature}/tasks/{task}/output", get(task_output))
        .route("/{feature}/tasks/{task}/diff", get(task_diff))
        .route("/{feature}/gates/{task}", get(gate_output))
        .route("/{feature}/diff", get(level_diff))
        .route("/{feature}/log", get(log))
        .route("/{feature}/report", get(report))
        .route("/{feature}/actions", post(act));
    let page = Router::new().route("/", get(index)).route("/{file}", get(asset)).nest("/api/features", api);
    let bare = async |Path(token): Path<String>| Redirect::permanent(&format!("/{token}/"));
    Router::new()
        .route("/{token}", get(bare))
        .nest("/{token}/", page)
        .fallback(async || Problem::nothing_there())
        .layer(from_fn_with_state(guard, guarded))
        .with_state(shared)
}

/// Answers with JSON.
fn json_text(text: impl ToString) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

async fn index(State(shared): State<Shared>) -> Answer {
    let first = blocking(move || {
        let listed = features(shared.project())?;
        let current = listed.iter().find(|listed| listed.is_current).or(listed.first());
        let status = current.and_then(|listed| shared.live(&listed.feature).ok()).map(|(_, live)| live.now());
        let status = status.filter(|status| status.problem.is_none());
        let status = status.and_then(|status| status.within(MAX_FIRST_STATUS_BYTES));
        let listed = json!({ "features": listed });
        let status = status.unwrap_or_else(|| "null".to_string());
        Ok(format!("{{\"actions\":{},\"features\":{listed},\"status\":{status}}}", shared.allows_actions()))
    })
    .await?;
    // Outside of strings JSON has no `<`.
    let first = first.replace('<', "\\u003c");
    let (head, rest) = INDEX.text.split_once(FIRST).unwrap_or((INDEX.text, ""));
    let page = format!("{head}<script type=\"application/json\" id=\"first\">{first}</script>{rest}");
    Ok(([(header::CONTENT_TYPE, INDEX.content_type)], page).into_response())
}

async fn asset(Path((_, file)): Path<(String, String)>) -> Answer {
    let asset = assets::find(&file).ok_or_else(Problem::nothing_there)?;
    Ok(([(header::CONTENT_TYPE, asset.content_type)], asset.text).into_response())
}

async fn list(State(shared): State<Shared>) -> Answer {
    let listed = blocking(move || Ok(features(shared.project())?)).await?;
    Ok(json_text(json!({ "features": listed })))
}

async fn status(State(shared): State<Shared>, names: Names) -> Answer {
    let snapshot = blocking(move || Ok(shared.live(&names.feature)?.1.now())).await?;
    Ok(match &snapshot.problem {
        None => json_text(snapshot.since(None)),
        Some(problem) => (StatusCode::CONFLICT, json_text(problem)).into_response(),
    })
}

async fn graph(State(shared): State<Shared>, names: Names) -> Answer {
    let tasks = blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        let of_run =
            live.with_run(|run, _| json!(run.graph().tasks().iter().map(|task| &task.spec).collect::<Vec<_>>()));
        Ok(of_run.map_or_else(|| graph_of_spec(&place), Ok)?)
    })
    .await?;
    Ok(json_text(json!({ "tasks": tasks })))
}

/// Returns the tasks of the graph file, also of one that has problems.
fn graph_of_spec(place: &Place) -> SysResult<Value> {
    let start = specs::start_tree(&place.project.git(), &place.project.head_commit()?)?;
    Ok(json!(specs::read_graph(&place.paths, &start)?.tasks))
}

async fn events(State(shared): State<Shared>, names: Names, headers: HeaderMap) -> Answer {
    let has = last_event(&headers).map(str::to_string);
    let snapshots = blocking(move || Ok(shared.live(&names.feature)?.1.subscribe())).await?;
    Ok(status_events(snapshots, has))
}

async fn task_detail(State(shared): State<Shared>, names: Names, wanted: Wanted) -> Answer {
    let detail = blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        if live.with_run(|_, _| ()).is_none() {
            let unknown =
                || Problem::new(StatusCode::NOT_FOUND, "unknown_task", format!("there is no task {}", names.item()));
            return task::planned(&place, names.item())?.ok_or_else(unknown);
        }
        let id = names.task_in(&live)?;
        let attempt = names.attempt_in(&live, &id, wanted.attempt)?;
        let detail = live.with_run(|run, view| task::read(&place, run, view, &id, attempt));
        detail.flatten().ok_or_else(Problem::nothing_there)
    })
    .await?;
    Ok(json_text(detail))
}

async fn task_output(State(shared): State<Shared>, names: Names, wanted: Wanted, headers: HeaderMap) -> Answer {
    blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        let task = names.task_in(&live)?;
        let attempt = names.attempt_in(&live, &task, wanted.attempt)?;
        let log = place.paths.task_log(&task);
        Ok(output::follow(live, output::Of::Attempt { task, attempt }, log, last_event(&headers)))
    })
    .await
}

async fn gate_output(State(shared): State<Shared>, names: Names, headers: HeaderMap) -> Answer {
    blocking(move || {
        let (_, live) = shared.live(&names.feature)?;
        live.now();
        let (log, _) = live.gate_log(names.item()).ok_or_else(Problem::nothing_there)?;
        Ok(output::follow(live, output::Of::Gate(names.item().to_string()), log, last_event(&headers)))
    })
    .await
}

async fn task_diff(State(shared): State<Shared>, names: Names, wanted: Wanted) -> Answer {
    let diff = blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        let task = names.task_in(&live)?;
        // Read again, so that git's time does not hold up the others.
        let run = control::read_run(&place)?;
        Ok(diff::of_task(&place, &run, &task, wanted.attempt, wanted.file.as_deref())?)
    })
    .await?;
    Ok(json_text(diff))
}

async fn level_diff(State(shared): State<Shared>, names: Names, wanted: Wanted) -> Answer {
    let diff = blocking(move || {
        let level =
            wanted.level.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "bad_request", "level is missing"))?;
        let place = shared.place(&names.feature)?;
        let run = control::read_run(&place)?;
        Ok(diff::of_level(&place, &run, level, wanted.file.as_deref())?)
    })
    .await?;
    Ok(json_text(diff))
}

async fn log(State(shared): State<Shared>, names: Names, wanted: Wanted) -> Answer {
    let log = blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        if let Some(task) = &wanted.task {
            names.with_task(task).task_in(&live)?;
        }
        let dir = place.paths.logs();
        let filter = LogFilter { task: wanted.task, gate: wanted.gate, ..LogFilter::default() };
        let mut lines = read_logs(&dir, &filter).map_err(io("read", &dir))?.records;
        if wanted.output == Some(false) {
            lines.retain(|line| !is_output(line));
        }
        let left_out = lines.len().saturating_sub(MAX_LOG_LINES);
        lines.drain(..left_out);
        for line in &mut lines {
            line.message = clean(&line.message);
        }
        Ok(json!({ "left_out": left_out, "lines": lines }))
    })
    .await?;
    Ok(json_text(log))
}

async fn report(State(shared): State<Shared>, names: Names) -> Answer {
    let text = blocking(move || {
        let path = shared.place(&names.feature)?.paths.completion();
        match bounded::read_to_string(&path, LARGE_FILE_BYTES) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io("read", &path)(error).into()),
        }
    })
    .await?;
    Ok(json_text(json!({ "text": text })))
}

async fn act(State(shared): State<Shared>, names: Names, request: Request) -> Answer {
    if !shared.allows_actions() {
        let message = "this page only shows; it may not act on runs";
        return Err(Problem::new(StatusCode::FORBIDDEN, "read_only", message)
            .hint("Start it with `mahabharatha serve --allow-actions`, or use the command."));
    }
    let asked = body(request).await?;
    let said = blocking(move || {
        let (place, live) = shared.live(&names.feature)?;
        if let Some(task) = asked.task() {
            names.with_task(task).task_in(&live)?;
        }
        let refused = |error: Error| Problem::of(StatusCode::CONFLICT, "refused", &error);
        let run = control::read_run(&place).map_err(refused)?;
        asked.act(&place, &run).map_err(refused)
    })
    .await?;
    Ok(json_text(json!({ "said": said })))
}

/// Reads the body of an action.
async fn body(request: Request) -> Result<Asked, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "not_json", "an action is JSON: Content-Type: application/json"));
    }
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the request took too long to arrive");
    let large = |_| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the request is larger than 64 KB");
    let bytes =
        timeout(BODY_TIMEOUT, to_bytes(request.into_body(), MAX_BODY_BYTES)).await.map_err(late)?.map_err(large)?;
    let bad =
        |error: serde_json::Error| Problem::new(StatusCode::BAD_REQUEST, "bad_request", format!("no action: {error}"));
    serde_json::from_slice(&bytes).map_err(bad)
}
