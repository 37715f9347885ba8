"""What is said to whom."""

MAX_NAME_LENGTH = 64


class InvalidNameError(ValueError):
    """A name that nobody can be greeted by."""


def greet(name: str) -> str:
    """Greet somebody by name."""
    name = name.strip()
    if not name:
        raise InvalidNameError("the name is empty")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidNameError(f"the name is longer than {MAX_NAME_LENGTH} characters")
    return f"Hello, {name}!"
