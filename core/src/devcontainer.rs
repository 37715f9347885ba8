//! What `.devcontainer/` says about the image that workers run in: `devcontainer.json`, and the Compose file that it names.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use crate::config::yaml::{self, Node, Value};

/// Where an image comes from. Paths are relative to the file that names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// An image of a registry or of this machine.
    Image(String),
    Build(Build),
    /// A service of a Compose file.
    Compose {
        file: String,
        service: String,
    },
}

/// How an image is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    pub context: String,
    pub dockerfile: Dockerfile,
    pub args: BTreeMap<String, String>,
    pub target: Option<String>,
}

/// Where the Dockerfile is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dockerfile {
    /// Relative to the file that names it.
    BesideFile(String),
    /// Relative to the build context.
    InContext(String),
}

/// Reads `devcontainer.json`, which may have comments and trailing commas. `variable` looks up variables of the user.
pub fn from_settings(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<ImageSource, String> {
    let settings: Json = serde_json::from_str(&without_comments(text)).map_err(|error| error.to_string())?;
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let files = &settings["dockerComposeFile"];
    if let Some(file) = text(files).or_else(|| text(&files[0])) {
        let service = text(&settings["service"]).unwrap_or_else(|| WORKER.to_owned());
        return Ok(ImageSource::Compose { file, service });
    }
    let build = &settings["build"];
    let dockerfile = text(&build["dockerfile"]).or_else(|| text(&settings["dockerFile"]));
    if let Some(dockerfile) = dockerfile {
        let context = text(&build["context"]).or_else(|| text(&settings["context"])).unwrap_or_else(|| ".".to_owned());
        let args = build["args"].as_object().into_iter().flatten();
        let args = args.filter_map(|(key, value)| Some((key.clone(), expand(value.as_str()?, &variable))));
        return Ok(ImageSource::Build(Build {
            context,
            dockerfile: Dockerfile::BesideFile(dockerfile),
            args: args.collect(),
            target: text(&build["target"]),
        }));
    }
    text(&settings["image"])
        .map(ImageSource::Image)
        .ok_or_else(|| "it names neither an image, nor a Dockerfile, nor a Compose file".to_owned())
}

/// The service of a Compose file that is a worker, unless `devcontainer.json` names another.
pub const WORKER: &str = "worker";

/// Reads how a service of a Compose file gets its image.
pub fn from_compose(
    text: &str,
    service: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<ImageSource, String> {
    let document = yaml::parse(text).map_err(|error| error.message)?;
    let services = document.as_deref().and_then(|document| get(document, "services"));
    let service =
        services.and_then(|services| get(services, service)).ok_or_else(|| format!("it has no service `{service}`"))?;
    let text = |node: &Node| scalar(node).map(|text| expand(text, &variable));
    let Some(build) = get(service, "build") else {
        let image = get(service, "image").and_then(text);
        return image.map(ImageSource::Image).ok_or_else(|| "its service has neither `build` nor `image`".to_owned());
    };
    let of = |key: &str| get(build, key).and_then(text);
    Ok(ImageSource::Build(Build {
        context: text(build).or_else(|| of("context")).unwrap_or_else(|| ".".to_owned()),
        dockerfile: Dockerfile::InContext(of("dockerfile").unwrap_or_else(|| "Dockerfile".to_owned())),
        args: get(build, "args").map(|args| arguments(args, &variable)).unwrap_or_default(),
        target: of("target"),
    }))
}

/// Reads build arguments, a mapping or a list of `KEY=VALUE`. One without a value is a variable of the user.
fn arguments(node: &Node, variable: &impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let pair = |key: &str, value: Option<&str>| match value {
        Some(value) => Some((key.to_owned(), expand(value, variable))),
        None => variable(key).map(|value| (key.to_owned(), value)),
    };
    match &node.value {
        Value::Map(entries) => entries.iter().filter_map(|(key, value)| pair(&key.text, scalar(value))).collect(),
        Value::List(items) => {
            let words = items.iter().filter_map(|item| scalar(item));
            words
                .filter_map(|word| match word.split_once('=') {
                    Some((key, value)) => pair(key, Some(value)),
                    None => pair(word, None),
                })
                .collect()
        }
        Value::Scalar { .. } => BTreeMap::new(),
    }
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|(name, _)| name.text == key).map(|(_, value): &(_, Rc<Node>)| &**value)
}

fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } if !node.is_null() => Some(text),
        _ => None,
    }
}

/// Replaces `${NAME}`, `${NAME:-default}` and `${localEnv:NAME:default}` by the user's variables.
fn expand(text: &str, variable: &impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        expanded.push_str(before);
        let inside = inside.strip_prefix("localEnv:").unwrap_or(inside);
        let (name, default) = inside.split_once([':', '-']).unwrap_or((inside, ""));
        let value = variable(name).filter(|value| !value.is_empty());
        expanded.push_str(&value.unwrap_or_else(|| default.trim_start_matches('-').to_owned()));
        rest = behind;
    }
    expanded + rest
}

/// Returns the JSON without its comments and without commas before a closing bracket.
fn without_comments(text: &str) -> String {
    let mut plain = String::new();
    let (mut rest, mut in_text) = (text, false);
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        match c {
            '"' => in_text = !in_text,
            '\\' if in_text => {
                let escaped = behind.chars().next().map_or(0, char::len_utf8);
                plain.push_str(&rest[..1 + escaped]);
                rest = &behind[escaped..];
                continue;
            }
            '/' if !in_text && behind.starts_with('/') => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]);
                continue;
            }
            '/' if !in_text && behind.starts_with('*') => {
                rest = behind[1..].split_once("*/").map_or("", |(_, behind)| behind);
                continue;
            }
            ']' | '}' if !in_text => {
                let end = plain.trim_end().len();
                if plain[..end].ends_with(',') {
                    plain.truncate(end - 1);
                }
            }
            _ => {}
        }
        plain.push(c);
        rest = behind;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Option<String> {
        (name == "TAG").then(|| "7".to_owned())
    }

    #[test]
    fn settings_name_an_image_a_dockerfile_or_a_service() {
        let image = from_settings("{ // mine\n \"image\": \"a//b\", /* x */ \"x\": [1,], }", user);
        assert_eq!(image, Ok(ImageSource::Image("a//b".to_owned())));
        let compose = from_settings(r#"{"dockerComposeFile": ["c.yaml"], "service": "dev"}"#, user);
        assert_eq!(compose, Ok(ImageSource::Compose { file: "c.yaml".to_owned(), service: "dev".to_owned() }));
        let build = from_settings(
            r#"{"build": {"dockerfile": "D", "context": "..", "target": "t", "args": {"A": "x${localEnv:TAG}"}}}"#,
            user,
        );
        let Ok(ImageSource::Build(build)) = build else { panic!("{build:?}") };
        assert_eq!((build.context.as_str(), build.target.as_deref()), ("..", Some("t")));
        assert_eq!(build.dockerfile, Dockerfile::BesideFile("D".to_owned()));
        assert_eq!(build.args["A"], "x7");
        assert!(from_settings("{}", user).is_err());
        assert!(from_settings("{", user).is_err());
    }

    #[test]
    fn a_service_is_built_or_has_an_image() {
        let compose = "services:\n  worker:\n    build:\n      context: ..\n      dockerfile: .devcontainer/Dockerfile\n      args: [TAG, 'BASE=${BASE:-debian:12}']\n";
        let Ok(ImageSource::Build(build)) = from_compose(compose, WORKER, user) else { panic!() };
        assert_eq!(build.dockerfile, Dockerfile::InContext(".devcontainer/Dockerfile".to_owned()));
        assert_eq!(build.args["BASE"], "debian:12");
        assert_eq!(build.args["TAG"], "7");
        let image = from_compose("services: { worker: { image: 'a:${TAG}' } }", WORKER, user);
        assert_eq!(image, Ok(ImageSource::Image("a:7".to_owned())));
        let short = from_compose("services: { worker: { build: .. } }", WORKER, user);
        assert!(matches!(short, Ok(ImageSource::Build(build)) if build.context == ".."));
        for bad in ["services: { other: { image: a } }", "services: { worker: {} }", "a: [", ""] {
            assert!(from_compose(bad, WORKER, user).is_err(), "{bad}");
        }
    }
}
