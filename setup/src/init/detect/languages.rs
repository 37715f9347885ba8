//! Tells the language of a file by its name.

/// Languages by file extension, without formats for data or prose.
const BY_ENDING: &[(&str, &[&str])] = &[
    ("C", &["c", "h"]),
    ("C#", &["cs", "cshtml", "razor"]),
    ("C++", &["cc", "cpp", "cxx", "hh", "hpp", "hxx"]),
    ("CSS", &["css", "less", "sass", "scss"]),
    ("Clojure", &["clj", "cljc", "cljs"]),
    ("Dart", &["dart"]),
    ("Elixir", &["ex", "exs"]),
    ("Erlang", &["erl", "hrl"]),
    ("F#", &["fs", "fsi", "fsx"]),
    ("Go", &["go"]),
    ("HTML", &["htm", "html"]),
    ("Haskell", &["hs"]),
    ("Java", &["java"]),
    ("JavaScript", &["cjs", "js", "jsx", "mjs"]),
    ("Julia", &["jl"]),
    ("Kotlin", &["kt", "kts"]),
    ("Lua", &["lua"]),
    ("OCaml", &["ml", "mli"]),
    ("PHP", &["php"]),
    ("Perl", &["pl", "pm"]),
    ("Protocol Buffers", &["proto"]),
    ("Python", &["py", "pyi"]),
    ("R", &["r"]),
    ("Ruby", &["rake", "rb"]),
    ("Rust", &["rs"]),
    ("SQL", &["sql"]),
    ("Scala", &["scala"]),
    ("Shell", &["bash", "sh", "zsh"]),
    ("Svelte", &["svelte"]),
    ("Swift", &["swift"]),
    ("Terraform", &["tf"]),
    ("TypeScript", &["cts", "mts", "ts", "tsx"]),
    ("Vue", &["vue"]),
    ("Zig", &["zig"]),
];

pub fn of(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let (stem, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    if stem.is_empty() || stem.ends_with(".min") {
        return None;
    }
    BY_ENDING.iter().find(|(_, endings)| endings.contains(&ending.as_str())).map(|(language, _)| *language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_has_a_language_and_other_files_have_none() {
        assert_eq!(of("src/a.test.tsx"), Some("TypeScript"));
        assert_eq!(of("Main.RS"), Some("Rust"));
        for path in ["jquery.min.js", "README.md", ".rs", "data.json", "Makefile", ""] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
