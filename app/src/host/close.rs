//! The end of a feature: the checklist, the report, clearing away.

use mahabharatha_core::run::event::Event;

use super::{Context, clear};
use crate::error::{Error, ExitCode, Result};
use crate::report::Reporter;

/// Completed only if it is so: the report is written from what the journal says, after git has been asked.
pub fn close(context: &Context, reporter: &Reporter) -> Result<Event> {
    let run = reporter.snapshot();
    let tip = context.repository.resolve_ref(context.landing_branch())?.ok_or_else(|| {
        Error::new(ExitCode::Failed, format!("the branch {} is gone", context.landing_branch()))
    })?;
    for level in run.levels() {
        if let mahabharatha_core::run::LevelStatus::Merged { commit, .. } = &level.status
            && !context.repository.is_ancestor(commit, &tip)?
        {
            return Err(Error::new(
                ExitCode::Failed,
                format!("level {} was merged as {}, which {} no longer contains", level.level, commit.short(), context.landing_branch()),
            ));
        }
    }
    reporter.write_completion()?;
    if context.config.cleanup.on_completion {
        let keeps_staging = context.landing_branch() == context.paths.staging_branch();
        let things: Vec<clear::What> = clear::leftovers(&context.project, &context.paths, Some(&run), false)?
            .into_iter()
            .map(|leftover| leftover.what)
            .filter(|what| !(keeps_staging && matches!(what, clear::What::Ref(name, _) if *name == context.paths.staging_branch())))
            .collect();
        clear::remove(&context.project, &context.paths, &things)?;
    }
    Ok(Event::Closed)
}
