"""The `bartserve` command. The only package that may start both sides, the API and the worker.

Each group of commands is a module of its own, and each command imports only the side that it starts.
"""

import typer

from app.cli import check, keys, lists, people, service

app = typer.Typer(
    name="bartserve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Predictions that carry honest intervals: a service for Bayesian additive regression trees.",
)
people.register(app)
app.add_typer(lists.models, name="models")
app.add_typer(lists.datasets, name="datasets")
service.register(app)
app.add_typer(keys.app, name="keys")
app.add_typer(check.app, name="check")


def main() -> None:
    """Run the command line."""
    app()
