//! Makes the commands that hints name act on the feature that they are about, where that is not the current one.

use mahabharatha_sys::error::Error;
use mahabharatha_sys::project::Place;

/// Start of a command in a text.
const COMMAND: &str = "`mahabharatha ";

/// Returns the text with the feature in every command that does not name it.
pub fn named(place: &Place, text: String) -> String {
    if is_current(place) { text } else { with_feature(&text, place.feature.as_str()) }
}

/// Like `named`, for the hint of an error.
pub fn named_in(place: &Place, error: Error) -> Error {
    match error.what_to_do().map(str::to_owned) {
        Some(hint) => error.hint(named(place, hint)),
        None => error,
    }
}

/// Tells whether commands act on the feature without being told.
fn is_current(place: &Place) -> bool {
    place.project.which_feature(None, std::env::var_os).is_ok_and(|current| current == place.feature)
}

fn with_feature(text: &str, feature: &str) -> String {
    let mut parts = text.split(COMMAND);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(COMMAND);
        let command = part.split('`').next().unwrap_or(part);
        let is_general = ["help", "doctor", "list"].iter().any(|name| command.starts_with(name));
        if !is_general && !command.split([' ', '\'', '"']).any(|word| word == feature) {
            result.push_str(&format!("-f {feature} "));
        }
        result.push_str(part);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_do_not_name_the_feature_get_it() {
        let text = "`mahabharatha retry A` or `mahabharatha run x`; see `mahabharatha help runs`. Then `git log`";
        let named = "`mahabharatha -f x retry A` or `mahabharatha run x`; see `mahabharatha help runs`. Then `git log`";
        assert_eq!(with_feature(text, "x"), named);
        assert_eq!(with_feature("`mahabharatha merge -f x --retry`", "x"), "`mahabharatha merge -f x --retry`");
        assert_eq!(with_feature("nothing", "x"), "nothing");
    }
}
