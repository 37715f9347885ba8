//! Security rules from a repository.

use crate::bench::Bench;
use crate::fixtures;

#[test]
fn rules_come_from_the_repository_that_is_configured_and_without_it_there_is_a_warning() {
    let bench = Bench::new(fixtures::GO);
    let rules =
        Bench::new(&[("rules/languages/go/CLAUDE.md", "# Go\n"), ("rules/languages/python/CLAUDE.md", "# Python\n")]);
    rules.repo.git(&["config", "user.name", "A Person"]);
    rules.repo.git(&["config", "user.email", "person@example.com"]);
    rules.repo.commit("rules");
    let url = format!("file://{}", rules.repo.path().display()).replace(' ', "%20").replace('ü', "%C3%BC");
    bench.repo.write(".mahabharatha/config.yaml", &format!("security: {{ rules_repository: \"{url}\" }}\n"));
    bench.run(&["init"]).code(0).does_not_say("warning");
    assert_eq!(bench.repo.read(".claude/rules/security-languages-go.md"), "# Go\n");
    assert!(!bench.repo.exists(".claude/rules/security-languages-python.md"));

    bench.repo.write(".mahabharatha/config.yaml", "security: { rules_repository: \"https://127.0.0.1:1/x\" }\n");
    bench
        .run(&["init", "--force"])
        .code(0)
        .says("warning")
        .says("https://127.0.0.1:1/x")
        .says("using the built-in rules");
}
