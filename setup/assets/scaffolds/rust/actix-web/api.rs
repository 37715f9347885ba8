//! The HTTP interface.

use actix_web::http::StatusCode;
use actix_web::web::{Json, Path, ServiceConfig};
use actix_web::{HttpResponse, ResponseError, get};
use serde::Serialize;

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

impl ResponseError for InvalidName {
    fn status_code(&self) -> StatusCode {
        StatusCode::UNPROCESSABLE_ENTITY
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).json(Problem {
            error: self.to_string(),
        })
    }
}

pub fn configure(config: &mut ServiceConfig) {
    config.service(health).service(greeting);
}

#[get("/health")]
async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

#[get("/greetings/{name}")]
async fn greeting(name: Path<String>) -> Result<Json<Greeting>, InvalidName> {
    Ok(Json(Greeting {
        message: greet(&name)?,
    }))
}
