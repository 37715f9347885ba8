use crate::bench::{Project, attempt, cache, or_say_so};

#[test]
fn rust_scaffolds_are_checked_tested_and_run() {
    for framework in ["clap", "axum", "actix-web"] {
        let project = Project::new("rust", framework)
            .env("CARGO_TARGET_DIR", cache("rust"))
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        let fetch = attempt(&mut project.command("cargo", &["fetch", "--quiet"]));
        if or_say_so("the Rust scaffolds", fetch).is_none() {
            return;
        }
        project.run("cargo", &["fmt", "--check"]);
        // The lints of clippy in the same build as the tests: the dependencies are compiled once.
        let strict = project.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("RUSTFLAGS", "-Dwarnings");
        strict.run("cargo", &["test", "--quiet", "--offline"]);
        let program = cache("rust").join("debug").join(&strict.slug);
        if framework == "clap" {
            assert_eq!(strict.run(&program, &["greet", "Ada"]), "Hello, Ada!\n");
            assert!(strict.run(&program, &["--help"]).contains(r#"Sells "things" \ and {{more}}"#));
        } else {
            strict.assert_serves(strict.command(&program, &[]));
        }
        strict.assert_clean("Cargo.lock");
    }
}
