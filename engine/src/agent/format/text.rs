//! Plain text, as aider prints it. It exits with 0 on every error of the API, which only its output names.

use super::{Parser, Said, status_in};

/// Names of errors in the libraries that agents in Python use, and the HTTP status that each stands for.
const ERRORS: [(&str, u16); 7] = [
    ("AuthenticationError", 401),
    ("PermissionDeniedError", 403),
    ("RateLimitError", 429),
    ("InternalServerError", 500),
    ("ServiceUnavailableError", 503),
    ("APIConnectionError", 503),
    ("BadRequestError", 400),
];
/// What aider prints after each answer of the model.
const ANSWERED: &str = "Tokens: ";
/// Words at the start of a line that begin the agent's last answer.
const MARKS: [&str; 2] = ["BLOCKED:", "ESCALATE:"];

#[derive(Default)]
pub struct Text {
    output: String,
    error: Option<(u16, String)>,
}

impl Parser for Text {
    fn line(&mut self, line: &str, said: &mut Vec<Said>) {
        let error = ERRORS.iter().find(|(name, _)| line.contains(&format!("litellm.{name}")));
        if let Some((_, status)) = error {
            self.error = Some((status_in(line).unwrap_or(*status), line.trim().to_owned()));
        } else if line.starts_with("Retrying in") {
            let why = self.error.as_ref().map_or_else(|| line.to_owned(), |(_, message)| message.clone());
            said.push(Said::Retry(why));
        } else if line.starts_with(ANSWERED) {
            self.error = None;
        }
        if MARKS.iter().any(|mark| line.starts_with(mark)) {
            self.output.clear();
        }
        self.output.push_str(line);
        self.output.push('\n');
    }

    fn end(&mut self, said: &mut Vec<Said>) {
        let text = self.output.trim();
        if !text.is_empty() {
            said.push(Said::Text(text.to_owned()));
        }
        let error = self.error.take();
        let ok = error.is_none();
        said.extend(error.map(|(status, message)| Said::Error { status: Some(status), message }));
        said.push(Said::End { ok });
    }
}
