from importlib.metadata import version

from typer.testing import CliRunner

from {{module}}.cli import app

runner = CliRunner()


def test_greets_by_name() -> None:
    result = runner.invoke(app, ["greet", "Ada"])
    assert result.exit_code == 0
    assert result.output == "Hello, Ada!\n"


def test_shouts() -> None:
    result = runner.invoke(app, ["greet", "--shout", "Ada"])
    assert result.exit_code == 0
    assert result.output == "HELLO, ADA!\n"


def test_refuses_an_invalid_name() -> None:
    result = runner.invoke(app, ["greet", "  "])
    assert result.exit_code == 2
    assert "the name is empty" in result.output


def test_prints_the_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == version("{{slug}}")
