//! The base branch that the features of one repository share, and its integration lock.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use mahabharatha_core::ids::Oid;

use crate::rng::oid;

pub type SharedTrunk = Rc<RefCell<Trunk>>;

#[derive(Debug)]
pub struct Trunk {
    /// Commits on the base branch.
    history: BTreeSet<Oid>,
    tip: Oid,
    pub red: bool,
    pub rewritten: bool,
    pub checkout_in_the_way: bool,
    /// The feature that holds the lock.
    holder: Option<usize>,
}

impl Trunk {
    pub fn new(start: &Oid, red: bool) -> Trunk {
        Trunk {
            history: BTreeSet::from([start.clone()]),
            tip: start.clone(),
            red,
            rewritten: false,
            checkout_in_the_way: false,
            holder: None,
        }
    }

    pub fn tip(&self) -> &Oid {
        &self.tip
    }

    pub fn contains(&self, commit: &Oid) -> bool {
        self.history.contains(commit)
    }

    /// Adds a user's commit.
    pub fn move_on(&mut self) -> Oid {
        let commit = oid(&format!("a person's commit on {}", self.tip));
        self.advance(commit.clone(), &self.tip.clone());
        commit
    }

    /// Lands a commit whose parent is `parent`.
    pub fn land(&mut self, feature: usize, commit: Oid, parent: &Oid) {
        assert_eq!(self.holder, Some(feature), "a feature lands without the lock");
        self.advance(commit, parent);
    }

    fn advance(&mut self, commit: Oid, parent: &Oid) {
        assert_eq!(self.tip, *parent, "the base branch loses what stood on it");
        assert!(self.history.insert(commit.clone()), "the same commit lands twice");
        self.tip = commit;
    }

    pub fn is_locked_by(&self, feature: usize) -> bool {
        self.holder == Some(feature)
    }

    /// Takes the lock if it is free; returns whether the feature holds it.
    pub fn try_lock(&mut self, feature: usize) -> bool {
        *self.holder.get_or_insert(feature) == feature
    }

    pub fn unlock(&mut self, feature: usize) {
        self.holder = self.holder.filter(|holder| *holder != feature);
    }

    pub fn put_right(&mut self) {
        self.red = false;
        self.rewritten = false;
        self.checkout_in_the_way = false;
    }
}
