use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::bench::{Project, attempt, cache, or_say_so};

const FRAMEWORKS: [&str; 4] = ["fastify", "express", "hono", "commander"];
/// The one that the scaffolds ask for, whatever is installed here.
const NODE: &str = "24.21.0";

#[test]
fn typescript_scaffolds_are_checked_tested_and_run() {
    let projects: Vec<Project> = FRAMEWORKS.iter().map(|framework| Project::new("typescript", framework)).collect();
    let Some(modules) = or_say_so("the TypeScript scaffolds", install(&projects)) else { return };
    for project in &projects {
        symlink(&modules, project.path().join("node_modules")).unwrap();
        assert_eq!(project.run("npm", &["config", "get", "engine-strict"]), "true\n", "an old Node.js is refused");
        for script in ["lint", "typecheck", "test", "build"] {
            project.run("npm", &["run", "--silent", script]);
        }
        let node = modules.join(".bin/node");
        if project.slug.ends_with("commander") {
            assert_eq!(project.run(&node, &["dist/cli.js", "greet", "Ada"]), "Hello, Ada!\n");
            assert!(project.run(&node, &["dist/cli.js", "--help"]).contains(r#"Sells "things" \ and {{more}}"#));
        } else {
            project.assert_serves(project.command(&node, &["dist/server.js"]));
        }
        project.assert_clean("node_modules");
    }
}

/// The packages of all of them in one place, and Node itself.
fn install(projects: &[Project]) -> Result<PathBuf, String> {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let mut packages: BTreeMap<String, Value> = BTreeMap::from([(format!("node-linux-{machine}"), json!(NODE))]);
    for project in projects {
        let text = fs::read_to_string(project.path().join("package.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        for kind in ["dependencies", "devDependencies"] {
            packages.extend(manifest[kind].as_object().unwrap().clone());
        }
    }
    let dir = cache("node");
    let manifest = json!({ "private": true, "dependencies": packages }).to_string();
    let ready = dir.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|installed| installed == manifest) {
        return Ok(dir.join("node_modules"));
    }
    fs::write(dir.join("package.json"), &manifest).unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&dir);
    attempt(&mut npm)?;
    fs::write(ready, manifest).unwrap();
    Ok(dir.join("node_modules"))
}
