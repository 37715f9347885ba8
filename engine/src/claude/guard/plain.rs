//! Recognises shell lines that are exactly one plain call of a program.

/// Returns the words of a line that a shell reads as exactly one command with literal arguments: no operator,
/// substitution, redirection, glob, assignment or second line. `None` if that is not certain.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.trim_matches([' ', '\t']).chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        end if end == c => break,
                        '$' | '`' | '\\' | '!' if c == '"' => return None,
                        inside if inside.is_control() => return None,
                        inside => word.push(inside),
                    }
                }
            }
            c if c.is_alphanumeric() || "-_./:,@%+=".contains(c) => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word);
    // `A=1 program` would change the program's environment.
    words.first().is_some_and(|first: &String| !first.contains('=')).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_call_is_split_into_words() {
        for (line, expected) in [
            ("mahabharatha status", &["mahabharatha", "status"][..]),
            ("  mahabharatha  task\tnext ", &["mahabharatha", "task", "next"]),
            (
                "mahabharatha task complete A-1 --decision 'use $HOME; `x` > y'",
                &["mahabharatha", "task", "complete", "A-1", "--decision", "use $HOME; `x` > y"],
            ),
            (r#"m --reason="it is; so" ''"#, &["m", "--reason=it is; so", ""]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn everything_else_is_rejected() {
        for line in [
            "",
            "a; b",
            "a && b",
            "a || b",
            "a | b",
            "a &",
            "a\nb",
            "a\rb",
            "a 'x\ny'",
            "a > f",
            "a < f",
            "a 2>&1",
            "a $(b)",
            "a `b`",
            "a $B",
            "a ${B}",
            "a \"$(b)\"",
            "a \"`b`\"",
            "a \"\\\"",
            "a \\; b",
            "(a)",
            "{ a; }",
            "a *",
            "a ?",
            "a [x]",
            "a ~/x",
            "a {x,y}",
            "a # b",
            "! a",
            "a 'x",
            "a \"x",
            "PATH=/x mahabharatha status",
            "a <(b)",
            "a\0b",
        ] {
            assert_eq!(words(line), None, "{line:?}");
        }
    }
}
