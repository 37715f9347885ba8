//! `plan`: writes the requirements of a feature and has the user approve them. Must not go on to the design.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use mahabharatha_core::config::Config;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::spec::{Gap, Requirements};
use mahabharatha_engine::claude::tasks::Phase;
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::report::extended;
use mahabharatha_engine::report::files::{self, Checkpoint};
use mahabharatha_engine::report::text::cost_phrase;
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::{self, ApprovalStatus, Asker, Brief, Role, Source, gap_line};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::atomic::{write_atomic, write_projected};
use mahabharatha_sys::store::file_set::FileSet;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::FeatureLock;
use mahabharatha_sys::ui::{Style, Ui};
use serde_json::json;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The feature: lower-case letters, digits and -
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// What you want, in your own words
    #[arg(long, value_name = "TEXT", group = "wish")]
    describe: Option<String>,
    /// A file with what you want, or with whole requirements; - reads the standard input
    #[arg(long, value_name = "FILE", group = "wish")]
    from: Option<PathBuf>,
    /// A GitHub issue that says what is wanted, read with gh
    #[arg(long, value_name = "N", group = "wish")]
    issue: Option<u64>,
    /// Agent that writes the requirements, or none for a form [default: the configured agent, else an interview]
    #[arg(long, value_name = "NAME|none")]
    agent: Option<String>,
    /// Approve the requirements as they are
    #[arg(long)]
    approve: bool,
    /// Let this Claude Code session plan the feature: its next calls and its drafts need no permission; changes nothing
    #[arg(long, conflicts_with_all = ["wish", "agent", "approve"])]
    begin: bool,
}

/// Author of the requirements.
enum Author<'a> {
    Agent(Box<Asker<'a>>),
    Person,
    Form,
}

pub fn run(global: &Global, ui: &Ui, args: &PlanArgs) -> Result<ExitCode> {
    let place = global.place(args.feature.as_deref())?;
    if args.begin {
        return begin(&place, ui);
    }
    let _lock = FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))?;
    jobs::end_escaped(&place.paths.planning_mark());
    let config = specs::load_config(&place.project)?;
    planning::exit_on_signals(ExitCode::Stopped as i32)?;
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    let run_cost = run.map(|run| run.attempts_cost()).unwrap_or_default();
    let planning = Planning { place: &place, ui, args, config: &config, run_cost, written: RefCell::default() };
    let planned =
        planning::show_in_task_list(ui, &place.project, &place.feature, Phase::Plan, || planning.carry_out(global));
    // A failed plan has a cost too.
    let shown = control::show_planning_cost(&place);
    planned.and(shown).map(|()| ExitCode::Done)
}

/// Lets the calling session plan the feature, and prints where its requirements stand.
pub(super) fn begin(place: &Place, ui: &Ui) -> Result<ExitCode> {
    let Place { project, feature, paths } = place;
    planning::begin_in_session(paths)?;
    let status = planning::approval_status(project, paths)?;
    if ui.json() {
        ui.data(&json!({ "feature": feature.as_str(), "requirements": status }).to_string());
    } else {
        ui.note(&format!("The requirements of {feature} are {status}."));
    }
    Ok(ExitCode::Done)
}

impl PlanArgs {
    pub(super) fn feature(&self) -> Option<&str> {
        self.feature.as_deref()
    }

    /// Tells whether a session that plans the feature itself may make this call: it asks no agent.
    pub(super) fn is_for_sessions(&self) -> bool {
        self.begin || self.agent.as_deref() == Some("none") || self.approve && self.source().is_none()
    }

    fn source(&self) -> Option<Source> {
        let text = self.describe.clone().map(Source::Text);
        text.or(self.from.clone().map(Source::File)).or(self.issue.map(Source::Issue))
    }
}

struct Planning<'a> {
    place: &'a Place,
    ui: &'a Ui,
    args: &'a PlanArgs,
    config: &'a Config,
    /// Cost of the feature's run, if there was one.
    run_cost: Cost,
    /// Text that this process wrote last.
    written: RefCell<Option<String>>,
}

impl Planning<'_> {
    /// Writes the requirements and asks for approval; returns whether they are approved.
    fn carry_out(&self, global: &Global) -> Result<bool> {
        let Planning { place, ui, args, .. } = self;
        let source = args.source();
        let read = |source| planning::read_source(&source, &global.directory, &place.project, ui);
        let wish = source.map(read).transpose()?;
        let existing = planning::read_document(&place.paths.requirements())?;
        let mut cost = Cost::default();
        let wrote = wish.is_some() || existing.is_none();
        if wrote {
            let text = self.write(wish.as_deref(), existing.as_deref(), &mut cost)?;
            if cost.is_zero() {
                cost = planning::count_session(&place.paths, "plan")?;
            }
            self.save(text)?;
        }
        self.decide(wrote, &mut cost)?;
        self.print_result(cost)
    }

    /// Returns the document for the user's wish; a wish that is already a complete document is taken as it is.
    fn write(&self, wish: Option<&str>, existing: Option<&str>, cost: &mut Cost) -> Result<String> {
        let feature = self.place.feature.as_str();
        if let Some(text) = wish.filter(|text| is_whole(text)) {
            return Ok(text.to_owned());
        }
        let form = Requirements::template(feature, wish.unwrap_or_default());
        let blank = || {
            let problem = wish.unwrap_or_default().trim().to_owned();
            Requirements { feature: feature.to_owned(), problem, ..Requirements::default() }
        };
        let requirements = match self.author()? {
            Author::Form if wish.is_none() && self.args.agent.is_none() => {
                let flags = "--describe TEXT, --from FILE, --issue N or --agent none";
                let message =
                    format!("\"What is {feature} for?\" cannot be asked without a terminal; answer it with {flags}");
                return Err(Error::new(Kind::Usage, message));
            }
            Author::Form => form,
            Author::Person => self.interview(blank())?,
            Author::Agent(asker) => {
                let wish = match wish {
                    Some(wish) => wish.to_owned(),
                    None => planning::required(self.ui, "What do you want, and what for?", "")?,
                };
                let brief = Brief { feature: &self.place.feature, wish: &wish, current: existing };
                let requirements = planning::elicit(self.ui, &asker, &brief)?;
                *cost += asker.cost();
                requirements
            }
        };
        in_bounds(&requirements)
    }

    /// Interviews the user. The answers are saved as they are given, and an interview that was not finished is continued,
    /// unless the user has given a new description.
    fn interview(&self, start: Requirements) -> Result<Requirements> {
        let draft = self.place.paths.interview_draft();
        let unfinished = planning::read_document(&draft)?.filter(|_| self.args.source().is_none());
        if unfinished.is_some() {
            self.ui.note("Your answers from last time are offered again: press Enter to keep one.");
        }
        let start = unfinished.map_or(start, |text| Requirements::parse(&text));
        planning::interview(self.ui, &start, |answers| write_projected(&draft, answers.to_markdown().as_bytes()))
    }

    fn author(&self) -> Result<Author<'_>> {
        let Planning { place, ui, config, .. } = self;
        match self.args.agent.as_deref() {
            Some("none") => Ok(Author::Form),
            Some(name) => {
                let asker = Asker::named(name, Role::ProductOwner, config, &place.project, &place.paths)?;
                Ok(Author::Agent(Box::new(asker.after_run(self.run_cost))))
            }
            None => match Asker::default_one(Role::ProductOwner, config, &place.project, &place.paths) {
                Ok(asker) => Ok(Author::Agent(Box::new(asker.after_run(self.run_cost)))),
                Err(why) => {
                    ui.note(&format!("No agent is asked: {}.", why.message()));
                    Ok(if ui.can_ask() { Author::Person } else { Author::Form })
                }
            },
        }
    }

    /// Writes the document; keeps a version that this process did not write beside it.
    fn save(&self, text: String) -> Result<()> {
        let path = self.place.paths.requirements();
        let _whole = planning::uninterrupted();
        let ours = self.written.take().map(String::into_bytes);
        let aside = planning::aside(&path, text.as_bytes())?.filter(|(_, old)| ours.as_ref() != Some(old));
        let mut files = FileSet::within(&[self.place.project.root()]);
        if let Some((beside, old)) = &aside {
            files.write(beside, old.as_slice())?;
        }
        files.write(path, text.as_str())?;
        files.apply()?.keep();
        if let Some((beside, _)) = aside {
            self.ui.note(&format!("The previous version is in {}.", beside.display()));
        }
        self.written.replace(Some(text));
        // What cannot be removed is only offered once more.
        let _ = std::fs::remove_file(self.place.paths.interview_draft());
        self.checkpoint()
    }

    /// The approval gate: approve, change, or leave it a draft.
    fn decide(&self, wrote: bool, cost: &mut Cost) -> Result<()> {
        if self.args.approve {
            return self.approve();
        }
        if wrote && !self.ui.can_ask() && !self.ui.yes() {
            return Ok(());
        }
        let mut shown = self.show()?;
        loop {
            let question = "Approve these requirements? [a]pprove, [c]hange, leave as [d]raft:";
            let asked = if self.ui.yes() { Ok("a".to_owned()) } else { self.ui.ask(question, "--approve") };
            let answer = match asked {
                Ok(answer) => answer,
                // End of input is not an approval.
                Err(unanswered) if unanswered.ended => "d".to_owned(),
                Err(unanswered) => return Err(Error::new(Kind::Usage, unanswered.to_string())),
            };
            match answer.to_ascii_lowercase().as_str() {
                "a" | "approve" | "y" | "yes" if self.text()? != shown => {
                    self.ui.warn("it was changed after it was shown");
                    shown = self.show()?;
                }
                "a" | "approve" | "y" | "yes" => match self.approve() {
                    Err(error) if error.kind() == Kind::Invalid && !self.ui.yes() => {
                        self.ui.print_error(error.message(), error.details(), error.what_to_do());
                    }
                    done => return done,
                },
                "c" | "change" => {
                    self.change(cost)?;
                    shown = self.show()?;
                }
                "d" | "draft" | "" => return Ok(()),
                other => self.ui.warn(&format!("{other:?} is none of a, c and d")),
            }
        }
    }

    fn change(&self, cost: &mut Cost) -> Result<()> {
        let current = self.text()?;
        let requirements = match self.author()? {
            Author::Agent(asker) => {
                let wish = self
                    .ui
                    .ask_text("What should change?", "--describe TEXT")
                    .map_err(|unanswered| Error::new(Kind::Usage, unanswered.to_string()))?;
                if wish.is_empty() {
                    return Ok(());
                }
                let brief = Brief { feature: &self.place.feature, wish: &wish, current: Some(&current) };
                let requirements = planning::elicit(self.ui, &asker, &brief)?;
                *cost += asker.cost();
                requirements
            }
            Author::Person | Author::Form => self.interview(Requirements::parse(&current))?,
        };
        self.save(in_bounds(&requirements)?)
    }

    fn approve(&self) -> Result<()> {
        let _whole = planning::uninterrupted();
        planning::approve(&self.place.project, &self.place.paths)?;
        planning::end_in_session(&self.place.paths)?;
        self.checkpoint()
    }

    /// Records the feature's progress and makes it the current one.
    fn checkpoint(&self) -> Result<()> {
        let Place { project, feature, paths } = self.place;
        write_atomic(&project.current_feature_file(), format!("{feature}\n").as_bytes())?;
        let status = planning::approval_status(project, paths)?;
        let status = format!("requirements are {status}");
        if let Err(error) = files::write_checkpoint(project, paths, &Checkpoint { phase: "Planning", status: &status })
        {
            // Only a warning: everything important is written.
            self.ui.warn(&error.to_string());
        }
        Ok(())
    }

    /// Returns the document as it is now.
    fn text(&self) -> Result<String> {
        Ok(planning::read_document(&self.place.paths.requirements())?.unwrap_or_default())
    }

    /// Shows the document and its gaps; returns the text that was shown.
    fn show(&self) -> Result<String> {
        let text = self.text()?;
        if self.ui.yes() {
            self.ui.note(&format!("\n{text}"));
        } else {
            // The user must see what to approve, even with `--quiet`.
            self.ui.tell(Style::Plain, &format!("\n{text}"));
        }
        self.tell_gaps(&Requirements::parse(&text).check());
        Ok(text)
    }

    fn tell_gaps(&self, gaps: &[Gap]) {
        for gap in gaps {
            self.ui.warn(&gap_line(gap));
        }
        if gaps.is_empty() {
            self.ui.tell(Style::Good, "Nothing is missing in them.");
        }
    }

    fn print_result(&self, cost: Cost) -> Result<bool> {
        let Place { project, feature, paths } = self.place;
        let (approval_status, gaps) =
            (planning::approval_status(project, paths)?, Requirements::parse(&self.text()?).check());
        if self.ui.json() {
            let path = paths.requirements();
            let data = json!({
                "feature": feature.as_str(), "requirements": path, "status": approval_status, "problems": gaps,
            });
            self.ui.data(&serde_json::to_string_pretty(&extended(data, cost)).expect("it has string keys only"));
            return Ok(approval_status == ApprovalStatus::Approved);
        }
        if !self.ui.can_ask() {
            gaps.iter().for_each(|gap| self.ui.warn(&gap_line(gap)));
        }
        let cost = cost_phrase(cost).map(|cost| format!(" ({cost})")).unwrap_or_default();
        self.ui.note(&format!("{} is {approval_status}{cost}.", paths.requirements().display()));
        self.ui.note(&match approval_status {
            ApprovalStatus::Approved => format!("Next: mahabharatha design {feature}"),
            _ => format!("When it is right: mahabharatha plan {feature} --approve"),
        });
        Ok(approval_status == ApprovalStatus::Approved)
    }
}

/// Tells whether a text already has the form of requirements.
fn is_whole(text: &str) -> bool {
    Requirements::parse(text).stories.iter().any(|story| !story.criteria.is_empty())
}

/// Returns the document, or an error if it could not be read again.
fn in_bounds(requirements: &Requirements) -> Result<String> {
    planning::text_of(requirements.to_markdown().into_bytes(), "the document")
}
