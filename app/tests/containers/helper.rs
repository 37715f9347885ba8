//! The helper in a container, which starts programs one after the other: none of them has a hold on it.

use std::collections::BTreeSet;

use mahabharatha_testing::containers::{BASE, OwnEngine, Project, task};

/// The helper's pid, for a program's shell that did not start anything in between.
const PARENT: &str = "echo \"parent:$PPID:\"";

/// What agents do to the helper in their first attempt.
fn first(what: &str) -> String {
    format!("if test $MAHABHARATHA_ATTEMPT = 1; then {what}; fi; echo a > a.txt")
}

#[test]
fn one_helper_starts_the_programs_of_an_attempt_and_one_those_of_staging() {
    let Some(project) = Project::new("") else { return };
    let verification = |file: &str| format!("test \"$PPID\" = \"$(cat {file})\" || test -z \"$MAHABHARATHA_ATTEMPT\"");
    let a = task("A", "echo $PPID > a.txt", &format!("{PARENT}; {}", verification("a.txt")));
    let b = task("B", "echo $PPID > b.txt", &format!("{PARENT}; {}", verification("b.txt")));
    project.graph("x", &[a, b]);
    project.run(&["run", "-w", "1"]).code(0);
    for id in ["A", "B"] {
        assert_eq!(project.task(id)["attempt"], 1, "{id}");
    }
    let logs = std::fs::read_dir(project.join(".mahabharatha/logs/x/gates")).unwrap().flatten();
    let texts: Vec<String> = logs.map(|log| std::fs::read_to_string(log.path()).unwrap()).collect();
    let parents: Vec<&str> = texts.iter().filter_map(|text| text.split("parent:").nth(1)?.split(':').next()).collect();
    assert_eq!(parents.len(), 2, "{texts:?}");
    assert_eq!(BTreeSet::from_iter(parents).len(), 1, "{texts:?}");
    project.nothing_is_left();
}

#[test]
fn an_engine_that_does_not_see_this_program_gets_a_copy_of_it() {
    let hidden = mahabharatha_testing::program().parent().unwrap().to_path_buf();
    let Some(engine) = OwnEngine::start_without(Some(hidden)) else { return };
    let config = "launcher: { type: container, network: none }\n";
    let project = Project::of_engine(engine.host(), config, &format!("FROM {BASE}\n"));
    project.graph("x", &[task("A", "echo a > a.txt", "true")]);
    project.run(&["run", "-w", "1"]).code(0);
    assert_eq!(project.tree("main")["a.txt"], "a");
    project.nothing_is_left();
}

#[test]
fn a_program_cannot_look_into_the_helper_or_speak_for_it() {
    let Some(project) = Project::new("") else { return };
    let agent = "grep -q inside /proc/$PPID/cmdline || exit 9; \
        for file in environ maps mem auxv; do if head -c 1 /proc/$PPID/$file >/dev/null 2>&1; then echo read $file; exit 8; fi; done; \
        for end in 0 1 2; do if (: >> /proc/$PPID/fd/$end) 2>/dev/null; then echo opened $end; exit 7; fi; done; \
        if readlink /proc/$PPID/fd/1 /proc/$PPID/exe /proc/$PPID/cwd; then exit 6; fi; echo a > a.txt";
    project.graph("x", &[task("A", agent, "test -s a.txt")]);
    project.run(&["run", "-w", "1"]).code(0);
    assert_eq!(project.task("A")["attempt"], 1);
    project.nothing_is_left();
}

#[test]
fn a_helper_that_a_program_killed_or_changed_starts_no_other() {
    let Some(project) = Project::new("") else { return };
    // Its niceness.
    let verification = "test \"$(cut -d' ' -f19 /proc/self/stat)\" = 0";
    project.graph("x", &[task("A", &first("kill -9 $PPID; sleep 1000"), verification)]);
    project.run(&["run", "-w", "1"]).code(0).says("the helper in the container");
    assert_eq!(project.task("A")["attempt"], 2);
    project.graph("y", &[task("B", &first("renice -n 5 -p $PPID").replace("a.txt", "b.txt"), verification)]);
    project.run(&["run", "-w", "1"]).code(0).says("changed the limits or the priority of the helper");
    assert_eq!(project.task("B")["attempt"], 2);
    project.nothing_is_left();
}

#[test]
fn what_an_agent_starts_in_a_session_of_its_own_ends_with_it() {
    let Some(project) = Project::new("") else { return };
    let writes = "setsid sh -c '(while :; do echo evil > a.txt; sleep 0.01; done) &' >/dev/null 2>&1 </dev/null";
    let verification = "cat a.txt > /tmp/seen; sleep 0.3; test \"$(ps | grep -c 'e[v]il')\" = 0 && cmp a.txt /tmp/seen";
    project.graph("x", &[task("A", &format!("{writes}; sleep 0.2; echo a > a.txt"), verification)]);
    project.run(&["run", "-w", "1"]).code(0);
    assert_eq!(project.task("A")["attempt"], 1);
    project.nothing_is_left();
}
