"""What the commands share: options, settings from them, and how a failure is told."""

import os
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from app.settings import SettingError, Settings, read_settings, unknown_variables

Host = Annotated[str, typer.Option(help="The address to listen on. Beyond loopback, API keys are demanded.")]
Port = Annotated[int, typer.Option(help="The port to listen on.")]
DataDir = Annotated[Path | None, typer.Option(help="The folder that holds everything the service keeps.")]


def settings_with(**given: Any) -> Settings:
    """The environment's settings, with the options that were given; a wrong one ends the command.

    A variable that looks like a setting and is none is told on stderr, but by a part of `bartserve up`, which
    has told it.
    """
    from app.supervisor import is_supervised

    try:
        settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    except SettingError as error:
        fail(str(error))
    if not is_supervised():
        for sentence in unknown_variables(os.environ):
            typer.echo(sentence, err=True)
    return settings


def fail(sentence: str) -> NoReturn:
    """End the command with exit code 1 and a sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)
