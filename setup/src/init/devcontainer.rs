//! Writes `.devcontainer/`: the image that workers run in, with the project's toolchains and the agent.

mod dockerfile;

use std::fs;
use std::path::Path;

use mahabharatha_engine::claude::json_text::JsonText;
use mahabharatha_engine::claude::json_text::Step::Key;
use mahabharatha_sys::bounded;
use serde_json::{Map, Value, json};

use super::detect::Survey;
use super::place::NewFile;
use super::record::Record;

pub const SETTINGS: &str = ".devcontainer/devcontainer.json";
const DOCKERFILE: &str = ".devcontainer/Dockerfile";
const COMPOSE: &str = ".devcontainer/docker-compose.yaml";
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// Key of the variables in `devcontainer.json`.
const VARIABLES: &str = "containerEnv";
/// Variables that a worker reads from its environment.
const ENVIRONMENT: [&str; 4] =
    ["MAHABHARATHA_WORKER_ID", "MAHABHARATHA_FEATURE", "MAHABHARATHA_TASK_ID", "CLAUDE_CODE_TASK_LIST_ID"];

const COMPOSE_TEXT: &str = "\
# One worker, with the limits of a small machine. Written by `mahabharatha init`.
services:
  worker:
    build:
      context: ..
      dockerfile: .devcontainer/Dockerfile
      args:
        BASE: ${MAHABHARATHA_BASE_IMAGE:-}
    init: true
    command: sleep infinity
    working_dir: /workspace
    volumes:
      - ..:/workspace:cached
      - ../.gsd/specs:/specs:ro
      - ../.claude/rules:/rules:ro
    environment:
      - MAHABHARATHA_WORKER_ID
      - MAHABHARATHA_FEATURE
      - MAHABHARATHA_TASK_ID
      - CLAUDE_CODE_TASK_LIST_ID
    networks:
      - mahabharatha-net
    deploy:
      resources:
        limits:
          cpus: '2'
          memory: 4G

networks:
  mahabharatha-net:
    driver: bridge
";

/// Returns the files and any warnings. A user's own `devcontainer.json` is merged with ours, and only missing files are
/// added.
pub fn files(root: &Path, survey: &Survey, record: &Record) -> (Vec<NewFile>, Vec<String>) {
    let dockerfile = NewFile::ours(DOCKERFILE, dockerfile::text(survey));
    let path = root.join(SETTINGS);
    let existing = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() => bounded::read(&path, MAX_SETTINGS_BYTES).unwrap_or_default(),
        Ok(_) => Vec::new(),
        Err(_) => return (all(dockerfile), Vec::new()),
    };
    if record.wrote(SETTINGS, &existing) {
        return (all(dockerfile), Vec::new());
    }
    let mut files: Vec<NewFile> = Vec::new();
    if !root.join(DOCKERFILE).exists() || record.knows(DOCKERFILE) {
        files.push(dockerfile);
    }
    match merged(&existing) {
        Some(text) => {
            files.push(NewFile::merged(SETTINGS, text));
            (files, Vec::new())
        }
        None => {
            let why = "was not changed, because it has comments or is not valid JSON";
            let add = format!("add to its containerEnv: {}", ENVIRONMENT.join(", "));
            (files, vec![format!("{SETTINGS} {why}; {add}")])
        }
    }
}

fn all(dockerfile: NewFile) -> Vec<NewFile> {
    vec![NewFile::ours(SETTINGS, settings()), dockerfile, NewFile::ours(COMPOSE, COMPOSE_TEXT)]
}

fn settings() -> String {
    let settings = json!({
        "name": "mahabharatha-worker",
        "dockerComposeFile": "docker-compose.yaml",
        "service": "worker",
        "workspaceFolder": "/workspace",
        "remoteUser": "worker",
        "containerEnv": environment(),
        "hostRequirements": { "cpus": 2, "memory": "4gb" },
    });
    shown(&settings)
}

fn environment() -> Map<String, Value> {
    ENVIRONMENT.iter().map(|name| ((*name).to_owned(), json!(format!("${{localEnv:{name}}}")))).collect()
}

/// Returns the user's settings with the missing variables added, or None if they are not a JSON object.
fn merged(existing: &[u8]) -> Option<String> {
    let mut text = JsonText::parse(std::str::from_utf8(existing).ok().filter(|text| !text.trim().is_empty())?).ok()?;
    if !text.value().is_object() {
        return None;
    }
    if text.value().get(VARIABLES).is_none() {
        text.add(&[], Some(VARIABLES), &json!({}));
    }
    let known = text.value()[VARIABLES].as_object()?.clone();
    for (name, value) in environment().iter().filter(|(name, _)| !known.contains_key(*name)) {
        text.add(&[Key(VARIABLES)], Some(name), value);
    }
    Some(text.text().to_owned())
}

/// Returns the user's settings without our variables, or None if they contain none of them.
pub fn without_ours(text: &str) -> Option<String> {
    let mut edited = JsonText::parse(text).ok()?;
    for (name, value) in environment() {
        if edited.value()[VARIABLES][&name] == value {
            edited.remove(&[Key(VARIABLES), Key(&name)]);
        }
    }
    (edited.text() != text).then(|| {
        edited.remove_if_empty(&[Key(VARIABLES)]);
        edited.text().to_owned()
    })
}

fn shown(settings: &Value) -> String {
    serde_json::to_string_pretty(settings).expect("JSON can be written") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::detect;

    fn made(files: &[(&str, &str)]) -> (Vec<NewFile>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        super::files(dir.path(), &detect::survey(dir.path(), |_| false).unwrap(), &Record::default())
    }

    #[test]
    fn user_settings_are_merged() {
        let theirs = r#"{ "image": "mine", "containerEnv": { "MAHABHARATHA_FEATURE": "x" } }"#;
        let (files, warnings) = made(&[(SETTINGS, theirs), (DOCKERFILE, "FROM mine")]);
        assert!(warnings.is_empty());
        let [settings] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!(without_ours(&settings.text).unwrap(), theirs, "removal gives the old text back");
        assert_eq!(without_ours(theirs), None);
        let settings: Value = serde_json::from_str(&settings.text).unwrap();
        assert_eq!(settings["image"], "mine");
        assert_eq!(settings["containerEnv"]["MAHABHARATHA_FEATURE"], "x");
        assert_eq!(settings["containerEnv"]["MAHABHARATHA_TASK_ID"], "${localEnv:MAHABHARATHA_TASK_ID}");
        let again = merged(shown(&settings).as_bytes()).unwrap();
        assert_eq!(again, shown(&settings), "twice changes nothing");
    }

    #[test]
    fn comments_are_not_lost() {
        for theirs in ["{ // mine\n}", "{ \"containerEnv\": 1 }", "[]", ""] {
            let (files, warnings) = made(&[(SETTINGS, theirs)]);
            assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [DOCKERFILE], "{theirs}");
            assert!(warnings[0].contains("containerEnv"), "{warnings:?}");
        }
    }

    #[test]
    fn the_settings_have_the_fields_of_a_compose_container() {
        let settings: Value = serde_json::from_str(&settings()).unwrap();
        // The fields and types that https://containers.dev defines for Compose containers.
        for (field, fits) in [
            ("name", settings["name"].is_string()),
            ("dockerComposeFile", settings["dockerComposeFile"].is_string()),
            ("service", settings["service"].is_string()),
            ("workspaceFolder", settings["workspaceFolder"].is_string()),
            ("remoteUser", settings["remoteUser"].is_string()),
            ("containerEnv", settings["containerEnv"].as_object().unwrap().values().all(Value::is_string)),
            ("hostRequirements", settings["hostRequirements"]["cpus"].is_u64()),
        ] {
            assert!(fits, "{field}");
        }
        assert_eq!(settings.as_object().unwrap().len(), 7, "and no other");
        assert!(ENVIRONMENT.iter().all(|name| COMPOSE_TEXT.contains(&format!("      - {name}\n"))));
    }
}
