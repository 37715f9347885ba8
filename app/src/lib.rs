//! The acting half.
