//! `tasks/<id>.md`: a task as a person reads and writes it.
