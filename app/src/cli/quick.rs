//! `quick`: from one sentence to merged code, with one approval. The same steps as `plan`, `design` and `run`.

use std::sync::Arc;

use clap::Args;
use mahabharatha_core::graph::Severity;
use mahabharatha_core::run::event::Intent;
use mahabharatha_engine::session::Options;
use mahabharatha_engine::session::cleanup::{forget_unbegun, is_unbegun};
use mahabharatha_setup::planning::{self, DesignAuthor, DesignOptions, PlanOptions, Source, gap_line};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::Ui;

use super::exit::ExitCode;
use super::finish::end_stream;
use super::run::{check_agent, check_max_cost};
use super::{Global, design, run as run_command};

/// Longest name that is made of a sentence; a number may follow.
const MAX_NAME_CHARS: usize = 40;

#[derive(Debug, Args)]
pub struct QuickArgs {
    /// What you want, in one sentence
    #[arg(value_name = "WHAT", required_unless_present = "issue", conflicts_with = "issue")]
    what: Option<String>,
    /// A GitHub issue that says what is wanted, read with gh
    #[arg(long, value_name = "N")]
    issue: Option<u64>,
    /// The agent that plans, designs and does the tasks [default: agent]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How many agents work at once [default: workers.count]
    #[arg(short, long, value_name = "N", value_parser = super::worker_count())]
    workers: Option<u32>,
    /// Stop launching tasks once this much is spent
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
}

pub fn run(global: &Global, ui: &Arc<Ui>, args: &QuickArgs) -> Result<ExitCode> {
    let result = try_quick(global, ui, args);
    end_stream(ui, ui.json(), &result);
    result
}

fn try_quick(global: &Global, ui: &Arc<Ui>, args: &QuickArgs) -> Result<ExitCode> {
    check(ui, args)?;
    let place = new_place(global, args)?;
    args.agent.as_deref().map(|name| check_agent(&place, name)).transpose()?;
    ui.note(&format!("Feature {}", place.feature));
    planning::exit_on_signals(ExitCode::Stopped as i32)?;
    plan(&place, ui, global, args).inspect_err(|_| forget(&place))?;
    let feature = &place.feature;
    let options =
        DesignOptions { author: DesignAuthor::Agent(args.agent.clone()), commit: None, force: false, with_run: true };
    let designed = planning::design(&place, ui, &global.directory, &options).map_err(|error| {
        error.detail(format!(
            "the requirements are a draft; go on from there: mahabharatha plan {feature} --approve, then mahabharatha \
             design {feature}, then mahabharatha run {feature}"
        ))
    })?;
    match designed {
        Err(problems) => {
            ui.note(&format!(
                "The requirements are a draft. Go on from there: mahabharatha plan {feature} --approve, then mahabharatha \
                 design {feature}"
            ));
            return Err(design::invalid(&problems));
        }
        Ok(false) => {
            ui.note(&format!(
                "Nothing was run. Requirements and design are drafts in {}. Go on: mahabharatha plan {feature} --approve, \
                 then mahabharatha run {feature}",
                place.paths.specs().display()
            ));
            return Ok(ExitCode::Done);
        }
        Ok(true) => {}
    }
    planning::release_signals();
    let options = Options {
        workers: args.workers,
        agent: args.agent.clone(),
        max_cost: args.max_cost,
        streams: ui.json(),
        ..Options::new(Intent::Complete)
    };
    run_command::drive(&place, ui, &options)
}

/// Refuses what cannot work before any agent is asked.
fn check(ui: &Ui, args: &QuickArgs) -> Result<()> {
    if args.agent.as_deref() == Some("none") {
        return Err(Error::new(Kind::Usage, "quick needs an agent that plans and designs")
            .hint("Without one, use plan, design and run."));
    }
    if args.what.as_deref().is_some_and(|what| what.trim().is_empty()) {
        return Err(
            Error::new(Kind::Usage, "the description of what you want is empty").hint("Say it in one sentence.")
        );
    }
    check_max_cost(args.max_cost)?;
    if !ui.yes() && !ui.can_ask() {
        let message = "\"Approve this?\" cannot be asked without a terminal; answer it with --yes";
        return Err(Error::new(Kind::Usage, message));
    }
    Ok(())
}

/// Returns a feature that does not exist yet: the named one, or one named after what the user wants.
fn new_place(global: &Global, args: &QuickArgs) -> Result<Place> {
    let project = global.project()?;
    if !global.names_a_feature() {
        let feature = project.unused_feature(&args.name());
        return Ok(Place::new(project, feature));
    }
    let place = global.place(None)?;
    if project.known_features().contains(&place.feature) {
        return Err(Error::new(Kind::Usage, format!("there is a feature {} already", place.feature)).hint(format!(
            "Go on with it: mahabharatha status {0}. Or name another one with --feature.",
            place.feature
        )));
    }
    Ok(place)
}

/// Removes what is left of a feature for which not even a draft was written, so that its name is free again.
fn forget(place: &Place) {
    let lock = FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file());
    if let Ok(Ok(lock)) = lock
        && is_unbegun(place)
    {
        // The error that is reported says more; `cleanup` removes it too.
        let _ = forget_unbegun(place, &lock);
    }
}

fn plan(place: &Place, ui: &Ui, global: &Global, args: &QuickArgs) -> Result<()> {
    let options =
        PlanOptions { source: Some(args.source()), agent: args.agent.clone(), approve: false, draft_only: true };
    let planned = planning::plan(place, ui, &global.directory, &options)?;
    let missing: Vec<_> = planned.gaps.iter().filter(|gap| gap.severity == Severity::Error).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("the requirements are not complete: {}", place.paths.requirements().display());
    let error = missing.iter().fold(Error::new(Kind::Invalid, message), |error, gap| error.detail(gap_line(gap)));
    let feature = &place.feature;
    Err(error.hint(format!(
        "Fill in what is missing, then: mahabharatha plan {feature} --approve, mahabharatha design {feature}, mahabharatha run {feature}"
    )))
}

impl QuickArgs {
    fn source(&self) -> Source {
        match self.issue {
            Some(number) => Source::Issue(number),
            None => Source::Text(self.what.clone().unwrap_or_default()),
        }
    }

    /// Returns a name for the feature, made of the sentence or the issue's number.
    fn name(&self) -> String {
        match self.issue {
            Some(number) => format!("issue-{number}"),
            None => slug(self.what.as_deref().unwrap_or_default()),
        }
    }
}

/// Joins the words of a text by `-`, as many as fit.
fn slug(text: &str) -> String {
    let mut name = String::new();
    let text = text.to_ascii_lowercase();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = &word[..word.len().min(MAX_NAME_CHARS)];
        if name.len() + 1 + word.len() > MAX_NAME_CHARS && !name.is_empty() {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(word);
    }
    if name.is_empty() { "quick".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::ids::Feature;

    use super::*;

    #[test]
    fn a_sentence_becomes_the_name_of_a_feature() {
        for (text, name) in [
            ("add a farewell command with tests", "add-a-farewell-command-with-tests"),
            ("Fix #12: `--json` prints \"null\"!", "fix-12-json-prints-null"),
            ("Übersetze alles", "bersetze-alles"),
            ("日本語", "quick"),
            ("", "quick"),
        ] {
            assert_eq!(slug(text), name);
            assert!(Feature::new(slug(text)).is_ok());
        }
        let long = slug(&"word ".repeat(50));
        assert!(long.len() <= MAX_NAME_CHARS && long.ends_with("word"), "{long}");
        assert_eq!(slug(&"x".repeat(100)).len(), MAX_NAME_CHARS);
    }
}
