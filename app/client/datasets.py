"""Client calls for datasets."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from app.client.base import Calls, address
from app.client.bodies import ReadOptions, open_body
from app.client.transport import Call
from app.client.views import Dataset, Json, without_none


class Datasets(Calls):
    """Calls that upload, view and delete datasets."""

    def upload(
        self,
        data: Any,
        *,
        name: str | None = None,
        kinds: Mapping[str, str] | None = None,
        **reading: Unpack[ReadOptions],
    ) -> Dataset:
        """Upload a table.

        Parameters
        ----------
        data
            The path of a CSV, TSV, Parquet or Arrow file; bytes of CSV; an open binary file; or a data frame
            of pandas, polars or pyarrow.
        name
            Name of the dataset; defaults to the file's name.
        kinds
            Kinds by column name that override the detected ones: number, boolean, date, category or text.
        **reading
            Reading options that override the detected ones: separator, quoting, encoding, decimal, header,
            dates, missing, wide.

        Raises
        ------
        ProblemError
            The table can't be used; `errors` names columns and rows.
        """
        if name is None and isinstance(data, (str, Path)):
            name = Path(data).stem
        overrides = [f"{column}:{kind}" for column, kind in (kinds or {}).items()] or None
        with open_body(data) as body:
            call = Call(
                "POST",
                "/datasets",
                query=without_none({"name": name, "kind": overrides, **reading}),
                content=body.content,
                content_type=body.content_type,
            )
            return Dataset.of(self._json(call))

    def amend(
        self,
        dataset: str | Dataset,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        missing: Sequence[str | float] = (),
        decimal: Literal["point", "comma"] | None = None,
        dates: Literal["day-first", "month-first"] | None = None,
        wide: Literal["long"] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Copy a dataset with other kinds of columns, or with values read as missing.

        Parameters
        ----------
        dataset
            A dataset, or an id.
        columns
            Changes by column name, such as ``{"rent": {"kind": "number", "missing": ["n.a."]}}``.
        missing
            Values that mean missing in every column of text or numbers.
        decimal, dates
            Decimal sign and order of days of texts that become numbers or dates, where the file shows none.
        wide
            "long" makes a row of each cell of the columns that are named by times; it is the only change.
        name
            Name of the new dataset; defaults to that of the old one.

        """
        changes = {key: dict(each) for key, each in (columns or {}).items()}
        given = {"decimal": decimal, "dates": dates, "wide": wide, "name": name}
        body = without_none({"columns": changes, "missing": list(missing), **given})
        path = address("datasets", dataset, "amend")
        return Dataset.of(self._json(Call("POST", path, json=body, keyed=True)))

    def datasets(self) -> Iterator[Dataset]:
        """Return an iterator over your datasets, newest first."""
        return (Dataset.of(item) for item in self._pages("/datasets"))

    def dataset(self, dataset: str | Dataset) -> Dataset:
        """Return a dataset by its id."""
        return Dataset.of(self._get(address("datasets", dataset)))

    def preview(self, dataset: str | Dataset, rows: int = 20) -> list[Json]:
        """Return the first rows."""
        preview: list[Json] = self._get(address("datasets", dataset, "preview"), rows=rows)["rows"]
        return preview

    def delete_dataset(self, dataset: str | Dataset) -> None:
        """Delete a dataset; refused while a model needs it."""
        self._transport.send(Call("DELETE", address("datasets", dataset), repeatable=True))
