"""The command line."""

import click

from .greeting import InvalidNameError, greet


@click.group()
@click.version_option(package_name="{{slug}}", message="%(version)s")
def main() -> None:
    """Greet people."""


@main.command("greet")
@click.argument("name")
@click.option("--shout", is_flag=True, help="In capital letters.")
def greet_somebody(name: str, *, shout: bool) -> None:
    """Greet somebody by NAME."""
    try:
        greeting = greet(name)
    except InvalidNameError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error
    click.echo(greeting.upper() if shout else greeting)
