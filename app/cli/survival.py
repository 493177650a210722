"""The command that prints survival curves, through the HTTP API."""

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from app.cli.common import AsJson, DataDir, ModelName, listed, print_json, writing, written
from app.cli.embedded import asking
from app.cli.fit_predict import SETTING, SHOWN_ROWS, Url, pairs
from app.cli.output import make_console, out
from sampler.host.data import number_to_text, range_to_text

# A help text; tests run its examples.
SURVIVAL = """Print survival curves of rows: how probable it is that the outcome exceeds each time.

ROWS is a file with the model's columns (CSV, Parquet), or one row as NAME=VALUE pairs. The model must
have been fitted with an event column (--event NAME) or limits. The output is a table of medians and
restricted means on a terminal, otherwise, or with --output, CSV with a line for each row and time.

\\b
Examples
  bartserve fit lung.csv --target time --event died --name lung
  bartserve survival lung age=60 sex=1 --times 100,365,730
  bartserve survival lung patients.csv --output curves.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command to `bartserve`."""
    app.command(help=SURVIVAL)(survival)


def survival(
    model: ModelName,
    rows: Annotated[list[str], typer.Argument(metavar="ROWS", help="A file, or NAME=VALUE pairs.")],
    times: Annotated[
        list[str] | None,
        typer.Option(help="Increasing times, separated by commas; repeatable. Default: 50 of them."),
    ] = None,
    level: Annotated[float, typer.Option(help="The level of the credible intervals.")] = 0.9,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV to this file.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Print survival curves; the help is SURVIVAL."""
    errors = make_console(stderr=True)
    as_pairs = len(rows) > 1 or (SETTING.fullmatch(rows[0]) and not Path(rows[0]).exists())
    source = [pairs(rows)] if as_pairs else table_of(Path(rows[0]))
    with asking(url, data_dir, errors.print) as client:
        answer = client.survival(model, source, times=_numbers(times), level=level)
    if as_json:
        print_json(answer)
        return
    for warning in answer["warnings"]:
        errors.print(f"warning   {warning}")
    if output is not None:
        with writing(output), output.open("w", newline="") as file:
            count = _write(answer, file)
        errors.print(written(output, count, "line"))
    elif sys.stdout.isatty():
        _show(answer)
    else:
        _write(answer, sys.stdout)


def table_of(path: Path) -> Any:
    """Read a CSV or Parquet file; raise BadParameter where there is none."""
    from pyarrow import ArrowInvalid
    from pyarrow.csv import read_csv
    from pyarrow.parquet import read_table

    try:
        return read_table(path) if path.suffix == ".parquet" else read_csv(path)
    except (OSError, ArrowInvalid) as error:
        raise typer.BadParameter(f"{path}: {error}") from None


def _numbers(texts: list[str] | None) -> list[float] | None:
    """Parse numbers separated by commas; raise BadParameter."""
    try:
        return [float(part) for part in listed(texts)] or None
    except ValueError:
        given = ",".join(texts or ())
        raise typer.BadParameter(f"{given!r} is not a list of numbers such as 100,365,730.") from None


def _show(answer: Mapping[str, Any]) -> None:
    last = number_to_text(answer["times"][-1], 5)
    table = Table(title=f"{answer['level']:.0%} intervals, model {answer['model_id']}", title_justify="left")
    for name in ("row", "median", "interval", f"mean up to {last}", "interval"):
        table.add_column(name, justify="right")
    figures = [answer["median"], answer["restricted_mean"]]
    count = len(answer["survival"])
    for k in range(min(count, SHOWN_ROWS)):
        cells = []
        for each in figures:
            ends = range_to_text(each["lower"][k], each["upper"][k], 5)
            cells += [number_to_text(each["value"][k], 5), ends]
        table.add_row(str(k + 1), *cells)
    out.print(table)
    if count > SHOWN_ROWS:
        out.print(f"... and {count - SHOWN_ROWS:,} more: --output curves.csv writes all")


def _write(answer: Mapping[str, Any], file: Any) -> int:
    """Write the curves as CSV; return the number of lines."""
    writer = csv.writer(file)
    writer.writerow(("row", "time", "survival", "lower", "upper"))
    lines = [
        (row, *figures)
        for row, curve in enumerate(zip(answer["survival"], answer["lower"], answer["upper"], strict=True), 1)
        for figures in zip(answer["times"], *curve, strict=True)
    ]
    writer.writerows(lines)
    return len(lines)
