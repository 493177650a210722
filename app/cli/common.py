"""Shared parts of the commands: options, settings from them, and failures."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from app.settings import Settings

Host = Annotated[str, typer.Option(help="The address to listen on. Beyond loopback, API keys are required.")]
Port = Annotated[int, typer.Option(help="The port to listen on.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; messages go to stderr.")]
DataDir = Annotated[Path | None, typer.Option(help="The folder with all data of the service.")]
Limit = Annotated[int, typer.Option(min=1, help="The maximum number of entries.")]
ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model's id, or a name, which means the newest that has succeeded and isn't withheld.",
    ),
]
OfOutcome = Annotated[
    str | None,
    typer.Option("--outcome", help="Of a model of several outcomes: which one. Default: the first."),
]


def settings_with(**overrides: Any) -> "Settings":
    """Read the settings from the environment and the given options; an invalid one ends the command.

    Unknown BARTSERVE_ variables are reported on stderr, except by parts of `bartserve up`, which reports them
    itself.
    """
    from app.settings import SettingError, read_settings, unknown_variables
    from app.supervisor import is_supervised

    try:
        settings = read_settings(**{name: value for name, value in overrides.items() if value is not None})
    except SettingError as error:
        fail(str(error))
    if not is_supervised():
        for sentence in unknown_variables(os.environ):
            typer.echo(sentence, err=True)
    return settings


def version() -> str:
    """Return the version of the installed distribution."""
    try:
        return distribution_version("bartserve")
    except PackageNotFoundError:  # the source is used without installation
        return "unknown"


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout, times in ISO 8601."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=lambda time: time.isoformat()))


def listed(texts: Iterable[str] | None) -> list[str]:
    """Return the names in values of an option that is repeatable and takes commas."""
    return [each.strip() for text in texts or () if text for each in text.split(",")]


def written(path: str | Path, count: int, noun: str = "row") -> str:
    """Say that so many lines were written to a file."""
    return f"written   {path}: {count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """End the command with a message where a file can't be written."""
    try:
        yield
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror or error}.")


def fail(sentence: str) -> NoReturn:
    """End the command with exit code 1 and a message on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(1)
