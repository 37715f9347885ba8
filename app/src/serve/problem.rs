//! Errors of the API: a status, and JSON with a code, a message and a hint.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use mahabharatha_sys::error::{Error, Kind};
use serde_json::json;

#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    /// For programs; never changes its meaning.
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    pub fn nothing_there() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "unknown", "there is nothing at this address")
    }

    pub fn of(status: StatusCode, code: &'static str, error: &Error) -> Problem {
        let hint = error.what_to_do().map(str::to_string);
        Problem { status, code, message: error.message().to_string(), hint }
    }

    pub fn to_json(&self) -> String {
        json!({ "code": self.code, "message": self.message, "hint": self.hint }).to_string()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error.kind() {
            Kind::Usage => Problem::of(StatusCode::NOT_FOUND, "unknown", &error),
            Kind::Invalid => Problem::of(StatusCode::CONFLICT, "invalid", &error),
            _ => Problem::of(StatusCode::INTERNAL_SERVER_ERROR, "failed", &error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, "application/json")], self.to_json()).into_response()
    }
}
