//! Recommends a language and a framework from the words in the answers.

use super::stack::{Framework, Kind, Language};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    pub framework: Framework,
    pub reasons: Vec<String>,
}

/// For each language: why it is recommended, and the words that suggest it.
const SIGNALS: [(Language, &str, &str); 4] = [
    (
        Language::Python,
        "Python has the best libraries for data and models",
        "analysis analytics csv data etl forecast forecasts jupyter llm ml model models numpy pandas pipeline \
         pytorch science scientific scraper scraping statistics",
    ),
    (
        Language::TypeScript,
        "one language for the browser and the server",
        "browser cloudflare edge frontend javascript lambda netlify nextjs node nodejs npm react serverless \
         svelte vercel vue website websocket websockets",
    ),
    (
        Language::Go,
        "one small static binary that handles many connections at once",
        "cloud cluster concurrent connections devops distributed docker gateway grpc infrastructure kubernetes \
         microservice microservices network proxy terraform",
    ),
    (
        Language::Rust,
        "control over speed and memory, without a garbage collector",
        "compiler embedded firmware interpreter latency memory microsecond microseconds parser throughput wasm \
         webassembly",
    ),
];
/// The word that names each language itself, in the same order. Not "go", which is a common English word.
const NAMED: [&str; 4] = ["python", "typescript", "golang", "rust"];
const COMMAND_LINE: &str = "cli command commandline console script scripts shell terminal";
const EDGE: &str = "cloudflare edge lambda netlify serverless vercel";

/// Weight of naming a language, which outweighs all hints.
const NAMED_WEIGHT: usize = 100;

/// Recommends a framework, in `language` if the user has already chosen one.
pub fn recommend<'a>(texts: impl Iterator<Item = &'a str>, language: Option<Language>) -> Recommendation {
    let text = texts.collect::<Vec<_>>().join("\n").to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let first = |known: &str| words.iter().copied().find(|word| is_in(known, word));

    if let Some(named) = named_framework(&text, language) {
        let reasons = vec![format!("the answers name {}", named.title())];
        return Recommendation { framework: named, reasons };
    }
    let mut reasons = Vec::new();
    let language = language.unwrap_or_else(|| {
        let (language, reason) = best_language(&words);
        reasons.push(reason);
        language
    });
    let kind = if first(COMMAND_LINE).is_some() { Kind::CommandLine } else { Kind::Web };
    reasons.push(match first(COMMAND_LINE) {
        Some(word) => format!("\"{word}\" in the answers suggests a command line"),
        None => "an HTTP service can be used from anywhere".to_owned(),
    });
    let framework = match first(EDGE) {
        Some(word) if language == Language::TypeScript && kind == Kind::Web => {
            reasons.push(format!("\"{word}\" in the answers suggests {}, which runs there", Framework::Hono.title()));
            Framework::Hono
        }
        _ => language.framework_for(kind),
    };
    Recommendation { framework, reasons }
}

/// Returns the framework that the text names. Only looks for names that are not common words.
fn named_framework(text: &str, language: Option<Language>) -> Option<Framework> {
    use Framework::{ActixWeb, Axum, FastApi, Fastify, Flask, Hono};
    let by_name = [FastApi, Flask, Fastify, Hono, Axum].into_iter().find(|framework| has_word(text, framework.word()));
    let named = by_name.or_else(|| has_word(text, "actix").then_some(ActixWeb))?;
    language.is_none_or(|language| language == named.language()).then_some(named)
}

fn is_in(known: &str, word: &str) -> bool {
    known.split_whitespace().any(|known| known == word)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|found| found == word)
}

fn best_language(words: &[&str]) -> (Language, String) {
    let mut best: Option<(usize, Language, String)> = None;
    for ((language, why, hints), name) in SIGNALS.into_iter().zip(NAMED) {
        let named = words.contains(&name);
        let mut found: Vec<&str> = words.iter().copied().filter(|word| is_in(hints, word)).collect();
        found.sort_unstable();
        found.dedup();
        let weight = found.len() + if named { NAMED_WEIGHT } else { 0 };
        if weight > best.as_ref().map_or(0, |(weight, ..)| *weight) {
            let reason = if named {
                format!("the answers name {}", language.title())
            } else {
                let quoted: Vec<String> = found.iter().map(|word| format!("\"{word}\"")).collect();
                format!("{} in the answers: {why}", quoted.join(", "))
            };
            best = Some((weight, language, reason));
        }
    }
    match best {
        Some((_, language, reason)) => (language, reason),
        None => {
            let reason = "nothing in the answers suggests another language, and Python has libraries for most things";
            (Language::Python, reason.to_owned())
        }
    }
}
