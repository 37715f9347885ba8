//! Finds tasks by their ids. A large graph has tens of thousands of dependencies to look up.

use std::cmp::Ordering;

/// Positions sorted by name, each with the beginning of the name: most comparisons need no more of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Index(Vec<(u128, usize)>);

impl Index {
    /// Sorts the names at the positions below `count`; of equal names, the first position comes first.
    pub fn new<'n>(count: usize, name: impl Fn(usize) -> &'n str) -> Index {
        let mut sorted: Vec<(u128, usize)> = (0..count).map(|position| (beginning(name(position)), position)).collect();
        sorted.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| name(one.1).cmp(name(other.1))).then(one.1.cmp(&other.1))
        });
        Index(sorted)
    }

    /// Returns the first position of a name. `name` must be the same as in `new`.
    pub fn find<'n>(&self, wanted: &str, name: impl Fn(usize) -> &'n str) -> Option<usize> {
        let key = beginning(wanted);
        let compared =
            |(beginning, position): &(u128, usize)| beginning.cmp(&key).then_with(|| name(*position).cmp(wanted));
        let at = self.0.partition_point(|entry| compared(entry) == Ordering::Less);
        self.0.get(at).filter(|entry| compared(entry) == Ordering::Equal).map(|(_, position)| *position)
    }

    /// Returns the positions in the order of the names.
    pub fn sorted(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|(_, position)| *position)
    }

    /// Changes every position. No two of the names may be equal.
    pub fn moved(mut self, to: &[usize]) -> Index {
        self.0.iter_mut().for_each(|(_, position)| *position = to[*position]);
        self
    }
}

/// Returns the first bytes of a name as a number that sorts like them.
fn beginning(name: &str) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_also_if_they_begin_alike() {
        let long = "x".repeat(40);
        let longer = format!("{long}y");
        let names = ["b", "", "a\0", "a", long.as_str(), "b", longer.as_str()];
        let name = |position: usize| names[position];
        let index = Index::new(names.len(), name);
        assert_eq!(index.sorted().collect::<Vec<_>>(), [1, 3, 2, 0, 5, 4, 6]);
        for (position, wanted) in names.iter().enumerate() {
            assert_eq!(index.find(wanted, name), Some(if position == 5 { 0 } else { position }), "{wanted:?}");
        }
        for unknown in ["c", "a\0\0", &long[1..], &format!("{longer}y")] {
            assert_eq!(index.find(unknown, name), None, "{unknown:?}");
        }
        assert_eq!(Index::new(0, name).find("", name), None);
    }
}
