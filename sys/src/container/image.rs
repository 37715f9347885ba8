//! Images: found, pulled, built, and tried.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::getuid;

use super::{Bind, Container, Engine, api, helper, mount, user};
use crate::error::{Error, Kind, Result, io};
use crate::proc::{self, Cmd, Ended, Exit, bounded_text};

/// Time limit for building or pulling an image.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Time limit for trying an image.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of a failed build's output that are shown, from its end.
const BUILD_OUTPUT_BYTES: (usize, usize) = (0, 3000);

/// Exit code of the engine's client if the engine did not start the container.
const NOT_STARTED: i32 = 125;

/// What to build, and under which name.
pub struct BuildCall<'a> {
    pub tag: &'a str,
    pub dockerfile: &'a Path,
    /// Directory whose files the Dockerfile copies; `None` if it copies none.
    pub context: Option<&'a Path>,
    pub args: &'a BTreeMap<String, String>,
    pub target: Option<&'a str>,
    pub labels: &'a BTreeMap<String, String>,
}

/// What an image lacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Programs that are not on its PATH.
    pub missing: Vec<String>,
    /// Whether our helper can be started in it.
    pub has_helper: bool,
}

impl Engine {
    /// Returns the id of an image that is on this machine.
    pub fn image(&self, name: &str) -> Result<Option<String>> {
        let found = self.get(&format!("/images/{}/json", api::escaped(name)))?;
        Ok(found.and_then(|found| found["Id"].as_str().map(str::to_owned)))
    }

    pub fn pull(&self, name: &str) -> Result<()> {
        let ended = self.run(self.cmd().args(["pull", name]).merged().timeout(BUILD_TIMEOUT))?;
        if ended.success() {
            return Ok(());
        }
        let output = bounded_text(&ended.stdout, BUILD_OUTPUT_BYTES);
        Err(Error::new(Kind::Preflight, format!("the image {name} cannot be pulled")).detail(output.trim().to_owned()))
    }

    /// Builds an image. The error has the last lines of the build.
    pub fn build(&self, call: &BuildCall<'_>) -> Result<()> {
        let mut cmd = self.cmd().args(["build", "--tag", call.tag, "--file"]).arg(call.dockerfile);
        for (key, value) in call.labels {
            cmd = cmd.args(["--label", &format!("{key}={value}")]);
        }
        for (key, value) in call.args {
            // Never as a variable of the client: the repository chooses the name, which could be LD_PRELOAD.
            cmd = cmd.args(["--build-arg", &format!("{key}={value}")]);
        }
        if let Some(target) = call.target {
            cmd = cmd.args(["--target", target]);
        }
        if self.needs_classic_builder() {
            // The classic builder otherwise leaves the container of a failed step behind.
            cmd = cmd.env("DOCKER_BUILDKIT", "0").arg("--force-rm");
        }
        // Without a context nothing of the checkout is sent to the engine.
        let empty = tempfile::tempdir().map_err(Error::caused("cannot create a temporary directory"))?;
        let cmd = cmd.arg(call.context.unwrap_or(empty.path())).merged().keep(0, 64 * 1024).timeout(BUILD_TIMEOUT);
        let ended = self.run(cmd)?;
        if ended.success() {
            return Ok(());
        }
        let how = if ended.timed_out { "did not end within an hour".to_owned() } else { "failed".to_owned() };
        let output = bounded_text(&ended.stdout, BUILD_OUTPUT_BYTES);
        let lines: Vec<&str> = output.trim().lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n  ");
        Err(Error::new(Kind::Preflight, format!("building the image from {} {how}", call.dockerfile.display()))
            .detail(last)
            .hint("Fix the Dockerfile, or run without containers: --mode subprocess."))
    }
}

impl Container {
    /// Tries the image once, in this container: whether it runs here, whether it has these programs, and whether what is
    /// written to `dir`, a directory of ours, is ours. The container is gone when this returns.
    pub fn probe(&self, dir: &Path, programs: &[String]) -> Result<Probe> {
        fs::create_dir_all(dir).map_err(io("create", dir))?;
        let bind = Bind { from: dir.to_owned(), to: PathBuf::from("/run/mahabharatha/probe"), writable: true };
        let made = dir.join("made");
        let _ = fs::remove_file(&made);
        let binds = self.helper_files(&dir.join("program")).map_err(io("read", dir))?;
        let binds = binds.into_iter().map(|(from, to)| Bind { from, to, writable: false }).chain([bind]);
        let helper = helper::words("--version").map_err(Error::caused("cannot find the files of this program"))?;
        let script = format!(
            "touch /run/mahabharatha/probe/made; for p; do command -v \"$p\" >/dev/null || echo \"missing $p\"; done; \
             {} >/dev/null 2>&1 || echo no helper",
            proc::shell_line(&helper)
        );
        // A killed process may have left one.
        self.remove()?;
        let cmd = self.probe_command(binds, &script).args(programs);
        let ended = self.engine.run(cmd)?;
        if !ended.success() {
            // A program that hangs continues after its client is killed.
            self.remove()?;
        }
        let output = bounded_text(&ended.stdout, BUILD_OUTPUT_BYTES);
        if ended.status == Exit::Code(NOT_STARTED) && self.helper_copies.is_none() && is_about_mounts(&output) {
            return Ok(Probe::default());
        }
        let owner = fs::symlink_metadata(&made).map(|found| found.uid());
        let _ = fs::remove_file(&made);
        if let Some((why, hint)) = self.refusal(&ended, &output) {
            return Err(Error::new(Kind::Preflight, why).hint(hint));
        }
        self.check_owner(owner, dir)?;
        let missing = output.lines().filter_map(|line| line.strip_prefix("missing ")).map(str::to_owned);
        Ok(Probe { missing: missing.collect(), has_helper: !output.lines().any(|line| line == "no helper") })
    }

    /// Returns the call that runs a script once, without its arguments.
    fn probe_command(&self, binds: impl Iterator<Item = Bind>, script: &str) -> Cmd {
        let Container { engine, image, name, labels, .. } = self;
        let labels = labels.iter().flat_map(|(key, value)| ["--label".to_owned(), format!("{key}={value}")]);
        engine
            .cmd()
            .args(["run", "--rm", "--init", "--name", name, "--network", "none", "--pull", "never"])
            .args(["--read-only", "--cap-drop", "ALL", "--security-opt", "label=disable", "--user", &user()])
            .args(labels)
            .args(engine.user_options())
            .args(binds.flat_map(|bind| ["--mount".into(), mount(&bind)]))
            .args(["--entrypoint", "sh", image, "-c", script, "sh"])
            .merged()
            .timeout(PROBE_TIMEOUT)
    }

    /// Returns why the image cannot be used after this end of the probe, and a hint; none if the probe succeeded.
    fn refusal(&self, ended: &Ended, output: &str) -> Option<(String, &'static str)> {
        let image = &self.image;
        if output.to_ascii_lowercase().contains("exec format error") {
            let why = format!("the image {image} is for another architecture than this machine");
            return Some((why, "Build or name an image for this one."));
        }
        if ended.success() {
            return None;
        }
        // As the engine says it, and as the init processes of Docker and Podman do.
        let no_shell = ["\"sh\"", "exec sh failed", "failed to exec pid1"];
        if no_shell.iter().any(|text| output.contains(text)) {
            return Some((format!("the image {image} has no `sh`"), "Add a shell to it, such as busybox or dash."));
        }
        let why = match ended.timed_out {
            true => format!("the image {image} did not end a test within {} s", PROBE_TIMEOUT.as_secs()),
            false => format!("the image {image} cannot be started: {}", output.trim()),
        };
        Some((why, "Try it by hand."))
    }

    /// Refuses an engine whose containers write files that are not ours, or that are not here.
    fn check_owner(&self, owner: std::io::Result<u32>, dir: &Path) -> Result<()> {
        let engine = &self.engine;
        let (why, hint) = match owner {
            Ok(owner) if owner == getuid().as_raw() => return Ok(()),
            Ok(_) => (
                format!("files written in containers of {engine} would belong to another user"),
                "An engine that maps users, such as rootless Docker, cannot be used; Podman can.",
            ),
            Err(_) => (
                format!("{engine} does not share {} with containers", dir.display()),
                "Use an engine on this machine, and share this directory with it.",
            ),
        };
        Err(Error::new(Kind::Preflight, why).hint(hint))
    }
}

/// Tells whether an engine refused to start a container because of a path of this machine.
fn is_about_mounts(output: &str) -> bool {
    let output = output.to_ascii_lowercase();
    ["mount", "bind source", "statfs", "not shared"].iter().any(|text| output.contains(text))
}
