//! A list of numbers for each task, all in one allocation.

/// For each of a number of tasks, the positions of others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lists {
    /// Where the list of each task ends.
    ends: Vec<usize>,
    all: Vec<usize>,
}

impl Lists {
    pub fn with_capacity(tasks: usize) -> Lists {
        Lists { ends: Vec::with_capacity(tasks), all: Vec::new() }
    }

    /// Adds the list of the next task.
    pub fn push(&mut self, list: impl IntoIterator<Item = usize>) {
        self.all.extend(list);
        self.ends.push(self.all.len());
    }

    pub fn get(&self, task: usize) -> &[usize] {
        let start = if task == 0 { 0 } else { self.ends[task - 1] };
        &self.all[start..self.ends[task]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[usize]> {
        (0..self.ends.len()).map(|task| self.get(task))
    }

    /// Returns the same lists, each in ascending order.
    pub fn sorted(&self) -> Lists {
        let mut lists = Lists::with_capacity(self.ends.len());
        for list in self.iter() {
            let start = lists.all.len();
            lists.push(list.iter().copied());
            lists.all[start..].sort_unstable();
        }
        lists
    }

    /// Returns for each task the tasks whose lists have it, in ascending order.
    pub fn inverted(&self) -> Lists {
        let mut ends = vec![0; self.ends.len()];
        self.all.iter().for_each(|&to| ends[to] += 1);
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let (mut all, mut free) = (vec![0; total], ends.clone());
        for task in (0..self.ends.len()).rev() {
            for &to in self.get(task).iter().rev() {
                free[to] -= 1;
                all[free[to]] = task;
            }
        }
        Lists { ends, all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(of: &[&[usize]]) -> Lists {
        let mut lists = Lists::with_capacity(of.len());
        of.iter().for_each(|list| lists.push(list.iter().copied()));
        lists
    }

    #[test]
    fn each_list_is_sorted_and_inverted() {
        let some = lists(&[&[], &[3, 0], &[], &[0]]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [&[][..], &[3, 0], &[], &[0]]);
        assert_eq!(some.sorted(), lists(&[&[], &[0, 3], &[], &[0]]));
        assert_eq!(some.inverted(), lists(&[&[1, 3], &[], &[], &[1]]));
        assert_eq!(lists(&[]).inverted(), lists(&[]));
    }
}
