"""Commands that fit a file and predict rows, through the HTTP API."""

import csv
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from app.cli.common import AsJson, DataDir, OfOutcome, listed, print_json, writing, written
from app.cli.embedded import asking
from app.cli.output import make_console, out
from app.client import Client, Dataset, Model, ModelSet, Prediction, ProblemError
from app.client.base import is_dataset_id
from app.client.predictions import EVERY
from sampler import SettingsError
from sampler.host.data import number_to_text
from sampler.host.settings import COLUMN_ROLES, FORECAST, ROLES, read_subgroup

Url = Annotated[
    str | None,
    typer.Option(
        envvar="BARTSERVE_URL",
        help="URL of a running service. Default: the embedded service on the data folder, started if needed.",
    ),
]
How = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="A reading option that overrides the detected one: separator, quoting, encoding, decimal, "
        "header, dates, missing or wide; repeatable.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="The kind of a column: number, boolean, date, category or text; repeatable.",
    ),
]
SIGNS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}  # separators
LISTED = ("names", "levels")  # kinds of settings that are lists
COMMAS = " Separated by commas; repeatable."
OF_ROLES = "\n".join(f"  bartserve fit {role.example}" for role in COLUMN_ROLES.values() if role.example)
SHOWN_ROWS = 20  # rows of predictions shown on a terminal
SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
HALF = re.compile(r"[+-]?(\d+\.|\.\d+)([eE][+-]?\d+)?")  # a number that JSON doesn't accept
# Help texts; tests run their examples.
FIT = f"""Train a model on a file (CSV, Parquet, Arrow) and say whether its chains agree.

The file is uploaded, eight chains are sampled with a progress bar each, and the verdict says whether they
agree. With --holdout some rows are held out, and the score on them estimates the score on new rows.
For a numeric target the model predicts values, for two classes the probability of the second, for more
classes that of each.

\b
Examples
  bartserve fit cars.csv --target mpg
  bartserve fit cars.csv --target mpg --name cars --holdout 0.2 --seed 1
  bartserve fit cars.csv --target mpg --holdout 0.2 --calibrate holdout
  bartserve fit cars.csv --target mpg --holdout 0.4 --calibrate holdout --subgroup 'year>=79'
  bartserve fit cars.csv --target mpg --name small --features weight,year --set num_trees=100
  bartserve fit cars.csv -t mpg -t acceleration --features mpg=weight,year --features acceleration=horsepower
  bartserve fit cars.csv --target origin --set family=categorical
  bartserve fit survey.csv --target answer --set family=ordinal --levels never,sometimes,always
  bartserve fit cars.csv --target mpg --increasing year --decreasing weight,horsepower
  bartserve fit scores.csv --target normexam --groups school
  bartserve fit sleep.csv --target Reaction --groups Subject --slopes Days
{OF_ROLES}
  bartserve fit sales.csv --target units --time week --series shop --horizon 8 --known promo
  bartserve fit cars.csv --target mpg --by origin
  bartserve fit cars.csv --target mpg --read decimal=point --kind origin=category
  bartserve fit cars.csv --target horsepower --set missing_target=leave_out
"""
PREDICT = """Predict new rows, each with its interval.

ROWS is a file with the model's columns, or one row as NAME=VALUE pairs. The output is a table on a terminal,
otherwise, or with --output, CSV: the columns of the file, or those of --keep, then the figures.

\b
Examples
  bartserve predict cars new.csv
  bartserve predict cars new.csv --level 0.5 --level 0.9 --output predicted.csv
  bartserve predict cars new.csv --keep name --output predicted.csv
  bartserve predict cars new.csv --digits rounded --dialect model --output predicted.csv
  bartserve predict cars new.csv --output predicted.xlsx
  bartserve predict small weight=2171 year=75 --interval credible
  bartserve predict set_0123456789abcdef0123 new.csv --output predicted.csv

`predictive` intervals are for a new outcome, `credible` intervals for its expectation. Predictions of classes
are probabilities with `credible` intervals. `calibrated` intervals, of a model fitted with --calibrate, are
for a new outcome too, with a stated coverage; for classes they are sets of classes.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to `bartserve`."""
    app.command(help=FIT)(fit)
    app.command(help=PREDICT)(predict)


def _with_roles(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each role of a column that a form has a field for, and of forecasts."""
    asked = {**ROLES, **FORECAST}
    commas = {name: COMMAS * (role.kind in LISTED or name == "season") for name, role in asked.items()}
    several = {name: list[str] | None if told else str | None for name, told in commas.items()}
    own = inspect.signature(command)
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[several[name], typer.Option(help=role.form.hint + commas[name])],
        )
        for name, role in asked.items()
        if role.form is not None and name not in own.parameters
    ]
    vars(command)["__signature__"] = own.replace(parameters=[*list(own.parameters.values())[:-1], *options])
    command.__annotations__ |= {each.name: each.annotation for each in options}
    return command


@_with_roles
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, or the id of a dataset.")],
    target: Annotated[
        list[str],
        typer.Option("--target", "-t", help="The column to predict; repeatable for several at once."),
    ],
    name: Annotated[str | None, typer.Option(help="The name of the model; default: the file's name.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Fit a model to the rows of each value of this column (shop, product)." + COMMAS,
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TARGET=]COLUMNS",
            help="Columns to use as features; default: all usable. Of several targets each may have its own, "
            "after the target's name." + COMMAS,
        ),
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of rows held out and scored: 0.2 is a fifth.")
    ] = 0.0,
    calibrate: Annotated[
        Literal["none", "holdout", "folds"] | None,
        typer.Option(help="Calibrate intervals: by the rows held out, or by five more fits."),
    ] = None,
    new_groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="New rows have other values of this column.")
    ] = None,
    later: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="New rows are later by this column.")
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            help="How much later at most, in days or units of the column; with --time, the steps ahead."
        ),
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="Time before a prediction of which nothing is known yet.")
    ] = None,
    subgroup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Calibrated intervals hold in each subgroup by this column, in one such as "
            "'age>=65 & sex=F', by what rows lack (missing), or in each class (by_class); repeatable.",
        ),
    ] = None,
    increasing: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Features with which the outcome only rises." + COMMAS),
    ] = None,
    decreasing: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Features with which it only falls." + COMMAS),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same data, settings and seed give the same model.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of POST /models; repeatable."),
    ] = None,
    read: How = None,
    kind: Kinds = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
    **roles: Any,
) -> None:
    """Fit a model; the help is FIT, and `roles` are those of columns."""
    from app.cli.progress import follow_fit, follow_set

    console = make_console(stderr=as_json)
    settings = {"name": name, "seed": seed, "calibrate": calibrate, **pairs(setting or [])}
    settings |= _features(features, target)
    settings.setdefault("family", "auto")
    forecast = _forecast(roles, horizon)
    settings |= forecast
    ahead = None if forecast else horizon
    declared = {"groups": new_groups, "later": later, "horizon": ahead, "gap": gap}
    if new_rows := {field: value for field, value in declared.items() if value is not None}:
        settings["new_rows"] = new_rows
    if subgroup:
        settings["subgroups"] = [_subgroup(each) for each in subgroup]
    for role, names in roles.items():
        if any(names or ""):
            settings[role] = listed(names) if ROLES[role].kind in LISTED else names
    directions = {"increasing": listed(increasing), "decreasing": listed(decreasing)}
    if both := {*directions["increasing"]} & {*directions["decreasing"]}:
        raise typer.BadParameter(f"{min(both)} can't both rise and fall.")
    if monotone := {name: word for word, names in directions.items() for name in names}:
        settings["monotone"] = monotone
    with asking(url, data_dir, console.print) as client:
        dataset = _dataset(client, data, console, how_read(read), dict(texts(kind)))
        try:
            asked = settings | {"name": name or dataset.name, "holdout": holdout or None}
            outcome: Any = target if len(target) > 1 else target[0]
            fitted: Model | ModelSet = (
                client.fit_many(dataset, outcome, by=listed(by), **asked)
                if by
                else client.fit(dataset, outcome, **asked)
            )
        except ProblemError:
            if data != dataset.id:  # a corrected command uploads the file again
                client.delete_dataset(dataset)
            raise
        followed = (
            follow_fit(client, fitted, console)
            if isinstance(fitted, Model)
            else follow_set(client, fitted, console)
        )
    if as_json:
        print_json(followed.document)


def _forecast(options: dict[str, Any], horizon: float | None) -> dict[str, Any]:
    """Take the options of forecasts out, with the horizon; empty without any."""
    taken = {name: options.pop(name, None) for name in FORECAST}
    given = {name: _of_forecast(name, text) for name, text in taken.items() if any(text or "")}
    if given and horizon is not None:
        given["horizon"] = int(horizon) if horizon == int(horizon) else horizon
    return given


def _of_forecast(name: str, given: Any) -> Any:
    """Read an option of forecasts: names, whole numbers or a word."""
    if FORECAST[name].kind == "names":
        return listed(given)
    if name != "season":
        return given
    numbers = listed(given)
    if all(each.isdigit() for each in numbers):
        return [int(each) for each in numbers]
    return numbers[0] if len(numbers) == 1 else numbers


def _features(given: list[str] | None, targets: list[str]) -> dict[str, Any]:
    """Read features of all targets, or of each by its name; raise BadParameter for a mixture.

    An empty text is no feature, as forecasts may have, and none given leaves the choice to the service.
    """
    if not given:
        return {}
    parts = [each.partition("=") for each in given]
    own: dict[str, list[str]] = {}
    for name, sign, names in parts if len(targets) > 1 else ():
        if sign and name in targets:
            own.setdefault(name, []).append(names)
    if own and sum(map(len, own.values())) < len(given):
        raise typer.BadParameter("Features are of all targets, or each target's: TARGET=COLUMNS for each.")
    return {"features": {name: listed(names) for name, names in own.items()} or listed(given)}


def _subgroup(text: str) -> str | dict[str, Any]:
    try:
        return read_subgroup(text)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None


def is_set(client: Client, text: str) -> bool:
    """Tell whether an id or a name is that of a set, not of a model."""
    if text.startswith(("mdl_", "set_")):
        return text.startswith("set_")
    try:
        client.model(text)
    except ProblemError as problem:
        if problem.status != HTTPStatus.NOT_FOUND:
            raise
        with suppress(ProblemError):  # predicting says that there is neither
            client.model_set(text)
            return True
    return False


def predict(
    model: Annotated[
        str,
        typer.Argument(
            help="The id of a model or set, or a name, which means the newest model, else set; the models of "
            "a set predict the rows of their groups."
        ),
    ],
    rows: Annotated[list[str], typer.Argument(metavar="ROWS", help="A file, or NAME=VALUE pairs.")],
    level: Annotated[
        list[float] | None, typer.Option(help="The level of the intervals; repeatable. Default: 0.9.")
    ] = None,
    interval: Annotated[
        Literal["predictive", "credible", "calibrated"] | None,
        typer.Option(
            help="For a new outcome, for its expectation, or calibrated. Default: predictive; for classes "
            "credible."
        ),
    ] = None,
    quantile: Annotated[
        list[float] | None, typer.Option(help="A further quantile of the same distribution; repeatable.")
    ] = None,
    outcome: OfOutcome = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column of the file to repeat in CSV; repeatable. Default: all; '' for none."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write this file: CSV, or by its ending .xlsx or .parquet."),
    ] = None,
    dialect: Annotated[
        Literal["plain", "model", "file"],
        typer.Option(
            help="CSV with commas and decimal points, as the file that the model was fitted to, or as that "
            "of the rows, letter by letter."
        ),
    ] = "plain",
    digits: Annotated[
        Literal["full", "rounded"],
        typer.Option(help="All digits of the figures, or those that the standard deviation makes sensible."),
    ] = "full",
    read: How = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Predict rows; the help is PREDICT."""
    errors = make_console(stderr=True)
    source: Any = rows[0]
    if len(rows) > 1 or (SETTING.fullmatch(rows[0]) and not Path(rows[0]).exists()):
        source = [pairs(rows)]
    as_csv = not as_json and (output is not None or not sys.stdout.isatty())
    if (dialect, digits) != ("plain", "full") and not (as_csv and isinstance(source, str)):
        raise typer.BadParameter("--dialect and --digits are for CSV of a file's rows.")
    served = _served(output, dialect, of_file=as_csv and isinstance(source, str))
    with asking(url, data_dir, errors.print) as client:
        of_set = is_set(client, model)
        options: Any = {"level": level or [0.9], "quantiles": quantile, **how_read(read)}
        options |= {} if outcome is None else {"outcome": outcome}
        if as_csv and isinstance(source, str):
            names = [EVERY] if keep is None else [name for name in keep if name]
            options |= {"digits": digits}
            ask_table = client.predict_many_table if of_set else client.predict_table
            table = ask_table(model, source, keep=names, interval=interval, **options)
            facts = json.loads(table.schema.metadata[b"bartserve"])
            columns = {name: table.column(name).to_pylist() for name in table.column_names}
            if served is not None:
                asked = client.model_set(model) if of_set else model
                own_form = {} if dialect == "plain" else {"dialect": dialect}
                with writing(served):
                    client.predict_file(
                        asked, source, served, keep=names, interval=interval, **own_form, **options
                    )
        else:
            ask = client.predict_many if of_set else client.predict
            answer = ask(model, source, interval=interval, **options)
            facts, columns = answer.document, answer.to_dict()
    if as_json:
        print_json(facts)
        return
    _tell(facts, errors)
    if not as_csv:
        _show(answer)
        return
    if served is not None:
        errors.print(written(output or "", table.num_rows))
        return
    own = None if dialect == "plain" else facts.get("dialect")
    if own is None and dialect == "model":
        raise typer.BadParameter("It is not known how the model's file was written: leave --dialect out.")
    if output is None:
        _write(columns, facts["interval"], sys.stdout, own)
        return
    encoding = "utf-8" if own is None else "utf-8-sig"  # a mark by which spreadsheets know it
    with writing(output), output.open("w", newline="", encoding=encoding) as file:
        count = _write(columns, facts["interval"], file, own)
    errors.print(written(output, count))


def _served(output: Path | None, dialect: str, *, of_file: bool) -> Path | None:
    """Return the output if the service writes it: a workbook, Parquet, or CSV like the file of the rows."""
    is_file = output is not None and output.suffix.lower() in {".xlsx", ".parquet"}
    if not is_file and dialect != "file":
        return None
    if output is None or not of_file:
        raise typer.BadParameter("A workbook, or CSV like a file of rows, is of such a file, by --output.")
    return output


def how_read(settings: list[str] | None) -> Any:
    """Convert `--read` to the client's reading options: `missing` is a list."""
    pairs = texts(settings)
    missing = [value for name, value in pairs if name == "missing"]
    return dict(pairs) | ({"missing": missing} if missing else {})


def texts(parts: list[str] | None) -> list[tuple[str, str]]:
    """Parse NAME=VALUE pairs.

    Raises
    ------
    BadParameter
        A pair has no equals sign.
    """
    lists = []
    for pair in parts or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not a NAME=VALUE pair.")
        lists.append((name, text))
    return lists


def _dataset(client: Client, data: str, console: Console, reading: Any, kinds: dict[str, str]) -> Dataset:
    """Upload a file, or return the dataset with the given id."""
    from app.cli.progress import about_dataset

    dataset = client.dataset(data) if is_dataset_id(data) else client.upload(data, kinds=kinds, **reading)
    console.print(about_dataset(dataset, Path(data).name))
    for warning in dataset.warnings:
        console.print(f"          {warning}")
    return dataset


def pairs(settings: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs with values in JSON, numbers such as .5, or text."""
    values: dict[str, Any] = {}
    for name, text in texts(settings):
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = float(text) if HALF.fullmatch(text) else text
    return values


def _tell(facts: Mapping[str, Any], console: Console) -> None:
    """Print what applies to all rows: of which class the probability is, claims, warnings."""
    classes = facts["classes"]
    if classes is not None and len(classes) == 2:
        console.print(f"mean      the probability of {classes[1]} (not {classes[0]})")
    for claim in facts.get("claims") or []:
        console.print(f"claim     {claim['text']}")
        for each in claim.get("subgroups", ()):
            console.print(f"          {each['text']}")
    for warning in facts["warnings"]:
        console.print(f"warning   {warning}")


def _show(answer: Prediction) -> None:
    table = Table(title=f"{answer.interval} intervals, model {answer.model_id}", title_justify="left")
    columns = answer.to_dict()
    for name in ("row", *columns):
        table.add_column(name, justify="right")
    for k in range(min(len(answer), SHOWN_ROWS)):
        table.add_row(str(k + 1), *(_cell(values[k]) for values in columns.values()))
    out.print(table)
    if len(answer) > SHOWN_ROWS:
        out.print(f"... and {len(answer) - SHOWN_ROWS:,} more: --output predicted.csv writes all")


def _cell(value: Any) -> str:
    return number_to_text(value, 5) if isinstance(value, float) else str(value).lower()


def _write(columns: Mapping[str, Any], interval: str, file: Any, own: Mapping[str, str] | None = None) -> int:
    """Write columns and the kind of their intervals as CSV; return the number of rows.

    `own` is the dialect of the model's file, None for commas and decimal points.
    """
    cells = [values.tolist() if hasattr(values, "tolist") else values for values in columns.values()]
    has_commas = own is not None and own.get("decimal") == "comma"
    if has_commas:
        cells = [[str(v).replace(".", ",") if isinstance(v, float) else v for v in each] for each in cells]
    separator = SIGNS.get((own or {}).get("separator", ""), ";" if has_commas else ",")
    writer = csv.writer(file, delimiter=separator)
    writer.writerow([*columns, "interval"])
    writer.writerows(zip(*cells, [interval] * len(cells[0]), strict=True))
    return len(cells[0])
