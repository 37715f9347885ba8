//! Colours for code in diffs: keywords, strings, comments and numbers, found line by line with a few rules for each family of
//! languages. It need not be right everywhere, only quick and harmless on any text.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Plain,
    Keyword,
    Text,
    Comment,
    Number,
}

impl Class {
    /// Returns the name that the page's style has for it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Plain => "",
            Class::Keyword => "kw",
            Class::Text => "str",
            Class::Comment => "com",
            Class::Number => "num",
        }
    }
}

/// A family of languages.
#[derive(Debug)]
pub struct Language {
    /// What begins a comment that goes to the end of the line.
    comments: &'static [&'static str],
    /// What begins and ends a comment elsewhere.
    block: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    /// Whether a single quote may also begin something that is no text, such as a lifetime.
    has_lifetimes: bool,
    keywords: &'static str,
}

const RUST: Language = Language {
    comments: &["//"],
    block: Some(("/*", "*/")),
    quotes: &['"', '\''],
    has_lifetimes: true,
    keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move \
               mut pub ref return self Self static struct super trait true type unsafe use where while",
};
const BRACES: Language = Language {
    comments: &["//"],
    block: Some(("/*", "*/")),
    quotes: &['"', '\'', '`'],
    has_lifetimes: false,
    keywords: "abstract as async await boolean break case catch char chan class const continue debugger def default defer \
               delete do double else enum export extends false final finally float for fn from fun func function get go goto \
               if implements import in instanceof int interface is let long map namespace new nil null object of override \
               package private protected public range readonly return select set short sizeof static struct super switch \
               template this throw throws true try type typedef typeof undefined union unsigned using val var virtual void \
               volatile when while yield",
};
const PYTHON: Language = Language {
    comments: &["#"],
    block: None,
    quotes: &['"', '\''],
    has_lifetimes: false,
    keywords: "False None True and as assert async await break class continue def del elif else except finally for from \
               global if import in is lambda match nonlocal not or pass raise return self try while with yield",
};
const SHELL: Language = Language {
    comments: &["#"],
    block: None,
    quotes: &['"', '\''],
    has_lifetimes: false,
    keywords: "begin case class def do done elif else end ensure esac exit export false fi for function if in local module nil \
               null raise require rescue return self set shift sub then true unless until use while",
};
const SQL: Language = Language {
    comments: &["--"],
    block: Some(("/*", "*/")),
    quotes: &['"', '\''],
    has_lifetimes: false,
    keywords: "ADD ALTER AND AS BEGIN BY CASE COMMIT CREATE DELETE DROP ELSE END EXISTS FOREIGN FROM GROUP HAVING IN INDEX \
               INSERT INTO IS JOIN KEY LEFT LIMIT NOT NULL ON OR ORDER PRIMARY REFERENCES SELECT SET TABLE THEN UNION UNIQUE \
               UPDATE VALUES VIEW WHEN WHERE and do else end false for function if in local nil not or return then true while",
};
const MARKUP: Language =
    Language { comments: &[], block: Some(("<!--", "-->")), quotes: &['"'], has_lifetimes: false, keywords: "" };
const STYLE: Language =
    Language { comments: &[], block: Some(("/*", "*/")), quotes: &['"', '\''], has_lifetimes: false, keywords: "" };

impl Language {
    /// Returns the language of a file by its name; none if it is text, or not known.
    pub fn of(path: &str) -> Option<&'static Language> {
        let name = path.rsplit('/').next().unwrap_or(path);
        Some(match name.rsplit_once('.').map_or(name, |(_, extension)| extension).to_ascii_lowercase().as_str() {
            "rs" => &RUST,
            "c" | "cc" | "cpp" | "cs" | "cxx" | "dart" | "go" | "gradle" | "h" | "hh" | "hpp" | "java" | "js"
            | "json" | "jsonc" | "jsx" | "kt" | "kts" | "m" | "mjs" | "php" | "proto" | "scala" | "swift" | "ts"
            | "tsx" | "zig" => &BRACES,
            "py" | "pyi" => &PYTHON,
            "bash" | "cfg" | "conf" | "dockerfile" | "ex" | "exs" | "ini" | "makefile" | "mk" | "nix" | "pl" | "r"
            | "rb" | "sh" | "tf" | "toml" | "yaml" | "yml" | "zsh" => &SHELL,
            "hs" | "lua" | "sql" => &SQL,
            "htm" | "html" | "svg" | "vue" | "xml" => &MARKUP,
            "css" | "less" | "scss" => &STYLE,
            _ => return None,
        })
    }

    /// Splits a line; the ranges follow one another and cover it.
    pub fn split(&self, line: &str) -> Vec<(Class, Range<usize>)> {
        let mut found = Pieces::default();
        let mut at = 0;
        // The inside of a block comment that began on a line which may not be here.
        if self.block.is_some_and(|(open, _)| open == "/*") && is_inside_block(line) {
            at = line.find("*/").map_or(line.len(), |end| end + 2);
            found.add(Class::Comment, 0..at);
        }
        while let Some(c) = line[at..].chars().next() {
            let (class, length) = self.next(&line[at..], c);
            found.add(class, at..at + length);
            at += length;
        }
        found.0
    }

    /// Returns the class and the length of what a text begins with.
    fn next(&self, rest: &str, first: char) -> (Class, usize) {
        if self.comments.iter().any(|comment| rest.starts_with(comment)) {
            return (Class::Comment, rest.len());
        }
        if let Some((open, close)) = self.block
            && let Some(inside) = rest.strip_prefix(open)
        {
            return (Class::Comment, inside.find(close).map_or(rest.len(), |end| open.len() + end + close.len()));
        }
        if self.quotes.contains(&first) {
            return self.quoted(rest, first);
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        match first {
            _ if first.is_ascii_digit() => {
                let end = rest.find(|c: char| !is_word(c) && c != '.').unwrap_or(rest.len());
                // The dots of a range are no part of a number.
                (Class::Number, rest[..end].find("..").unwrap_or(end))
            }
            _ if word > 0 => {
                let is_keyword = self.keywords.split_whitespace().any(|keyword| keyword == &rest[..word]);
                (if is_keyword { Class::Keyword } else { Class::Plain }, word)
            }
            _ => (Class::Plain, first.len_utf8()),
        }
    }

    fn quoted(&self, rest: &str, quote: char) -> (Class, usize) {
        let mut inside = rest.char_indices().skip(1);
        while let Some((at, c)) = inside.next() {
            match c {
                '\\' => drop(inside.next()),
                _ if c == quote => {
                    let end = at + c.len_utf8();
                    // `'a, 'b` are lifetimes; `'a'` and `'\n'` are characters.
                    let is_character = rest[..end].chars().count() == 3 || rest[1..].starts_with('\\');
                    return if quote == '\'' && self.has_lifetimes && !is_character {
                        (Class::Plain, 1)
                    } else {
                        (Class::Text, end)
                    };
                }
                _ => {}
            }
        }
        // Without an end on this line: a text over several lines, or an apostrophe.
        if quote == '\'' { (Class::Plain, 1) } else { (Class::Text, rest.len()) }
    }
}

fn is_inside_block(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with("* ") || text == "*" || text.starts_with("*/")
}

/// Pieces of a line; neighbours of one class are one piece.
#[derive(Default)]
struct Pieces(Vec<(Class, Range<usize>)>);

impl Pieces {
    fn add(&mut self, class: Class, range: Range<usize>) {
        match self.0.last_mut() {
            Some((before, last)) if *before == class => last.end = range.end,
            _ => self.0.push((class, range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split<'a>(path: &str, line: &'a str) -> Vec<(&'static str, &'a str)> {
        let pieces = Language::of(path).unwrap().split(line);
        pieces.into_iter().map(|(class, range)| (class.name(), &line[range])).collect()
    }

    #[test]
    fn code_is_split_by_its_language() {
        assert_eq!(
            split("src/a.rs", "let x: &'a str = \"a // b\"; // c"),
            [("kw", "let"), ("", " x: &'a str = "), ("str", "\"a // b\""), ("", "; "), ("com", "// c")]
        );
        assert_eq!(
            split("a.rs", "f('\\'', 'x', 0..1.5)"),
            [
                ("", "f("),
                ("str", "'\\''"),
                ("", ", "),
                ("str", "'x'"),
                ("", ", "),
                ("num", "0"),
                ("", ".."),
                ("num", "1.5"),
                ("", ")")
            ]
        );
        assert_eq!(split("A.PY", "# don't"), [("com", "# don't")]);
        assert_eq!(split("a.ts", "a /* b */ c"), [("", "a "), ("com", "/* b */"), ("", " c")]);
        assert_eq!(split("a.c", " * inside */ int"), [("com", " * inside */"), ("", " "), ("kw", "int")]);
        assert_eq!(split("Makefile", "x = 'a"), [("", "x = 'a")]);
        assert!(Language::of("notes.txt").is_none() && Language::of("README.md").is_none());
    }

    proptest! {
        #[test]
        fn any_line_is_covered(line in any::<String>(), file in prop::sample::select(vec!["a.rs", "a.js", "a.py", "a.sql", "a.html", "a.css", "a.sh"])) {
            let pieces = Language::of(file).unwrap().split(&line);
            let text: String = pieces.into_iter().map(|(_, range)| line[range].to_string()).collect();
            prop_assert_eq!(text, line);
        }
    }
}
