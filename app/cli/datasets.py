"""`bartserve datasets`: list, upload, show, amend or delete the datasets of a service."""

from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.common import AsJson, DataDir, Limit, print_json
from app.cli.embedded import asking
from app.cli.fit_predict import How, Kinds, Url, how_read, texts
from app.cli.output import ago, err, make_table, out, print_table
from app.client import Client, ClientError, Dataset, ProblemError

if TYPE_CHECKING:
    from app.client.views import Json

app = typer.Typer(
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
Id = Annotated[str, typer.Argument(metavar="DATASET", help="A dataset's id.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="DATASET", help="A dataset's id, or a name, which means the newest.")
]


@app.callback()
def list_datasets(
    context: typer.Context,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the datasets; the help is in `app`."""
    if context.invoked_subcommand is not None:
        return
    with asking(url, data_dir, err.print) as client:
        listed = list(islice(client.datasets(), limit))
    if as_json:
        print_json([dataset.document for dataset in listed])
        return
    table = make_table("id", "name", "rows", "columns", "created")
    for dataset in listed:
        age = ago(dataset.document["created_at"])
        table.add_row(dataset.id, dataset.name, f"{dataset.num_rows:,}", str(len(dataset.columns)), age)
    print_table(table, "There are no datasets yet: bartserve datasets upload FILE creates one.")


@app.command("upload")
def upload_dataset(
    path: Annotated[str, typer.Argument(help="A file: Excel, OpenDocument, CSV, JSON, Parquet or Arrow.")],
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


@app.command("amend")
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
    decimal: Annotated[
        Literal["point", "comma"] | None,
        typer.Option(help="The decimal sign of texts that become numbers, where the file shows none."),
    ] = None,
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        typer.Option(help="The order of texts that become dates, where the file shows none."),
    ] = None,
    wide: Annotated[
        Literal["long"] | None,
        typer.Option(help="Make a row of each cell of the columns that are named by times."),
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
        amended = client.amend(
            _dataset(client, dataset),
            changes,
            missing=missing or (),
            decimal=decimal,
            dates=dates,
            wide=wide,
            name=name,
        )
    _show_dataset(amended, as_json=as_json)


@app.command("show")
def show_dataset(
    dataset: DatasetName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Show the columns of a dataset."""
    with asking(url, data_dir, err.print) as client:
        view = _dataset(client, dataset)
    _show_dataset(view, as_json=as_json)


@app.command("delete")
def delete_dataset(dataset: Id, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete a dataset; refused while a model needs it."""
    with asking(url, data_dir, err.print) as client:
        client.delete_dataset(dataset)
    out.print(f"{dataset} is deleted.")


def _dataset(client: Client, dataset: str) -> Dataset:
    """Return the dataset with this id, else the newest with this name."""
    try:
        return client.dataset(dataset)
    except ProblemError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    named = next((one for one in client.datasets() if one.name == dataset), None)
    if named is None:
        raise ClientError(
            f"There is no dataset with the id or name {dataset}: bartserve datasets lists yours."
        )
    return named


def _show_dataset(dataset: Dataset, *, as_json: bool) -> None:
    if as_json:
        print_json(dataset.document)
        return
    out.print(f"dataset   {dataset.id}")
    table = make_table("column", "kind", "missing", "distinct", "from", "to", "note")
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
    print_table(table, "The dataset has no columns.")
