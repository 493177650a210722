"""Views: answers of services as dataclasses whose fields, with their descriptions, are the schema over HTTP.

What is stored or computed as a dict has a view that is a TypedDict, and stays as it is.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, make_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from sampler.host.data import Axes, Bools, Longs

T = TypeVar("T")
VIEWS: dict[Any, type[Any]] = {}  # of answers
SOURCES: dict[type[Any], Mapping[str, str]] = {}  # names of a view's figures in its answer
LINES: dict[Any, tuple[type[Any], Mapping[str, str]]] = {}  # views of lines, with the same, by type
NUMBERS: dict[Any, type] = {Longs: int, Bools: bool}
DICT: Any = TypedDict
PLAIN = (str, float, int)
DrawsPerChain = Annotated[int, Field(description="Number of draws per chain.")]
ClassesOfF = Annotated[
    list[str] | None,
    Field(description="For two classes f is the probability of the second; for more, of each."),
]

FACTS: dict[str, Any] = {
    "outcome": Annotated[str | None, Field(description="The outcome that the answer is about.")],
    "model_id": str,
    "draws": DrawsPerChain,
    "classes": ClassesOfF,
}


class _Shown:
    """Mark of a field whose type is an answer's: its schema is that of the answer's view."""

    def __get_pydantic_core_schema__(self, answer: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(_kind_of(answer))


SHOWN = _Shown()
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class ErrorView(TypedDict):
    """The reason for a failure."""

    type: str
    detail: str


def schema_of(answer: type[Any], name: str, names: str, doc: str | None = None, **facts: Any) -> type[Any]:
    """Make the view of an answer of the sampler, by the shapes and descriptions in the types of its fields.

    Parameters
    ----------
    answer
        A dataclass or named tuple; one in another has its view made before that of the other.
    name
        Name of the view.
    names
        What is shown, in order: facts, and fields and properties of the answer. ``new=old`` is the answer's
        `old`, also where there is a usual fact (`FACTS`) of that name; ``name?`` may be absent.
    doc
        Description; by default the answer's.
    facts
        Types of facts, which are known besides the answer, by name; or lists of its lines (`lines_of`).
    """
    sources = _sources(names)
    facts = {new: kind for new, kind in FACTS.items() if new in names.split()} | facts
    own = {new: old for new, old in sources.items() if new not in facts}
    kinds = {new: _kind_of(_hint(answer, old)) if new in own else facts[new] for new, old in sources.items()}
    absent = [each.strip("?") for each in names.split() if each.endswith("?") or each == "outcome"]
    usual = {each: _usual(answer, each) for each in absent}
    make = _document if issubclass(answer, dict) and not facts else _dataclass
    view = make(name, doc or answer.__doc__, kinds, usual)
    VIEWS[answer], SOURCES[view] = view, own
    return view


def lines_of(answer: type[Any], name: str, names: str, doc: str, description: str | None = None) -> Any:
    """Make the type of the lines of an answer that is a table: of each array or list they have one entry."""
    sources = _sources(names)
    kinds = {new: _kind_of(_hint(answer, old), 1) for new, old in sources.items()}
    view: Any = _dataclass(name, doc, kinds, {})
    LINES[list[view]] = view, sources
    return list[view] if description is None else Annotated[list[view], Field(description=description)]


def _dataclass(name: str, doc: str | None, kinds: Mapping[str, Any], usual: Mapping[str, Any]) -> type[Any]:
    namespace = {"__doc__": _without_sections(doc), "__module__": __name__, **usual}
    return make_dataclass(name, kinds.items(), frozen=True, kw_only=True, namespace=namespace)


def _document(name: str, doc: str | None, kinds: Mapping[str, Any], usual: Mapping[str, Any]) -> type[Any]:
    """Make the type of a dict."""
    optional = {new: NotRequired[Annotated[kinds[new], Field(default=usual[new])]] for new in usual}
    view: Any = DICT(name, {**kinds, **optional})
    view.__doc__, view.__module__ = _without_sections(doc), __name__
    kind: type[Any] = view
    return kind


def _usual(answer: type[Any], name: str) -> Any:
    """Return the default of a field of an answer; None of a fact."""
    found = next((each for each in fields(answer) if each.name == name), None)
    return [] if found is not None and found.default_factory is list else None


def _without_sections(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").partition("\n\nAttributes\n")[0]


def _sources(names: str) -> dict[str, str]:
    pairs = [each.strip("?").partition("=") for each in names.split()]
    return {new: old or new for new, _, old in pairs}


def _hint(answer: type[Any], name: str) -> Any:
    """Return the type of a field or a property, with its description."""
    hints = get_type_hints(answer, include_extras=True)
    if name in hints:
        return hints[name]
    return get_type_hints(getattr(answer, name).fget, include_extras=True)["return"]


def _kind_of(hint: Any, without: int = 0) -> Any:
    """Return the type as JSON has it: lists for arrays by their axes, views for answers in an answer.

    It is that of an entry `without` the first axis.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        axes = next((each for each in inner[1:] if isinstance(each, Axes)), None)
        number = NUMBERS.get(inner[0], float)
        kind = _kind_of(inner[0], without) if axes is None else _lists(axes[without:], number)
        described = [Field(description=each) for each in inner[1:] if isinstance(each, str)]
        return Annotated[kind, *described] if described else kind
    if without:
        return _kind_of(inner[0])
    if origin is tuple:
        return list[_kind_of(inner[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return Union[tuple(map(_kind_of, inner))]  # noqa: UP007
    if origin in (list, dict):
        return origin[tuple(map(_kind_of, inner))]
    return VIEWS.get(hint, hint)


def _lists(axes: Sequence[str], kind: type) -> Any:
    """Return lists in lists of numbers, one for each axis; without those that may be absent first."""
    shapes: list[Any] = []
    for size in range(sum(not each.endswith("?") for each in axes), len(axes) + 1):
        of_size: Any = kind
        for _ in range(size):
            of_size = list[of_size]
        shapes.append(of_size)
    return Union[tuple(shapes)]  # noqa: UP007


def filled(view: type[T], answer: Any, **facts: Any) -> T:
    """Fill a view with the figures of an answer that have its fields' names, as plain values; and facts.

    Fields with a default need no figure.
    """
    sources = SOURCES.get(view, {})
    figures = {name: _plain(value) for name, value in facts.items()}
    for each in fields(view):  # type: ignore[arg-type]
        if each.name in facts:
            continue
        kind = getattr(each.type, "__origin__", None) if get_origin(each.type) is Annotated else each.type
        if kind in LINES:
            figures[each.name] = lines_in(answer, *LINES[kind])
        elif each.default is MISSING or hasattr(answer, each.name):
            figures[each.name] = _plain(getattr(answer, sources.get(each.name, each.name)))
    return view(**figures)


def facts_of(view: type[Any]) -> list[str]:
    """Return the names of what a view has besides the figures of an answer."""
    return [each.name for each in fields(view) if view in SOURCES and each.name not in SOURCES[view]]


def lines_in(answer: Any, view: type[Any], sources: Mapping[str, str]) -> list[Any]:
    """Return the lines of an answer that is a table, in its `order` if it has one."""
    columns = [_plain(getattr(answer, name)) for name in sources.values()]
    lines = [view(**dict(zip(sources, line, strict=True))) for line in zip(*columns, strict=True)]
    return [lines[place] for place in getattr(answer, "order", range(len(lines)))]


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
    """Return arrays as lists, and answers as their views."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):  # a document, too
        return {name: _plain(each) for name, each in value.items()}
    if (view := VIEWS.get(type(value))) is not None:
        return filled(view, value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] if value and not isinstance(value[0], PLAIN) else list(value)
    return value
