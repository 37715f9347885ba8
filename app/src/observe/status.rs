//! A feature's status for programs, as `status --json` prints it and the page shows it.

use mahabharatha_core::graph::{Rules, TaskGraph};
use mahabharatha_core::run::Run;
use mahabharatha_core::spec::{Shared, TaskSpec};
use mahabharatha_core::view::{Blocker, Draft, PlannedView, RunView};
use mahabharatha_engine::claude::tasks;
use mahabharatha_engine::report::extended;
use mahabharatha_engine::report::status::{self, ListView, StatusJson};
use mahabharatha_engine::session::control;
use mahabharatha_engine::specs;
use mahabharatha_setup::planning::{self, ApprovalStatus};
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use serde_json::json;

use super::data::Data;

/// A feature that is planned or designed, but has not run yet.
pub struct Planned {
    pub view: PlannedView,
    /// None if there are no requirements.
    pub requirements: Option<ApprovalStatus>,
    graph: Option<Box<TaskGraph>>,
}

/// Returns the status of a run.
pub fn run_json<'d>(place: &Place, run: &Run, data: &'d mut Data) -> Result<StatusJson<'d>> {
    let list = task_list(place, &data.view, run, data.driven);
    let mut status = status::status_json(&mut data.view, &data.doing, data.gate.as_ref(), &data.gates, list.as_ref());
    let approval = planning::approval_status(&place.project, &place.paths)?;
    if approval != ApprovalStatus::Missing {
        status.fields["requirements"] = json!(approval);
    }
    status.fields["setup"] = json!(place.project.setup_cost()?);
    Ok(status)
}

/// Reads a feature that has not run; an error if nothing is known about it.
pub fn planned(place: &Place) -> Result<Planned> {
    let approval = planning::approval_status(&place.project, &place.paths)?;
    let cost = place.paths.planning_cost()?;
    let start = specs::start_tree(&place.project.git(), &place.project.head_commit()?)?;
    let design = specs::find_design(&place.paths, &start, rules_to_show(place))?;
    let requirements = (approval != ApprovalStatus::Missing).then_some(approval);
    let mut view = PlannedView::of(place.feature.as_str(), draft_of(&design, approval), cost);
    let (graph, problem) = match design {
        specs::FoundDesign::Valid(graph) => (Some(graph), None),
        specs::FoundDesign::Missing if requirements.is_none() && cost.is_zero() => return Err(control::no_run(place)),
        specs::FoundDesign::Missing => (None, None),
        specs::FoundDesign::Invalid(cause) => (None, Some(cause)),
    };
    if let Some(cause) = problem {
        let resolution = format!("`mahabharatha design {} --validate-only` lists every problem", place.feature);
        let list = format!("mahabharatha design {} --validate-only", place.feature);
        view.blockers.push(Blocker::new("design", "design", cause, resolution).commands([list]));
    }
    Ok(Planned { view, requirements, graph })
}

/// Returns what was written for a feature that has not run.
pub(super) fn draft_of(design: &specs::FoundDesign, requirements: ApprovalStatus) -> Draft<'_> {
    match design {
        specs::FoundDesign::Valid(graph) => Draft::Design(graph),
        specs::FoundDesign::Missing if requirements == ApprovalStatus::Missing => Draft::Nothing,
        specs::FoundDesign::Missing | specs::FoundDesign::Invalid(_) => Draft::Unfinished,
    }
}

impl Planned {
    /// Tells whether there is a valid design, so that a run may begin.
    pub fn is_designed(&self) -> bool {
        self.graph.is_some()
    }

    /// Returns the command that follows.
    pub fn next(&self) -> String {
        let feature = &self.view.feature;
        match (&self.graph, self.requirements) {
            _ if !self.view.blockers.is_empty() => format!("mahabharatha design {feature} --validate-only"),
            (Some(_), _) => format!("mahabharatha run {feature}"),
            (None, Some(ApprovalStatus::Draft | ApprovalStatus::Changed)) => {
                format!("mahabharatha plan {feature} --approve")
            }
            (None, Some(ApprovalStatus::Approved)) => format!("mahabharatha design {feature}"),
            (None, None | Some(ApprovalStatus::Missing)) => format!("mahabharatha plan {feature}"),
        }
    }

    /// Returns the error of a command that needs a run.
    pub fn no_run(&self) -> Error {
        let error = Error::new(Kind::Invalid, format!("there has been no run of {}", self.view.feature));
        let status = self.requirements.map(|status| format!("the requirements are {status}"));
        let problems = self.view.blockers.iter().map(|blocker| blocker.cause.clone());
        let details = status.filter(|_| self.graph.is_none()).into_iter().chain(problems);
        details.fold(error, Error::detail).hint(format!("Next: {}", self.next()))
    }

    /// Returns the spec of a task; none if the design has no such task.
    pub fn spec(&self, task: &str) -> Option<Shared<TaskSpec>> {
        let tasks = self.graph.as_ref()?.tasks();
        tasks.iter().find(|known| known.id.as_str() == task).map(|known| known.spec.clone())
    }

    pub fn json(&mut self, place: &Place) -> Result<StatusJson<'_>> {
        let tasks = std::mem::take(&mut self.view.tasks);
        // Fields that the status of a run has too.
        let mut fields = extended(json!({ "level": null, "workers": [], "mismatches": [] }), &self.view);
        self.view.tasks = tasks;
        fields["requirements"] = json!(self.requirements);
        fields["setup"] = json!(place.project.setup_cost()?);
        Ok(StatusJson { fields, tasks: &self.view.tasks })
    }
}

/// Returns the rules by which a graph is shown: it is not called invalid because the configuration cannot be read.
pub fn rules_to_show(place: &Place) -> Rules {
    specs::load_config(&place.project).map_or(Rules::ACCEPTED, |config| config.graph_rules())
}

/// Returns the state of the feature's task list; `None` if there is none.
pub fn task_list(place: &Place, view: &RunView, run: &Run, driven: bool) -> Option<ListView> {
    let id = place.feature.to_string();
    let trouble = |error: Error| ListView { id: id.clone(), trouble: Some(error.to_string()), ..ListView::default() };
    let list = match tasks::list_of(&place.project, &place.feature)? {
        Ok(list) => list,
        Err(error) => return Some(trouble(error)),
    };
    let shown_instead = list.shown_instead();
    Some(match list.mismatches(view, run.graph(), driven) {
        Ok(mismatches) => ListView { id, mismatches, shown_instead, trouble: None },
        Err(error) => ListView { shown_instead, ..trouble(error) },
    })
}
