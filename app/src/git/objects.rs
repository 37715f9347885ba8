//! A git directory of ours over the repository's objects: no configuration, hooks, attributes or refs of the
//! repository's are seen through it, only what was pinned.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use mahabharatha_core::ids::Oid;

use super::config::{ATTRIBUTES_FILE, EXCLUDES_FILE, INFO_ATTRIBUTES, INFO_EXCLUDE};
use super::{Git, GitError, Pinned, Result};

impl Git {
    /// Writes the directory anew: whatever stands there is removed first. Call it when no agent is alive.
    pub fn objects(private_dir: &Path, common_dir: &Path, pinned: &Pinned) -> Result<Git> {
        let wrap = |error| GitError::file("cannot write", private_dir, error);
        match fs::symlink_metadata(private_dir) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(private_dir).map_err(wrap)?,
            Ok(_) => fs::remove_file(private_dir).map_err(wrap)?,
            Err(_) => {}
        }
        fs::create_dir_all(private_dir.join("refs")).map_err(wrap)?;
        fs::create_dir(private_dir.join("info")).map_err(wrap)?;
        let mut files: Vec<(PathBuf, String)> = vec![
            (private_dir.join("HEAD"), "ref: refs/heads/none\n".into()),
            (private_dir.join("config"), config_text(private_dir, pinned)),
        ];
        for (key, place) in [
            (EXCLUDES_FILE, "excludes"),
            (ATTRIBUTES_FILE, "attributes"),
            (INFO_EXCLUDE, "info/exclude"),
            (INFO_ATTRIBUTES, "info/attributes"),
        ] {
            if let Some(text) = pinned.get(key) {
                files.push((private_dir.join(place), text.to_owned()));
            }
        }
        for (path, text) in files {
            fs::write(path, text).map_err(wrap)?;
        }
        // Where history was cut off by a shallow clone it must not be looked for.
        let shallow = common_dir.join("shallow");
        if shallow.is_file() {
            fs::copy(&shallow, private_dir.join("shallow")).map_err(wrap)?;
        }
        Ok(Git { objects: Some(common_dir.join("objects")), ..Git::repository(private_dir) })
    }

    /// Puts HEAD of a git directory of ours at a commit; the repository's HEAD is never touched this way.
    pub fn detach_head(&self, commit: &Oid) -> Result<()> {
        assert!(self.objects.is_some(), "only a git directory of ours has a HEAD to be set freely");
        let head = self.git_dir.join("HEAD");
        fs::write(&head, format!("{commit}\n")).map_err(|error| GitError::file("cannot write", &head, error))
    }
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

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
}
