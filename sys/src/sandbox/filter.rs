//! The hidden command `confine-filter`, which git runs as a filter: reads a file on standard input, writes it to standard
//! output, and works in a worktree that it may only read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mahabharatha_core::config::Isolation;

use super::{Sandbox, Workplace, places};
use crate::error::{Error, Kind, Result};
use crate::proc::{Cmd, Exit, base_env, expand_home, own_program};

/// Name of the hidden command.
pub const FILTER_COMMAND: &str = "confine-filter";
/// Time limit of a filter. One process may serve all files of a checkout.
const FILTER_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the program and the arguments that run a filter in such a sandbox, in which it may read these paths too.
pub fn filter_launcher(isolation: Isolation, read: &[PathBuf]) -> io::Result<Vec<String>> {
    let own = own_program()?;
    let mut words = vec![own.to_string_lossy().into_owned(), FILTER_COMMAND.to_owned(), isolation.to_string()];
    words.extend(read.iter().map(|path| path.to_string_lossy().into_owned()));
    Ok(words)
}

/// Runs the filter as `ISOLATION [READ…] -- COMMAND [FILE]` says.
pub fn run_filter(args: &[OsString]) -> Result<()> {
    let usage = || Error::new(Kind::Usage, format!("{FILTER_COMMAND} is called by git"));
    let [isolation, rest @ ..] = args else { return Err(usage()) };
    let Some(separator) = rest.iter().position(|word| word == "--") else { return Err(usage()) };
    let (read, [_, command, file @ ..]) = rest.split_at(separator) else { return Err(usage()) };
    let known = [Isolation::Bwrap, Isolation::Landlock, Isolation::SandboxExec];
    let isolation = known.into_iter().find(|known| isolation == OsStr::new(&known.to_string())).ok_or_else(usage)?;

    let cannot = || Error::caused("cannot set up the sandbox of a filter");
    let scratch = tempfile::tempdir().map_err(cannot())?;
    let worktree = std::env::current_dir().and_then(|dir| dir.canonicalize()).map_err(cannot())?;
    let place = Workplace { worktree: &worktree, appears_at: &worktree, writable: false };
    let mut sandbox = Sandbox::create(&scratch.path().join("sandbox"), isolation, place)?;
    sandbox.without_network();
    for path in read.iter().map(Path::new).filter(|path| path.exists()) {
        sandbox.read(path);
        sandbox.link_below_home(path)?;
    }
    // In the user's checkout they hold tokens and the state of runs.
    for private in [".git", ".mahabharatha"].map(|name| worktree.join(name)).iter().filter(|path| path.is_dir()) {
        sandbox.hide(private);
    }
    let program = command.to_str().and_then(first_word).map(|word| expand_home(&word));
    if let Some(program) = program.filter(|program| program.is_absolute() && program.is_file()) {
        // A virtual environment of Python has its packages beside the directory of its programs.
        let is_private = |dir: &Path| {
            sandbox.home.starts_with(dir) || worktree.starts_with(dir) || dir.join(".git").symlink_metadata().is_ok()
        };
        let environment = program.parent().and_then(places::virtual_environment);
        environment.filter(|dir| !is_private(dir)).into_iter().for_each(|dir| sandbox.read(dir));
        sandbox.show_program(&program, &worktree)?;
    }
    let cmd = Cmd::new("/bin/sh").arg("-c").arg(command).arg("sh").args(file).envs(base_env(&[]));
    let ended = sandbox.confine(cmd.inherited().timeout(FILTER_TIMEOUT))?.run().map_err(cannot())?;
    if let Some(why) = sandbox.failure() {
        return Err(Error::new(Kind::Failed, why));
    }
    if ended.status != Exit::Code(0) {
        let what = format!("git's filter `{}` failed with {}", command.display(), ended.status);
        return Err(Error::new(Kind::Failed, what).hint(
            "If it needs files of your home, add them to `sandbox.read` in .mahabharatha/config.yaml; it has no network.",
        ));
    }
    Ok(())
}

/// Returns the first word of a line as a shell reads it; `None` if that depends on variables or on other commands.
fn first_word(line: &str) -> Option<String> {
    let (mut word, mut quote) = (String::new(), None);
    let mut characters = line.trim_start().chars();
    while let Some(c) = characters.next() {
        match quote {
            Some(end) if c == end => quote = None,
            Some('\'') => word.push(c),
            _ if c == '\\' => word.push(characters.next()?),
            _ if matches!(c, '$' | '`') => return None,
            Some(_) => word.push(c),
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if c.is_whitespace() || ";|&<>()".contains(c) => break,
            None => word.push(c),
        }
    }
    (quote.is_none() && !word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_command_is_its_first_word() {
        for (command, program) in [
            (r#""/home/u/venv/bin/strip" --keep"#, Some("/home/u/venv/bin/strip")),
            ("  /bin/a\tb", Some("/bin/a")),
            ("'/a b/c'd e", Some("/a b/cd")),
            (r"/a\ b c", Some("/a b")),
            ("/bin/a|b", Some("/bin/a")),
            ("'it''s' $x", Some("its")),
            ("'$x' y", Some("$x")),
            ("\"$HOME/a\"", None),
            ("`which a`", None),
            ("'a", None),
            ("", None),
        ] {
            assert_eq!(first_word(command).as_deref(), program, "{command}");
        }
    }
}
