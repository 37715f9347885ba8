//! The files of a new project: a small working program, its tests and the settings of its tools.

mod go;
mod python;
mod rust;
mod typescript;

use mahabharatha_core::charter::{Framework, Language, Names};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative to the project's root, separated by `/`.
    pub path: String,
    pub text: String,
}

/// A path and the file's text, both with `{{placeholders}}`.
type Template = (&'static str, &'static str);
/// A placeholder and its value for one framework; the value may contain placeholders too.
type Part = (&'static str, &'static str);

struct Scaffold {
    templates: Vec<Template>,
    parts: Vec<Part>,
    /// Command to run first, so that the project's checks can run.
    set_up: &'static str,
}

pub fn files(framework: Framework, names: &Names) -> Vec<File> {
    let scaffold = scaffold(framework);
    let fill = |text: &str| fill(text, &scaffold.parts, names);
    scaffold.templates.iter().map(|(path, text)| File { path: fill(path), text: fill(text) }).collect()
}

/// Returns the command to run first, so that the project's checks can run.
pub fn set_up(framework: Framework) -> &'static str {
    scaffold(framework).set_up
}

fn scaffold(framework: Framework) -> Scaffold {
    match framework.language() {
        Language::Python => python::scaffold(framework),
        Language::TypeScript => typescript::scaffold(framework),
        Language::Go => go::scaffold(framework),
        Language::Rust => rust::scaffold(framework),
    }
}

/// Fills the placeholders in one pass, so that the user's own text is never taken for a placeholder.
fn fill(text: &str, parts: &[Part], names: &Names) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once("{{") {
        filled.push_str(before);
        let known = opened.split_once("}}").and_then(|(key, after)| Some((value(key, parts, names)?, after)));
        match known {
            Some((value, after)) => {
                filled.push_str(&value);
                rest = after;
            }
            None => {
                filled.push_str("{{");
                rest = opened;
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn value(key: &str, parts: &[Part], names: &Names) -> Option<String> {
    match key {
        "title" => Some(names.title().to_owned()),
        "slug" => Some(names.slug().to_owned()),
        "module" => Some(names.module()),
        "description_quoted" => Some(names.quoted_description()),
        "description_markdown" => Some(names.markdown_description()),
        _ => {
            let (_, part) = parts.iter().find(|(name, _)| *name == key)?;
            Some(fill(part.trim_end_matches('\n'), parts, names))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names() -> Names {
        Names::new("My Shop", r#"Sells "{{slug}}" \ <b>x</b>"#).unwrap()
    }

    #[test]
    fn every_placeholder_is_filled_and_every_path_is_unique() {
        for framework in Framework::ALL {
            let names = Names::new("My Shop", "Sells things").unwrap();
            let mut paths = BTreeSet::new();
            for File { path, text } in files(framework, &names) {
                assert!(!text.contains("{{") && !path.contains("{{"), "{path} of {framework:?}:\n{text}");
                assert!(text.is_empty() || text.ends_with('\n') && !text.ends_with("\n\n"), "{path} of {framework:?}");
                assert!(!text.contains("\n\n\n\n") && !text.lines().any(|line| line.ends_with(' ')), "{path}: {text}");
                assert!(paths.insert(path.clone()), "{path} twice");
            }
            for path in ["README.md", ".gitignore"] {
                assert!(paths.contains(path), "{framework:?} has no {path}");
            }
        }
    }

    #[test]
    fn user_text_is_never_a_placeholder() {
        for framework in Framework::ALL {
            let files = files(framework, &names());
            let holding = |text: &str| files.iter().any(|file| file.text.contains(text));
            // The Go web scaffolds have the description only in their readme.
            let only_text = matches!(framework, Framework::Gin | Framework::Echo);
            assert!(only_text || holding(r#""Sells \"{{slug}}\" \\ <b>x</b>""#), "{framework:?}: as a literal");
            assert!(holding(r#"Sells "{{slug}}" \\ \<b>x\</b>"#), "{framework:?}: as text");
        }
    }

    #[test]
    fn unknown_placeholders_are_kept() {
        assert_eq!(fill("{{slug}} {{ {{what}} {{slug", &[], &names()), "my-shop {{ {{what}} {{slug");
        assert_eq!(fill("{{a}}", &[("a", "b {{slug}}\n")], &names()), "b my-shop");
    }

    #[test]
    fn sections_of_a_manifest_are_separated_by_blank_lines() {
        for file in Framework::ALL.into_iter().flat_map(|framework| files(framework, &names())) {
            let lines: Vec<&str> = file.text.lines().collect();
            let crowded = lines.windows(2).find(|pair| pair[1].starts_with('[') && !pair[0].is_empty());
            assert!(!file.path.ends_with(".toml") || crowded.is_none(), "{}: {crowded:?}", file.path);
            assert!(!file.text.contains("\n\n\n") || file.path.ends_with(".py"), "{}", file.path);
        }
    }

    #[test]
    fn manifests_are_well_formed() {
        for framework in Framework::ALL {
            for File { path, text } in files(framework, &names()) {
                if path.ends_with(".json") {
                    serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
                }
            }
        }
    }
}
