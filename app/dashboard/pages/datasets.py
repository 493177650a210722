"""Pages of datasets."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.responses import Response

from app.dashboard import formatting, render, snippets, sparkline
from app.dashboard.forms.fields import SentForm, parts, reading_options, text
from app.sample_data import NAME, sample_path
from app.services import amendments, datasets
from app.services.access.keys import READ, TRAIN
from app.services.amendments import ColumnChangeRequest
from app.services.errors import InUseError, ServiceError
from app.services.readers.options import KINDS, WRITTEN, Options
from app.services.readers.values.missing import is_word_for_missing
from app.services.request_bodies import filled_in
from app.web.dependencies import Deleting, Owner, Reading, TheEngine, TheSettings, TheTransactions, Writing
from app.web.paging import Cursor
from app.web.scopes import ANY_UPLOAD, GuardedRoute, needs
from app.web.uploads import Upload

router = APIRouter(prefix="/ui/datasets", include_in_schema=False, route_class=GuardedRoute)
PREVIEW_ROWS = 12
KIND, CODES = "kind:", "codes:"  # prefixes of form fields of a column
DIALECT = (
    ("compression", "Compression"),
    ("sheet", "Sheet"),
    ("encoding", "Encoding"),
    ("separator", "Separator"),
    ("quote", "Quote"),
    ("escape", "Quotes within quotes"),
    ("header_line", "Header in line"),
    ("decimal", "Decimal sign"),
    ("dates", "Order of dates"),
)
TARGETS = {"number", "boolean", "category"}  # kinds that a model may predict
NAMED = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", " ": "space"}
MAX_SHOWN = 200  # columns per page
ON_A_PAGE = 25
FirstColumn = Annotated[int, Query(ge=0, description="The first column shown.")]


@router.get("")
@needs(READ)
def list_datasets(request: Request, session: Reading, owner: Owner, cursor: Cursor = None) -> Response:
    """Show your datasets and the upload form."""
    page = datasets.list_page(session, owner, ON_A_PAGE, cursor)
    return render.render(
        request.scope,
        "datasets.html",
        datasets=page.items,
        next_cursor=page.next_cursor,
        snippets=snippets.upload(request),
    )


@router.post("")
@needs(TRAIN, body=ANY_UPLOAD)
def upload(
    form: SentForm, received: Upload, session: Writing, owner: Owner, settings: TheSettings
) -> Response:
    """Store an uploaded file, then redirect to its page."""
    called = datasets.name_for(received.name or None, received.filename)
    with datasets.parse_upload(received.file, reading_options(form), settings.max_body_bytes) as parsed:
        dataset = datasets.save(session, owner, parsed, called)
    return render.see_other(f"/ui/datasets/{dataset.id}")


@router.post("/sample")
@needs(TRAIN)
def add_sample(_form: SentForm, session: Writing, owner: Owner) -> Response:
    """Store the sample table, then redirect to its page."""
    with sample_path().open("rb") as file, datasets.parse_upload(file, Options()) as parsed:
        dataset = datasets.save(session, owner, parsed, NAME)
    return render.see_other(f"/ui/datasets/{dataset.id}")


@router.get("/{dataset_id}")
@needs(READ)
def show(
    request: Request,
    session: Reading,
    owner: Owner,
    dataset_id: str,
    first: FirstColumn = 0,
) -> Response:
    """Show a dataset: its columns with their profiles, and its first rows."""
    return _page(request, session, owner, dataset_id, first)


def _page(
    request: Request,
    session: Session,
    owner: str,
    dataset_id: str,
    first: int,
    sent: FormData | None = None,
    error: ServiceError | None = None,
) -> Response:
    """Render the page of a dataset, with the choices of a form that was refused."""
    dataset = datasets.get(session, owner, dataset_id, profiles=True)
    profiles = dataset.profiles or [{}] * len(dataset.columns)
    columns = list(zip(dataset.columns, profiles, strict=True))[first : first + MAX_SHOWN]
    read_as = dataset.read_as or {}
    return render.render(
        request.scope,
        "dataset.html",
        status=200 if error is None else error.status,
        problem=error,
        sent={name: sent and text(sent, name) for name in ("missing", "dates", "decimal")},
        dataset=dataset,
        columns=[
            _column_figures(column, profile, dataset.num_rows)
            | _choices(column, profile, sent)
            | {"unit": (read_as.get("units") or {}).get(column["name"])}
            for column, profile in columns
        ],
        first=first,
        after=first + MAX_SHOWN if first + MAX_SHOWN < len(dataset.columns) else None,
        rows=datasets.preview(session, owner, dataset_id, PREVIEW_ROWS),
        read_as=dataset.read_as,
        dialect=_dialect(read_as, has_letters=dataset.spellings is not None),
        missing=sum(column["missing"] for column in dataset.columns),
        kinds=KINDS,
        kind_field=KIND,
        codes_field=CODES,
        snippets=snippets.ask(request, f"/datasets/{dataset.id}", snippets.call("dataset", dataset.id)),
    )


@router.post("/{dataset_id}/amend")
@needs(TRAIN)
def amend(
    request: Request,
    form: SentForm,
    engine: TheEngine,
    transactions: TheTransactions,
    settings: TheSettings,
    owner: Owner,
    dataset_id: str,
    first: FirstColumn = 0,
) -> Response:
    """Replace a dataset by one with the changes of the form; keep the old one if something needs it."""
    try:
        amended_id = _amend(form, engine, transactions, settings, owner, dataset_id)
    except ServiceError as error:
        if error.status != 422:
            raise
        with transactions(read_only=True) as session:
            return _page(request, session, owner, dataset_id, first, form, error)
    return render.see_other(f"/ui/datasets/{amended_id}")


def _amend(
    form: FormData,
    engine: TheEngine,
    transactions: TheTransactions,
    settings: TheSettings,
    owner: str,
    dataset_id: str,
) -> str:
    """Store the changed copy and return its id."""
    changes: dict[str, ColumnChangeRequest] = {}
    kinds = {name.removeprefix(KIND): text(form, name) for name in form if name.startswith(KIND)}
    for name, kind in kinds.items():
        codes = [value for value in form.getlist(f"{CODES}{name}") if isinstance(value, str)]
        # Texts among numbers are read as missing so that the column becomes one of numbers.
        new_kind = "number" if codes and kind in {"text", "category"} else kind
        changes[name] = filled_in(ColumnChangeRequest, {"kind": new_kind, "missing": codes})
    missing = parts(text(form, "missing"), ",") or []
    given, most = reading_options(form), settings.max_body_bytes
    with (
        amendments.amended(engine, owner, dataset_id, changes, missing, given, max_bytes=most) as (
            old,
            parsed,
        ),
        transactions() as session,
    ):
        dataset = datasets.save(session, owner, parsed, old.name)
        with suppress(InUseError):
            datasets.delete(session, owner, old.id)
        return str(dataset.id)


@router.post("/{dataset_id}/delete")
@needs(TRAIN)
def delete(_form: SentForm, session: Deleting, owner: Owner, dataset_id: str) -> Response:
    """Delete a dataset, then redirect to the list."""
    datasets.delete(session, owner, dataset_id)
    return render.see_other("/ui/datasets")


def _dialect(read_as: dict[str, Any], *, has_letters: bool) -> list[tuple[str, str]]:
    """Return the detected dialect as names and values, without undetected parts."""
    values = [(label, read_as.get(name)) for name, label in DIALECT]
    missing = [f"{entry['text']!r} ({entry['count']})" for entry in read_as.get("missing") or ()]
    guessed = " (guessed: check some words)" if read_as.get("encoding_guessed") else ""
    rows = [(label, NAMED.get(str(value), str(value))) for label, value in values if value is not None]
    rows = [(label, value + guessed if label == "Encoding" else value) for label, value in rows]
    if others := [name for name in read_as.get("sheets") or () if name != read_as.get("sheet")]:
        rows.insert(1, ("Other sheets", ", ".join(others)))
    if read_as.get("format") == "csv":
        is_kept = has_letters and WRITTEN in read_as  # copies with rows that no file had have none
        rows.append(
            ("Cells as written", "kept" if is_kept else "not kept: upload the file again to get them back")
        )
    return rows + ([("Read as missing", ", ".join(missing))] if missing else [])


def _column_figures(column: dict[str, Any], profile: dict[str, Any], num_rows: int) -> dict[str, Any]:
    histogram = profile.get("histogram")
    top = profile.get("top") or []
    return {
        **column,
        "share_missing": column["missing"] / num_rows if num_rows else 0.0,
        "bars": sparkline.bars(histogram) if histogram else None,
        "median": (profile.get("quantiles") or {}).get("0.5"),
        "top": [(entry["value"], entry["count"] / max(num_rows, 1)) for entry in top],
        "constant": column["distinct"] == 1 and not column["missing"],
        "target": column["distinct"] > 1 and column["kind"] in TARGETS,
        "all_different": column["distinct"] == num_rows > 1 and column["kind"] in {"text", "category"},
    }


def _choices(column: dict[str, Any], profile: dict[str, Any], sent: FormData | None) -> dict[str, Any]:
    """Return the kind and the codes for missing that the form begins with: those sent, or the usual ones."""
    name = column["name"]
    codes = []
    for code in profile.get("missing_codes") or []:
        value = code["value"]
        is_sent = sent is not None and formatting.plain(value) in sent.getlist(f"{CODES}{name}")
        usual = sent is None and (not isinstance(value, str) or is_word_for_missing(value))
        codes.append(code | {"ticked": is_sent or usual})
    chosen = None if sent is None else text(sent, f"{KIND}{name}")
    return {"missing_codes": codes, "chosen": chosen or column["kind"]}
