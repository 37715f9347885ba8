//! Reads the wish for a feature from a text, a file or a GitHub issue.

use std::path::{Path, PathBuf};

use mahabharatha_sys::error::{Error, Kind, Result};
use mahabharatha_sys::github::Gh;
use mahabharatha_sys::project::Project;
use mahabharatha_sys::store::projection;
use mahabharatha_sys::ui::Ui;
use serde::Deserialize;

use super::MAX_DOCUMENT_BYTES;
use super::documents::{read_document, text_of};

#[derive(Debug, Clone)]
pub enum Source {
    Text(String),
    /// `-` is the standard input.
    File(PathBuf),
    Issue(u64),
}

pub fn read_source(source: &Source, directory: &Path, project: &Project, ui: &Ui) -> Result<String> {
    let (text, name) = match source {
        Source::Text(text) => (text_of(text.clone().into_bytes(), "--describe")?, "--describe".to_owned()),
        Source::File(path) if path.as_os_str() == "-" => {
            let bytes = ui.input(MAX_DOCUMENT_BYTES).map_err(mahabharatha_sys::error::io("read", path))?;
            (text_of(bytes, "the standard input")?, "the standard input".to_owned())
        }
        Source::File(path) => {
            let path = directory.join(path);
            let missing = || Error::new(Kind::Usage, format!("no such file: {}", path.display()));
            if path.canonicalize().is_ok_and(|path| path.starts_with(project.home())) {
                // The file is a session's draft, which git must ignore.
                projection::make_home(&project.home(), &project.shared_dir())?;
            }
            (read_document(&path)?.ok_or_else(missing)?, path.display().to_string())
        }
        Source::Issue(number) => (read_issue(*number, project.root())?, format!("issue {number}")),
    };
    if text.trim().is_empty() {
        return Err(Error::new(Kind::Usage, format!("{name} is empty")).hint("Describe what the feature is for."));
    }
    Ok(text)
}

#[derive(Deserialize)]
struct Issue {
    title: String,
    body: Option<String>,
    url: Option<String>,
}

fn read_issue(number: u64, root: &Path) -> Result<String> {
    let gh = Gh::find(root)
        .map_err(|error| error.hint("Install it, or pass the text with --describe TEXT or --from FILE."))?;
    let number = number.to_string();
    let failed = |what: &str| format!("cannot read issue {number}: {what}");
    let answer = gh.call(&["issue", "view", &number, "--json", "title,body,url"], None).map_err(|error| {
        let told = Error::new(error.kind(), failed(error.message()));
        let told = error.details().iter().fold(told, Error::detail);
        error.what_to_do().into_iter().fold(told, Error::hint)
    })?;
    let issue: Issue =
        serde_json::from_str(&answer).map_err(|error| Error::new(Kind::Failed, failed(&error.to_string())))?;
    let (body, url) = (issue.body.unwrap_or_default(), issue.url.unwrap_or_default());
    text_of(format!("{}\n\n{body}\n\n{url}\n", issue.title).into_bytes(), &format!("issue {number}"))
}
