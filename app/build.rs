//! Tells the program its version: with commit and date in a release, where the sources are a git repository.
//!
//! Other builds name neither: a new commit would compile the program and all of its tests again. They start faster, because
//! tests start them thousands of times.

use std::path::Path;
use std::process::Command;

/// What a release is made of, from this package's directory.
const SOURCES: [&str; 8] =
    ["src", "build.rs", "../core", "../sys", "../engine", "../setup", "../docs", "../Cargo.lock"];

fn main() {
    let package = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        println!("cargo::rustc-env=BUILD_VERSION={package} (development build)");
        // At a fixed address nothing has to be relocated: that takes half of the time in which the program starts.
        if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
            println!("cargo::rustc-link-arg=-no-pie");
        }
        return;
    }
    // The log of HEAD changes with each commit and checkout; the sources decide whether the commit is all there is.
    let head = git(Path::new("."), &["rev-parse", "--git-path", "logs/HEAD"]);
    for path in SOURCES.into_iter().chain(head.as_deref().filter(|path| Path::new(path).exists())) {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rustc-env=BUILD_VERSION={}", version(&package, Path::new("..")));
}

/// Returns the version of a release, such as `0.1.0 (1a2b3c4d5 2026-01-26)`; `-dirty` if files differ from the commit.
pub fn version(package: &str, root: &Path) -> String {
    // A package that was unpacked inside another repository has nothing to do with that one.
    let is_ours = git(root, &["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.is_empty());
    // `--exclude` keeps tags out, so that only the commit remains.
    let commit = git(root, &["describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]);
    let date = git(root, &["log", "--max-count=1", "--format=%cd", "--date=format-local:%Y-%m-%d"]);
    match (commit, date) {
        (Some(commit), Some(date)) if is_ours => format!("{package} ({commit} {date})"),
        _ => package.to_owned(),
    }
}

fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(args).env("TZ", "UTC").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
