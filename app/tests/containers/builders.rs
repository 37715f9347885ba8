//! Other engines and builders than Docker with the builder that its client has.

use mahabharatha_testing::containers::{BASE, Project, plugin, podman, task};

/// Reads a file of the build context without copying it, which only BuildKit can.
fn mounting() -> String {
    format!("FROM {BASE}\nRUN --mount=target=/context cp /context/tool /tool\n")
}

#[test]
fn buildkit_builds_and_mounts_the_context() {
    let Some(project) = Project::with_image("", &mounting()) else { return };
    let Some(buildx) = plugin("buildx") else { return };
    project.write("tool", "1\n");
    project.graph("x", &[task("A", "cp /tool a.txt", "true")]);
    project.run_with(&["run", "-w", "1"], &[buildx]).code(0).says("building the image");
    project.write("tool", "2\n");
    project.graph("y", &[task("B", "cp /tool b.txt", "true")]);
    project.run_with(&["run", "-w", "1"], &[buildx]).code(0).says("building the image");
    let tree = project.tree("HEAD");
    assert_eq!((tree["a.txt"].as_str(), tree["b.txt"].as_str()), ("1", "2"));
    project.nothing_is_left();
}

#[test]
fn the_classic_builder_builds_and_says_what_it_cannot() {
    let Some(project) = Project::with_image("", &format!("FROM {BASE}\nCOPY tool /tool\n")) else { return };
    project.write("tool", "1\n");
    // A client without the plug-in, whatever this machine has.
    let real = std::env::var("PATH").unwrap();
    project.program(
        "bin/docker",
        &format!("if test \"$1\" = buildx; then exit 1; fi\nPATH='{real}' exec docker \"$@\"\n"),
    );
    let path = format!("{}:{real}", project.join("bin").display());
    let env = [("PATH", path.as_str())];
    project.graph("x", &[task("A", "cp /tool a.txt", "true")]);
    project.run_with(&["run", "-w", "1"], &env).code(0).says("building the image");
    assert_eq!(project.tree("HEAD")["a.txt"], "1");
    project.write(".devcontainer/Dockerfile", &mounting());
    project.graph("y", &[task("B", "cp /tool b.txt", "true")]);
    project.run_with(&["run", "-w", "1"], &env).code(7).says("BuildKit");
    project.nothing_is_left();
}

#[test]
fn podman_runs_the_workers_through_its_service() {
    let gates = "quality_gates: [ { name: all, command: 'test -e /made && git status' } ]\n";
    let Some(project) = Project::with_image(gates, &format!("FROM {BASE}\nRUN echo 1 > /made\n")) else { return };
    let Some(podman) = podman() else { return };
    let config =
        project.read(".mahabharatha/config.yaml").replace("type: container", "type: container, engine: podman");
    project.write(".mahabharatha/config.yaml", &config);
    project.commit("with podman");
    let agent = "set -e; test -s /specs/x/task-graph.json; test \"$MAHABHARATHA_WORKER_ID\" = 0; ! touch /made; \
        if test $MAHABHARATHA_ATTEMPT = 1; then (while :; do echo evil > a.txt; sleep 0.05; done) >/dev/null 2>&1 & exit 1; fi; \
        grep -q 'CapEff:.0000000000000000' /proc/self/status; git status --short; echo a > a.txt";
    project.graph("x", &[task("A", agent, "test \"$(cat /workspace/a.txt)\" = a")]);
    project.run_with(&["run", "-w", "1"], &[podman]).code(0).says("(container)");
    assert_eq!(project.task("A")["attempt"], 2);
    assert_eq!(project.tree("HEAD")["a.txt"], "a");
    let left = std::process::Command::new("podman")
        .args(["--remote", "ps", "-a", "--format", "{{.Mounts}}", "--filter", "label=mahabharatha.feature=x"])
        .envs([podman])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    project.run_with(&["doctor"], &[podman]).says("containers: podman ");
}
