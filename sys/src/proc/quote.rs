//! Shows commands as a shell would read them.

pub use mahabharatha_core::names::shell_word;

/// Joins a command's arguments to a line for a shell.
pub fn shell_line(command: &[String]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words() {
        let words = ["sh", "-c", "echo a", "", "it's", "a\nb"].map(str::to_owned);
        assert_eq!(shell_line(&words), "sh -c 'echo a' '' 'it'\\''s' 'a\nb'");
    }
}
