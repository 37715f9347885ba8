//! Suggestions for mistyped names.

/// Most names listed in a suggestion.
const MAX_LISTED: usize = 20;

/// Returns the known name that a typing error could have turned into `name`.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = name.to_lowercase();
    let shares_beginning = |known: &&&str| {
        let known = known.to_lowercase();
        lower.chars().take(4).count() == 4 && known.starts_with(&lower.chars().take(4).collect::<String>())
    };
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    let near = known.iter().map(|&known| (distance(known), known)).min_by_key(|&(distance, _)| distance);
    let near = near.filter(|(distance, known)| *distance <= (known.len() / 3).max(1)).map(|(_, known)| known);
    near.or_else(|| known.iter().find(shares_beginning).copied())
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
