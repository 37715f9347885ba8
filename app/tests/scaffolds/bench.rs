//! A project made by the program, commands in it, and a server that is asked something.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// What is fetched once and used by every later run.
pub fn cache(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../scaffolds").join(name);
    fs::create_dir_all(&dir).unwrap();
    dir.canonicalize().unwrap()
}

/// Where the tools cannot be had, that is said, and on CI it is a failure.
pub fn or_say_so<T>(what: &str, result: Result<T, String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{what} cannot be tested:\n{error}");
            say(&format!("NOT TESTED: {what}: {error}"));
            None
        }
    }
}

/// Past the test harness, which would keep it to itself.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

pub struct Project {
    dir: tempfile::TempDir,
    pub slug: String,
    env: Vec<(OsString, OsString)>,
}

impl Project {
    /// Named after its framework, so that several can live side by side.
    pub fn new(language: &str, framework: &str) -> Project {
        Project::below(tempfile::tempdir().unwrap(), "", language, framework)
    }

    pub fn below(dir: tempfile::TempDir, path: &str, language: &str, framework: &str) -> Project {
        let slug = format!("shop-{framework}");
        let project = Project { dir, slug, env: Vec::new() };
        let root = project.dir.path().join(path);
        fs::create_dir_all(&root).unwrap();
        let description =
            r#"Sells "things" \ and {{more}} of them, <b>cheaply</b>, to people who have not asked for any"#;
        let name = format!("Shop {framework}");
        let mut init = Command::new(env!("CARGO_BIN_EXE_mahabharatha"));
        init.args(["init", "--yes", "--language", language, "--framework", framework, "--name", &name]);
        init.args(["--description", description]).current_dir(&root);
        init.envs([("GIT_AUTHOR_NAME", "A Person"), ("GIT_AUTHOR_EMAIL", "person@example.com")]);
        attempt(&mut init).unwrap();
        project
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn module(&self) -> String {
        self.slug.replace('-', "_")
    }

    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Project {
        self.env.push((key.into(), value.as_ref().to_owned()));
        self
    }

    pub fn command(&self, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        // Cargo tells its tests about itself, and those of another package must not hear of it.
        for (key, _) in std::env::vars_os().filter(|(key, _)| is_of_cargo(key)) {
            command.env_remove(key);
        }
        command.envs(self.env.iter().cloned());
        command
    }

    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, args: &[&str]) -> String {
        attempt(&mut self.command(program, args)).unwrap_or_else(|error| panic!("{}: {error}", self.slug))
    }

    /// What the checks made must all be ignored by git.
    #[track_caller]
    pub fn assert_clean(&self, except: &str) {
        let status = self.run("git", &["status", "--porcelain", "--untracked-files=all"]);
        let unexpected: Vec<&str> = status.lines().filter(|line| !line.ends_with(except)).collect();
        assert!(unexpected.is_empty(), "{}: {unexpected:?}", self.slug);
    }

    /// Starts the server, asks it for a greeting, and ends it as a supervisor would.
    #[track_caller]
    pub fn assert_serves(&self, mut server: Command) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        server.env("PORT", port.to_string()).env("HOST", "127.0.0.1");
        server.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Server(server.spawn().unwrap());
        let mut stream = loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                break stream;
            }
            if let Some(status) = server.0.try_wait().unwrap() {
                let mut said = String::new();
                server.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the server of {} ended with {status}:\n{said}", self.slug);
            }
            // Nothing can be waited for until it listens.
            thread::sleep(Duration::from_millis(20));
        };
        stream.write_all(b"GET /greetings/Ada HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Hello, Ada!"), "{}: {answer}", self.slug);
        drop(stream);
        rustix::process::kill_process(rustix::process::Pid::from_child(&server.0), rustix::process::Signal::TERM)
            .unwrap();
        server.0.wait().unwrap();
    }
}

/// Never outlives its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_of_cargo(key: &OsStr) -> bool {
    key.to_str().is_some_and(|key| key.starts_with("CARGO") && key != "CARGO_HOME" || key.starts_with("RUST_"))
}

/// What it printed, or everything that it said where it failed.
pub fn attempt(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    let program = command.get_program().display();
    let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    Err(format!("{program} {} failed with {}:\n{out}{err}", args.join(" "), output.status))
}
