//! What is said to whom.

use thiserror::Error;

pub const MAX_NAME_LENGTH: usize = 64;

/// A name that nobody can be greeted by.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidName {
    #[error("the name is empty")]
    Empty,
    #[error("the name is longer than {MAX_NAME_LENGTH} characters")]
    TooLong,
}

/// Greets somebody by name.
///
/// # Errors
///
/// If the name is empty or too long.
pub fn greet(name: &str) -> Result<String, InvalidName> {
    let name = name.trim();
    if name.is_empty() {
        return Err(InvalidName::Empty);
    }
    if name.chars().count() > MAX_NAME_LENGTH {
        return Err(InvalidName::TooLong);
    }
    Ok(format!("Hello, {name}!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greets_by_name() {
        assert_eq!(greet("Ada").unwrap(), "Hello, Ada!");
        assert_eq!(greet("  Ada\n").unwrap(), "Hello, Ada!");
    }

    #[test]
    fn counts_characters_and_not_bytes() {
        assert!(greet(&"ä".repeat(MAX_NAME_LENGTH)).is_ok());
    }

    #[test]
    fn refuses_an_invalid_name() {
        assert_eq!(greet("  "), Err(InvalidName::Empty));
        assert_eq!(
            greet(&"x".repeat(MAX_NAME_LENGTH + 1)),
            Err(InvalidName::TooLong)
        );
    }
}
