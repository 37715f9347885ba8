import pytest

from {{module}}.greeting import MAX_NAME_LENGTH, InvalidNameError, greet


@pytest.mark.parametrize("name", ["Ada", "  Ada\n"])
def test_greets_by_name(name: str) -> None:
    assert greet(name) == "Hello, Ada!"


def test_accepts_the_longest_name() -> None:
    assert greet("x" * MAX_NAME_LENGTH).startswith("Hello, x")


@pytest.mark.parametrize("name", ["", "  ", "x" * (MAX_NAME_LENGTH + 1)])
def test_refuses_an_invalid_name(name: str) -> None:
    with pytest.raises(InvalidNameError):
        greet(name)
