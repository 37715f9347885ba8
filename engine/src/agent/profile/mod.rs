//! Drives an agent by its profile: builds its command line, its private home and its rules, and follows its output with
//! the parser of its format.

mod call;
mod heard;
mod rules;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mahabharatha_core::config::AgentConfig;
use mahabharatha_core::cost::Cost;
use mahabharatha_core::excerpt::last_words;
use mahabharatha_sys::error::Result;
use mahabharatha_sys::proc::{Cmd, Ended};

use super::format::Scope;
use super::login::Logins;
use super::protocol::{LAST_ANSWER, UNATTENDED};
use super::{Agent, AgentOutcome, Session};
pub use call::{Call, Called};
pub use heard::{Heard, listener};
pub use rules::reading;

/// An agent that a profile describes.
pub struct Profiled {
    profile: AgentConfig,
    heard: Arc<Mutex<Heard>>,
    logins: Mutex<Logins>,
}

impl Profiled {
    pub fn new(profile: &AgentConfig) -> Profiled {
        Profiled { profile: profile.clone(), heard: Arc::default(), logins: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent for Profiled {
    fn command(&self, session: Session<'_>) -> Result<Cmd> {
        let prompt = format!("{UNATTENDED}\n\n{LAST_ANSWER}\n\n{}", session.prompt.text());
        let rules = rules::rules(self.profile.paths, &session);
        let call = Call {
            profile: &self.profile,
            args: &self.profile.args,
            model: self.profile.model_for(session.task),
            effort: self.profile.effort_for(session.task),
            root: session.root,
            dir: session.job_dir,
            prompt: &prompt,
            rules: &rules,
        };
        let Called { cmd, set, feed, logins } = call.prepare(session.sandbox)?;
        *self.logins.lock().unwrap_or_else(PoisonError::into_inner) = logins;
        let worktree = session.sandbox.workdir().to_owned();
        let scope = Scope { worktree, owned: session.owned.to_vec(), model: call.model_by_protocol(), prompt };
        self.heard().begin(self.profile.format, scope, feed, session.redactor, session.events);
        Ok(cmd.envs(session.env).envs(set).listen(listener(Arc::clone(&self.heard))))
    }

    fn shared_prefix(&self, _session: &Session<'_>) -> Option<String> {
        None
    }

    fn outcome(&self, ended: &Ended) -> AgentOutcome {
        self.heard().outcome(ended)
    }

    fn reported_cost(&self) -> Option<Cost> {
        self.heard().cost()
    }

    fn last_words(&self, _ended: &Ended) -> Option<String> {
        last_words(self.heard().answer())
    }

    fn clean_up(&self) {
        std::mem::take(&mut *self.logins.lock().unwrap_or_else(PoisonError::into_inner)).take_back();
    }

    fn decisions(&self, _ended: &Ended) -> Vec<String> {
        super::decisions_in(self.heard().answer())
    }
}
