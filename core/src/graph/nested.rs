//! Which of many paths are equal or lie in each other. In most graphs none do, so the rest need not be compared.

use crate::spec::path::ancestors;

/// Returns the positions of the paths that are equal to another, or of which one lies below the other, in ascending order.
pub(super) fn touching<'p>(paths: impl IntoIterator<Item = &'p str>) -> Vec<usize> {
    let mut sorted: Vec<(&str, usize)> = paths.into_iter().enumerate().map(|(index, path)| (path, index)).collect();
    sorted.sort_unstable();
    let mut touches = vec![false; sorted.len()];
    // Of the paths above the last one: in a sorted list, many files of one directory follow each other.
    let (mut parent, mut parent_is_listed) = (None, false);
    for at in 0..sorted.len() {
        let (path, index) = sorted[at];
        if let Some((_, before)) = at.checked_sub(1).map(|before| sorted[before]).filter(|(before, _)| *before == path)
        {
            touches[before] = true;
            touches[index] = true;
        }
        let above = ancestors(path).next();
        if above != parent {
            (parent, parent_is_listed) = (above, false);
            for directory in ancestors(path) {
                let first = sorted.partition_point(|(other, _)| *other < directory);
                // If there are others like it, the comparison with its neighbour finds them.
                if let Some((_, first)) = sorted.get(first).filter(|(other, _)| *other == directory) {
                    touches[*first] = true;
                    parent_is_listed = true;
                }
            }
        }
        touches[index] |= parent_is_listed;
    }
    (0..touches.len()).filter(|index| touches[*index]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_comparison_of_all_pairs_finds(paths in prop::collection::vec("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0..12)) {
            let touch = |one: &str, other: &str| one == other || ancestors(one).chain(ancestors(other)).any(|above| above == one || above == other);
            let is_touched = |index: &usize| (0..paths.len()).any(|other| other != *index && touch(&paths[*index], &paths[other]));
            let naive: Vec<usize> = (0..paths.len()).filter(is_touched).collect();
            prop_assert_eq!(touching(paths.iter().map(String::as_str)), naive);
        }
    }
}
