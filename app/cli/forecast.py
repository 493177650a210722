"""The command that forecasts series and their totals, through the HTTP API."""

import csv
import json
import re
import sys
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from app.cli.common import AsJson, DataDir, ModelName, print_json, writing, written
from app.cli.embedded import asking
from app.cli.fit_predict import Url, is_set
from app.cli.output import make_console, out
from app.client import Client, ProblemError
from app.client.base import is_dataset_id
from app.client.forecasts import SeriesForecast
from sampler.host.data import number_to_text

SHOWN = 40  # lines on a terminal
STEPS = re.compile(r"(\d+)(?:-(\d+))?")
# A help text; tests run its examples.
FORECAST = """Forecast the next steps of series, or totals over them.

MODEL, or each model of a set, was fitted with --time and --horizon. Where columns are known ahead, --known is
a plan: a file with them for each step to forecast, which --template writes to be filled in. Totals have
intervals of their own: the ends of steps don't add up to these.

\\b
Examples
  bartserve forecast sales --template plan.csv
  bartserve forecast sales --known plan.csv
  bartserve forecast sales --known plan.csv --series Leeds --level 0.8
  bartserve forecast sales --known plan.csv --total 1-6 --by region --output lead_time.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command to `bartserve`."""
    app.command(help=FORECAST)(forecast)


def forecast(
    model: ModelName,
    known: Annotated[
        str | None, typer.Option(metavar="PLAN", help="A file with what is known ahead, or a dataset's id.")
    ] = None,
    series: Annotated[
        list[str] | None, typer.Option(help="A series to forecast; repeatable. Default: all.")
    ] = None,
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.9,
    interval: Annotated[
        Literal["calibrated", "predictive"] | None,
        typer.Option(help="Calibrated by rehearsals, or as the paths have them. Default: the first."),
    ] = None,
    total: Annotated[
        list[str] | None,
        typer.Option(metavar="STEPS", help="Steps of a total: 1-6, or 6 for all up to it; repeatable."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A column whose equal values make a set of a total; repeatable.")
    ] = None,
    template: Annotated[
        Path | None, typer.Option(help="Write the plan to fill in to this file, as CSV, and nothing else.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV to this file.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Forecast series; the help is FORECAST."""
    errors = make_console(stderr=True)
    steps = [_steps(text) for text in total or ([] if not by else [""])]
    totals = [{"steps": each, "by": by} if by else {"steps": each} for each in steps]
    with asking(url, data_dir, errors.print) as client:
        of_set = client.model_set(model) if is_set(client, model) else None
        if template is not None:
            _write(client.plan_template(of_set or model), template, errors)
            return
        asked: Any = {"level": level, "interval": interval, "series": series}
        try:
            if of_set is not None:
                answers = client.forecast_many(of_set, known, totals=totals, **asked)
            else:
                answers = [client.forecast(model, known, totals=totals, **asked)]
        except ProblemError as problem:
            if problem.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            document, told, columns = _in_background(
                client, of_set or model, known, asked | {"totals": totals}, errors
            )
        else:
            document, told, columns = _together(answers)
    if as_json:
        print_json(document)
        return
    for line in told:
        errors.print(line, soft_wrap=True)
    if output is not None or not sys.stdout.isatty():
        _write(columns, output, errors)
        return
    _show(columns)


Told = tuple[Any, list[str], dict[str, list[Any]]]  # a document, remarks, and columns of a table


def _together(answers: Sequence[SeriesForecast]) -> Told:
    """Put the answer of a model, or those of a set's models, into one table."""
    told, columns = [], dict[str, list[Any]]()
    for answer in answers:
        of = f"{', '.join(answer.group.values())}: " if answer.group else ""
        told += [f"warning   {of}{warning}" for warning in answer.warnings]
        claims = dict.fromkeys(each["claim"] for each in answer.totals or [answer.document])
        told += [f"claim     {of}{claim}" for claim in claims]
        for name, values in (_of_totals(answer) if answer.totals else answer.to_dict()).items():
            columns.setdefault(name, []).extend(values)
    documents = [answer.document for answer in answers]
    return {"forecasts": documents} if answers[0].group else documents[0], told, columns


def _in_background(client: Client, model: Any, known: str | None, asked: Any, errors: Any) -> Told:
    """Forecast more series than one answer has, by workers: of a model, or of each of a set."""
    own = known is not None and not is_dataset_id(known)
    plan = client.upload(Path(str(known)), name="plan") if own else known
    try:
        of_set = not isinstance(model, str)
        jobs = (client.forecast_datasets if of_set else client.forecast_dataset)(model, plan, **asked)
        found, told, columns = [], list[str](), dict[str, list[Any]]()
        for job in jobs if isinstance(jobs, list) else [jobs]:
            errors.print(f"forecast  {job.id}: in the background, as it is more than one answer has")
            table, group = client.wait_prediction(job), job.document.get("group") or {}
            facts, lines = json.loads(table.schema.metadata[b"bartserve"]), table.to_pydict()
            of = f"{', '.join(group.values())}: " if group else ""
            told += [f"warning   {of}{each}" for each in facts["warnings"]] + [
                f"claim     {of}{facts['claim']}"
            ]
            found.append(facts | ({"group": group} if group else {}) | {"columns": lines})
            for name, values in ({name: [each] * len(table) for name, each in group.items()} | lines).items():
                columns.setdefault(name, []).extend(values)
    finally:
        if own and plan is not None:
            client.delete_dataset(plan)
    return {"forecasts": found} if of_set else found[0], told, columns


def _steps(text: str) -> list[int] | None:
    """Parse steps such as 1-6 or 6; raise BadParameter."""
    if not text:
        return None
    if (found := STEPS.fullmatch(text.strip())) is None:
        raise typer.BadParameter(f"{text!r} is not steps such as 1-6.", param_hint="--total")
    return [int(each) for each in found.groups() if each]


def _of_totals(answer: SeriesForecast) -> dict[str, list[Any]]:
    """Return the columns of totals, a line for each set and total."""
    columns: dict[str, list[Any]] = {}
    for each in answer.totals:
        count = len(each["median"])
        steps: dict[str, Any] = {name: [value] * count for name, value in answer.group.items()}
        steps |= {"first_step": [each["steps"][0]] * count, "last_step": [each["steps"][-1]] * count}
        own = steps | each["sets"] | {"number_of_series": each["count"]}
        for name, values in (own | {name: each[name] for name in ("median", "lower", "upper")}).items():
            columns.setdefault(name, []).extend(values)
    return columns


def _write(columns: Any, path: Path | None, errors: Any) -> None:
    """Write columns as CSV, to the standard output without a path."""
    lines = [*zip(*columns.values(), strict=True)]
    if path is None:
        writer = csv.writer(sys.stdout)
        writer.writerows([[*columns], *lines])
        return
    with writing(path), path.open("w", newline="") as file:
        csv.writer(file).writerows([[*columns], *lines])
    errors.print(written(path, len(lines)))


def _show(columns: Any) -> None:
    table = Table()
    for name in columns:
        table.add_column(name, justify="right")
    lines = [*zip(*columns.values(), strict=True)]
    for line in lines[:SHOWN]:
        table.add_row(*(number_to_text(each, 4) if isinstance(each, float) else str(each) for each in line))
    out.print(table)
    if len(lines) > SHOWN:
        out.print(f"... and {len(lines) - SHOWN:,} more: --output forecast.csv writes all")
