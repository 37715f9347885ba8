//! The files of the page, which are part of the program.

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// One file of the page.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    name: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

macro_rules! asset {
    ($name:literal, $content_type:ident) => {
        Asset { name: $name, content_type: $content_type, text: include_str!(concat!("page/", $name)) }
    };
}

pub const INDEX: Asset = asset!("index.html", HTML);

/// The files that the page loads: the first five before it shows anything, the others when they are needed.
const FILES: [Asset; 10] = [
    asset!("app.css", STYLE),
    asset!("app.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("words.js", SCRIPT),
    asset!("parts.js", SCRIPT),
    asset!("actions.js", SCRIPT),
    asset!("graph.js", SCRIPT),
    asset!("tables.js", SCRIPT),
    asset!("task.js", SCRIPT),
    asset!("timeline.js", SCRIPT),
];

pub fn find(name: &str) -> Option<Asset> {
    FILES.into_iter().find(|file| file.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve/page");
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let served = FILES.into_iter().chain([INDEX]).map(|file| file.name.to_string());
        assert_eq!(names.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>());
    }

    #[test]
    fn what_the_first_paint_needs_is_small() {
        let bytes: usize = FILES[..5].iter().chain([&INDEX]).map(|file| file.text.len()).sum();
        assert!(bytes <= 70_000, "{bytes} bytes");
    }

    /// Text from data must not become markup, and the content security policy blocks what is written inline.
    #[test]
    fn nothing_becomes_markup() {
        for file in FILES.into_iter().chain([INDEX]) {
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", " onclick="]
            {
                assert!(!file.text.contains(word), "{word} in {}", file.name);
            }
        }
    }
}
