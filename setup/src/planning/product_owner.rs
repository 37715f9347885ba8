//! Requirements by an agent that asks what is unclear.

use mahabharatha_core::ids::Feature;
use mahabharatha_core::prompt::product_owner::{OwnerAnswer, OwnerInput, product_owner};
use mahabharatha_core::spec::Requirements;
use mahabharatha_sys::error::{Error, ExitCode, Result};
use mahabharatha_sys::ui::{Ui, clean};
use serde_json::Value;

use super::asker::{Asker, as_documents};

/// So often it may ask the person something; then it has to write.
const ROUNDS_OF_QUESTIONS: usize = 4;
/// Twice more, should its last answer be none.
const ROUNDS: usize = ROUNDS_OF_QUESTIONS + 2;

/// What it is to work from.
pub struct Brief<'a> {
    pub feature: &'a Feature,
    pub wish: &'a str,
    pub current: Option<&'a str>,
}

pub fn elicit(ui: &Ui, asker: &Asker<'_>, brief: &Brief<'_>) -> Result<Requirements> {
    let documents = asker.project_documents();
    let documents = as_documents(&documents);
    let mut answers: Vec<(String, String)> = Vec::new();
    let mut complaint: Option<String> = None;
    for round in 0..ROUNDS {
        let no_more_questions = !ui.can_ask() || round >= ROUNDS_OF_QUESTIONS;
        let prompt = product_owner(&OwnerInput {
            feature: brief.feature,
            wish: brief.wish,
            current: brief.current,
            answers: &answers,
            complaint: complaint.as_deref(),
            documents: &documents,
            no_more_questions,
        });
        let answer = asker.ask(ui, &prompt, &OwnerAnswer::schema())?;
        let read = answer.and_then(|value| OwnerAnswer::read(harmless(value)));
        let answer = match read {
            Ok(answer) => answer,
            Err(why) => {
                complaint = Some(why);
                continue;
            }
        };
        complaint = None;
        if !answer.questions.is_empty() && !no_more_questions {
            for question in answer.questions {
                let said = ask_person(ui, &question.question, &question.default)?;
                answers.push((question.question, said));
            }
            continue;
        }
        if let Some(mut requirements) = answer.requirements {
            requirements.feature = brief.feature.to_string();
            if let Some(current) = brief.current {
                requirements.keep_own_words_of(Requirements::parse(current));
            }
            requirements.open_questions.extend(answer.questions.into_iter().map(|question| question.question));
            return Ok(requirements);
        }
        complaint = Some("it holds no `requirements`, and nobody can be asked any more".to_owned());
    }
    let why = complaint.unwrap_or_else(|| "it only asked questions".to_owned());
    Err(Error::new(ExitCode::Failed, format!("{} gave no requirements in {ROUNDS} rounds", asker.name()))
        .detail(format!("its last answer: {why}"))
        .hint("Try again, name another agent, or answer the questions yourself: --agent none."))
}

/// Every text in it as it may stand in a document that people print to their terminals.
fn harmless(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(harmless).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, harmless(value))).collect(),
        other => other,
    }
}

fn ask_person(ui: &Ui, question: &str, default: &str) -> Result<String> {
    let default = default.trim();
    let asked = if default.is_empty() { question.to_owned() } else { format!("{question} [{default}]") };
    let said = ui
        .ask_text(&asked, "--describe TEXT, which the agent then works from alone")
        .map_err(|unanswered| Error::new(ExitCode::Usage, unanswered.to_string()))?;
    Ok(match (said.is_empty(), default.is_empty()) {
        (false, _) => said,
        (true, false) => default.to_owned(),
        (true, true) => "(no answer: decide yourself)".to_owned(),
    })
}
