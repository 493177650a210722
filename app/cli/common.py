"""What the commands share: options, settings from them, and how a failure is told."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from app.settings import Settings

Host = Annotated[str, typer.Option(help="The address to listen on. Beyond loopback, API keys are demanded.")]
Port = Annotated[int, typer.Option(help="The port to listen on.")]
DataDir = Annotated[Path | None, typer.Option(help="The folder that holds everything the service keeps.")]


def settings_with(**given: Any) -> Settings:
    """The environment's settings, with the options that were given."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


def fail(sentence: str) -> NoReturn:
    """End the command with exit code 1 and a sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)
