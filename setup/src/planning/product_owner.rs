//! Lets an agent write the requirements, passing its questions on to the user.

use mahabharatha_core::ids::Feature;
use mahabharatha_core::prompt::product_owner::{OwnerAnswer, OwnerInput, product_owner};
use mahabharatha_core::spec::Requirements;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::{Ui, clean};
use serde_json::Value;

use super::asker::{Asker, as_documents};

/// How many rounds of questions the agent may ask; then it has to write.
const MAX_QUESTION_ROUNDS: usize = 4;
/// Allows two more rounds, in case its last answer is invalid.
const MAX_ROUNDS: usize = MAX_QUESTION_ROUNDS + 2;

/// Input for the requirements.
pub struct Brief<'a> {
    pub feature: &'a Feature,
    pub wish: &'a str,
    pub current: Option<&'a str>,
    /// Whether the agent may ask the user.
    pub questions: bool,
}

pub fn elicit(ui: &Ui, asker: &Asker<'_>, brief: &Brief<'_>) -> Result<Requirements> {
    let documents = asker.project_documents();
    let documents = as_documents(&documents);
    let mut answers: Vec<(String, String)> = Vec::new();
    let mut complaint: Option<String> = None;
    for round in 0..MAX_ROUNDS {
        let no_more_questions = !brief.questions || !ui.can_ask() || round >= MAX_QUESTION_ROUNDS;
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
        let read = answer.and_then(|value| OwnerAnswer::read(without_control_characters(value)));
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
                let said = ask_user(ui, &question.question, &question.default)?;
                answers.push((question.question, said));
            }
            continue;
        }
        if let Some(mut requirements) = answer.requirements {
            requirements.feature = brief.feature.to_string();
            if let Some(current) = brief.current {
                requirements.keep_notes_from(Requirements::parse(current));
            }
            requirements.open_questions.extend(answer.questions.into_iter().map(|question| question.question));
            return Ok(requirements);
        }
        complaint = Some("it has no `requirements`, and the user cannot be asked any more".to_owned());
    }
    let why = complaint.unwrap_or_else(|| "it only asked questions".to_owned());
    Err(Error::new(Kind::Failed, format!("{} wrote no requirements in {MAX_ROUNDS} rounds", asker.name()))
        .detail(format!("its last answer: {why}"))
        .hint("Try again, name another agent, or answer the questions yourself: --agent none."))
}

/// Removes control characters from every text in the answer, since the document will be printed to terminals.
fn without_control_characters(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(without_control_characters).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, without_control_characters(value))).collect()
        }
        other => other,
    }
}

fn ask_user(ui: &Ui, question: &str, default: &str) -> Result<String> {
    let default = default.trim();
    let asked = if default.is_empty() { question.to_owned() } else { format!("{question} [{default}]") };
    let said = ui
        .ask_text(&asked, "--describe TEXT, to let the agent work from that alone")
        .map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))?;
    Ok(match (said.is_empty(), default.is_empty()) {
        (false, _) => said,
        (true, false) => default.to_owned(),
        (true, true) => "(no answer: decide yourself)".to_owned(),
    })
}
