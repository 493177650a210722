"""Views: answers of services as dataclasses whose fields, with their descriptions, are the schema over HTTP.

What is stored or computed as a dict has a view that is a TypedDict, and stays as it is.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

T = TypeVar("T")
DrawsPerChain = Annotated[int, Field(description="Number of draws per chain.")]
ClassesOfF = Annotated[
    list[str] | None,
    Field(description="For two classes f is the probability of the second; for more, of each."),
]

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class ErrorView(TypedDict):
    """The reason for a failure."""

    type: str
    detail: str


def filled(view: type[T], answer: Any, **others: Any) -> T:
    """Fill a view with the figures of an answer that have its fields' names, as plain values; and others.

    Fields with a default need no figure.
    """
    own = [field for field in fields(view) if field.name not in others]  # type: ignore[arg-type]
    names = [each.name for each in own if each.default is MISSING or hasattr(answer, each.name)]
    return view(**{name: _plain(getattr(answer, name)) for name in names}, **others)


def of_document(view: type[T], document: Mapping[str, Any]) -> T:
    """Read a stored document as a view, nested ones too; what it has besides is left out."""
    read: T = _adapter(view).validate_python(document)  # type: ignore[arg-type]
    return read


def if_any(view: type[T], document: Mapping[str, Any] | None) -> T | None:
    """Read a stored document as a view; None where there is none."""
    return None if document is None else of_document(view, document)


def to_json(view: Any) -> bytes:
    """Render a view as JSON by its schema."""
    kind: Any = type(view)
    return _adapter(kind).dump_json(view)


@cache
def _adapter(view: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(view)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
