//! `estimate`: how long a feature takes and what it costs, by its graph and by earlier runs; after a run, against what it took.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use mahabharatha_core::config::{Config, WORKERS};
use mahabharatha_core::estimate::{Actual, Estimate, History};
use mahabharatha_core::graph::TaskGraph;
use mahabharatha_engine::agent;
use mahabharatha_engine::history::{self, Assumptions, LeftOut};
use mahabharatha_engine::report::estimate::{render_comparison, render_estimate};
use mahabharatha_engine::specs;
use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::project::Place;
use mahabharatha_sys::ui::Ui;
use serde::Serialize;

use super::Global;
use super::exit::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = super::examples::ESTIMATE)]
pub struct EstimateArgs {
    /// The feature to estimate
    #[arg(id = "named", value_name = "FEATURE")]
    feature: Option<String>,
    /// Also estimate with another number of workers, agent or model: workers=N, agent=NAME, model=NAME
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    what_if: Vec<String>,
}

#[derive(Serialize)]
struct Estimated<'a> {
    feature: &'a str,
    estimate: &'a Estimate,
    what_if: Option<&'a Estimate>,
    /// What the run took so far; none if there is no run.
    actual: Option<&'a Actual>,
    /// Journals that cannot be read.
    left_out: &'a [LeftOut],
}

pub fn run(global: &Global, ui: &Ui, args: &EstimateArgs) -> Result<ExitCode> {
    let place = global.known_place(args.feature.as_deref())?;
    let config = specs::load_config(&place.project)?;
    let observed = history::observe(&place.paths)?;
    let graph = match &observed {
        Some(observed) => Arc::clone(observed.run.graph()),
        None => Arc::new(planned_graph(&place, &config)?),
    };
    let before = observed.as_ref().map(|observed| observed.run.started_at());
    let loaded = history::load(&place.project, &place.feature, before);
    let workers = observed.as_ref().map_or(config.workers.count, |observed| observed.run.policy().workers);
    let usual = Assumptions { workers, ..Assumptions::default() };
    let changed = what_if(&args.what_if, &usual, &config, &loaded.history)?;
    let of = |assumptions: &Assumptions| history::estimate(&graph, &config, &loaded.history, assumptions);
    let (estimate, what_if) = (of(&usual), changed.as_ref().map(of));
    let actual = observed.as_ref().map(|observed| observed.actual());
    if ui.json() {
        let feature = place.feature.as_str();
        let (what_if, actual) = (what_if.as_ref(), actual.as_ref());
        let data = Estimated { feature, estimate: &estimate, what_if, actual, left_out: &loaded.left_out };
        ui.pretty(&data);
        return Ok(ExitCode::Done);
    }
    for LeftOut { feature, problem } in &loaded.left_out {
        ui.warn(&format!("the history of {feature} is left out: {problem}"));
    }
    let (limit, paint) = (ui.columns(), ui.paint());
    ui.painted(&render_estimate(place.feature.as_str(), &estimate, limit, paint));
    if let Some(actual) = &actual {
        ui.painted(&format!("\n{}", render_comparison(&estimate, actual, limit, paint)));
    }
    if let Some(what_if) = &what_if {
        let title = format!("{}, if {}", place.feature, args.what_if.join(", "));
        ui.painted(&format!("\n{}", render_estimate(&title, what_if, limit, paint)));
    }
    Ok(ExitCode::Done)
}

/// Returns the graph of a feature that has not run.
fn planned_graph(place: &Place, config: &Config) -> Result<TaskGraph> {
    let tree = specs::start_tree(&place.project.git(), &place.project.head_commit()?)?;
    let file = specs::read_graph(&place.paths, &tree)?;
    Ok(specs::valid_graph(&place.paths, &file, Some(&tree), config.graph_rules())?.0)
}

/// Reads `--what-if`; none if it is not given.
fn what_if(given: &[String], usual: &Assumptions, config: &Config, history: &History) -> Result<Option<Assumptions>> {
    let mut changed = usual.clone();
    for assumption in given {
        let wrong = |why: String| Error::new(Kind::Usage, format!("--what-if {assumption}: {why}"));
        let known = history.performers();
        let agents: BTreeSet<&str> = known.iter().map(|by| by.agent.as_str()).collect();
        let models: BTreeSet<&str> = known.iter().filter_map(|by| by.model.as_deref()).collect();
        match assumption.split_once('=') {
            Some(("workers", number)) => {
                let workers = number.parse::<u32>().ok().filter(|workers| WORKERS.contains(workers));
                let needed = || format!("a number from {} to {} is needed", WORKERS.start(), WORKERS.end());
                changed.workers = workers.ok_or_else(|| wrong(needed()))?;
            }
            Some(("agent", agent)) => {
                agent::named(config, agent)?;
                in_history(&agents, agent).map_err(wrong)?;
                changed.agent = Some(agent.to_owned());
            }
            Some(("model", model)) => {
                in_history(&models, model).map_err(wrong)?;
                changed.model = Some(model.to_owned());
            }
            _ => {
                let hint = "Use workers=N, agent=NAME or model=NAME, several of them with commas.";
                return Err(wrong("not an assumption".to_owned()).hint(hint));
            }
        }
    }
    Ok((!given.is_empty()).then_some(changed))
}

fn in_history(known: &BTreeSet<&str>, name: &str) -> Result<(), String> {
    if known.contains(name) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().copied().collect();
    let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
    Err(format!("no completed task of an earlier run used it; the history has {known}"))
}
