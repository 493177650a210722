"""Tables in JSON: a list of records, one record a line, or lists by column name."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

from app.services.errors import ENOUGH, Fault, UnusableDataError
from app.services.readers.columnar import check_names
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.records import NO_TEXT, is_text, spooled
from app.services.readers.scratch import Scratch
from app.services.readers.spool import Spool, check_size

MAX_DIGITS = 1000
FORM = 'send a list of records, [{"name": value, ...}, ...], one record a line, or {"name": [values], ...}'


def read_json(
    file: BinaryIO, options: Options, limits: ReaderLimits, scratch: Scratch
) -> tuple[Spool, list[str]]:
    """Return the table, and warnings of columns that mix numbers with texts; a field left out is missing.

    Raises
    ------
    UnusableDataError
        It is not JSON, not a table, or has nested values; names line or column and row.
    TooLargeError
        The table exceeds the limits.
    """
    records = _records(file)
    names = list(dict.fromkeys(name for record in records for name in record))
    if broken := next((name for name in names if not is_text(name)), None):
        raise UnusableDataError(f"The name {broken[:100]!r} {NO_TEXT}.")
    check_names(names)
    if len(names) < limits.fewest_columns:
        raise UnusableDataError("The records have a single column. A table needs a target and a feature.")
    check_size(len(records), len(names), limits)
    faults = [
        Fault(
            name, row, f"a {'list' if isinstance(value, list) else 'record'} within a record: one value each"
        )
        for row, record in enumerate(records, 1)
        for name, value in record.items()
        if isinstance(value, (list, dict))
    ][:ENOUGH]
    if faults:
        raise UnusableDataError(errors=faults)

    def rows() -> Iterator[list[Any]]:
        return ([record.get(name) for name in names] for record in records)

    return spooled(names, rows, options, limits, scratch)


def _records(file: BinaryIO) -> list[Mapping[str, Any]]:
    file.seek(0)
    try:
        text = file.read().decode("utf-8-sig")
        found = _parsed(text)
    except UnicodeDecodeError as error:
        message = f"The file begins like JSON and is not UTF-8 (byte {error.start + 1}): save it as UTF-8."
        raise UnusableDataError(message) from None
    except RecursionError:
        raise UnusableDataError(f"The JSON is nested too deeply: {FORM}.") from None
    except ValueError as error:
        raise UnusableDataError(f"The file begins like JSON and is none: {str(error)[:200]}.") from None
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        if len(found) == len(lists) and len({*map(len, lists)}) == 1:
            nested = len(lists) == 1 and all(isinstance(value, dict) for value in lists[0])
            found = (
                lists[0]
                if nested
                else [dict(zip(found, row, strict=True)) for row in zip(*lists, strict=True)]
            )
        else:
            found = [found]
    if not found or not all(isinstance(record, dict) for record in found):
        raise UnusableDataError(f"The JSON is no table: {FORM}.")
    return cast("list[Mapping[str, Any]]", found)


def _parsed(text: str) -> Any:
    lines = text.split("\n")
    if len(lines) > 1 and _is_whole(lines[0]):
        return [_decoded(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    return _decoded(text)


def _is_whole(line: str) -> bool:
    """Return whether a line is a record of its own."""
    try:
        return isinstance(_decoded(line), dict)
    except ValueError:
        return False


def _decoded(text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        where = f"line {line or error.lineno}, column {error.colno}"
        raise ValueError(f"{error.msg[:1].lower()}{error.msg[1:]} ({where})") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"a record has the name {name[:100]!r} twice")
    return record


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; at most {MAX_DIGITS} are read")
    return int(digits)


def _constant(word: str) -> None:
    if word != "NaN":
        raise ValueError(f"{word} is no value: write null")
