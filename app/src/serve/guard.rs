//! Rejects requests without the token, or with a foreign Host or Origin. Sets the headers of every answer.
//!
//! Any program can connect to a port of this machine, and any web page can make a browser do so. The token keeps both out; Host
//! and Origin prevent DNS rebinding.

use std::hint::black_box;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mahabharatha_sys::error::{Error, Result};

const TOKEN_BYTES: usize = 16;

const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The secret in the address of the page. It has no `Debug`, so that nothing logs it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    pub fn random() -> Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(Error::caused("cannot get random bytes from the system"))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell how much of the token is right.
    fn is(&self, given: &str) -> bool {
        let differing = self.0.bytes().zip(given.bytes()).fold(0, |all, (one, other)| all | black_box(one ^ other));
        given.len() == self.0.len() && differing == 0
    }
}

pub struct Guard {
    token: Token,
    /// What Host may be.
    hosts: [String; 2],
}

impl Guard {
    pub fn new(token: Token, port: u16) -> Guard {
        Guard { token, hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")] }
    }

    /// Returns why a request is refused; none if it is let in.
    fn refusal(&self, request: &Request) -> Option<&'static str> {
        let given = request.uri().path().split('/').nth(1).unwrap_or_default();
        if !self.token.is(given) {
            return Some("This address is not the one that `mahabharatha serve` printed.");
        }
        let is_host = |host: &str| self.hosts.iter().any(|known| known == host);
        let of_uri = request.uri().authority().is_none_or(|named| is_host(named.as_str()));
        if !of_uri || !only(request.headers(), &header::HOST).is_ok_and(|host| host.is_some_and(is_host)) {
            return Some("The request names another host than this page.");
        }
        let is_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_host);
        if !only(request.headers(), &header::ORIGIN).is_ok_and(|origin| origin.is_none_or(is_origin)) {
            return Some("The request comes from another page.");
        }
        None
    }
}

/// Returns the value of a header; an error if there are several, or one that is no text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> std::result::Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

pub async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(&request) {
        None => next.run(request).await,
        Some(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn tokens_are_random_and_only_the_same_one_is_right() {
        let (token, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(token.as_str().len(), 32);
        assert!(token.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(token.is(token.as_str()));
        for wrong in ["", other.as_str(), &token.as_str()[1..], &format!("{}0", token.as_str())] {
            assert!(!token.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn host_and_origin_must_be_this_server() {
        let guard = Guard::new(Token("t".to_string()), 80);
        let refused = |uri: &str, headers: &[(&str, &str)]| {
            let request =
                headers.iter().fold(Request::builder().uri(uri), |all, (name, value)| all.header(*name, *value));
            guard.refusal(&request.body(Body::empty()).unwrap()).is_some()
        };
        let host = ("host", "localhost:80");
        assert!(!refused("/t/", &[host]));
        assert!(!refused("/t/", &[("host", "127.0.0.1:80"), ("origin", "http://127.0.0.1:80")]));
        assert!(!refused("http://localhost:80/t/", &[host]));
        for (uri, headers) in [
            ("/t/", &[][..]),
            ("/", &[host]),
            ("/x/t/", &[host]),
            ("//t/", &[host]),
            ("/t/", &[("host", "localhost")]),
            ("/t/", &[("host", "localhost:81")]),
            ("/t/", &[("host", "evil.example:80")]),
            ("/t/", &[host, ("host", "evil.example:80")]),
            ("http://evil.example/t/", &[host]),
            ("/t/", &[host, ("origin", "null")]),
            ("/t/", &[host, ("origin", "https://localhost:80")]),
            ("/t/", &[host, ("origin", "http://localhost:81")]),
            ("/t/", &[host, ("origin", "http://localhost:80"), ("origin", "http://evil.example")]),
        ] {
            assert!(refused(uri, headers), "{uri} {headers:?}");
        }
    }
}
