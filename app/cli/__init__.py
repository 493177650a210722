"""The `bartserve` command. The only package that may start both sides, the API and the worker.

Each group of commands is a module, and each command imports only the side that it starts.
"""

import os

import typer

from app.cli import check, fit_predict, keys, manage, service

app = typer.Typer(
    name="bartserve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Predictions that carry honest intervals: a service for Bayesian additive regression trees.

\b
Start with one of these
  bartserve demo                              real data, a model and its predictions; nothing is left behind
  bartserve up                                the service with its pages, on http://127.0.0.1:8000
  bartserve fit FILE.csv --target COLUMN      a model of your own, here in the terminal
""",
)
fit_predict.register(app)
app.add_typer(manage.models, name="models")
app.add_typer(manage.datasets, name="datasets")
service.register(app)
app.add_typer(keys.app, name="keys")
app.add_typer(check.app, name="check")


def main() -> None:
    """Run the command line."""
    os.environ["PYTHONSAFEPATH"] = "1"  # child processes never import from the working folder
    app()
