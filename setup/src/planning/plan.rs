//! Writes the requirements of a feature and has the user approve them. Never goes on to the design.

use std::cell::RefCell;
use std::path::Path;

use mahabharatha_core::config::Config;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::spec::{Gap, Requirements};
use mahabharatha_engine::claude::tasks::Phase;
use mahabharatha_engine::host::jobs;
use mahabharatha_engine::report::files::{self, Checkpoint};
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::store::atomic::{write_atomic, write_projected};
use mahabharatha_sys::store::file_set::FileSet;
use mahabharatha_sys::store::journal::Journal;
use mahabharatha_sys::store::locks::{Authoring, FeatureLock};
use mahabharatha_sys::ui::{Style, Ui};

use super::approval::{self, ApprovalStatus, approval_status, gap_line};
use super::asker::{Asker, Role};
use super::client_session::{count_session, end_in_session};
use super::documents::{aside, read_document, text_of};
use super::interview::{self, required};
use super::product_owner::{Brief, elicit};
use super::signals::{tell_on_exit, uninterrupted};
use super::source::{Source, read_source};
use super::task_list::show_in_task_list;

/// What the user asked `plan` for.
pub struct PlanOptions {
    /// Where the wish is written.
    pub source: Option<Source>,
    /// The agent to ask, or `none` for a form.
    pub agent: Option<String>,
    /// Approve the requirements as they are.
    pub approve: bool,
    /// Only a draft by an agent: ask the user nothing, neither the agent's questions nor for approval.
    pub draft_only: bool,
}

/// Where the requirements stand after `plan`.
pub struct Planned {
    pub status: ApprovalStatus,
    pub gaps: Vec<Gap>,
    pub cost: Cost,
}

/// Plans a feature; relative paths start at `directory`.
pub fn plan(place: &Place, ui: &Ui, directory: &Path, options: &PlanOptions) -> Result<Planned> {
    let lock = FeatureLock::try_acquire(place.paths.dir(), &place.paths.holder_file())?
        .map_err(|holder| holder.refusal(&place.feature))?;
    lock.announce(Authoring::Requirements)?;
    jobs::end_escaped(&place.paths.planning_mark());
    let config = specs::load_config(&place.project)?;
    let run = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)?;
    let run_cost = run.map(|run| run.attempts_cost()).unwrap_or_default();
    let planning = Planning { place, ui, options, config: &config, run_cost, written: RefCell::default() };
    let is_approved = |planned: &Planned| planned.status == ApprovalStatus::Approved;
    let planned = show_in_task_list(ui, place, Phase::Plan, || planning.carry_out(directory), is_approved);
    // A failed plan has a cost too.
    let shown = control::show_planning_cost(place);
    planned.and_then(|planned| shown.map(|()| planned))
}

/// Author of the requirements.
enum Author<'a> {
    Agent(Box<Asker<'a>>),
    Person,
    Form,
}

struct Planning<'a> {
    place: &'a Place,
    ui: &'a Ui,
    options: &'a PlanOptions,
    config: &'a Config,
    /// Cost of the feature's run, if there was one.
    run_cost: Cost,
    /// Text that this process wrote last.
    written: RefCell<Option<String>>,
}

impl Planning<'_> {
    /// Writes the requirements and asks for approval.
    fn carry_out(&self, directory: &Path) -> Result<Planned> {
        let Planning { place, ui, options, .. } = self;
        let read = |source| read_source(source, directory, &place.project, ui);
        let wish = options.source.as_ref().map(read).transpose()?;
        let existing = read_document(&place.paths.requirements())?;
        let mut cost = Cost::default();
        let wrote = wish.is_some() || existing.is_none();
        if wrote {
            let text = self.write(wish.as_deref(), existing.as_deref(), &mut cost)?;
            if cost.is_zero() {
                cost = count_session(&place.paths, "plan")?;
            }
            self.save(text)?;
        }
        if !options.draft_only {
            self.decide(wrote, &mut cost)?;
        }
        let status = approval_status(&place.project, &place.paths)?;
        Ok(Planned { status, gaps: Requirements::parse(&self.text()?).check(), cost })
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
            Author::Form if wish.is_none() && self.options.agent.is_none() => {
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
                    None => required(self.ui, "What do you want, and what for?", "")?,
                };
                let questions = !self.options.draft_only;
                let brief = Brief { feature: &self.place.feature, wish: &wish, current: existing, questions };
                let requirements = elicit(self.ui, &asker, &brief)?;
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
        let unfinished = read_document(&draft)?.filter(|_| self.options.source.is_none());
        if unfinished.is_some() {
            self.ui.note("Your answers from last time are offered again: press Enter to keep one.");
        }
        let start = unfinished.map_or(start, |text| Requirements::parse(&text));
        let save = |answers: &Requirements| {
            write_projected(&draft, answers.to_markdown().as_bytes())?;
            tell_on_exit(Some(interview::DRAFT_IS_KEPT));
            Ok(())
        };
        let answered = interview::interview(self.ui, &start, save);
        tell_on_exit(None);
        answered
    }

    fn author(&self) -> Result<Author<'_>> {
        let Planning { place, ui, config, .. } = self;
        match self.options.agent.as_deref() {
            Some("none") => Ok(Author::Form),
            Some(name) => {
                let asker = Asker::named(name, Role::ProductOwner, config, &place.project, &place.paths)?;
                Ok(Author::Agent(Box::new(asker.after_run(self.run_cost))))
            }
            None => match Asker::default_one(Role::ProductOwner, config, &place.project, &place.paths) {
                Ok(asker) => Ok(Author::Agent(Box::new(asker.after_run(self.run_cost)))),
                Err(why) if self.options.draft_only => Err(why),
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
        let _whole = uninterrupted();
        let ours = self.written.take().map(String::into_bytes);
        let aside = aside(&path, text.as_bytes())?.filter(|(_, old)| ours.as_ref() != Some(old));
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
        if self.options.approve {
            return self.approve();
        }
        if wrote && !self.ui.can_ask() && !self.ui.yes() {
            return Ok(());
        }
        let mut shown = self.show()?;
        loop {
            let question = "Approve these requirements? [a]pprove, [c]hange, leave as [d]raft:";
            let asked = if self.ui.yes() { Ok("a".to_owned()) } else { self.ui.ask_text(question, "--approve") };
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
                other => self.ui.warn(&format!("{other:?} is not an answer: type a, c or d")),
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
                let (feature, current) = (&self.place.feature, Some(current.as_str()));
                let brief = Brief { feature, wish: &wish, current, questions: true };
                let requirements = elicit(self.ui, &asker, &brief)?;
                *cost += asker.cost();
                requirements
            }
            Author::Person | Author::Form => self.interview(Requirements::parse(&current))?,
        };
        self.save(in_bounds(&requirements)?)
    }

    fn approve(&self) -> Result<()> {
        let _whole = uninterrupted();
        approval::approve(&self.place.project, &self.place.paths)?;
        end_in_session(&self.place.paths)?;
        self.checkpoint()
    }

    /// Records the feature's progress and makes it the current one.
    fn checkpoint(&self) -> Result<()> {
        let Place { project, feature, paths } = self.place;
        write_atomic(&project.current_feature_file(), format!("{feature}\n").as_bytes())?;
        let status = approval_status(project, paths)?;
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
        Ok(read_document(&self.place.paths.requirements())?.unwrap_or_default())
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
            self.ui.tell(Style::Good, "The requirements are complete.");
        }
    }
}

/// Tells whether a text already has the form of requirements.
fn is_whole(text: &str) -> bool {
    Requirements::parse(text).stories.iter().any(|story| !story.criteria.is_empty())
}

/// Returns the document, or an error if it could not be read again.
fn in_bounds(requirements: &Requirements) -> Result<String> {
    text_of(requirements.to_markdown().into_bytes(), "the document")
}
