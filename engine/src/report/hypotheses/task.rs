//! The cause of a task's latest failure.

use mahabharatha_core::config::Isolation;
use mahabharatha_core::excerpt::key_lines;
use mahabharatha_core::ids::TaskId;
use mahabharatha_core::names::argument_list;
use mahabharatha_core::run::event::{FailCause, JobEnd, JobReport, Reason};
use mahabharatha_core::run::needs::Need;
use mahabharatha_core::run::{Run, TaskStatus};
use mahabharatha_core::view::{AttemptView, about_secrets};
use mahabharatha_sys::proc::shell_word;
use mahabharatha_sys::ui::{clean, one_line};

use super::super::debug::{Findings, TroubledTask};
use super::super::text::{body_of, few, headline, sentence};
use super::{Hypothesis, run_again, try_again, words};
use crate::offline;

/// Most lines of output that are given as evidence.
const MAX_EVIDENCE: usize = 6;

/// A task that failed, and how to name it in commands.
struct Failed<'a> {
    feature: &'a str,
    task: &'a TroubledTask,
    isolation: Isolation,
    /// Files that its agent asks for.
    needs: Vec<Need>,
    /// What to do about what looks like a secret in its latest attempt.
    about_secrets: Option<String>,
}

/// Returns the cause of the latest failure of a task that is open and not under way.
pub(super) fn about_task(findings: &Findings, run: &Run, task: &TroubledTask) -> Option<Hypothesis> {
    let id = TaskId::new(task.id.as_str()).ok()?;
    let state = run.task(&id)?;
    if !state.is_open() || matches!(state.status, TaskStatus::InProgress { .. } | TaskStatus::Waiting) {
        return None;
    }
    let (feature, isolation) = (&findings.feature, run.policy().isolation);
    let of = Failed { feature, task, isolation, needs: run.needs_of(&id), about_secrets: about_secrets(run, &id) };
    let ended = state.attempts.iter().rev().filter_map(|record| record.ended.as_ref()).map(|(_, report)| report);
    let latest = ended.into_iter().find(|report| !matches!(report.end, JobEnd::Cancelled));
    let of_attempt = || match latest.map(|report| (report, &report.end))? {
        (report, JobEnd::Failed { cause, feedback, strays }) => Some(of.failed(*cause, feedback, strays, report)),
        (report, JobEnd::Unserved { why, .. }) => Some(of.unserved(why, report.reason)),
        (report, JobEnd::Died { .. }) => Some(of.died(report)),
        _ => None,
    };
    let found = match &state.status {
        TaskStatus::Blocked { reason, over_budget: true, .. } => of.over_budget(reason),
        TaskStatus::Blocked { reason, .. } => of_attempt().unwrap_or_else(|| of.blocked(reason)),
        _ => of_attempt()?,
    };
    Some(Hypothesis { task: Some(task.id.clone()), ..found })
}

impl Failed<'_> {
    fn again(&self) -> String {
        try_again(self.feature, &self.task.id)
    }

    /// Returns the command that gives the task these files and goes on.
    fn grant<'a>(&self, paths: impl Iterator<Item = &'a str>) -> String {
        let (id, feature, paths) = (&self.task.id, self.feature, argument_list(paths));
        format!("mahabharatha task grant {id} -f {feature} {paths} && {}", run_again(feature))
    }

    fn failed(&self, cause: FailCause, feedback: &str, strays: &[String], report: &JobReport) -> Hypothesis {
        let id = &self.task.id;
        match cause {
            FailCause::Strays => self.ownership(strays),
            FailCause::Verification => self.verification(feedback, report),
            FailCause::Timeout | FailCause::Stalled => {
                let key = if cause == FailCause::Timeout { "workers.timeout_minutes" } else { "workers.stall_minutes" };
                let cause = format!("{id} is too large for one attempt, or its agent waits for something.");
                let next = format!(
                    "Divide it, or raise {key} in .mahabharatha/config.yaml; its log shows what it was at. Then `{}`.",
                    self.again()
                );
                Hypothesis::new("timeout", cause, self.again()).shown_by([headline(feedback)]).next(next)
            }
            FailCause::Secrets => {
                let command = format!("{} --accept-config", self.again());
                let next = match &self.about_secrets {
                    Some(way_out) => format!("{}.", sentence(way_out)),
                    None => format!(
                        "Have the task read it from the environment, or allow it with a reason in `secrets.allow` of \
                         .mahabharatha/config.yaml; then `{command}`."
                    ),
                };
                let evidence = match report.secrets.as_slice() {
                    [] => lines(feedback),
                    found => found.iter().take(MAX_EVIDENCE).map(ToString::to_string).collect(),
                };
                let cause = format!("{id} adds what looks like a secret: the spec may ask for one.");
                Hypothesis::new("secret", cause, command).shown_by(evidence).next(next)
            }
            FailCause::Setup => self.setup(feedback),
            FailCause::Agent => match &report.hint {
                Some(hint) => self.sandbox_denial("agent", feedback, hint),
                None => self.agent(feedback),
            },
            FailCause::Missing | FailCause::Unchanged => {
                let cause = format!("The agent of {id} did not do what the task asks: {}", headline(feedback));
                Hypothesis::new("incomplete_work", cause, self.again()).shown_by([headline(feedback)])
            }
        }
    }

    fn ownership(&self, strays: &[String]) -> Hypothesis {
        let id = &self.task.id;
        let failed = || self.task.attempts.iter().filter(|attempt| attempt.outcome == "failed");
        let always = failed().all(|attempt| attempt.cause == Some(FailCause::Strays));
        let each = if always { "each attempt" } else { "the last attempt" };
        let grant = self.grant(strays.iter().map(String::as_str));
        let next = format!(
            "If the task should change them: `{grant}`. Otherwise let the task that owns them do it, then `{}`.",
            self.again()
        );
        let cause = format!("{id} cannot be done with the files that it owns: {each} changed {}.", few(strays));
        let evidence = strays.iter().take(MAX_EVIDENCE).map(|path| format!("{} is not the task's", one_line(path)));
        Hypothesis::new("ownership", cause, grant).shown_by(evidence).next(next)
    }

    fn verification(&self, feedback: &str, report: &JobReport) -> Hypothesis {
        let id = &self.task.id;
        if let Some(hint) = &report.hint {
            return self.sandbox_denial("verification", feedback, hint);
        }
        if let Some((program, line)) = words::missing_tool(feedback) {
            return self.missing_tool("the verification of", program, line);
        }
        if report.reason == Some(Reason::VerificationTimeout) {
            let next = format!(
                "Raise verification.timeout_seconds of {id} in task-graph.json, or make the command end; then `{}`.",
                self.again()
            );
            let cause = format!("The verification of {id} does not end in time.");
            return Hypothesis::new("timeout", cause, self.again()).shown_by([headline(feedback)]).next(next);
        }
        let failed: Vec<&AttemptView> =
            self.task.attempts.iter().filter(|attempt| attempt.outcome == "failed").collect();
        let first = failed.first().and_then(|attempt| attempt.detail.as_deref());
        let same = failed.len() > 1 && failed.iter().all(|attempt| attempt.detail.as_deref() == first);
        let cause = match same {
            true => format!(
                "{id} fails its verification with the same output each time: the command or the spec may be wrong."
            ),
            false => format!(
                "{id} does not pass its verification: the spec may ask for something else than the command checks."
            ),
        };
        let command = clean(self.task.verification.trim());
        let shell = format!("mahabharatha sandbox -f {} --task {id}", self.feature);
        let try_it = format!("{shell} -- {}", shell_word(&command));
        let how = match command.contains('\n') {
            false => format!("Run it on the work that was kept: {command}\n`{try_it}` does that as an attempt would. "),
            true => format!(
                "Run it on the work that was kept, in the shell that `{shell}` opens:\n  {}\n",
                command.replace('\n', "\n  ")
            ),
        };
        let next = format!("{how}Once the cause is fixed: `{}`.", self.again());
        Hypothesis::new("verification_failed", cause, try_it).shown_by(lines(feedback)).next(next)
    }

    /// `hint` says what the sandbox kept `what` from, and which setting allows it.
    fn sandbox_denial(&self, what: &str, feedback: &str, hint: &str) -> Hypothesis {
        let command = format!("{} --accept-config", self.again());
        let next = format!("{hint} Then `{command}`.");
        let from = if offline::is_cause(hint) { "the network" } else { "a file" };
        let cause = format!("The sandbox kept the {what} of {} from {from}.", self.task.id);
        let evidence = lines(feedback).into_iter().chain([one_line(hint)]);
        Hypothesis::new("sandbox_denial", cause, command).shown_by(evidence).next(next)
    }

    fn missing_tool(&self, what: &str, program: &str, line: &str) -> Hypothesis {
        let program = one_line(program);
        let cause = format!("{program}, which {what} {} calls, is not installed or not on PATH.", self.task.id);
        let next = format!("Install {program}, or change what calls it; then `{}`.", self.again());
        let evidence = [one_line(line)].into_iter().chain(words::hidden_tool(self.isolation, &program));
        Hypothesis::new("missing_tool", cause, self.again()).shown_by(evidence).next(next)
    }

    fn agent(&self, feedback: &str) -> Hypothesis {
        let id = &self.task.id;
        if let Some(line) = words::login(feedback) {
            return self.login(line, "its client");
        }
        if let Some(line) = words::quota(feedback) {
            return self.quota(line);
        }
        if let Some((program, line)) = words::missing_tool(feedback) {
            return self.missing_tool("the agent of", program, line);
        }
        let logs = format!("mahabharatha logs -f {} --task {id}", self.feature);
        let next = format!("See what it says: `{logs}`; then `{}`.", self.again());
        let cause = format!("The agent of {id} ends with an error before anything is checked.");
        Hypothesis::new("agent_failed", cause, logs).shown_by(lines(feedback)).next(next)
    }

    fn unserved(&self, why: &str, reason: Option<Reason>) -> Hypothesis {
        let id = &self.task.id;
        match reason {
            Some(Reason::ApiAccess) => return self.login(why, "its API"),
            Some(Reason::ApiLimit) => return self.quota(why),
            _ => {}
        }
        let next = format!("The attempt used up no retry: `{}` tries again.", run_again(self.feature));
        let cause = format!("The API of the agent of {id} is overloaded, down or out of reach.");
        Hypothesis::new("service_down", cause, run_again(self.feature)).shown_by([headline(why)]).next(next)
    }

    fn login(&self, line: &str, who: &str) -> Hypothesis {
        let log_in = "claude auth login";
        let again = match self.task.status {
            "blocked" => self.again(),
            _ => run_again(self.feature),
        };
        let cause = format!("The agent of {} is not logged in, or {who} refuses its key.", self.task.id);
        let next = format!(
            "Log in (for Claude Code `{log_in}`), or set its key in the environment; `mahabharatha doctor` checks it. \
             Then `{again}`."
        );
        Hypothesis::new("agent_login", cause, format!("{log_in} && {again}")).shown_by([headline(line)]).next(next)
    }

    fn quota(&self, line: &str) -> Hypothesis {
        let again = match self.task.status {
            "blocked" => self.again(),
            _ => run_again(self.feature),
        };
        let cause = format!("The limit of the service that the agent of {} uses is reached.", self.task.id);
        let next = format!(
            "Wait until it resets, or use another key; then `{again}`, which waits for a reset that the service named."
        );
        Hypothesis::new("quota", cause, again).shown_by([headline(line)]).next(next)
    }

    fn setup(&self, feedback: &str) -> Hypothesis {
        let id = &self.task.id;
        if let Some(line) = words::disk(feedback) {
            let next = format!("Free some space, then `{}`.", self.again());
            let cause = format!("The disk was full when {id} was tried.");
            return Hypothesis::new("disk_full", cause, self.again()).shown_by([one_line(line)]).next(next);
        }
        let cause = format!(
            "{id} could not be carried out: something is wrong with the disk or the repository, not with the task."
        );
        let next = format!("`mahabharatha doctor` checks what an attempt needs; then `{}`.", self.again());
        Hypothesis::new("not_carried_out", cause, "mahabharatha doctor").shown_by(lines(feedback)).next(next)
    }

    fn died(&self, report: &JobReport) -> Hypothesis {
        let cause = format!(
            "The workers of {} were killed: by a user, or by the system because it was out of memory.",
            self.task.id
        );
        let next = format!(
            "Read the system's log (dmesg, journalctl -k); use fewer workers at once; then `{}`.",
            self.again()
        );
        let warnings = report.warnings.iter().map(|warning| headline(warning));
        let evidence = ["the worker ended without a result".to_owned()].into_iter().chain(warnings);
        Hypothesis::new("worker_died", cause, self.again()).shown_by(evidence).next(next)
    }

    fn over_budget(&self, reason: &str) -> Hypothesis {
        let next = format!("Raise budget.max_usd_per_task in .mahabharatha/config.yaml, then `{}`.", self.again());
        let cause = format!("The budget of {} is used up.", self.task.id);
        Hypothesis::new("budget", cause, self.again()).shown_by([headline(reason)]).next(next)
    }

    fn blocked(&self, reason: &str) -> Hypothesis {
        let id = &self.task.id;
        if let Some(question) = &self.task.question {
            let answer = format!("mahabharatha retry {id} --note \"…\" -f {} --run", self.feature);
            let (command, next) = match self.needs.as_slice() {
                [] => (answer.clone(), format!("Answer it: `{answer}`.")),
                needs => {
                    let grant = self.grant(needs.iter().map(|need| need.path.as_str()));
                    let next = format!("Grant it: `{grant}`. Refuse it: `{answer}`.");
                    (grant, next)
                }
            };
            let cause = format!("{id} is blocked: {}", headline(question));
            return Hypothesis::new("question", cause, command).shown_by(lines(question)).next(next);
        }
        let next = format!(
            "Fix the cause or change the task, then `{}`; or go on without it: `mahabharatha skip -f {} {id} --reason TEXT`.",
            self.again(),
            self.feature
        );
        Hypothesis::new("blocked", format!("{id} is blocked: {}", headline(reason)), self.again())
            .shown_by(lines(reason))
            .next(next)
    }
}

/// Returns the lines of a report that tell of the failure; its summary if it is nothing else.
fn lines(report: &str) -> Vec<String> {
    let key = output_lines(report);
    if key.is_empty() { vec![headline(report)] } else { key }
}

/// Returns the lines of output in a report that tell of the failure.
pub(super) fn output_lines(report: &str) -> Vec<String> {
    let (key, _) = key_lines(body_of(report), MAX_EVIDENCE + 1);
    key.iter().map(|line| clean(line)).filter(|line| !line.starts_with("$ ")).take(MAX_EVIDENCE).collect()
}
