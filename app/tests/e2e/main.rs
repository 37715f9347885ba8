//! The real program on real git.

mod support;
mod whole_way;
