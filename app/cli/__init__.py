"""The `bartserve` command. The only package that may start both sides, the API and the worker.

Each group of commands is a module, and each command imports only the side that it starts.
"""

import os
from typing import Annotated

import typer

from app.cli import check, datasets, fit_predict, keys, models, outcomes, service, survival
from app.cli.common import version

app = typer.Typer(
    name="bartserve",
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


fit_predict.register(app)
survival.register(app)
app.add_typer(models.app, name="models")
app.add_typer(outcomes.app, name="outcomes")
app.add_typer(datasets.app, name="datasets")
service.register(app)
app.add_typer(keys.app, name="keys")
app.add_typer(check.app, name="check")


def main() -> None:
    """Run the command line."""
    os.environ["PYTHONSAFEPATH"] = "1"  # child processes never import from the working folder
    app()
