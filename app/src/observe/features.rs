//! All features of the project, as `list` and the page show them.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::graph::StartTree;
use mahabharatha_core::ids::{Feature, Time};
use mahabharatha_core::view::{PlannedView, Stamp, TaskView};
use mahabharatha_engine::report::list::Listed;
use mahabharatha_engine::session::{self, control};
use mahabharatha_engine::specs;
use mahabharatha_setup::planning;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::project::{Place, Project};
use mahabharatha_sys::store::journal::Journal;

use super::status::{draft_of, rules_to_show};

/// Returns an entry for each feature.
pub fn features(project: &Project) -> Result<Vec<Listed>> {
    let current = project.which_feature(None, std::env::var_os).ok();
    let start = specs::start_tree(&project.git(), &project.head_commit()?)?;
    let entry = |feature: Feature| {
        let is_current = current.as_ref() == Some(&feature);
        Listed { is_current, ..look(project, feature, &start) }
    };
    Ok(project.known_features().into_iter().map(entry).collect())
}

/// Returns a feature's entry; if its files cannot be read, one with the reason.
fn look(project: &Project, feature: Feature, start: &StartTree) -> Listed {
    let place = Place::new(project.clone(), feature);
    let listed = of_run(&place).and_then(|run| run.map_or_else(|| of_spec(&place, start), Ok));
    listed.unwrap_or_else(|error| Listed {
        feature: place.feature.to_string(),
        status: "invalid",
        problem: Some(error.message().to_string()),
        ..Listed::default()
    })
}

fn of_run(place: &Place) -> Result<Option<Listed>> {
    let driven = control::is_at_work(place)?;
    let Some(run) = session::rebuild(&place.paths, &Journal::read(&place.paths.journal())?)? else { return Ok(None) };
    let view = control::view(place, &run, driven)?;
    Ok(Some(Listed {
        is_stopped: view.is_stopped,
        word: Some(view.status_word()),
        created_at: Some(view.started_at),
        updated_at: Some(view.updated_at),
        problem: view.blockers.first().map(ToString::to_string),
        ..counted(&view.feature, view.status, &view.tasks, view.cost)
    }))
}

fn of_spec(place: &Place, start: &StartTree) -> Result<Listed> {
    let planning = place.paths.planning_cost()?;
    let requirements = planning::approval_status(&place.project, &place.paths)?;
    let design = specs::find_design(&place.paths, start, rules_to_show(place))?;
    let view = PlannedView::of(place.feature.as_str(), draft_of(&design, requirements), planning);
    let (status, problem) = match design {
        specs::FoundDesign::Invalid(why) => ("invalid", Some(why)),
        specs::FoundDesign::Valid(_) | specs::FoundDesign::Missing => (view.status, None),
    };
    let times = written_at(place.paths.specs());
    Ok(Listed {
        created_at: times.iter().min().copied(),
        updated_at: times.iter().max().copied(),
        problem,
        ..counted(&view.feature, status, &view.tasks, view.cost)
    })
}

fn counted(feature: &str, status: &'static str, tasks: &[TaskView], cost: Cost) -> Listed {
    let of = |status: &str| tasks.iter().filter(|task| task.status == status).count();
    Listed {
        feature: feature.to_string(),
        status,
        total: tasks.len(),
        completed: of("completed"),
        blocked: of("blocked"),
        skipped: of("skipped"),
        cost,
        ..Listed::default()
    }
}

/// Returns the modification times of a spec's files.
fn written_at(specs: &Path) -> Vec<Stamp> {
    let files = fs::read_dir(specs).into_iter().flatten().flatten();
    let times = files.filter_map(|file| Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok());
    times.map(|time| Stamp(Time(time.as_millisecond()))).collect()
}
