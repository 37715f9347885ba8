//! What a person at a terminal sees and types.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::support::Repo;

/// A command on a terminal of its own, by `script` of util-linux.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    output: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    /// How much had been shown when the last answer was given.
    answered: usize,
}

impl Terminal {
    pub fn open(repo: &Repo, command: &str, env: &[(&str, &str)]) -> Terminal {
        let program = crate::program();
        let line = format!("stty cols 90 rows 30; exec '{}' {command}", program.display());
        let mut child = Command::new("script")
            .args(["-qefc", &line, "/dev/null"])
            .current_dir(repo.path())
            .env("TERM", "xterm-256color")
            .env("HOME", repo.home())
            .env_remove("NO_COLOR")
            .env_remove("CLAUDE_CONFIG_DIR")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of util-linux, is needed to test what a terminal shows");
        let keys = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut all = Vec::new();
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                all.extend_from_slice(&bytes[..count]);
                *sink.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
            }
        });
        Terminal { child, keys, output, reader, answered: 0 }
    }

    pub fn shown(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    #[track_caller]
    pub fn wait_for(&self, repo: &Repo, text: &str) {
        repo.wait_until(&format!("{text:?} on the terminal"), || self.shown().contains(text));
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Types a line once the question has been put.
    #[track_caller]
    pub fn answer(&mut self, repo: &Repo, question: &str, line: &str) {
        let asked = |shown: &str| shown.get(self.answered..).is_some_and(|new| new.contains(question));
        let over = Cell::new(false);
        let ends = RefCell::new(&mut self.child);
        repo.wait_until(&format!("{question:?} on the terminal"), || {
            // What came last is looked at once more.
            let was_over = over.replace(ends.borrow_mut().try_wait().unwrap().is_some());
            asked(&self.output.lock().unwrap()) || was_over
        });
        assert!(asked(&self.shown()), "{question:?} is not asked in {}", self.shown());
        self.answered = self.shown().len();
        self.press(&format!("{line}\n"));
    }

    /// Closes it, as the window manager does.
    pub fn close(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        drop(self.keys);
        self.reader.join().unwrap();
        let shown = self.output.lock().unwrap().clone();
        (code, shown)
    }
}
