"""The command line."""

from importlib.metadata import version
from typing import Annotated

import typer

from .greeting import InvalidNameError, greet

app = typer.Typer(no_args_is_help=True)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("{{slug}}"))
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Greet people."""


@app.command("greet")
def greet_somebody(
    name: Annotated[str, typer.Argument(help="Who is greeted.")],
    shout: Annotated[bool, typer.Option(help="In capital letters.")] = False,
) -> None:
    """Greet somebody by name."""
    try:
        greeting = greet(name)
    except InvalidNameError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
    typer.echo(greeting.upper() if shout else greeting)


def main() -> None:
    app()
