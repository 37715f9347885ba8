//! Adds our MCP server to a project's `.mcp.json`, and removes it. Everything else in the file must stay as it is.

use std::path::Path;

use mahabharatha_sys::error::Result;
use serde_json::{Value, json};

use super::json_text::Step::Key;
use super::settings::{self, Added, Edited};

/// Name of the file in a project.
pub const PATH: &str = ".mcp.json";
const SERVERS: &str = "mcpServers";
const NAME: &str = "mahabharatha";

fn server() -> Value {
    json!({ "type": "stdio", "command": "mahabharatha", "args": ["mcp"] })
}

/// Adds the server, unless there is one of its name. `old` is the text of the file, if it exists.
pub fn add(path: &Path, old: Option<&str>, added: &mut Added) -> Result<Edited> {
    let mut text = settings::parse(path, old)?;
    if !text.value().is_object() {
        return Err(settings::not_a(path, "the file", "an object"));
    }
    settings::ensure_container(path, &mut text, &[Key(SERVERS)], json!({}), added)?;
    if text.value()[SERVERS].get(NAME).is_none() {
        text.add(&[Key(SERVERS)], Some(NAME), &server());
    }
    if old.is_some_and(|old| old == text.text()) {
        return Ok(Edited::Unchanged);
    }
    added.created |= old.is_none();
    Ok(Edited::Text(text.text().to_owned()))
}

/// Returns whether the file has another server of this name.
pub fn has_other(file: &Value) -> bool {
    file[SERVERS].get(NAME).is_some_and(|found| *found != server())
}

/// Removes the server, unless the user changed it.
pub fn remove(path: &Path, old: &str, added: &mut Added) -> Result<Edited> {
    let mut text = settings::parse(path, Some(old))?;
    if text.value()[SERVERS][NAME] == server() {
        text.remove(&[Key(SERVERS), Key(NAME)]);
    }
    settings::remove_container(&mut text, &[Key(SERVERS)], added);
    let Added { created, .. } = std::mem::take(added);
    Ok(match text.text() == old {
        _ if created && text.value() == json!({}) => Edited::Gone,
        true => Edited::Unchanged,
        false => Edited::Text(text.text().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(old: Option<&str>) -> (String, Added) {
        let mut record = Added::default();
        match add(Path::new(PATH), old, &mut record).unwrap() {
            Edited::Text(text) => (text, record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn removal_restores_every_byte() {
        for old in ["{ }", "{\n    \"mcpServers\": { \"other\": {\"command\": \"x\"} }\n}\n", "{\"a\":1}"] {
            let (text, mut record) = added(Some(old));
            let servers = serde_json::from_str::<Value>(&text).unwrap();
            assert_eq!(servers["mcpServers"]["mahabharatha"], server(), "{text}");
            assert!(matches!(add(Path::new(PATH), Some(&text), &mut record), Ok(Edited::Unchanged)));
            let Edited::Text(left) = remove(Path::new(PATH), &text, &mut record).unwrap() else { panic!("{old}") };
            assert_eq!(serde_json::from_str::<Value>(&left).unwrap(), serde_json::from_str::<Value>(old).unwrap());
            assert!(record.is_nothing());
        }
        let (text, mut record) = added(None);
        assert_eq!(remove(Path::new(PATH), &text, &mut record).unwrap(), Edited::Gone);
    }

    #[test]
    fn the_users_own_server_stays() {
        let mine = "{\"mcpServers\": {\"mahabharatha\": {\"command\": \"/opt/mbh\"}}}";
        let mut record = Added::default();
        assert_eq!(add(Path::new(PATH), Some(mine), &mut record).unwrap(), Edited::Unchanged);
        assert!(has_other(&serde_json::from_str(mine).unwrap()));
        assert_eq!(remove(Path::new(PATH), mine, &mut record).unwrap(), Edited::Unchanged);
        for bad in ["[]", "{\"mcpServers\": []}", "{"] {
            assert!(add(Path::new(PATH), Some(bad), &mut record).is_err(), "{bad}");
        }
    }
}
