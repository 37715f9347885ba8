//! A run as an OpenTelemetry trace: run, levels, attempts and gates, sent to a collector over HTTP as JSON.
//!
//! Made from the journal when the command ends, for what happened since it began. Spans hold names, numbers and outcomes,
//! never texts of prompts, agents or outputs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use mahabharatha_core::config::Config;
use mahabharatha_core::ids::{Level, Time};
use mahabharatha_core::run::event::JobReport;
use mahabharatha_core::run::{Event, Run};
use mahabharatha_core::view::{AttemptView, RunView, TaskView};
use mahabharatha_sys::http::{self, HttpUrl};
use mahabharatha_sys::proc;
use serde_json::{Value, json};

/// Base address of the collector, as OpenTelemetry names it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Time limit for sending a trace.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A part of a run: what one command did.
pub struct Part<'a> {
    pub run: &'a Run,
    /// The events of the journal since the command began.
    pub events: &'a [(Time, &'a Event)],
    pub config: &'a Config,
}

/// Tells whether the user's environment names a collector.
pub fn is_wanted() -> bool {
    proc::is_set(ENDPOINT)
}

/// Sends the trace to the collector that the user's environment names. Returns a warning if that failed.
pub fn send(part: &Part<'_>) -> Option<String> {
    let endpoint = std::env::var(ENDPOINT).ok()?;
    let url = match HttpUrl::parse(&endpoint) {
        Ok(url) => url.join("v1/traces"),
        Err(rule) => return Some(format!("no trace was sent: {ENDPOINT}: {rule}")),
    };
    let trace = part.trace()?;
    let sent = http::post_json(&url, trace.to_string(), SEND_TIMEOUT);
    sent.err().map(|why| format!("no trace was sent to {endpoint}: {why}"))
}

impl Part<'_> {
    /// Returns the trace; none if nothing happened.
    fn trace(&self) -> Option<Value> {
        let (&(first, _), &(last, _)) = (self.events.first()?, self.events.last()?);
        let view = RunView::of(self.run);
        let spans = Spans { trace: trace_id(self.run), part: first, end: last, all: Vec::new() };
        let spans = spans.run(&view).levels(&view).gates(self.events).attempts(&view, self);
        let resource = attributes([
            ("service.name", json!("mahabharatha")),
            ("service.version", json!(env!("CARGO_PKG_VERSION"))),
        ]);
        let scoped = json!([{ "scope": { "name": "mahabharatha" }, "spans": spans.all }]);
        Some(json!({ "resourceSpans": [{ "resource": { "attributes": resource }, "scopeSpans": scoped }] }))
    }

    /// Returns the attributes of the agent that made an attempt, with the names of the conventions for generative AI. Its
    /// name and model are as the journal has them; only its provider is that of today's configuration.
    fn agent_of(&self, task: &TaskView, attempt: &AttemptView) -> Vec<(&'static str, Value)> {
        let ended = self.end_of(task, attempt);
        let Some((report, name)) = ended.and_then(|(_, report)| Some((report, report.agent.as_deref()?))) else {
            return Vec::new();
        };
        let provider = self.config.agent(name).and_then(|agent| agent.provider.as_deref());
        vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.agent.name", json!(name)),
            ("gen_ai.provider.name", json!(provider)),
            ("gen_ai.request.model", json!(report.model)),
        ]
    }

    /// Returns an attempt's report, and when it was recorded.
    fn end_of(&self, task: &TaskView, attempt: &AttemptView) -> Option<&(Time, JobReport)> {
        let records = &self.run.task(&task.id)?.attempts;
        records.iter().find(|record| record.attempt.0 == attempt.attempt)?.ended.as_ref()
    }
}

struct Spans {
    trace: String,
    /// When the command began; a part of the ids, since a later command continues the same run.
    part: Time,
    end: Time,
    all: Vec<Value>,
}

/// One span before it has ids.
struct Span<'a> {
    id: (&'a str, String),
    parent: Option<(&'a str, String)>,
    name: String,
    time: (Time, Time),
    failed: bool,
    attributes: Vec<(&'static str, Value)>,
}

impl Spans {
    fn add(&mut self, span: Span<'_>) {
        let of = |(kind, name): (&str, String)| span_id((&self.trace, self.part.0, kind, name));
        let (start, end) = (span.time.0, span.time.1.max(span.time.0));
        let nanoseconds = |time: Time| format!("{}000000", time.0.max(0));
        self.all.push(json!({
            "traceId": self.trace,
            "spanId": of(span.id),
            "parentSpanId": span.parent.map(of).unwrap_or_default(),
            "name": span.name,
            "kind": 1,
            "startTimeUnixNano": nanoseconds(start),
            "endTimeUnixNano": nanoseconds(end),
            "attributes": attributes(span.attributes),
            "status": { "code": if span.failed { 2 } else { 1 } },
        }));
    }

    fn run(mut self, view: &RunView) -> Spans {
        self.add(Span {
            id: ("run", String::new()),
            parent: None,
            name: format!("run {}", view.feature),
            time: (self.part, self.end),
            failed: matches!(view.status, "failed" | "blocked"),
            attributes: vec![
                ("mahabharatha.feature", json!(view.feature)),
                ("mahabharatha.status", json!(view.status)),
                ("mahabharatha.cost_usd", json!(view.cost.usd())),
                ("mahabharatha.tokens", json!(view.cost.tokens())),
            ],
        });
        self
    }

    fn levels(mut self, view: &RunView) -> Spans {
        // Under the schedule `dependencies` attempts begin before their level does.
        let mut began: BTreeMap<Level, Time> = BTreeMap::new();
        let attempts = view.tasks.iter().flat_map(|task| task.attempts.iter().map(|attempt| (task.level, attempt)));
        let attempts = attempts.map(|(level, attempt)| (level, attempt.started_at));
        for (level, at) in view.levels.iter().filter_map(|level| Some((level.level, level.started_at?))).chain(attempts)
        {
            let first = began.entry(level).or_insert(at.0);
            *first = at.0.min(*first);
        }
        for level in &view.levels {
            let Some(&started) = began.get(&level.level) else { continue };
            let merged = level.merged_at.map(|merged| merged.0);
            if merged.is_some_and(|merged| merged < self.part) {
                continue;
            }
            self.add(Span {
                id: ("level", level.level.to_string()),
                parent: Some(("run", String::new())),
                name: format!("level {}", level.level),
                time: (started.max(self.part), merged.unwrap_or(self.end)),
                failed: level.status == "failed",
                attributes: vec![
                    ("mahabharatha.level", json!(level.level)),
                    ("mahabharatha.status", json!(level.status)),
                ],
            });
        }
        self
    }

    /// Adds a span for each time that the gates of a level were run.
    fn gates(mut self, events: &[(Time, &Event)]) -> Spans {
        let mut began: BTreeMap<Level, Time> = BTreeMap::new();
        for (index, (at, event)) in events.iter().enumerate() {
            let (level, gate) = match event {
                Event::Staged { level, .. } => {
                    began.insert(*level, *at);
                    continue;
                }
                Event::GatesPassed { level, .. } => (*level, None),
                Event::GateFailed { level, failure, .. } => (*level, Some(failure.gate.as_str())),
                _ => continue,
            };
            self.add(Span {
                id: ("gates", format!("{level} {index}")),
                parent: Some(("level", level.to_string())),
                name: format!("gates of level {level}"),
                time: (began.insert(level, *at).unwrap_or(self.part), *at),
                failed: gate.is_some(),
                attributes: vec![("mahabharatha.level", json!(level)), ("mahabharatha.gate.failed", json!(gate))],
            });
        }
        self
    }

    fn attempts(mut self, view: &RunView, part: &Part<'_>) -> Spans {
        for task in &view.tasks {
            for attempt in &task.attempts {
                let AttemptView { attempt: number, started_at, ended_at, outcome, cause, fix, cost, worker, .. } =
                    attempt;
                // The end of an attempt whose worker was killed together with its orchestrator is recorded in a later part.
                let is_of_part = part.end_of(task, attempt).is_some_and(|(recorded, _)| *recorded >= self.part);
                let Some(ended) = ended_at.filter(|_| is_of_part) else { continue };
                let mut attributes = part.agent_of(task, attempt);
                attributes.extend([
                    ("mahabharatha.task", json!(task.id)),
                    ("mahabharatha.level", json!(task.level)),
                    ("mahabharatha.attempt", json!(number)),
                    ("mahabharatha.worker", json!(worker)),
                    ("mahabharatha.outcome", json!(outcome)),
                    ("mahabharatha.cause", json!(cause)),
                    ("mahabharatha.fix", json!(fix)),
                    ("mahabharatha.cost_usd", json!(cost.usd())),
                    ("mahabharatha.tokens", json!(cost.tokens())),
                ]);
                self.add(Span {
                    id: ("attempt", format!("{} {number}", task.id)),
                    parent: Some(("level", task.level.to_string())),
                    name: format!("attempt {number} at {}", task.id),
                    time: (started_at.0, ended.0),
                    failed: !matches!(*outcome, "done" | "checkpoint" | "cancelled"),
                    attributes,
                });
            }
        }
        self
    }
}

/// Returns the attributes that have a value, as the protocol writes them.
fn attributes(all: impl IntoIterator<Item = (&'static str, Value)>) -> Vec<Value> {
    let written = |(key, value): (&'static str, Value)| {
        let value = match value {
            Value::Null => return None,
            Value::Bool(flag) => json!({ "boolValue": flag }),
            Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
            // The protocol writes 64-bit numbers as text.
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::String(text) => json!({ "stringValue": text }),
            other => json!({ "stringValue": other.to_string() }),
        };
        Some(json!({ "key": key, "value": value }))
    };
    all.into_iter().filter_map(written).collect()
}

/// Returns the id of the run's trace, the same for all commands that work on it.
fn trace_id(run: &Run) -> String {
    let of = (run.feature().as_str(), run.setup().start.as_str(), run.started_at().0);
    span_id((&of, 1)) + &span_id((&of, 2))
}

fn span_id(of: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    // Zero would be no id.
    format!("{:016x}", hasher.finish().max(1))
}

#[cfg(test)]
mod tests {
    use mahabharatha_core::run::event::{Policy, Schedule};

    use super::super::support::{Story, policy};
    use super::*;

    #[test]
    fn every_attempt_lies_in_a_level_also_in_one_that_has_not_begun() {
        let task = |id: &str, level: u32| json!({"id": id, "title": "t", "level": level});
        let policy = Policy { schedule: Schedule::Dependencies, ..policy() };
        let mut story = Story::of(policy, &[task("A", 1), task("B", 2)]);
        story.base_is_green().starts("A").starts("B").after(1.0).done("B");
        let event = Event::Woke;
        let events = [(story.run.started_at(), &event), (story.now, &event)];
        let part = Part { run: &story.run, events: &events, config: &Config::default() };
        let trace = part.trace().unwrap();
        let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let attempt = spans.iter().find(|span| span["name"] == "attempt 1 at B").unwrap();
        let parent = spans.iter().find(|span| span["spanId"] == attempt["parentSpanId"]);
        assert_eq!(parent.map(|span| &span["name"]), Some(&json!("level 2")), "{trace:#}");
    }
}
