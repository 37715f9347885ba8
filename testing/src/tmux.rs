//! A program in a real terminal, by tmux with a server of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::Repo;

pub struct Tmux {
    dir: tempfile::TempDir,
}

impl Tmux {
    /// Runs a program in a terminal of 120 columns and 50 rows.
    pub fn open(repo: &Repo, words: &[String]) -> Tmux {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        Tmux::open_sized(repo, &quoted.join(" "), (120, 50))
    }

    /// Runs a command line of a shell in a terminal of this many columns and rows.
    pub fn open_sized(repo: &Repo, line: &str, (columns, rows): (u16, u16)) -> Tmux {
        let tmux = Tmux { dir: tempfile::tempdir().unwrap() };
        let (dir, columns, rows) = (repo.path(), columns.to_string(), rows.to_string());
        tmux.call(&["new-session", "-d", "-x", &columns, "-y", &rows, "-c", dir.to_str().unwrap(), line]);
        tmux
    }

    fn call(&self, args: &[&str]) -> String {
        let socket = self.dir.path().join("tmux");
        let output = Command::new("tmux").arg("-u").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(args).output();
        String::from_utf8_lossy(&output.expect("tmux is needed to test programs in a terminal").stdout).into_owned()
    }

    pub fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }

    /// The screen with its colours, as escape sequences.
    pub fn painted_screen(&self) -> String {
        self.call(&["capture-pane", "-p", "-e"])
    }

    pub fn press(&self, key: &str) {
        self.call(&["send-keys", key]);
    }

    /// Types text as it is.
    pub fn type_text(&self, text: &str) {
        self.call(&["send-keys", "-l", text]);
    }

    /// Types a line once the client is ready, and sends it once it is shown.
    pub fn type_line(&self, repo: &Repo, line: &str) {
        repo.wait_until("the client's prompt", || self.screen().contains('❯'));
        self.type_text(line);
        repo.wait_until("the typed line on the screen", || self.screen().contains(line));
        self.press("Enter");
    }

    #[track_caller]
    pub fn wait_for(&self, repo: &Repo, text: &str) {
        repo.wait_until(&format!("{text:?} on the screen"), || self.screen().contains(text));
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.call(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Ends the terminal with everything in it, as when its window is closed.
    pub fn close(&self) {
        self.call(&["kill-server"]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal showed:\n{}", self.screen());
        }
        // The program must be gone before its home is removed.
        let pid = self.call(&["display-message", "-p", "#{pane_pid}"]);
        if !pid.trim().is_empty() {
            let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
        }
        while !pid.trim().is_empty() && Path::new("/proc").join(pid.trim()).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.close();
    }
}
