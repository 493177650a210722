"""`bartserve models` and `bartserve datasets`: management of a service's objects."""

import json
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.cli.common import AsJson, DataDir, print_json
from app.cli.embedded import asking
from app.cli.fit_predict import How, Kinds, Url, how_read, texts
from app.client import Client, ClientError, Dataset, ProblemError
from app.client.views import Json

models = typer.Typer(
    help="""List the models, newest first; or show, cancel, continue, save or delete one.

\b
Examples
  bartserve models
  bartserve models show cars
  bartserve models extend cars 250
  bartserve models extend cars --until converged
  bartserve models refit cars
  bartserve models save cars cars.bart
  bartserve models card cars cars.html
  bartserve models select cars
  bartserve models tune cars
  bartserve models delete mdl_0123456789abcdef0123
""",
    invoke_without_command=True,
)
datasets = typer.Typer(
    help="""List the datasets, newest first; or upload, show or delete one.

\b
Examples
  bartserve datasets
  bartserve datasets upload cars.csv
  bartserve datasets upload cars.csv --read separator=comma --kind origin=category
  bartserve datasets show cars
  bartserve datasets amend cars --kind origin=category --missing-in horsepower=-999
""",
    invoke_without_command=True,
)
Limit = Annotated[int, typer.Option(min=1, help="The maximum number of entries.")]
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model's id, or a name, which means the newest.")
]
Id = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset's id.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="DATASET", help="A dataset's id, or a name, which means the newest.")
]
CARD_FORMS: dict[str, Literal["html", "markdown"]] = {".html": "html", ".md": "markdown"}
PIPED_WIDTH = 250  # characters: keeps rows on one line for other programs
err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


@models.callback()
def list_models(
    context: typer.Context,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the models; the help is in `models`."""
    if context.invoked_subcommand is not None:
        return
    with asking(url, data_dir, err.print) as client:
        found = list(islice(client.models(), limit))
    if as_json:
        print_json([model.document for model in found])
        return
    table = _table("id", "name", "target", "state", "done", "draws", "verdict", "created")
    for model in found:
        verdict = (model.verdict or "").replace("_", " ")
        done, made = f"{model.fraction:.0%}", _ago(model.document["created_at"])
        table.add_row(
            model.id, model.name or "", model.target, model.state, done, str(model.draws), verdict, made
        )
    _print(table, "There are no models yet: bartserve fit FILE --target COLUMN creates one.")


@models.command("show")
def show_model(model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show a model's progress, verdict and settings."""
    from app.cli.progress import about_verdict

    with asking(url, data_dir, err.print) as client:
        found = client.model(model)
    if as_json:
        print_json(found.document)
        return
    out.print(f"model     {found.id}  {found.name or ''}", markup=False)
    out.print(f"state     {found.state}, {found.fraction:.0%} done, {found.draws} draws kept per chain")
    for line in about_verdict(found) if found.verdict else []:
        out.print(line, markup=False)
    if found.error:
        out.print(f"error     {found.error}", markup=False)
    plain = {name: value for name, value in found.settings.items() if not isinstance(value, (dict, list))}
    out.print(f"settings  {_listed(plain)}", markup=False)
    for name, value in found.settings.items():
        if isinstance(value, (dict, list)) and value:
            told = _listed(value) if isinstance(value, dict) else ", ".join(map(str, value))
            out.print(f"{name:<9} {told}", markup=False)


@models.command("save")
def save_model(
    model: ModelName,
    path: Annotated[str, typer.Argument(help="The file to write.")],
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write a model to a file that `bartserve.load` reads in a notebook."""
    with asking(url, data_dir, err.print) as client:
        written = client.download(model, path)
    out.print(f"written   {written}", markup=False)


@models.command("card")
def write_card(
    model: ModelName,
    path: Annotated[Path, typer.Argument(help="The file to write: .html or .md.")],
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write one page about a model: data, settings, verdicts, scores, importance, effects and limits."""
    if path.suffix.lower() not in CARD_FORMS:
        raise typer.BadParameter("end the file's name in .html or .md", param_hint="PATH")
    with asking(url, data_dir, err.print) as client:
        text = client.model_card(model, CARD_FORMS[path.suffix.lower()])
    path.write_text(text, encoding="utf-8")
    out.print(f"written   {path}", markup=False)


@models.command("select")
def select_features(
    model: ModelName,
    permutations: Annotated[
        int | None, typer.Option(help="Permutations of the outcomes. Default: 100.")
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(help="Probability of selecting anything if nothing matters. Default: 0.05."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same result.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Find the features that matter beyond chance, by fits to permuted outcomes."""
    from app.cli.progress import follow_study

    with asking(url, data_dir, err.print) as client:
        study = client.select_features(model, permutations=permutations, level=level, seed=seed)
        found = follow_study(client, study, err)
    if as_json:
        print_json(found.document)
        return
    features = found.features or []
    rules = list(features[0]["thresholds"]) if features else []
    table = _table("feature", "share", *rules, "selected by")
    for feature in features:
        shares = [feature["share"], *(feature["thresholds"][rule] for rule in rules)]
        by = ", ".join(feature["selected_by"]) or "-"
        table.add_row(feature["name"], *(f"{share:.4f}" for share in shares), by)
    _print(table, "The model has no features.")


@models.command("tune")
def tune_settings(
    model: ModelName,
    candidates: Annotated[
        str | None,
        typer.Option(help="model, prior, or a JSON list of settings, simpler ones first. Default: model."),
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Parts of the rows. Default: 5.")] = None,
    parsimony: Annotated[
        bool, typer.Option("--parsimony", help="Choose the first within one standard error of the best.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same scores.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Compare settings by the log score of rows that the fits have not seen."""
    from app.cli.progress import follow_study

    tried: Any = candidates
    if candidates is not None and candidates.lstrip().startswith("["):
        try:
            tried = json.loads(candidates)
        except ValueError:
            raise typer.BadParameter("this is not JSON", param_hint="--candidates") from None
    with asking(url, data_dir, err.print) as client:
        study = client.tune(model, candidates=tried, folds=folds, parsimony=parsimony, seed=seed)
        found = follow_study(client, study, err)
    if as_json:
        print_json(found.document)
        return
    result = found.tuning or {"trials": [], "chosen": None}
    table = _table("", "settings", "log score", "behind", "+-", "rmse", "90%", "seconds")
    for place, trial in enumerate(result["trials"]):
        settings = json.dumps(trial["settings"])
        mark = ">" if place == result["chosen"] else ""
        figures = [
            trial[name] for name in ("log_score", "behind", "behind_error", "rmse", "coverage", "seconds")
        ]
        shown = ["" if each is None else f"{each:.4g}" for each in figures]
        told = f"{settings}: {trial['refused']}" if trial["refused"] else settings
        table.add_row(mark, escape(told), *shown)
    _print(table, "There are no candidates.")
    if found.tuning and found.tuning["best"] is not None:
        err.print(f"best      {json.dumps(found.tuning['best'])}", markup=False)


@models.command("cancel")
def cancel_model(
    model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Cancel a model at its next slice; its draws are kept."""
    with asking(url, data_dir, err.print) as client:
        found = client.cancel(model)
    if as_json:
        print_json(found.document)
        return
    out.print(f"{found.id} is {'being ' if found.is_open else ''}cancelled.", markup=False)


@models.command("retry")
def retry_model(model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Continue a cancelled or failed model where its chains ended, and report its end."""
    from app.cli.progress import follow_fit

    with asking(url, data_dir, err.print) as client:
        found = follow_fit(client, client.retry(model), err)
    if as_json:
        print_json(found.document)


@models.command("extend")
def extend_model(
    model: ModelName,
    draws: Annotated[
        int | None, typer.Argument(metavar="[DRAWS]", min=1, help="More draws per chain.")
    ] = None,
    until: Annotated[
        Literal["converged", "approximate"] | None,
        typer.Option(help="Draw until this verdict, instead of a number of draws."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Draw more from the chains of a finished model: a number of draws, or --until converged."""
    from app.cli.progress import follow_fit

    if draws is None and until is None:
        raise typer.BadParameter("give DRAWS, a number, or --until converged")
    stop = None if until is None else {"verdict": until}
    with asking(url, data_dir, err.print) as client:
        found = follow_fit(client, client.extend(model, draws, stop=stop), err)
    if as_json:
        print_json(found.document)


@models.command("refit")
def refit_model(
    model: ModelName,
    holdout: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the rows that are held out; 0: fit on all.")
    ] = 0.0,
    name: Annotated[str | None, typer.Option(help="Name of the new model; default: the old one's.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit a new model with the settings of another, on all rows unless --holdout leaves some out."""
    from app.cli.progress import follow_fit

    with asking(url, data_dir, err.print) as client:
        found = follow_fit(client, client.refit(model, holdout=holdout, name=name), err)
    if as_json:
        print_json(found.document)
    else:
        out.print(f"model     {found.id}", markup=False)


@models.command("delete")
def delete_model(model: ModelName, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete a model with its draws; requires its id if several models share the name."""
    with asking(url, data_dir, err.print) as client:
        client.delete_model(model)
    out.print(f"{model} is deleted.", markup=False)


@datasets.callback()
def list_datasets(
    context: typer.Context,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the datasets; the help is in `datasets`."""
    if context.invoked_subcommand is not None:
        return
    with asking(url, data_dir, err.print) as client:
        found = list(islice(client.datasets(), limit))
    if as_json:
        print_json([dataset.document for dataset in found])
        return
    table = _table("id", "name", "rows", "columns", "created")
    for dataset in found:
        made = _ago(dataset.document["created_at"])
        table.add_row(dataset.id, dataset.name, f"{dataset.num_rows:,}", str(len(dataset.columns)), made)
    _print(table, "There are no datasets yet: bartserve datasets upload FILE creates one.")


@datasets.command("upload")
def upload_dataset(
    path: Annotated[str, typer.Argument(help="A CSV, Parquet or Arrow file.")],
    name: Annotated[
        str | None, typer.Option(help="The name of the dataset; default: the file's name.")
    ] = None,
    read: How = None,
    kind: Kinds = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Upload a file and show its columns."""
    with asking(url, data_dir, err.print) as client:
        dataset = client.upload(path, name=name, kinds=dict(texts(kind)), **how_read(read))
    _show_dataset(dataset, as_json=as_json)


@datasets.command("amend")
def amend_dataset(
    dataset: DatasetName,
    kind: Kinds = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="A value that means missing, in every column; repeatable."),
    ] = None,
    missing_in: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="A value that means missing in a column; repeatable."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the copy; default: that of the dataset.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Copy a dataset with other kinds of columns, or with values read as missing, without an upload."""
    changes: dict[str, Json] = {column: {"kind": each} for column, each in texts(kind)}
    for column, value in texts(missing_in):
        changes.setdefault(column, {}).setdefault("missing", []).append(value)
    with asking(url, data_dir, err.print) as client:
        found = client.amend(_dataset(client, dataset), changes, missing=missing or (), name=name)
    _show_dataset(found, as_json=as_json)


@datasets.command("show")
def show_dataset(
    dataset: DatasetName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Show the columns of a dataset."""
    with asking(url, data_dir, err.print) as client:
        found = _dataset(client, dataset)
    _show_dataset(found, as_json=as_json)


@datasets.command("delete")
def delete_dataset(dataset: Id, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete a dataset; refused while a model needs it."""
    with asking(url, data_dir, err.print) as client:
        client.delete_dataset(dataset)
    out.print(f"{dataset} is deleted.", markup=False)


def _listed(settings: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


def _dataset(client: Client, dataset: str) -> Dataset:
    """Return the dataset with this id, else the newest with this name."""
    try:
        return client.dataset(dataset)
    except ProblemError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    found = next((one for one in client.datasets() if one.name == dataset), None)
    if found is None:
        raise ClientError(
            f"There is no dataset with the id or name {dataset}: bartserve datasets lists yours."
        )
    return found


def _show_dataset(dataset: Dataset, *, as_json: bool) -> None:
    if as_json:
        print_json(dataset.document)
        return
    out.print(f"dataset   {dataset.id}", markup=False)
    table = _table("column", "kind", "missing", "distinct", "from", "to", "note")
    for column in dataset.columns:
        ends = ["" if column[end] is None else f"{column[end]}" for end in ("min", "max")]
        table.add_row(
            column["name"],
            column["kind"],
            str(column["missing"]),
            str(column["distinct"]),
            *ends,
            column["note"],
        )
    _print(table, "The dataset has no columns.")


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    return table


def _print(table: Table, instead: str) -> None:
    out.print(table if table.row_count else instead)


def _ago(moment: str) -> str:
    """Return the time since a moment in one unit."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"
