"""The commands for people: fit a file, predict rows. They ask a service as everybody does, through HTTP."""

import csv
import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from app.cli.common import DataDir
from app.cli.embedded import asking
from app.client import Client, Dataset, Prediction, ProblemError

Url = Annotated[
    str | None,
    typer.Option(
        envvar="BARTSERVE_URL",
        help="A running service. Without one: the embedded service of the data folder, started if need be.",
    ),
]
How = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How the file is written, where it is read wrongly: separator, quoting, encoding, decimal, "
        "header, dates or missing; repeatable.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="Another kind of a column: number, boolean, date, category or text; repeatable.",
    ),
]
SHOWN_ROWS = 20  # of predictions on a terminal
SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
HALF = re.compile(r"[+-]?(\d+\.|\.\d+)([eE][+-]?\d+)?")  # a number that JSON doesn't take
# Help with examples, which tests run.
FIT = """Train a model on a file (CSV, Parquet, Arrow) and say whether its chains agree.

The file is uploaded, four chains are sampled with a bar each, and the verdict says how far the figures can be
trusted. With --holdout some rows are kept back, and the score on them is what to expect of new rows.
A target of numbers gets intervals of numbers; one of two classes gets the probability of the second.

\b
Examples
  bartserve fit cars.csv --target mpg
  bartserve fit cars.csv --target mpg --name cars --holdout 0.2 --seed 1
  bartserve fit cars.csv --target mpg --features weight,year --set num_trees=100
  bartserve fit cars.csv --target origin --set method=bcart --set family=categorical
  bartserve fit cars.csv --target mpg --read decimal=point --kind origin=category
"""
PREDICT = """Predict new rows, each with its interval.

ROWS is a file with the columns that the model learnt from, or one row as NAME=VALUE pairs. On a terminal you
see a table; otherwise, or with --output, you get CSV.

\b
Examples
  bartserve predict cars new.csv
  bartserve predict cars new.csv --level 0.5 --level 0.9 --output predicted.csv
  bartserve predict cars weight=2171 year=75 --interval credible

`predictive` intervals say where a new outcome will fall, `credible` ones where its expectation lies. Classes
have probabilities, and only `credible` intervals.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to `bartserve`."""
    app.command(help=FIT)(fit)
    app.command(help=PREDICT)(predict)


def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, or the id of a dataset.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    name: Annotated[
        str | None, typer.Option(help="What to call the model; default: the file's name.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, with commas between; default: all usable.")
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of rows kept back and scored: 0.2 is a fifth.")
    ] = 0.0,
    seed: Annotated[
        int | None, typer.Option(help="The same data, settings and seed: the same model.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of POST /models; repeatable."),
    ] = None,
    read: How = None,
    kind: Kinds = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """See FIT."""
    from app.cli.progress import followed

    console = Console(highlight=False, soft_wrap=True)
    given = {"name": name, "seed": seed, **_pairs(setting or [])}
    given.setdefault("family", "auto")
    given["features"] = [one.strip() for one in features.split(",")] if features else given.get("features")
    with asking(url, data_dir, console.print) as client:
        dataset = _dataset(client, data, console, how_read(read), dict(texts(kind)))
        try:
            model = client.fit(
                dataset, target, holdout=holdout or None, **(given | {"name": name or dataset.name})
            )
        except ProblemError:
            if data != dataset.id:  # whoever mends the command uploads the file again
                client.delete_dataset(dataset)
            raise
        followed(client, model, console)


def predict(
    model: Annotated[str, typer.Argument(help="A model's name (its newest one answers) or id.")],
    rows: Annotated[list[str], typer.Argument(metavar="ROWS", help="A file, or NAME=VALUE pairs.")],
    level: Annotated[
        list[float] | None, typer.Option(help="The probability an interval holds; repeatable. Default: 0.9.")
    ] = None,
    interval: Annotated[
        Literal["predictive", "credible"] | None,
        typer.Option(
            help="Of a new outcome, or of its expectation. Default: predictive; of classes credible."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV to this file.")] = None,
    read: How = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """See PREDICT."""
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    asked: Any = rows[0]
    if len(rows) > 1 or (SETTING.fullmatch(rows[0]) and not Path(rows[0]).exists()):
        asked = [_pairs(rows)]
    with asking(url, data_dir, errors.print) as client:
        wanted: Any = {"level": level or [0.9], **how_read(read)}
        answer = client.predict(model, asked, interval=interval, **wanted)
    if answer.classes is not None and len(answer.classes) == 2:
        errors.print(
            f"mean      the probability of {answer.classes[1]} (not {answer.classes[0]})", markup=False
        )
    for warning in answer.warnings:
        errors.print(f"warning   {warning}", markup=False)
    if output is None and sys.stdout.isatty():
        _show(answer)
        return
    if output is None:
        _write(answer, sys.stdout)
        return
    with output.open("w", newline="") as file:
        _write(answer, file)
    errors.print(f"written   {output}: {len(answer):,} rows", markup=False)


def how_read(given: list[str] | None) -> Any:
    """What `--read` says, as the client takes it: `missing` is a list."""
    pairs = texts(given)
    missing = [value for name, value in pairs if name == "missing"]
    return dict(pairs) | ({"missing": missing} if missing else {})


def texts(given: list[str] | None) -> list[tuple[str, str]]:
    """NAME=VALUE, told apart.

    Raises
    ------
    BadParameter
        There is one without an equals sign.
    """
    found = []
    for pair in given or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is no NAME=VALUE pair.")
        found.append((name, text))
    return found


def _dataset(client: Client, data: str, console: Console, reading: Any, kinds: dict[str, str]) -> Dataset:
    """Upload a file; what is no file is the id of a dataset."""
    from app.cli.progress import about_dataset

    if not Path(data).exists() and data.startswith("ds_"):
        dataset = client.dataset(data)
    else:
        dataset = client.upload(data, kinds=kinds, **reading)
    console.print(about_dataset(dataset, Path(data).name), markup=False)
    for warning in dataset.warnings:
        console.print(f"          {warning}", markup=False)
    return dataset


def _pairs(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE, values as JSON has them, also numbers like .5, else as text."""
    found: dict[str, Any] = {}
    for name, text in texts(given):
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = float(text) if HALF.fullmatch(text) else text
    return found


def _show(answer: Prediction) -> None:
    table = Table(title=f"{answer.interval} intervals, model {answer.model_id}", title_justify="left")
    columns = answer.to_dict()
    for name in ("row", *columns):
        table.add_column(name, justify="right")
    for k in range(min(len(answer), SHOWN_ROWS)):
        table.add_row(str(k + 1), *(f"{values[k]:.5g}" for values in columns.values()))
    console = Console(highlight=False)
    console.print(table)
    if len(answer) > SHOWN_ROWS:
        console.print(f"... and {len(answer) - SHOWN_ROWS:,} more: --output predicted.csv writes them all")


def _write(answer: Prediction, file: Any) -> None:
    columns = answer.to_dict()
    writer = csv.writer(file)
    writer.writerow([*columns, "interval"])
    figures = (values.tolist() for values in columns.values())
    writer.writerows(zip(*figures, [answer.interval] * len(answer), strict=True))
