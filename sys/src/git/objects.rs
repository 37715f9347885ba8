//! Private git directories that share the repository's objects. Git calls that read files of a worktree use them, so
//! that the repository's configuration, hooks, attributes and refs have no effect, only the pinned settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use mahabharatha_core::ids::Oid;

use super::config::{ATTRIBUTES_FILE, EXCLUDES_FILE, INFO_ATTRIBUTES, INFO_EXCLUDE};
use super::{Git, GitError, Pinned, Result};
use crate::bounded::{self, LARGE_FILE_BYTES, SMALL_FILE_BYTES};

impl Git {
    /// Creates the private git directory, replacing whatever is there if it differs. Call it only while no agent runs.
    pub fn objects(private_dir: &Path, common_dir: &Path, pinned: &Pinned) -> Result<Git> {
        let files = files(private_dir, common_dir, pinned)?;
        if !is_up_to_date(private_dir, &files) {
            write(private_dir, &files).map_err(|error| GitError::file("cannot write", private_dir, error))?;
        }
        Ok(Git { objects: Some(common_dir.join("objects")), ..Git::repository(private_dir) })
    }

    /// Sets HEAD of a private git directory to a commit. Must never be used on the repository itself.
    pub fn detach_head(&self, commit: &Oid) -> Result<()> {
        assert!(self.objects.is_some(), "only the HEAD of a private git directory may be set");
        let (head, text) = (self.git_dir.join("HEAD"), format!("{commit}\n"));
        if bounded::read(&head, SMALL_FILE_BYTES).is_ok_and(|bytes| bytes == text.as_bytes()) {
            return Ok(());
        }
        fs::write(&head, text).map_err(|error| GitError::file("cannot write", &head, error))
    }
}

const DIRECTORIES: [&str; 2] = ["info", "refs"];

/// Returns the files of the private directory by their path in it, except HEAD, which `detach_head` sets.
fn files(private_dir: &Path, common_dir: &Path, pinned: &Pinned) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let mut files = BTreeMap::from([("config", config_text(private_dir, pinned).into_bytes())]);
    for (key, place) in [
        (EXCLUDES_FILE, "excludes"),
        (ATTRIBUTES_FILE, "attributes"),
        (INFO_EXCLUDE, "info/exclude"),
        (INFO_ATTRIBUTES, "info/attributes"),
    ] {
        files.extend(pinned.get(key).map(|text| (place, text.as_bytes().to_vec())));
    }
    // Git must know where a shallow clone cuts the history off, or it looks for the missing commits.
    let shallow = common_dir.join("shallow");
    if shallow.is_file() {
        let bytes = bounded::read(&shallow, LARGE_FILE_BYTES)
            .map_err(|error| GitError::file("cannot read", &shallow, error))?;
        files.insert("shallow", bytes);
    }
    Ok(files)
}

/// Tells whether the directory holds exactly these files: comparing is cheaper than writing.
fn is_up_to_date(dir: &Path, files: &BTreeMap<&str, Vec<u8>>) -> bool {
    let names = |below: &Path| -> Option<BTreeSet<PathBuf>> {
        let entries = fs::read_dir(dir.join(below)).ok()?;
        entries.map(|entry| Some(below.join(entry.ok()?.file_name()))).collect()
    };
    let is = |place: &str, has_type: fn(&fs::Metadata) -> bool| {
        fs::symlink_metadata(dir.join(place)).is_ok_and(|found| has_type(&found))
    };
    let found: Option<Vec<BTreeSet<PathBuf>>> =
        ["", "info", "refs"].map(|below| names(Path::new(below))).into_iter().collect();
    let wanted: BTreeSet<PathBuf> =
        files.keys().copied().chain(DIRECTORIES).chain(["HEAD"]).map(PathBuf::from).collect();
    found.is_some_and(|found| found.into_iter().flatten().collect::<BTreeSet<_>>() == wanted)
        && DIRECTORIES.iter().all(|place| is(place, fs::Metadata::is_dir))
        && is("HEAD", fs::Metadata::is_file)
        && files.iter().all(|(place, bytes)| {
            let read = || bounded::read(&dir.join(place), bytes.len() as u64);
            is(place, fs::Metadata::is_file) && read().is_ok_and(|found| found == *bytes)
        })
}

fn write(dir: &Path, files: &BTreeMap<&str, Vec<u8>>) -> io::Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(dir)?,
        Ok(_) => fs::remove_file(dir)?,
        Err(_) => {}
    }
    let mut make = fs::DirBuilder::new();
    make.recursive(true).mode(0o700);
    for place in DIRECTORIES {
        make.create(dir.join(place))?;
    }
    let put = |place: &str, bytes: &[u8]| {
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(dir.join(place))?;
        file.write_all(bytes)
    };
    put("HEAD", b"ref: refs/heads/none\n")?;
    files.iter().try_for_each(|(place, bytes)| put(place, bytes))
}

fn config_text(private_dir: &Path, pinned: &Pinned) -> String {
    let mut settings: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in &pinned.0 {
        if !key.starts_with("mahabharatha.") {
            settings.insert(key, value);
        }
    }
    let excludes = private_dir.join("excludes").to_string_lossy().into_owned();
    let attributes = private_dir.join("attributes").to_string_lossy().into_owned();
    settings.insert("core.excludesfile", &excludes);
    settings.insert("core.attributesfile", &attributes);
    settings.insert("core.bare", "false");
    settings.insert("core.repositoryformatversion", "1");
    let mut text = String::new();
    for (key, value) in settings {
        let Some((section, rest)) = key.split_once('.') else { continue };
        match rest.rsplit_once('.') {
            Some((subsection, name)) => {
                let _ = writeln!(text, "[{section} \"{}\"]\n\t{name} = \"{}\"", escaped(subsection), escaped(value));
            }
            None => {
                let _ = writeln!(text, "[{section}]\n\t{rest} = \"{}\"", escaped(value));
            }
        }
    }
    text
}

pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
}
