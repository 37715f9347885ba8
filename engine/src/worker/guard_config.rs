//! Restores git configuration files setting by setting. Only settings that can run or redirect something are restored:
//! the user may have added a remote meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use mahabharatha_sys::error::{Result, io};
use mahabharatha_sys::git::{Cause, Git};
use mahabharatha_sys::store::atomic::write_projected;

use super::guard::Restorer;
use super::job_spec::JobSpec;

type Settings = BTreeMap<String, Vec<String>>;

/// Sections whose settings neither run a program nor read another file.
const HARMLESS_SECTIONS: [&str; 16] = [
    "advice", "branch", "color", "column", "commit", "fetch", "help", "init", "log", "pull", "push", "rebase",
    "rerere", "status", "tag", "user",
];
const HARMLESS_REMOTE_KEYS: [&str; 6] = ["url", "pushurl", "fetch", "push", "tagopt", "prune"];
const HARMLESS_SUBMODULE_KEYS: [&str; 4] = ["url", "active", "branch", "ignore"];
const HARMLESS_LFS_KEYS: [&str; 3] = ["repositoryformatversion", "access", "locksverify"];

fn is_harmless(key: &str, value: &str) -> bool {
    if is_local(key, value) {
        return false;
    }
    let (section, name) = (key.split('.').next().unwrap_or(""), key.rsplit('.').next().unwrap_or(""));
    // `ext::` and other remote helpers run programs; a template does so through its hooks.
    let plain = !value.contains("::") && name != "template" && name != "templatedir";
    plain
        && (HARMLESS_SECTIONS.contains(&section)
            || section == "remote" && HARMLESS_REMOTE_KEYS.contains(&name)
            || section == "submodule" && HARMLESS_SUBMODULE_KEYS.contains(&name)
            || section == "lfs" && HARMLESS_LFS_KEYS.contains(&name))
}

/// Whether the setting makes git push to, or fetch from, a repository on this machine, whose hooks would run. `.` is the
/// repository itself.
fn is_local(key: &str, value: &str) -> bool {
    let name = key.rsplit('.').next().unwrap_or("");
    let names_remote = match key.split('.').next().unwrap_or("") {
        "remote" => matches!(name, "url" | "pushurl"),
        // Otherwise the name of a remote.
        "branch" => matches!(name, "remote" | "pushremote") && value.contains(['/', ':']),
        _ => false,
    };
    // Git takes `host:path` for another machine, unless a slash comes before the colon.
    let is_path = !value.split('/').next().unwrap_or_default().contains(':');
    names_remote && (is_path || value.starts_with("file:"))
}

/// A file, its name in messages, and its contents before and after the attempt.
pub struct ChangedFile<'a> {
    pub path: &'a Path,
    pub name: &'a str,
    pub before: &'a [u8],
    pub after: &'a [u8],
}

/// Restores the dangerous settings of one file. Returns `false` if git cannot parse it, so it must be restored whole.
pub fn restore(restorer: &mut Restorer<'_>, spec: &JobSpec, file: &ChangedFile<'_>) -> Result<bool> {
    let ChangedFile { path, name, before, after } = *file;
    let scratch = spec.slot_file("config");
    let read = |bytes: &[u8]| -> Result<Option<Settings>> {
        write_projected(&scratch, bytes)?;
        Ok(restorer.git.read_config_file(&scratch).ok().map(dangerous))
    };
    let (old, new) = (read(before)?, read(after)?);
    fs::remove_file(&scratch).map_err(io("remove", &scratch))?;
    let (Some(old), Some(new)) = (old, new) else { return Ok(false) };
    for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (old.get(key), new.get(key));
        if was == is || restorer.is_repair((path, key), was, is) {
            continue;
        }
        restorer.keep_copy(name, after)?;
        set(restorer.git, path, key, was.map_or(&[][..], Vec::as_slice))?;
        restorer.remember_repair((path, key), is, was)?;
        restorer.planted.strays.push(format!("{name} ({key})"));
    }
    Ok(true)
}

fn dangerous(settings: Vec<(String, String)>) -> Settings {
    let mut found = Settings::new();
    for (key, value) in settings {
        if !is_harmless(&key, &value) {
            found.entry(key).or_default().push(value);
        }
    }
    found
}

fn set(git: &Git, path: &Path, key: &str, values: &[String]) -> Result<()> {
    let mut attempts = 0;
    loop {
        match git.set_config_file(path, key, values) {
            Ok(()) => return Ok(()),
            // Another process is writing the file; retry.
            Err(error) if error.cause() == Some(Cause::Locked) && attempts < 20 => {
                attempts += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_or_redirect_are_not_harmless() {
        for (key, value) in [
            ("remote.origin.url", "git@example.org:x/y.git"),
            ("remote.origin.url", "https://example.org/x/y.git"),
            ("branch.main.remote", "origin"),
            ("branch.main.remote", "."),
            ("branch.main.merge", "refs/heads/main"),
            ("user.name", "A"),
            ("submodule.a.b.url", "../b"),
            ("lfs.https://x.org/y.access", "basic"),
        ] {
            assert!(is_harmless(key, value), "{key}");
        }
        for (key, value) in [
            ("remote.origin.url", "ext::sh -c evil"),
            ("remote.origin.pushurl", "/tmp/evil"),
            ("remote.origin.url", "../evil"),
            ("remote.origin.url", "file:///tmp/evil"),
            ("branch.main.pushremote", "./evil"),
            ("remote.origin.uploadpack", "evil"),
            ("core.fsmonitor", "evil"),
            ("core.hookspath", "/x"),
            ("filter.x.clean", "evil"),
            ("alias.st", "!evil"),
            ("include.path", "/x"),
            ("includeif.gitdir:/.path", "/x"),
            ("submodule.x.update", "!evil"),
            ("credential.helper", "evil"),
            ("url.ext::evil.insteadof", "https://"),
            ("init.templatedir", "/x"),
            ("lfs.customtransfer.x.path", "evil"),
            ("extensions.worktreeconfig", "true"),
        ] {
            assert!(!is_harmless(key, value), "{key}");
        }
    }
}
