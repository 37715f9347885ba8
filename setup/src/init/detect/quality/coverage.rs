//! Finds the coverage threshold that the project sets for its tests.

use serde::Serialize;

use crate::init::detect::manifest::{Content, Manifest, at};
use crate::init::detect::markup;
use crate::init::detect::tree::{Tree, join};

#[derive(Debug, PartialEq, Serialize)]
pub struct Coverage {
    pub percent: f64,
    pub from: String,
    /// The directory whose tests it applies to; empty for the root.
    pub dir: String,
}

/// Returns the threshold nearest to the root.
pub fn found(tree: &Tree, manifests: &[Manifest]) -> Option<Coverage> {
    manifests.iter().find_map(|manifest| {
        let (percent, from) = of(tree, manifest)?;
        let is_valid = (0.0..=100.0).contains(&percent) && percent > 0.0;
        is_valid.then(|| Coverage { percent, from, dir: manifest.dir.clone() })
    })
}

fn of(tree: &Tree, manifest: &Manifest) -> Option<(f64, String)> {
    let here = |percent: f64| (percent, manifest.path.clone());
    let beside = |name: &str, words: &[&str]| {
        let path = join(&manifest.dir, name);
        let text = tree.read(&path)?;
        words.iter().find_map(|word| number_after(&text, word)).map(|percent| (percent, path))
    };
    match &manifest.content {
        Content::Python(toml) => {
            let configured = at(toml, &["tool", "coverage", "report", "fail_under"]).and_then(number);
            let options = at(toml, &["tool", "pytest", "ini_options", "addopts"]).map(words);
            let by_option = || options.and_then(|options| number_after(&options, "--cov-fail-under="));
            configured.or_else(by_option).map(here).or_else(|| python_files(&beside))
        }
        Content::Requirements(_) | Content::Pipfile(_) => python_files(&beside),
        Content::Npm(json) => {
            let threshold = &json["jest"]["coverageThreshold"]["global"];
            let lines =
                threshold["lines"].as_f64().or(threshold["statements"].as_f64()).or(threshold["branches"].as_f64());
            let checked = ["nyc", "c8"].iter().find_map(|tool| json[*tool]["lines"].as_f64());
            let files = ["jest.config.js", "jest.config.ts", "jest.config.mjs", "jest.config.cjs"];
            let runners = ["vitest.config.ts", "vitest.config.js", "vitest.config.mts", "vite.config.ts"];
            let in_file = |name: &str| {
                let text = tree.read(&join(&manifest.dir, name))?;
                let (_, after) = text.split_once("coverageThreshold").or_else(|| text.split_once("thresholds"))?;
                number_after(after, "lines").or(number_after(after, "statements"))
            };
            let by_file =
                || files.iter().chain(&runners).find_map(|name| Some((in_file(name)?, join(&manifest.dir, name))));
            lines.or(checked).map(here).or_else(by_file)
        }
        Content::Cargo(_) => beside("tarpaulin.toml", &["fail-under"]),
        Content::Maven(text) if text.contains("jacoco-maven-plugin") => {
            let minimum = markup::text_of(text, "minimum")?.parse::<f64>().ok()?;
            Some(here(if minimum <= 1.0 { minimum * 100.0 } else { minimum }))
        }
        Content::Go(_) => beside(".testcoverage.yml", &["total"]),
        Content::DotNet(text) => markup::text_of(text, "Threshold")?.parse().ok().map(here),
        _ => None,
    }
}

fn python_files(beside: &impl Fn(&str, &[&str]) -> Option<(f64, String)>) -> Option<(f64, String)> {
    let words = ["fail_under", "--cov-fail-under="];
    [".coveragerc", "setup.cfg", "tox.ini", "pytest.ini"].iter().find_map(|name| beside(name, &words))
}

/// Joins a string, or a list of strings.
fn words(value: &toml::Value) -> String {
    let list = value.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
    value.as_str().into_iter().chain(list).collect::<Vec<_>>().join(" ")
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// Returns the number after the word, if only spaces, quotes, `:` or `=` are in between.
fn number_after(text: &str, word: &str) -> Option<f64> {
    text.match_indices(word).find_map(|(at, _)| {
        let rest = text[at + word.len()..].trim_start_matches([' ', '\t', ':', '=', '"', '\'']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.').parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_after_any_separator() {
        assert_eq!(number_after("[report]\nfail_under = 85\n", "fail_under"), Some(85.0));
        assert_eq!(number_after("thresholds: { lines: 92.5, }", "lines"), Some(92.5));
        assert_eq!(number_after("# fail_under is\nfail_under=90.", "fail_under"), Some(90.0));
        assert_eq!(number_after("lines: none", "lines"), None);
    }
}
