"""The `bartserve` command. The only package that may start both sides, the API and the worker.

A module with commands is imported when one of them is looked up, and each command imports only the side that
it starts: the health checks of containers run every few seconds.
"""

import os
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.common import version

MODULES = {  # of each command, in the order of the help
    "fit": "fit_predict",
    "predict": "fit_predict",
    "forecast": "forecast",
    "survival": "survival",
    "aggregate": "aggregate",
    "effects": "aggregate",
    "models": "models",
    "sets": "models",
    "outcomes": "outcomes",
    "datasets": "datasets",
    "webhooks": "access.webhooks",
    "mcp": "assistants",
    "up": "service",
    "api": "service",
    "worker": "service",
    "migrate": "service",
    "warm": "service",
    "demo": "service",
    "config": "service",
    "keys": "access.keys",
    "check": "check",
}


class CommandGroup(TyperGroup):
    """The group of all commands, each of which is made when it is looked up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: dict[str, Any] = dict.fromkeys(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a command, or group of commands, by name; None if there is none."""
        if cmd_name in MODULES and self.commands[cmd_name] is None:
            module = import_module(f"app.cli.{MODULES[cmd_name]}")
            part = typer.Typer(callback=lambda: None)  # which keeps a single command in a group
            if hasattr(module, "register"):
                module.register(part)
            else:
                part.add_typer(module.app, name=cmd_name)
            self.commands |= typer.main.get_group(part).commands
        return self.commands.get(cmd_name)


app = typer.Typer(
    name="bartserve",
    cls=CommandGroup,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Predictions that carry honest intervals: a service for Bayesian additive regression trees.

\b
Start with one of these
  bartserve demo                          real data, a model, predictions
  bartserve up                            the service and its pages
  bartserve fit FILE.csv --target COLUMN  a model of your own

\b
Exit codes
  0     done
  1     refused or failed; stderr has the reason in one sentence
  2     the command line is wrong: no such command, option or value
  130   interrupted (Ctrl-C)

Commands that print a table or a report print JSON instead with --json; messages then go to stderr.
""",
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"bartserve {version()}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Show the help where no command is given; it is in `app`."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    os.environ["PYTHONSAFEPATH"] = "1"  # child processes never import from the working folder
    app()
