use actix_web::http::StatusCode;
use actix_web::{App, test};
use serde_json::{Value, json};

use {{module}}::api;
use {{module}}::greeting::MAX_NAME_LENGTH;

async fn get(path: &str) -> (StatusCode, Value) {
    let app = test::init_service(App::new().configure(api::configure)).await;
    let request = test::TestRequest::get().uri(path).to_request();
    let response = test::call_service(&app, request).await;
    let status = response.status();
    let bytes = test::read_body(response).await;
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

#[actix_web::test]
async fn is_healthy() {
    assert_eq!(
        get("/health").await,
        (StatusCode::OK, json!({ "status": "ok" }))
    );
}

#[actix_web::test]
async fn greets_by_name() {
    let expected = json!({ "message": "Hello, Ada!" });
    assert_eq!(get("/greetings/Ada").await, (StatusCode::OK, expected));
}

#[actix_web::test]
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

#[actix_web::test]
async fn has_nothing_elsewhere() {
    assert_eq!(get("/nowhere").await.0, StatusCode::NOT_FOUND);
}
