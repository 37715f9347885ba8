//! Finds the commands of every ecosystem, in the topmost directories that have manifests of it.

use std::collections::BTreeMap;

use super::shared::{self, command, evidence, within};
use super::{Command, Coverage, Kind, python, web};
use crate::init::detect::manifest::{Content, Manifest, at};
use crate::init::detect::package;
use crate::init::detect::tree::{Tree, depth, join};

/// Maximum directories per ecosystem that get commands. A project with more has its own commands at the root.
const MAX_DIRECTORIES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ecosystem {
    Web,
    Python,
    Cargo,
    Go,
    Jvm,
    DotNet,
    Ruby,
    Php,
}

struct Finder<'t> {
    tree: &'t Tree,
    manifests: &'t [Manifest],
    coverage: Option<&'t Coverage>,
    /// Commands that CI runs, each with the file that contains it.
    ci: Vec<(String, String)>,
}

pub fn found(tree: &Tree, manifests: &[Manifest], coverage: Option<&Coverage>) -> Vec<Command> {
    let ci = shared::ci(tree).into_iter();
    let ci = ci.flat_map(|ci| ci.commands.into_iter().map(move |line| (line, ci.file.clone()))).collect();
    let finder = Finder { tree, manifests, coverage, ci };
    let mut found = Vec::new();
    for ((ecosystem, dir), manifests) in finder.places() {
        found.extend(finder.commands(ecosystem, dir, &manifests));
    }
    for target in shared::make_targets(tree) {
        if !found.iter().any(|known: &Command| known.kind == target.kind) {
            found.push(target);
        }
    }
    found.sort_by(|one, other| (depth(&one.dir), &one.dir, one.kind).cmp(&(depth(&other.dir), &other.dir, other.kind)));
    found
}

impl<'t> Finder<'t> {
    /// Returns the directories that have manifests of an ecosystem, without those below another such directory.
    fn places(&self) -> BTreeMap<(Ecosystem, &'t str), Vec<&'t Manifest>> {
        let mut all: BTreeMap<(Ecosystem, &str), Vec<&Manifest>> = BTreeMap::new();
        for manifest in self.manifests {
            all.entry((ecosystem(manifest), self.place(manifest))).or_default().push(manifest);
        }
        let keys: Vec<_> = all.keys().copied().collect();
        let is_below = |dir: &str, above: &str| above.is_empty() || dir.starts_with(&format!("{above}/"));
        let is_topmost = |(ecosystem, dir): (Ecosystem, &str)| {
            !keys.iter().any(|(other, above)| *other == ecosystem && *above != dir && is_below(dir, above))
        };
        all.retain(|key, _| is_topmost(*key));
        let mut counts: BTreeMap<Ecosystem, usize> = BTreeMap::new();
        all.retain(|(ecosystem, _), _| {
            let count = counts.entry(*ecosystem).or_default();
            *count += 1;
            *count <= MAX_DIRECTORIES
        });
        if counts.values().any(|count| *count > MAX_DIRECTORIES) {
            self.tree
                .note(format!("looked for commands only in the first {MAX_DIRECTORIES} packages of each ecosystem"));
        }
        all
    }

    /// Returns the directory that the commands of a manifest run in.
    fn place(&self, manifest: &'t Manifest) -> &'t str {
        let has_solution =
            || self.tree.files().iter().any(|entry| depth(&entry.path) == 0 && entry.path.ends_with(".sln"));
        match &manifest.content {
            Content::DotNet(_) if has_solution() => "",
            _ => &manifest.dir,
        }
    }

    fn commands(&self, ecosystem: Ecosystem, dir: &str, manifests: &[&Manifest]) -> Vec<Command> {
        match (ecosystem, manifests.first().map(|first| (&first.content, first))) {
            (Ecosystem::Python, _) => python::commands(self.tree, dir, manifests, self.coverage),
            (Ecosystem::DotNet, _) => self.dotnet(dir, manifests),
            (_, Some((Content::Npm(json), manifest))) => {
                let own = web::commands(self.tree, manifest, json, self.coverage);
                self.with_members(manifest, own)
            }
            (_, Some((Content::Cargo(toml), manifest))) => self.cargo(manifest, toml),
            (_, Some((Content::Go(text), manifest))) => self.go(manifest, text),
            (_, Some((Content::Maven(text), manifest))) => self.maven(manifest, text),
            (_, Some((Content::Gradle(text), manifest))) => self.gradle(manifest, text),
            (_, Some((Content::Gemfile(_), manifest))) => self.ruby(manifest),
            (_, Some((Content::Composer(json), manifest))) => self.php(manifest, json),
            _ => Vec::new(),
        }
    }

    /// For a workspace root, adds the scripts of its members (run for all members at once) where it has none of its
    /// own.
    fn with_members(&self, manifest: &Manifest, mut own: Vec<Command>) -> Vec<Command> {
        let manager = package::npm_manager(self.tree, manifest);
        let run = |script: &str| match manager {
            "pnpm" => Some(format!("pnpm -r --if-present run {script}")),
            "npm" => Some(format!("npm run {script} --workspaces --if-present")),
            "bun" => Some(format!("bun run --filter '*' {script}")),
            _ => None,
        };
        let is_workspace = matches!(&manifest.content, Content::Npm(json) if !json["workspaces"].is_null())
            || evidence(self.tree, &manifest.dir, &["pnpm-workspace.yaml"]).is_some();
        let scripts = [(Kind::Lint, "lint"), (Kind::TypeCheck, "typecheck"), (Kind::Test, "test")];
        for (kind, script) in scripts.into_iter().filter(|_| is_workspace) {
            let has = |member: &&Manifest| matches!(&member.content, Content::Npm(json) if json["scripts"][script].is_string());
            let member = self.manifests.iter().find(has);
            if let (Some(member), Some(run), false) = (member, run(script), own.iter().any(|known| known.kind == kind))
            {
                own.push(command(kind, &manifest.dir, run, member.path.clone()));
            }
        }
        let can_install = own.iter().any(|known| known.kind == Kind::Install);
        if !own.is_empty() && !can_install {
            own.push(command(Kind::Install, &manifest.dir, format!("{manager} install"), manifest.path.clone()));
        }
        own
    }

    fn cargo(&self, manifest: &Manifest, toml: &toml::Table) -> Vec<Command> {
        let make = |kind, text: String, from: String| command(kind, &manifest.dir, text, from);
        let whole = if toml.contains_key("workspace") { " --workspace" } else { "" };
        let lints =
            [&["lints", "clippy"][..], &["workspace", "lints", "clippy"]].iter().any(|keys| at(toml, keys).is_some());
        let settings = evidence(self.tree, &manifest.dir, &["clippy.toml", ".clippy.toml"]);
        let mut found = Vec::new();
        if let Some((line, file)) = self.ci_line("cargo clippy").filter(|_| manifest.dir.is_empty()) {
            found.push(make(Kind::Lint, line.clone(), file.clone()));
        } else if let Some(from) = settings.or_else(|| lints.then(|| manifest.path.clone())) {
            found.push(make(Kind::Lint, format!("cargo clippy{whole} --all-targets"), from));
        }
        let fmt = evidence(self.tree, &manifest.dir, &["rustfmt.toml", ".rustfmt.toml"]);
        if let Some(from) = fmt.or_else(|| self.ci_line("cargo fmt").map(|(_, file)| file.clone())) {
            found.push(make(Kind::Format, "cargo fmt --all --check".to_owned(), from));
        }
        found.push(make(Kind::Test, format!("cargo test{whole}"), manifest.path.clone()));
        // The gates would pass without it, but the lock file would be out of date, and `--locked` builds would fail.
        found.push(make(Kind::Lock, "cargo update --workspace".to_owned(), manifest.path.clone()));
        found
    }

    fn go(&self, manifest: &Manifest, text: &str) -> Vec<Command> {
        let dir = manifest.dir.as_str();
        let make = |kind, text: &str, from: String| command(kind, dir, text, from);
        let vet = "go vet ./...";
        let lint = match evidence(self.tree, dir, &[".golangci.yml", ".golangci.yaml", ".golangci.toml"]) {
            Some(from) => Command { otherwise: Some(within(dir, vet)), ..make(Kind::Lint, "golangci-lint run", from) },
            None => make(Kind::Lint, vet, manifest.path.clone()),
        };
        let mut found = vec![lint, make(Kind::Test, "go test ./...", manifest.path.clone())];
        // Unlike `go mod tidy`, it removes nothing from `go.sum`; a removal would have to be committed with the change of
        // `go.mod` that causes it.
        let is_vendored = self.tree.has_anywhere(&join(dir, "vendor/modules.txt"));
        if !is_vendored && text.lines().any(|line| line.trim_start().starts_with("require")) {
            found.push(make(Kind::Install, "go get -t ./...", manifest.path.clone()));
        }
        found
    }

    fn maven(&self, manifest: &Manifest, text: &str) -> Vec<Command> {
        let program = package::maven(self.tree, &manifest.dir);
        let make =
            |kind, goal: &str| command(kind, &manifest.dir, format!("{program} -B {goal}"), manifest.path.clone());
        let mut found = Vec::new();
        if text.contains("maven-checkstyle-plugin") {
            found.push(make(Kind::Lint, "checkstyle:check"));
        }
        if text.contains("spotless-maven-plugin") {
            found.push(make(Kind::Format, "spotless:check"));
        }
        // Maven checks the coverage rule in the `verify` phase.
        let covered = self.coverage.is_some_and(|coverage| coverage.dir == manifest.dir);
        found.push(make(Kind::Test, if covered { "verify" } else { "test" }));
        found
    }

    fn gradle(&self, manifest: &Manifest, text: &str) -> Vec<Command> {
        let program = package::gradle(self.tree, &manifest.dir);
        let make = |kind, task: &str| command(kind, &manifest.dir, format!("{program} {task}"), manifest.path.clone());
        let linters = [("detekt", "detekt"), ("ktlint", "ktlintCheck"), ("checkstyle", "checkstyleMain")];
        let lint = linters.iter().find(|(plugin, _)| text.contains(plugin)).map(|(_, task)| make(Kind::Lint, task));
        lint.into_iter().chain([make(Kind::Test, "test")]).collect()
    }

    fn dotnet(&self, dir: &str, manifests: &[&Manifest]) -> Vec<Command> {
        let frameworks = ["Microsoft.NET.Test.Sdk", "xunit", "NUnit", "MSTest.TestFramework"];
        let is_test = |manifest: &&&Manifest| frameworks.iter().any(|name| manifest.depends_on(name));
        let Some(test) = manifests.iter().find(is_test) else { return Vec::new() };
        let covered = self.coverage.is_some() && test.depends_on("coverlet.msbuild");
        let text = if covered { "dotnet test /p:CollectCoverage=true" } else { "dotnet test" };
        let format = self.ci_line("dotnet format").map(|(line, file)| command(Kind::Format, dir, line, file));
        format.into_iter().chain([command(Kind::Test, dir, text, test.path.clone())]).collect()
    }

    fn ruby(&self, manifest: &Manifest) -> Vec<Command> {
        let make = |kind, text: &str, from: String| command(kind, &manifest.dir, text, from);
        let uses = |gem: &str, files: &[&str]| {
            let file = evidence(self.tree, &manifest.dir, files);
            file.or_else(|| manifest.depends_on(gem).then(|| manifest.path.clone()))
        };
        let lint = uses("rubocop", &[".rubocop.yml"]).map(|from| make(Kind::Lint, "bundle exec rubocop", from));
        let rspec = uses("rspec", &[".rspec"]).or_else(|| uses("rspec-rails", &[]));
        let rails = || evidence(self.tree, &manifest.dir, &["bin/rails"]);
        let test = rspec
            .map(|from| make(Kind::Test, "bundle exec rspec", from))
            .or_else(|| rails().map(|from| make(Kind::Test, "bin/rails test", from)));
        let install = make(Kind::Install, "bundle install", manifest.path.clone());
        let found: Vec<Command> = lint.into_iter().chain(test).collect();
        if found.is_empty() { found } else { found.into_iter().chain([install]).collect() }
    }

    fn php(&self, manifest: &Manifest, json: &serde_json::Value) -> Vec<Command> {
        let make = |kind, text: &str, from: String| command(kind, &manifest.dir, text, from);
        let script = !json["scripts"]["test"].is_null();
        let phpunit = || evidence(self.tree, &manifest.dir, &["phpunit.xml", "phpunit.xml.dist"]);
        let test = if script {
            Some(make(Kind::Test, "composer test", manifest.path.clone()))
        } else {
            phpunit().map(|from| make(Kind::Test, "vendor/bin/phpunit", from))
        };
        let phpstan = evidence(self.tree, &manifest.dir, &["phpstan.neon", "phpstan.neon.dist"]);
        let types = phpstan.map(|from| make(Kind::TypeCheck, "vendor/bin/phpstan analyse", from));
        let install = make(Kind::Install, "composer install", manifest.path.clone());
        let found: Vec<Command> = types.into_iter().chain(test).collect();
        if found.is_empty() { found } else { found.into_iter().chain([install]).collect() }
    }

    /// Returns a CI command with this prefix that uses no variables or other syntax, so it works outside CI.
    fn ci_line(&self, prefix: &str) -> Option<&(String, String)> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '=' | ',' | '.' | '/' | ':');
        self.ci.iter().find(|(line, _)| line.starts_with(prefix) && line.chars().all(plain))
    }
}

fn ecosystem(manifest: &Manifest) -> Ecosystem {
    match manifest.content {
        Content::Npm(_) => Ecosystem::Web,
        Content::Python(_) | Content::Pipfile(_) | Content::Requirements(_) => Ecosystem::Python,
        Content::Cargo(_) => Ecosystem::Cargo,
        Content::Go(_) => Ecosystem::Go,
        Content::Maven(_) | Content::Gradle(_) => Ecosystem::Jvm,
        Content::DotNet(_) => Ecosystem::DotNet,
        Content::Gemfile(_) => Ecosystem::Ruby,
        Content::Composer(_) => Ecosystem::Php,
    }
}
