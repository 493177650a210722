"""Figures and axes of the charts: colours, names of users as they are, SVG."""

from __future__ import annotations

import io
import threading
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

COLOURS = ("#0b6b72", "#b8600b", "#6d4fa8", "#a5343f", "#4f7a28", "#1f5f9e", "#8a6d1a", "#7a4d65")
ACCENT, FAIR = COLOURS[:2]
SOFT = "#566169"
MOST_FEATURES = 30
MOST_NAME = 40  # characters of a name
DRAWING = threading.Lock()  # held while charts are drawn in threads: matplotlib's settings are global
_Paint = TypeVar("_Paint", bound="Callable[..., Any]")


def chart(paint: _Paint) -> _Paint:
    """Draw with names as they are: a column may be called $x$."""

    @wraps(paint)
    def draw(*args: Any, **kwargs: Any) -> Any:
        with _matplotlib().rc_context({"text.parse_math": False}):
            return paint(*args, **kwargs)

    return cast("_Paint", draw)


def _matplotlib() -> Any:
    try:
        return import_module("matplotlib")
    except ImportError:
        raise ImportError(
            "charts need matplotlib, which is not installed: pip install 'bartserve[plot]'"
        ) from None


def svg(paint: Callable[..., Any], height: float = 3.2, width: float = 6.4) -> str | None:
    """Return the SVG element of a chart that `paint(ax=...)` draws; None without matplotlib.

    Charts of one size, in inches, and equal figures are equal. Threads take turns.
    """
    if find_spec("matplotlib") is None:
        return None
    settings = {"svg.fonttype": "none", "svg.hashsalt": "bartserve", "text.parse_math": False, "font.size": 9}
    with DRAWING, _matplotlib().rc_context(settings):
        figure = import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
        paint(ax=figure.subplots())
        sink = io.StringIO()
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return sink.getvalue()[sink.getvalue().index("<svg") :]


def new_axes(ax: Any, height: float = 3.2, width: float = 6.4) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is None:
        _, ax = import_module("matplotlib.pyplot").subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def label_axes(axes: Any, x: str, y: str) -> None:
    """Name the axes; names may hold dollars, which axes made elsewhere would read as formulas."""
    axes.set_xlabel(short(x), parse_math=False)
    axes.set_ylabel(short(y), parse_math=False)


def short(text: str) -> str:
    """Shorten a name to 40 printable characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= MOST_NAME else text[: MOST_NAME - 1] + "…"


def level_name(level: Any) -> str:
    """Name a level of a feature."""
    return "missing" if level is None else short(str(level))


def colour_of(index: int) -> str:
    """Return the colour of a chain or class."""
    return COLOURS[index % len(COLOURS)]


def height_of(features: int) -> float:
    """Return the height in inches of a chart with a bar for each feature."""
    return 0.9 + 0.27 * min(features, MOST_FEATURES)
