"""Commands that print figures of sets of rows, through the HTTP API: totals, and effects of a treatment."""

import csv
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from app.cli.common import AsJson, DataDir, ModelName, OfOutcome, print_json, writing, written
from app.cli.embedded import asking
from app.cli.fit_predict import Url
from app.cli.output import make_console, out
from app.cli.survival import table_of
from app.client.base import is_dataset_id
from app.client.views import without_none
from sampler.host.data import number_to_text, range_to_text

FIGURES = ("mean", "lower", "upper")
COUNTS = ("rows", "observed_rows", "new_groups")
# A help text; tests run its examples.
AGGREGATE = """Print totals, means or quantiles of sets of rows, with intervals of their own.

ROWS is a file with the model's columns (CSV, Parquet), and those that --by and the other options name, or the
id of a dataset of up to a million rows, whose figures are made in the background. Ends of the rows' own
intervals don't add up to these: what rows have in common is allowed for.

\b
Examples
  bartserve aggregate cars new.csv --by origin
  bartserve aggregate cars new.csv --of mean --interval credible --compare origin=1,3
  bartserve aggregate cars new.csv --by year --by origin --of quantile --q 0.5 --output medians.csv
  bartserve aggregate cars ds_9f8a7b6c5d4e3f2a --by year --output totals.csv
"""

OF_EFFECTS = (
    "mean", "lower", "upper", "population_lower", "population_upper", "positive", "rows", "use", "mcse"
)  # fmt: skip
# A help text; tests run its examples.
EFFECTS = """Print what a model's treatment does: on average, in groups, and for whom it is larger.

The model was fitted with --treatment. ROWS is a file with its columns (CSV, Parquet), that of the treatment
too; without it, the rows are those of the model's dataset.

\b
Examples
  bartserve effects weights --by age
  bartserve effects weights --by age=40,60 --by sex
  bartserve effects weights new.csv --of treated --output effects.csv
  bartserve effects weights --arm high --against low
  bartserve effects wages --arm 16 --against 12
  bartserve effects gbsg --measure survival --until 1825
"""


def register(app: typer.Typer) -> None:
    """Add the commands to `bartserve`."""
    app.command(help=AGGREGATE)(aggregate)
    app.command(help=EFFECTS)(effects)


def aggregate(
    model: ModelName,
    rows: Annotated[
        str, typer.Argument(metavar="ROWS", help="A file with the rows, or the id of a dataset.")
    ],
    by: Annotated[
        list[str] | None, typer.Option(help="A column whose equal values make a set; repeatable.")
    ] = None,
    of: Annotated[Literal["sum", "mean", "quantile"], typer.Option(help="The figure of a set.")] = "sum",
    q: Annotated[float | None, typer.Option(help="Which quantile, between 0 and 1.")] = None,
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.9,
    interval: Annotated[
        Literal["predictive", "credible", "calibrated"],
        typer.Option(help="Of what will be observed, of what is expected, or calibrated by held-out groups."),
    ] = "predictive",
    compare: Annotated[
        str | None, typer.Option(metavar="COLUMN=A,B", help="Rows with A less rows with B, in each set.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Factors by which outcomes count.")
    ] = None,
    observed: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Outcomes, where known; they count as they are.")
    ] = None,
    population: Annotated[
        bool, typer.Option("--population", help="Of credible means: of the population that rows sample.")
    ] = False,
    outcome: OfOutcome = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV to this file.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Print figures of sets of rows; the help is AGGREGATE."""
    errors = make_console(stderr=True)
    asked = {"by": by, "of": of, "q": q, "level": level, "interval": interval, "compare": _compared(compare)}
    asked |= {"population": True} if population else {}
    if is_dataset_id(rows):
        beside = {"weights": weights, "observed": observed}
        with asking(url, data_dir, errors.print) as client:
            job = client.predict_dataset(model, rows, aggregate=without_none(asked | beside), outcome=outcome)
            found = client.wait_prediction(job)
        _write_table(found, output, errors, as_json=as_json)
        return
    table, beside = table_of(Path(rows)), dict[str, Any]()
    for name, column in (("weights", weights), ("observed", observed)):
        if column is None:
            continue
        if column not in table.column_names:
            raise typer.BadParameter(f"{rows} has no column {column!r}.", param_hint=f"--{name}")
        beside[name] = table.column(column).to_pylist()
        table = table.drop_columns([column])
    with asking(url, data_dir, errors.print) as client:
        answer = client.aggregate(model, table, **beside, **asked, outcome=outcome)
    if as_json:
        print_json(answer)
        return
    if answer["claim"]:
        errors.print(answer["claim"])
    for warning in answer["warnings"]:
        errors.print(f"warning   {warning}")
    if output is not None:
        with writing(output), output.open("w", newline="") as file:
            _write(answer, file)
        errors.print(written(output, len(answer["sets"]), "set"))
    elif sys.stdout.isatty():
        _show(answer)
    else:
        _write(answer, sys.stdout)


def _compared(text: str | None) -> dict[str, list[str]] | None:
    """Parse a column and two of its values; raise BadParameter."""
    if text is None:
        return None
    name, _, values = text.partition("=")
    if not name or values.count(",") != 1:
        message = f"{text!r} is not a column and two of its values, such as region=North,South."
        raise typer.BadParameter(message, param_hint="--compare")
    return {name: values.split(",")}


def _lines(answer: Mapping[str, Any]) -> Iterator[tuple[list[str], list[float], list[int]]]:
    """Yield the values, figures and counts of each set, and of each class where there are several."""
    for each in answer["sets"]:
        values = ["" if value is None else value for value in each["set"].values()]
        counts = [each[name] for name in COUNTS]
        if not isinstance(each["mean"], list):
            yield values, [each[name] for name in FIGURES], counts
            continue
        for k, label in enumerate(answer["classes"]):
            yield [*values, label], [each[name][k] for name in FIGURES], counts


def _names(answer: Mapping[str, Any]) -> list[str]:
    first = answer["sets"][0]
    return [*first["set"], *(["class"] if isinstance(first["mean"], list) else [])]


def _show(answer: Mapping[str, Any]) -> None:
    title = f"{answer['figure']}, {answer['level']:.0%} intervals, model {answer['model_id']}"
    table = Table(title=title, title_justify="left")
    for name in (*_names(answer), "rows", "mean", "interval"):
        table.add_column(name, justify="right")
    for values, (mean, lower, upper), counts in _lines(answer):
        table.add_row(*values, str(counts[0]), number_to_text(mean), range_to_text(lower, upper))
    out.print(table)


def _write(answer: Mapping[str, Any], file: Any) -> None:
    writer = csv.writer(file)
    writer.writerow((*_names(answer), *FIGURES, *COUNTS))
    writer.writerows([*values, *figures, *counts] for values, figures, counts in _lines(answer))


def _write_table(found: Any, output: Path | None, errors: Console, *, as_json: bool) -> None:
    """Write the figures of a dataset's sets: the columns of the file that the service makes."""
    if as_json:
        print_json(found.to_pylist())
        return
    lines = [found.column_names, *zip(*(column.to_pylist() for column in found.columns), strict=True)]
    if output is None:
        csv.writer(sys.stdout).writerows(lines)
        return
    with writing(output), output.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    errors.print(written(output, found.num_rows, "set"))


def effects(
    model: ModelName,
    rows: Annotated[Path | None, typer.Argument(metavar="ROWS", help="A file with the rows.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[=A,B]",
            help="A feature by which averages are given too, or its cut points; of two, both.",
        ),
    ] = None,
    of: Annotated[
        Literal["all", "treated", "untreated"], typer.Option(help="Which of the rows count.")
    ] = "all",
    arm: Annotated[
        str | None, typer.Option(help="Of several arms, or of a dose, the one whose effect is asked.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="The arm or dose that it is compared with.")] = None,
    measure: Annotated[
        Literal["restricted_mean", "survival", "ratio"] | None,
        typer.Option(help="Of times with events: means up to a time, probabilities of more, or a ratio."),
    ] = None,
    until: Annotated[float | None, typer.Option(help="That time.")] = None,
    level: Annotated[float, typer.Option(help="The level of the intervals.")] = 0.9,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write CSV to this file.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Print average effects; the help is EFFECTS."""
    errors = make_console(stderr=True)
    table = None if rows is None else table_of(rows)
    with asking(url, data_dir, errors.print) as client:
        answer = client.effects(
            model, table, of=of, by=_cut_points(by), level=level, arm=arm, against=against,
            measure=measure, until=until,
        )  # fmt: skip
    if as_json:
        print_json(answer)
        return
    for sentence in (
        answer["use"]["text"],
        *answer["of_dose"],
        *answer["of_times"],
        answer["holds"],
        answer["hidden"],
    ):
        errors.print(sentence)
    if ratio := answer["ratio"]:
        ends = range_to_text(ratio["lower"], ratio["upper"])
        errors.print(f"The average is {number_to_text(ratio['mean'])} times as large ({ends}).")
    for warning in answer["warnings"]:
        errors.print(f"warning   {warning}")
    if output is not None:
        with writing(output), output.open("w", newline="") as file:
            _write_effects(answer, file)
        errors.print(f"written   {output}")
    elif sys.stdout.isatty():
        _show_effects(answer)
    else:
        _write_effects(answer, sys.stdout)


def _cut_points(by: list[str] | None) -> dict[str, list[float] | None] | str | None:
    """Parse features with their cut points; raise BadParameter."""
    if not by:
        return None
    if len(by) == 1 and "=" not in by[0]:
        return by[0]
    found: dict[str, list[float] | None] = {}
    for text in by:
        name, _, cuts = text.partition("=")
        try:
            found[name] = [float(each) for each in cuts.split(",")] if cuts else None
        except ValueError:
            message = f"{text!r} is not a feature and its cut points, such as age=40,60."
            raise typer.BadParameter(message, param_hint="--by") from None
    return found


def _averages(answer: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Name the averages: of the rows, their arms, the groups, the leaves of the tree and other arms."""
    arms = ("average", "treated", "untreated")
    named: dict[str, Mapping[str, Any]] = {name: answer[name] for name in arms if answer[name] is not None}
    leaves = {leaf["where"]: leaf["average"] for leaf in answer["tree"]["leaves"]}
    others = {name: each for name, each in answer["arms"].items() if name != answer["arm"]}
    others = {f"{name} against {answer['against']}": each for name, each in others.items()}
    return {**named, **answer["groups"], **(leaves if len(leaves) > 1 else {}), **others}


def _show_effects(answer: Mapping[str, Any]) -> None:
    title = f"{answer['difference']}, {answer['level']:.0%} intervals, model {answer['model_id']}"
    table = Table(title=title, title_justify="left")
    for name in (
        "",
        "rows",
        "effect",
        "interval",
        "of the population",
        f"above {answer['neutral']:g}",
        "use",
    ):
        table.add_column(name, justify="right")
    for name, each in _averages(answer).items():
        table.add_row(
            name,
            str(each["rows"]),
            number_to_text(each["mean"]),
            range_to_text(each["lower"], each["upper"]),
            range_to_text(each["population_lower"], each["population_upper"]),
            f"{each['positive']:.0%}",
            each["use"].replace("_", " "),
        )
    out.print(table)


def _write_effects(answer: Mapping[str, Any], file: Any) -> None:
    writer = csv.writer(file)
    writer.writerow(("group", *OF_EFFECTS))
    writer.writerows([name, *(each[part] for part in OF_EFFECTS)] for name, each in _averages(answer).items())
