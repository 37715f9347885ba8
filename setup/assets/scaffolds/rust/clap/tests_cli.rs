use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_{{slug}}"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn greets_by_name() {
    let output = run(&["greet", "Ada"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"Hello, Ada!\n");
}

#[test]
fn shouts() {
    let output = run(&["greet", "--shout", "Ada"]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"HELLO, ADA!\n");
}

#[test]
fn refuses_an_invalid_name() {
    let output = run(&["greet", "  "]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the name is empty"));
}

#[test]
fn prints_the_version() {
    let output = run(&["--version"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")));
}
