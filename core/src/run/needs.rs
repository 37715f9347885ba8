//! Requests of agents for files that their task does not own: lines `NEEDS: path — why` of their last words.

use serde::Serialize;

/// Most requests read from one answer.
const MAX_NEEDS: usize = 8;
/// Longer paths are no requests.
const MAX_PATH_CHARS: usize = 400;
const MAX_WHY_CHARS: usize = 300;

/// A file that an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Need {
    /// As the agent wrote it.
    pub path: String,
    pub why: String,
}

/// Returns the requests in an agent's last words, each path once.
pub fn needs_in(words: &str) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for line in words.lines().filter_map(|line| line.trim().strip_prefix("NEEDS:")) {
        let (path, why) = [" — ", " – ", " - "]
            .iter()
            .filter_map(|dash| line.split_once(dash))
            .min_by_key(|(path, _)| path.len())
            .unwrap_or((line, ""));
        let path = path.trim().trim_matches('`').trim();
        let is_new = !needs.iter().any(|need| need.path == path);
        if is_new && !path.is_empty() && path.chars().count() <= MAX_PATH_CHARS && needs.len() < MAX_NEEDS {
            needs.push(Need { path: path.to_string(), why: why.trim().chars().take(MAX_WHY_CHARS).collect() });
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_and_bounded() {
        let need = |path: &str, why: &str| Need { path: path.to_string(), why: why.to_string() };
        let words = "I looked.\n NEEDS: src/a.rs — it has the type\nNEEDS: `my file.md` - docs - all\nNEEDS: b\n\
                     NEEDS: src/a.rs — again\nit NEEDS: c — not a line\nNEEDS:\nNEEDS: - no path\n";
        let expected = [need("src/a.rs", "it has the type"), need("my file.md", "docs - all"), need("b", "")];
        assert_eq!(needs_in(words), expected);
        let many: String = (0..100).map(|number| format!("NEEDS: {number}\n")).collect();
        assert_eq!(needs_in(&many).len(), MAX_NEEDS);
        assert_eq!(needs_in(&format!("NEEDS: {}", "x".repeat(MAX_PATH_CHARS + 1))), []);
        assert!(needs_in(&format!("NEEDS: a — {}", "x".repeat(9_999)))[0].why.chars().count() == MAX_WHY_CHARS);
    }
}
