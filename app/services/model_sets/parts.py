"""Parts of a dataset: the rows of each group, as a dataset of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from app.services import group_names
from app.services.errors import Fault, InvalidRequestError, NotFoundError, UnusableDataError
from app.services.readers.profile import summarise
from app.store import datasets as store
from app.store.errors import DatasetGoneError
from app.store.tables import Dataset
from sampler import DataError, SettingsError
from sampler.host.data import GroupKey, read, read_by, rows_by_group

LONGEST_NAME = 200
RowsByGroup = Mapping[GroupKey, NDArray[np.int64]]  # positions of each group's rows


@dataclass(frozen=True)
class GroupRows:
    """Rows of a group without the columns that tell it; `dataset` describes them, and is not stored."""

    group: str
    dataset: Dataset
    table: pa.Table


def columns_of_groups(dataset: Dataset, by: str | Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """Check the columns that tell a row's group; raise InvalidRequestError.

    `taken` are those with another use in a fit.
    """
    try:
        names = read_by(by, [column["name"] for column in dataset.columns])
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault.of_setting(error)]) from None
    for name in names:
        if name in taken:
            message = f"{name} tells the group, so it has no other use in the fits"
            raise InvalidRequestError(errors=[Fault("by", None, message, "contradiction")])
    return names


def find_groups(session: Session, dataset: Dataset, by: Sequence[str]) -> RowsByGroup:
    """Return the positions of each group's rows, groups in the order of their first rows.

    Raises
    ------
    UnusableDataError
        For a row without a group.
    NotFoundError
        The dataset was deleted.
    """
    try:
        return rows_by_group(read(store.read(session, dataset.id, by)), by)
    except DataError as error:
        raise UnusableDataError(errors=[Fault.of(problem) for problem in error.problems]) from None
    except (KeyError, DatasetGoneError) as error:
        raise NotFoundError(str(error)) from None


def parts_of(
    session: Session, dataset: Dataset, by: Sequence[str], groups: RowsByGroup
) -> Iterator[GroupRows]:
    """Yield the parts of some groups; their rows are in memory together, and one column of all rows."""
    positions = np.concatenate([*groups.values()])
    rest = {each["name"]: each for each in dataset.columns if each["name"] not in by}
    columns = {name: store.read(session, dataset.id, [name]).column(0).take(positions) for name in rest}
    table, start = pa.table(columns), 0
    for group, rows in groups.items():
        part, start = table.slice(start, len(rows)), start + len(rows)
        yield _described(dataset, rest, group_names.to_text(group), part)


def _described(dataset: Dataset, columns: Mapping[str, Any], group: str, table: pa.Table) -> GroupRows:
    summaries, profiles = [], []
    for name, column in columns.items():
        summary, profile = summarise(name, table.column(name))
        order = tuple(column.get("order", ()))
        if summary.kind == "category" and {*summary.levels} <= {*order}:
            summary = replace(summary, order=order)
        summaries.append(summary.to_json())
        profiles.append(profile)
    part = Dataset(
        name=f"{dataset.name}, {group_names.in_words(group)}"[:LONGEST_NAME],
        num_rows=table.num_rows,
        columns=summaries,
        profiles=profiles,
        read_as=dataset.read_as,
        warnings=[],
    )
    return GroupRows(group, part, table)
