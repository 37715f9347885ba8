//! Which language and framework the answers speak for.

use super::stack::{Framework, Kind, Language};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    pub framework: Framework,
    pub reasons: Vec<String>,
}

/// Words, what they speak for, and why.
const SIGNALS: [(Language, &str, &str); 4] = [
    (
        Language::Python,
        "data and models are at home in Python",
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
        "one small static program, made for many connections at once",
        "cloud cluster concurrent connections devops distributed docker gateway grpc infrastructure kubernetes \
         microservice microservices network proxy terraform",
    ),
    (
        Language::Rust,
        "speed and memory under control, without a garbage collector",
        "compiler embedded firmware interpreter latency memory microsecond microseconds parser throughput wasm \
         webassembly",
    ),
];
/// In the same order, the word that names the language itself. Go's own name is a word of every sentence.
const NAMED: [&str; 4] = ["python", "typescript", "golang", "rust"];
const COMMAND_LINE: &str = "cli command commandline console script scripts shell terminal";
const EDGE: &str = "cloudflare edge lambda netlify serverless vercel";

/// A language that is named outweighs all hints.
const WEIGHT_OF_A_NAME: usize = 100;

/// `language` is given where it was chosen already; then only the framework is recommended.
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
        Some(word) => format!("\"{word}\" in the answers speaks for a command line"),
        None => "a service over HTTP is what most others can use".to_owned(),
    });
    let framework = match first(EDGE) {
        Some(word) if language == Language::TypeScript && kind == Kind::Web => {
            reasons.push(format!("\"{word}\" in the answers speaks for {}, which runs there", Framework::Hono.title()));
            Framework::Hono
        }
        _ => language.framework_for(kind),
    };
    Recommendation { framework, reasons }
}

/// Frameworks whose names are not words that people use for other things.
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
        let weight = found.len() + if named { WEIGHT_OF_A_NAME } else { 0 };
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
            let reason = "nothing in the answers asks for another language, and Python has libraries for most things";
            (Language::Python, reason.to_owned())
        }
    }
}
