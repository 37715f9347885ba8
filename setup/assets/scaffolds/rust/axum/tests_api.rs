use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use {{module}}::api;
use {{module}}::greeting::MAX_NAME_LENGTH;

async fn get(path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = api::router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

#[tokio::test]
async fn is_healthy() {
    assert_eq!(
        get("/health").await,
        (StatusCode::OK, json!({ "status": "ok" }))
    );
}

#[tokio::test]
async fn greets_by_name() {
    let expected = json!({ "message": "Hello, Ada!" });
    assert_eq!(get("/greetings/Ada").await, (StatusCode::OK, expected));
}

#[tokio::test]
async fn refuses_an_invalid_name() {
    for name in ["%20", &"x".repeat(MAX_NAME_LENGTH + 1)] {
        let (status, problem) = get(&format!("/greetings/{name}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(
            problem["error"]
                .as_str()
                .unwrap()
                .starts_with("the name is")
        );
    }
}

#[tokio::test]
async fn has_nothing_elsewhere() {
    assert_eq!(get("/nowhere").await.0, StatusCode::NOT_FOUND);
}
