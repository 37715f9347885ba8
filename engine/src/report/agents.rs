//! `agents`: one line per agent.

use mahabharatha_sys::ui::Paint;

use super::columns::{Cell, cell, columns};
use crate::agent::ListedAgent;

pub fn agents_text(agents: &[ListedAgent], limit: Option<usize>, paint: Paint) -> String {
    let row = |agent: &ListedAgent| -> Vec<Cell> {
        let unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        vec![
            cell(if agent.is_default { "*" } else { "" }),
            cell(&agent.name),
            cell(if agent.installed { "yes" } else { "no" }),
            cell(if agent.installed { unknown(&agent.version) } else { String::new() }),
            cell(if agent.installed { unknown(&agent.login) } else { String::new() }),
            cell(agent.model.as_deref().unwrap_or("its own")),
            cell(agent.format),
        ]
    };
    let rows: Vec<Vec<Cell>> = agents.iter().map(row).collect();
    columns(&["", "Agent", "Installed", "Version", "Login", "Model", "Format"], &rows, &[3, 4], limit, paint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_one_line() {
        let agent = |name: &str, installed: bool| ListedAgent {
            name: name.to_owned(),
            kind: name.to_owned(),
            format: "codex",
            model: None,
            installed,
            version: installed.then(|| "codex-cli 0.166.0".to_owned()),
            login: None,
            is_default: installed,
        };
        let text = agents_text(&[agent("codex", true), agent("pi", false)], Some(80), Paint::OFF);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            lines.iter().any(|words| words.starts_with(&["*", "codex", "yes", "codex-cli", "0.166.0", "unknown"])),
            "{text}"
        );
        assert!(lines.iter().any(|words| *words == ["pi", "no", "its", "own", "codex"]), "{text}");
    }
}
