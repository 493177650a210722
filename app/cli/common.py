"""What the commands share: options, settings from them, and how a failure is told."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from app.settings import SettingError, Settings, read_settings, unknown_variables

if TYPE_CHECKING:
    from app.client import Client, Place

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


@contextmanager
def asking(url: str | None, data_dir: Path | None, say: Callable[[str], None]) -> Iterator["Client"]:
    """A client of the service that is meant (`embedded.reached`); what goes wrong ends the command."""
    from app.cli.embedded import reached
    from app.client import ClientError, ProblemError

    try:
        with reached(url, data_dir, say) as client:
            yield client
    except ProblemError as error:
        places = [f"  {_where(place)}: {place.detail}" for place in error.errors[:20]]
        fail("\n".join([f"The service says no: {error.detail}", *(places if len(places) > 1 else [])]))
    except ClientError as error:
        fail(str(error))


def _where(place: "Place") -> str:
    row = f"row {place.row}" if place.row else ""
    return ", ".join(part for part in (place.column, row) if part) or "the request"
