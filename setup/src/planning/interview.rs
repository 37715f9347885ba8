//! The built-in interview, used when no agent asks the questions. Existing requirements, or the answers of an interview that
//! was not finished, are offered as defaults.

use mahabharatha_core::spec::{Requirements, Story};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::ui::{NoAnswer, Style, Ui, one_line};

const FLAG: &str = "--describe TEXT, --from FILE or --agent none";
/// Said when the interview is left in the middle.
pub const DRAFT_IS_KEPT: &str = "nothing was written but a draft of your answers, which the next `plan` offers";
/// How many times a required question is asked.
const MAX_REQUIRED_ATTEMPTS: usize = 3;
/// Limit for stories and for the items of each list.
const MAX_ITEMS: usize = 100;

/// Asks for everything, with the start as defaults, and saves the answers after each one.
pub fn interview(ui: &Ui, start: &Requirements, save: impl Fn(&Requirements) -> Result<()>) -> Result<Requirements> {
    let mut all = start.clone();
    ui.tell(Style::Dim, "Press Enter to accept the [default] or to finish a list.");
    all.problem = required(ui, "What problem does it solve, and for whom?", &start.problem)?;
    save(&all)?;
    for index in 0..MAX_ITEMS {
        if !story(ui, index, &mut all, &save)? {
            all.stories.truncate(index);
            break;
        }
    }
    all.constraints = list(ui, "Technical or business constraints", &start.constraints)?;
    save(&all)?;
    all.out_of_scope = list(ui, "Out of scope: what the feature deliberately leaves out", &start.out_of_scope)?;
    save(&all)?;
    all.dependencies = list(ui, "Dependencies: systems or features it needs", &start.dependencies)?;
    Ok(all)
}

/// Asks for one story. Returns whether there was one.
fn story(ui: &Ui, index: usize, all: &mut Requirements, save: &impl Fn(&Requirements) -> Result<()>) -> Result<bool> {
    let before = all.stories.get(index).cloned();
    let question = format!("Story {}: who can do what?", index + 1);
    let may_end = index > 0 && before.is_none();
    let mut story = before.unwrap_or_default();
    story.title = if may_end { one_line(&ask_on(ui, &question)?) } else { line(ui, &question, &story.title)? };
    if story.title.is_empty() {
        return Ok(false);
    }
    let mut keep = |story: &Story| {
        match all.stories.get_mut(index) {
            Some(place) => *place = story.clone(),
            None => all.stories.push(story.clone()),
        }
        save(all)
    };
    keep(&story)?;
    story.role = line(ui, "  As a …", &story.role)?;
    keep(&story)?;
    story.capability = line(ui, "  I want …", &story.capability)?;
    keep(&story)?;
    story.benefit = line(ui, "  So that …", &story.benefit)?;
    keep(&story)?;
    story.criteria = list(ui, "  Measurable acceptance criteria", &story.criteria)?;
    keep(&story)?;
    story.verification = text(ui, "  Command that verifies it:", &story.verification)?;
    keep(&story)?;
    Ok(true)
}

/// Asks up to `MAX_REQUIRED_ATTEMPTS` times for an answer, of one or more lines, that is not empty.
pub fn required(ui: &Ui, question: &str, before: &str) -> Result<String> {
    for _ in 0..MAX_REQUIRED_ATTEMPTS {
        let answer = text(ui, question, before)?;
        if !answer.is_empty() {
            return Ok(answer);
        }
        ui.warn("an answer is required");
    }
    Err(Error::new(Kind::Usage, format!("\"{question}\" was not answered; nothing was written"))
        .hint(format!("Answer it with {FLAG}.")))
}

fn line(ui: &Ui, question: &str, before: &str) -> Result<String> {
    Ok(one_line(&text(ui, question, before)?))
}

fn text(ui: &Ui, question: &str, before: &str) -> Result<String> {
    let question = if before.is_empty() { question.to_owned() } else { format!("{question} [{}]", one_line(before)) };
    let answer = ask(ui, &question)?;
    Ok(if answer.is_empty() { before.to_owned() } else { answer })
}

fn list(ui: &Ui, question: &str, before: &[String]) -> Result<Vec<String>> {
    let known = if before.is_empty() { String::new() } else { format!(" [{}]", one_line(&before.join("; "))) };
    ui.tell(Style::Strong, &format!("{question}, one per line{known}"));
    let mut items = Vec::new();
    while items.len() < MAX_ITEMS {
        let answer = ask_on(ui, "  -")?;
        if answer.is_empty() {
            break;
        }
        items.extend(answer.lines().map(item).filter(|item| !item.is_empty()));
    }
    Ok(if items.is_empty() { before.to_vec() } else { items })
}

/// Strips the bullet that a pasted list item may have.
fn item(line: &str) -> String {
    let line = line.trim();
    let bare = ["- [ ] ", "- ", "* "].iter().find_map(|bullet| line.strip_prefix(bullet));
    bare.unwrap_or(line).trim().to_owned()
}

/// Asks for the next item of a list. Ctrl-D ends the list.
fn ask_on(ui: &Ui, question: &str) -> Result<String> {
    match ui.ask_text(question, FLAG) {
        Err(unanswered) if unanswered.ended => Ok(String::new()),
        answer => answer.map_err(unanswered_error),
    }
}

fn ask(ui: &Ui, question: &str) -> Result<String> {
    ui.ask_text(question, FLAG).map_err(unanswered_error)
}

fn unanswered_error(unanswered: NoAnswer) -> Error {
    Error::new(Kind::Usage, unanswered.to_string()).detail(DRAFT_IS_KEPT)
}
