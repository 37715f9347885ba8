//! The HTTP interface.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tower_http::trace::TraceLayer;

use crate::greeting::{InvalidName, greet};

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Greeting {
    message: String,
}

#[derive(Debug, Serialize)]
struct Problem {
    error: String,
}

impl IntoResponse for InvalidName {
    fn into_response(self) -> Response {
        let problem = Problem {
            error: self.to_string(),
        };
        (StatusCode::UNPROCESSABLE_ENTITY, Json(problem)).into_response()
    }
}

pub fn router() -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/greetings/{name}", get(greeting))
        .layer(TraceLayer::new_for_http())
}

async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

async fn greeting(Path(name): Path<String>) -> Result<Json<Greeting>, InvalidName> {
    Ok(Json(Greeting {
        message: greet(&name)?,
    }))
}
