//! Each reader, with all that is done with what it reads, and what must hold of it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use mahabharatha_core::charter::{Answers, recommend};
use mahabharatha_core::config::{AgentConfig, Config, Isolation};
use mahabharatha_core::graph::{Rules, TaskGraph, trace};
use mahabharatha_core::ids::{Attempt, Feature};
use mahabharatha_core::plan::{Plan, worker_assignments};
use mahabharatha_core::prompt::{Document, Prompt, PromptInput};
use mahabharatha_core::run::replay;
use mahabharatha_core::spec::{self, GraphFile, TaskSpec, import_tasks, parse_task_file, write_task_file};
use mahabharatha_core::view::RunView;
use mahabharatha_engine::agent::{AgentSpec, Terms};
use mahabharatha_engine::report::logs::{LogFilter, read_logs};
use mahabharatha_engine::report::state_md;
use mahabharatha_engine::worker;
use mahabharatha_sys::proc::{Ended, Exit};
use mahabharatha_sys::store::journal::{FILE_NAME, Health, Journal, Repair, examine};
use mahabharatha_sys::store::locks::FeatureLock;
use tempfile::TempDir;

pub trait Reader {
    /// Also of its corpus.
    fn name(&self) -> &'static str;
    /// What such inputs are made of.
    fn words(&self) -> &'static [&'static str];
    /// Panics if anything is not as it should be.
    fn read(&self, input: &[u8]);
}

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// In memory where the system has such a place: what is read does not have to survive a loss of power.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn prompt_of(task: &TaskSpec, document: &str) -> Prompt {
    let feature = Feature::new("x").unwrap();
    let document = Some(Document { path: "requirements.md", text: document });
    Prompt::new(&PromptInput {
        feature: &feature,
        task,
        project: document,
        requirements: document,
        design: document,
        decisions: &[],
        notes: &[],
        attempt: Attempt(2),
        max_attempts: 3,
        feedback: document.map(|document| document.text),
        note: None,
        wip_ref: None,
        fix: None,
        worktree: "/w",
        ports: &[1],
        rules: &[],
        budget_tokens: 500,
    })
}

pub struct Graph;

impl Reader for Graph {
    fn name(&self) -> &'static str {
        "graph"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"id\":",
            "\"title\":",
            "\"level\":",
            "\"files\":",
            "\"create\":",
            "\"modify\":",
            "\"read\":",
            "\"tasks\":",
            "\"feature\":",
            "\"dependencies\":",
            "\"verification\":",
            "\"A\"",
            "\"src/\"",
            "\"src/**\"",
            ",",
            ":",
            "\\ud800",
        ]
    }

    fn read(&self, input: &[u8]) {
        let Ok(file) = GraphFile::parse(&text(input)) else { return };
        assert_eq!(GraphFile::parse(&file.to_json()).as_ref(), Ok(&file), "what is written reads otherwise");
        for task in file.tasks.iter().take(50) {
            write_task_file(task, None);
            prompt_of(task, "");
        }
        let (graph, problems) = TaskGraph::check(&file, None, Rules::default());
        assert!(graph.is_some() || !problems.is_empty(), "refused without a word");
        if let Some(graph) = graph {
            let plan = Plan::new(&graph, 5);
            worker_assignments(&plan, &graph, &[], "worktrees");
            graph.tasks().iter().for_each(|task| drop(graph.dependents(&task.id)));
        }
    }
}

pub struct TaskFile;

impl Reader for TaskFile {
    fn name(&self) -> &'static str {
        "task"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "<task",
            "</task>",
            "<files>",
            "</files>",
            "<verify>",
            "<name>",
            "type=\"auto\"",
            "## ",
            "# ",
            "```",
            "- **Level:** ",
            "&lt;",
            "&#x110000;",
            "&#xd800;",
            "<!--",
            "-->",
            "<![CDATA[",
            "- [ ] ",
            "## Failure Analysis\n",
        ]
    }

    fn read(&self, input: &[u8]) {
        let input = text(input);
        let Ok(task) = parse_task_file(&input, |path| path.len() % 2 == 0) else { return };
        let written = write_task_file(&task, Some(&input));
        if let Ok(again) = parse_task_file(&written, |path| path.len() % 2 == 0) {
            assert_eq!(again.id, task.id, "{written}");
            assert_eq!(again.verification, task.verification, "{written}");
        }
        let _ = import_tasks("x", &[("a.md".into(), written), ("b.md".into(), input.into_owned())], |_| false);
        prompt_of(&task, "");
    }
}

pub struct Configuration;

impl Reader for Configuration {
    fn name(&self) -> &'static str {
        "config"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "workers:",
            "agents:",
            "&a ",
            "*a",
            "<<: *a",
            "- ",
            ": ",
            "|\n",
            ">-\n",
            "? ",
            "!!str ",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "quality_gates:",
            ".inf",
            ".nan",
            "0x7f",
            "~",
            "# ",
            "{a: [",
            "**/{a,b}[",
            "@",
            "`",
        ]
    }

    fn read(&self, input: &[u8]) {
        // The same form has a file of answers.
        match Answers::parse(&text(input)) {
            Ok(answers) => drop(recommend(answers.questions.iter().flatten().map(String::as_str), None)),
            Err(problems) => assert!(!problems.is_empty()),
        }
        match Config::parse(&text(input)) {
            Ok(config) => drop(config.policy(Isolation::Off, Some(3), false, Some(1.0))),
            Err(problems) => {
                assert!(!problems.is_empty());
                problems.iter().for_each(|problem| drop(problem.to_string()));
            }
        }
    }
}

/// A directory of a feature whose lock is held.
struct Held {
    dir: TempDir,
    lock: FeatureLock,
    feature: Feature,
}

impl Held {
    fn new() -> Held {
        let dir = scratch();
        let lock = FeatureLock::wait(&dir.path().join("x"), &dir.path().join("none/.lock")).unwrap();
        Held { dir, lock, feature: Feature::new("x").unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("x").join(name)
    }
}

pub struct JournalFile(Held);

impl JournalFile {
    pub fn new() -> Self {
        JournalFile(Held::new())
    }

    /// What a journal tells adds up to one run, always the same.
    fn replays(&self) {
        let Ok(records) = Journal::read(&self.0.path(FILE_NAME)) else { return };
        let run = || replay(records.iter().map(|record| (record.at, &record.event)));
        let once = run();
        if let Ok(Some(run)) = &once {
            RunView::of(run);
        }
        assert!(once == run(), "replayed twice it is two runs");
    }

    fn is_repaired(&self) {
        let path = self.0.path(FILE_NAME);
        let before = fs::read(&path).unwrap();
        let Ok(Some(repair)) = Repair::plan(&self.0.lock, &self.0.feature, usize::MAX) else { return };
        let outcome = repair.apply(&self.0.lock).unwrap();
        let original = outcome.original.unwrap();
        assert!(fs::read(&original).unwrap() == before, "the original is another");
        fs::remove_file(original).unwrap();
        let examined = examine(&path, &self.0.feature).unwrap();
        assert_eq!((examined.health, examined.records.len()), (Health::Good, outcome.records_kept));
        self.replays();
    }
}

impl Reader for JournalFile {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "{\"seq\":",
            "\"at\":",
            "\"event\":",
            "{\"event\":\"woke\"}",
            "{\"event\":\"closed\"}",
            "\"worker\":",
            "\"attempt\":",
            "\"level\":",
            "\"task\":\"A\"",
            "{\"event\":\"out_of_space\",\"why\":\"\"}",
            "\"journal\":",
            "\"feature\":\"x\"",
        ]
    }

    fn read(&self, input: &[u8]) {
        let path = self.0.path(FILE_NAME);
        // As it is, and with its records numbered in order, so that they are all taken.
        for input in [input.to_vec(), renumbered(input)] {
            fs::write(&path, &input).unwrap();
            examine(&path, &self.0.feature).unwrap();
            self.replays();
            assert!(fs::read(&path).unwrap() == input, "who only looks changes nothing");
            self.is_repaired();
        }
        let _ = Journal::open_for_append(&self.0.lock, &self.0.feature);
        let _ = fs::remove_file(path.with_extension("jsonl.torn"));
    }
}

/// The lines that are records, in order, below a good header.
fn renumbered(input: &[u8]) -> Vec<u8> {
    let mut new = b"{\"journal\":1,\"feature\":\"x\"}\n".to_vec();
    let mut seq = 0;
    for line in input.split(|&byte| byte == b'\n').skip(1) {
        if let Ok(serde_json::Value::Object(mut record)) = serde_json::from_slice(line) {
            seq += 1;
            record.insert("seq".into(), seq.into());
            new.extend(serde_json::Value::Object(record).to_string().into_bytes());
            new.push(b'\n');
        }
    }
    new
}

pub struct LockFile(Held);

impl LockFile {
    pub fn new() -> Self {
        LockFile(Held::new())
    }
}

impl Reader for LockFile {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn words(&self) -> &'static [&'static str] {
        &["1", "4294967296", ":", ".", "-"]
    }

    fn read(&self, input: &[u8]) {
        fs::write(self.0.path("lock"), input).unwrap();
        let holder = FeatureLock::holder(self.0.lock.dir()).unwrap().expect("it is held, whatever its file says");
        holder.refusal(&"x");
    }
}

pub struct Requirements;

impl Reader for Requirements {
    fn name(&self) -> &'static str {
        "requirements"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "# ",
            "## ",
            "###### ",
            "```\n",
            "~~~~\n",
            "---\n",
            "===\n",
            "> ",
            "- ",
            "<!--",
            "    ",
            "| a |",
            "Out of Scope\n",
        ]
    }

    fn read(&self, input: &[u8]) {
        let task = GraphFile::parse(r#"{"feature":"x","tasks":[{"id":"A","title":"T","level":1}]}"#).unwrap().tasks;
        let prompt = prompt_of(&task[0], &text(input));
        assert!(prompt.text().len() < 200_000, "{} bytes of prompt", prompt.text().len());
        let read = spec::Requirements::parse(&text(input));
        read.check();
        trace(&read, &GraphFile::parse(r#"{"feature":"x","tasks":[]}"#).unwrap());
        // What is written once is written the same again.
        let written = spec::Requirements::parse(&read.to_markdown()).to_markdown();
        assert_eq!(spec::Requirements::parse(&written).to_markdown(), written);
    }
}

pub struct StateMd;

impl Reader for StateMd {
    fn name(&self) -> &'static str {
        "state"
    }

    fn words(&self) -> &'static [&'static str] {
        &["# MAHABHARATHA State: ", "x\n", "## Decisions\n", "- ", "# ", "## ", "<!-- ", " -->"]
    }

    fn read(&self, before: &[u8]) {
        state_md::decisions_in(before, "x");
        let section = "# MAHABHARATHA State: x\n\n## Decisions\n";
        let after = state_md::replace_section(before, "x", section);
        let again = state_md::replace_section(&after, "x", section);
        assert_eq!(again, after, "it does not come to rest");
    }
}

pub struct WorktreeInclude(TempDir);

impl WorktreeInclude {
    pub fn new() -> Self {
        let dir = scratch();
        for path in [".env", "config/a.local", "config/public.local", "secrets/deep/er/key.pem", "sp ace", "#name"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        WorktreeInclude(dir)
    }
}

impl Reader for WorktreeInclude {
    fn name(&self) -> &'static str {
        "worktreeinclude"
    }

    fn words(&self) -> &'static [&'static str] {
        &["*", "**", "/", "!", "?", "[a-", "]", "{a,", "}", "\\", "**/", "/**", "#", ".env", "secrets/"]
    }

    fn read(&self, input: &[u8]) {
        fs::write(self.0.path().join(".worktreeinclude"), input).unwrap();
        let (wanted, warnings) = worker::wanted_files(self.0.path());
        assert!(wanted.len() <= 7 && warnings.len() < 5, "{wanted:?} {warnings:?}");
    }
}

pub struct AgentStream;

impl Reader for AgentStream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn words(&self) -> &'static [&'static str] {
        &["\r", "\u{8}", "\u{1b}]0;x\u{7}", "\u{1b}[2J", "{\"type\":", "note"]
    }

    fn read(&self, input: &[u8]) {
        let agent = AgentSpec {
            name: "command".to_owned(),
            profile: AgentConfig::shipped()["command"].clone(),
            terms: Terms::default(),
        };
        for code in 0..6 {
            let ended = Ended {
                status: Exit::Code(code),
                timed_out: false,
                cancelled: false,
                left_others: false,
                stdout: input.to_vec(),
                stderr: input.to_vec(),
                truncated: false,
                duration: Duration::ZERO,
            };
            let said = format!("{:?}", agent.agent().outcome(&ended));
            assert!(said.len() < 400_000, "{} bytes", said.len());
        }
        let cleaned = mahabharatha_sys::ui::clean(&text(input));
        assert!(cleaned.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{cleaned:?}");
    }
}

pub struct ResultFile(TempDir);

impl ResultFile {
    pub fn new() -> Self {
        ResultFile(scratch())
    }
}

impl Reader for ResultFile {
    fn name(&self) -> &'static str {
        "result"
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"end\":",
            "\"done\"",
            "\"failed\"",
            "\"checkpoint\"",
            "\"commit\":",
            "\"cause\":",
            "\"cost_usd\":",
            "-1e308",
            ",",
        ]
    }

    fn read(&self, input: &[u8]) {
        fs::write(self.0.path().join("result.json"), input).unwrap();
        let _ = worker::read_result(self.0.path());
        fs::write(self.0.path().join(worker::JOB_SPEC), input).unwrap();
        let _ = worker::JobSpec::read(self.0.path());
    }
}

pub struct LogFiles(TempDir);

impl LogFiles {
    pub fn new() -> Self {
        let dir = scratch();
        fs::create_dir_all(dir.path().join("workers")).unwrap();
        LogFiles(dir)
    }
}

impl Reader for LogFiles {
    fn name(&self) -> &'static str {
        "logs"
    }

    fn words(&self) -> &'static [&'static str] {
        &["\"ts\":", "\"9999-12-31T23:59:59Z\"", "\"level\":\"info\"", "\"message\":", "\"worker\":", "{", "}\n"]
    }

    fn read(&self, input: &[u8]) {
        fs::write(self.0.path().join("workers/worker-0.jsonl"), input).unwrap();
        let logs = read_logs(self.0.path(), &LogFilter::default()).unwrap();
        let lines = input.split(|&byte| byte == b'\n').count();
        assert!(logs.records.len() + logs.unreadable <= lines);
    }
}
