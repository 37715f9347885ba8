//! The pages as a book: complete, with links that lead somewhere, and with the reference that the program prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{entries, read, root};

fn documents() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for dir in ["", "docs", "docs/reference"] {
        let files = entries(&root().join(dir));
        for path in files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
            let text = read(&path);
            found.insert(path, text);
        }
    }
    found
}

/// As forges make it from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches(['#', ' ']).to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
}

/// The places that a page links to, without those on other hosts.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() >= 4, "{:?}", documents.keys());
    for (document, text) in &documents {
        let name = document.display();
        for target in links(text) {
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let path = path.canonicalize().unwrap_or_else(|_| panic!("{name}: {target} is not there"));
            if !place.is_empty() {
                let there = read(&path).lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == place);
                assert!(there, "{name}: there is no heading for {target}");
            }
        }
    }
}

/// The pages that the book consists of, as `docs/SUMMARY.md` lists them.
fn pages() -> BTreeSet<PathBuf> {
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = links(&summary).map(|page| root().join("docs").join(page)).collect();
    let pages: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(pages.len(), listed.len(), "docs/SUMMARY.md lists a page twice");
    pages
}

#[test]
fn the_book_has_every_page() {
    let of_the_book = |path: &PathBuf| path.starts_with(root().join("docs")) && !path.ends_with("SUMMARY.md");
    assert_eq!(pages(), documents().into_keys().filter(of_the_book).collect());
}

/// A link out of `docs/` works in the repository, but not in the book.
#[test]
fn links_of_the_book_stay_in_it() {
    let pages = pages();
    for page in &pages {
        for target in links(&read(page)).filter(|target| !target.starts_with('#')) {
            let file = target.split('#').next().unwrap_or_default();
            let path = page.with_file_name(file).canonicalize().unwrap_or_default();
            let is_picture = path.starts_with(root().join("docs/pictures"));
            assert!(is_picture || pages.contains(&path), "{}: {target} is not in the book", page.display());
        }
    }
}

#[test]
fn the_reference_is_what_the_program_prints() {
    let dir = tempfile::tempdir().unwrap();
    let program =
        Command::new(env!("CARGO_BIN_EXE_mahabharatha")).args(["man", "--reference"]).arg(dir.path()).output().unwrap();
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let names = |dir: &Path| -> BTreeSet<String> {
        entries(dir).iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    };
    let kept = root().join("docs/reference");
    let is_same = |name: &String| fs::read(dir.path().join(name)).ok() == fs::read(kept.join(name)).ok();
    let printed = names(dir.path());
    let differ: Vec<&String> = printed.iter().filter(|name| !is_same(name)).collect();
    assert!(
        differ.is_empty() && printed == names(&kept),
        "{differ:?} in docs/reference differ from what the program prints; to rewrite them: \
         cargo run -- man --reference docs/reference"
    );
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines < 200, "README.md has {lines} lines; details belong in docs/");
}
