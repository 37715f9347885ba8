//! Lets an agent design the feature, and returns the design to it for correction while the checks find problems.

use mahabharatha_core::design::Proposal;
use mahabharatha_core::graph::Problem;
use mahabharatha_core::ids::Feature;
use mahabharatha_core::prompt::architect::{ArchitectInput, architect};
use mahabharatha_engine::report::text::count;
use mahabharatha_engine::specs::problem_line;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::ui::Ui;

use super::asker::{Asker, as_documents};

/// How many times a rejected design goes back to the agent.
const MAX_CORRECTIONS: usize = 3;

/// Returns the first design that `check` accepts, or the problems of the last one once the corrections are used up.
pub fn ask_architect<T>(
    ui: &Ui,
    asker: &Asker<'_>,
    feature: &Feature,
    requirements: &str,
    mut check: impl FnMut(Result<Proposal, String>) -> Result<Result<T, Vec<Problem>>>,
) -> Result<Result<T, Vec<Problem>>> {
    let documents = asker.project_documents();
    let documents = as_documents(&documents);
    let mut rejected: Option<(String, Vec<String>)> = None;
    for round in 0.. {
        let before = rejected.as_ref().map(|(answer, problems)| (answer.as_str(), problems.as_slice()));
        let rules = asker.config().graph_rules();
        let input = ArchitectInput { feature, requirements, documents: &documents, rules, rejected: before };
        let answer = asker.ask(ui, &architect(&input), &Proposal::schema())?;
        let text = answer.as_ref().map(|value| value.to_string()).unwrap_or_default();
        let problems = match check(answer.and_then(|value| Proposal::read(value, feature)))? {
            Ok(taken) => return Ok(Ok(taken)),
            Err(problems) if round == MAX_CORRECTIONS => return Ok(Err(problems)),
            Err(problems) => problems,
        };
        let lines: Vec<String> = problems.iter().map(problem_line).collect();
        ui.note(&format!("{} in {}'s design, asking it to fix:", count(lines.len(), "problem"), asker.name()));
        lines.iter().for_each(|line| ui.note(&format!("  {line}")));
        rejected = Some((text, lines));
    }
    unreachable!("the last round returns")
}
