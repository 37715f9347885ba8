//! Selects the security rules that apply to a task.

/// Words by which a rules file names a language or tool, and the extensions of the files that it applies to.
const STACKS: &[(&[&str], &[&str])] = &[
    (&["python", "django", "flask", "fastapi"], &["py", "pyi", "toml"]),
    (
        &["node", "nodejs", "javascript", "js", "typescript", "ts", "react", "vue", "svelte", "express", "nextjs"],
        &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "html", "json"],
    ),
    (&["web", "html", "css", "frontend"], &["html", "css", "scss", "js", "jsx", "ts", "tsx", "vue", "svelte"]),
    (&["rust"], &["rs", "toml"]),
    (&["go", "golang"], &["go", "mod"]),
    (&["java", "spring"], &["java", "xml", "gradle"]),
    (&["kotlin"], &["kt", "kts"]),
    (&["ruby", "rails"], &["rb", "erb"]),
    (&["php", "laravel"], &["php"]),
    (&["csharp", "dotnet"], &["cs", "csproj", "cshtml"]),
    (&["c", "cpp"], &["c", "h", "cc", "cpp", "cxx", "hpp"]),
    (&["swift"], &["swift"]),
    (&["sql", "database"], &["sql"]),
    (&["shell", "bash"], &["sh", "bash"]),
    (&["docker", "container"], &["dockerfile", "containerfile", "yaml", "yml"]),
    (&["terraform"], &["tf", "tfvars"]),
];

/// Returns true if the rules in a file with this name apply to any of the paths. A name without a language or tool,
/// such as `security-general.md`, applies to every path; every rule applies to a path without an extension, such as a
/// directory.
pub fn apply_to<'a>(rules_file: &str, mut paths: impl Iterator<Item = &'a str>) -> bool {
    let stem = rules_file.strip_suffix(".md").unwrap_or(rules_file).to_ascii_lowercase();
    let words: Vec<&str> = stem.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let named: Vec<&[&str]> = STACKS
        .iter()
        .filter(|(names, _)| names.iter().any(|name| words.contains(name)))
        .map(|(_, ends)| *ends)
        .collect();
    named.is_empty()
        || paths.any(|path| {
            let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
            let ending = name.rsplit_once('.').map_or(name.as_str(), |(_, ending)| ending);
            let unknown = !name.contains('.') && !STACKS.iter().any(|(_, ends)| ends.contains(&ending));
            unknown || named.iter().any(|ends| ends.contains(&ending))
        })
}
