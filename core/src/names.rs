//! Suggestions for mistyped names.

/// Most names listed in a suggestion.
const MAX_LISTED: usize = 20;

/// Returns the known name that a typing error could have turned into `name`.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|&known| (strsim::damerau_levenshtein(name, known), known));
    let (distance, known) = distances.min_by_key(|&(distance, _)| distance)?;
    (distance <= (known.len() / 2).max(2)).then_some(known)
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
        assert!(suggestion("zzzzzzzz", "tasks", &["a"; 23]).ends_with("a and 3 more."));
    }
}
