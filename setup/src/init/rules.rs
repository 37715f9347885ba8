//! The built-in security rules, by file name.

pub const EMBEDDED: [(&str, &str); 6] = [
    ("security-general.md", include_str!("../../assets/rules/security-general.md")),
    ("security-python.md", include_str!("../../assets/rules/security-python.md")),
    ("security-node.md", include_str!("../../assets/rules/security-node.md")),
    ("security-go.md", include_str!("../../assets/rules/security-go.md")),
    ("security-rust.md", include_str!("../../assets/rules/security-rust.md")),
    ("security-docker.md", include_str!("../../assets/rules/security-docker.md")),
];

#[cfg(test)]
mod tests {
    use mahabharatha_core::prompt::rules::apply_to;

    use super::*;

    /// How many characters of one file a prompt takes.
    const MAX_PROMPT_CHARS: usize = 8000;

    #[test]
    fn every_rule_has_a_reason_and_shows_what_not_to_do_and_what_to_do() {
        for (name, text) in EMBEDDED {
            assert!(text.chars().count() < MAX_PROMPT_CHARS, "{name} would be cut");
            assert!(text.starts_with("---\ndescription: "), "{name}");
            assert!(text.lines().nth(2).is_some_and(|line| line.starts_with("paths: [")), "{name}");
            for rule in text.split("\n## ").skip(1) {
                let mut lines = rule.lines();
                let title = lines.next().unwrap();
                assert!(
                    title.starts_with('A') && title.as_bytes()[1..3].iter().all(u8::is_ascii_digit),
                    "{name}: {title}"
                );
                assert!(lines.next().is_some_and(|reason| reason.len() > 40), "{name}: {title} has no reason");
                let (dont, does) = (rule.find(" Don't\n").unwrap(), rule.find(" Do\n").unwrap());
                assert!(rule.find("\n```").unwrap() < dont && dont < does, "{name}: {title}");
                assert_eq!(rule.matches("```").count(), 2, "{name}: {title}");
            }
        }
    }

    #[test]
    fn every_risk_of_the_top_ten_is_covered_in_every_stack() {
        for (name, text) in EMBEDDED {
            for risk in 1..=10 {
                assert!(text.contains(&format!("\n## A{risk:02} ")), "{name} says nothing about A{risk:02}");
            }
        }
    }

    #[test]
    fn a_task_gets_the_rules_of_its_files() {
        let of = |path: &str| -> Vec<&str> {
            let names = EMBEDDED.iter().map(|(name, _)| *name).filter(|name| apply_to(name, [path].into_iter()));
            names.map(|name| name.trim_start_matches("security-").trim_end_matches(".md")).collect()
        };
        assert_eq!(of("src/a.py"), ["general", "python"]);
        assert_eq!(of("src/a.ts"), ["general", "node"]);
        assert_eq!(of("cmd/a.go"), ["general", "go"]);
        assert_eq!(of("src/a.rs"), ["general", "rust"]);
        assert_eq!(of("Dockerfile"), ["general", "docker"]);
    }
}
