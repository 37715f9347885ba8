//! Suggestions for mistyped names, words quoted for a shell, and names of refs.

/// Most names listed in a suggestion.
const MAX_LISTED: usize = 20;

/// Bytes at the beginning that two names must share for one to be a variant of the other: `depends`, `dependencies`.
const SHARED_BEGINNING: usize = 4;

/// Returns the known name that `name` is most likely meant to be: one that differs by a typing error or in case, or else
/// one with the same beginning.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase();
    let distances = known.iter().map(|&known| (strsim::damerau_levenshtein(&name, &known.to_lowercase()), known));
    let (distance, nearest) = distances.min_by_key(|&(distance, _)| distance)?;
    if distance <= (nearest.len() / 3).max(1) {
        return Some(nearest);
    }
    let beginning = name.get(..SHARED_BEGINNING)?;
    known.iter().copied().find(|known| known.to_lowercase().starts_with(beginning))
}

/// Returns a hint for an unknown name: the nearest known one and the list of all, such as
/// ``Did you mean `login`? The features are: login, search.``
pub fn suggestion(name: &str, nouns: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("There are no {nouns}.");
    }
    let nearest = nearest(name, known).map(|known| format!("Did you mean `{known}`? ")).unwrap_or_default();
    let listed = known[..known.len().min(MAX_LISTED)].join(", ");
    match known.len().saturating_sub(MAX_LISTED) {
        0 => format!("{nearest}The {nouns} are: {listed}."),
        more => format!("{nearest}The {nouns} are: {listed} and {more} more."),
    }
}

/// Joins words of others to the last arguments of a command line: none of them is read as an option.
pub fn argument_list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(shell_word).collect();
    let dashes = if words.iter().any(|word| word.starts_with('-')) { "-- " } else { "" };
    format!("{dashes}{}", words.join(" "))
}

/// Returns the ref under which an attempt's work in progress is saved.
pub fn wip_ref(feature: &str, task: &str, attempt: u32) -> String {
    format!("refs/mahabharatha/{feature}/wip/{task}/{attempt}")
}

/// Quotes text as one shell word, if it needs quotes.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let is_plain = !text.is_empty() && text.chars().all(plain);
    if is_plain { text.to_string() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_one_is_near() {
        let known = ["login", "search", "export"];
        assert_eq!(
            suggestion("lgoin", "features", &known),
            "Did you mean `login`? The features are: login, search, export."
        );
        assert_eq!(suggestion("payment", "features", &known), "The features are: login, search, export.");
        assert_eq!(suggestion("x", "tasks", &[]), "There are no tasks.");
        let fields = ["dependencies", "verification", "security", "run"];
        assert_eq!(nearest("verify", &fields), Some("verification"));
        assert_eq!(nearest("depends", &fields), Some("dependencies"));
        assert_eq!(nearest("priority", &fields), None);
        assert_eq!(nearest("RUNN", &fields), Some("run"));
        assert!(suggestion("zzzzzzzz", "tasks", &["a"; 23]).ends_with("a and 3 more."));
    }
}
