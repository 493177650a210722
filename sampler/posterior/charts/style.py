"""ChartStyle of charts: colours of a theme, size, and matplotlib's settings; charts as SVG.

Every chart is a function of a style and plain results, which returns its axes. Notebooks show pyplot's
figures, pages have SVG.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast

import numpy as np

from sampler.data.scalars import number_to_text

Theme = Literal["light", "dark", "print"]
DASHED: Any = (0, (4, 3))
DOTTED: Any = (0, (1, 2))
MOST_FEATURES = 30
FONTS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"
DRAWING = threading.Lock()  # held while charts are drawn in threads: matplotlib's settings are global
_Paint = TypeVar("_Paint", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Colours:
    """Colours of a theme; light and dark are those of the pages' style sheet."""

    ink: str
    soft: str
    line: str
    accent: str
    fair: str
    chains: tuple[str, ...]
    ramp: tuple[str, str, str]  # for surfaces, from low to high


COLOURS: dict[Theme, Colours] = {
    "light": Colours(
        ink="#1b2226",
        soft="#566169",
        line="#dcdfda",
        accent="#0b6b72",
        fair="#b8600b",
        chains=("#0b6b72", "#b8600b", "#6d4fa8", "#a5343f", "#4f7a28", "#1f5f9e", "#8a6d1a", "#7a4d65"),
        ramp=("#f3efe2", "#79b5b0", "#0a4a52"),
    ),
    "dark": Colours(
        ink="#e4e8e8",
        soft="#9ba8ad",
        line="#39444a",
        accent="#63c3c4",
        fair="#e9a95b",
        chains=("#63c3c4", "#e9a95b", "#b39ce6", "#f0938a", "#a3cf73", "#7fb3ea", "#d6c069", "#d6a0bd"),
        ramp=("#182427", "#2f7f82", "#bff0e6"),
    ),
    # Apart in grey too.
    "print": Colours(
        ink="#000000",
        soft="#444444",
        line="#cccccc",
        accent="#084c52",
        fair="#d9822b",
        chains=("#084c52", "#d9822b", "#6d4fa8", "#e58a94", "#2f4a17", "#6fa3dc", "#b89a3a", "#3d2232"),
        ramp=("#ffffff", "#8a8a8a", "#000000"),
    ),
}


@dataclass(frozen=True)
class ChartStyle:
    """ChartStyle of a chart: its theme, its room, and the axes to draw on.

    Attributes
    ----------
    theme
        "light", "dark" or "print".
    width, height
        Size in inches; None: the chart's own.
    narrow
        Whether there is little room: panels are below each other, and names short.
    shown
        Whether figures are pyplot's, which notebooks show.
    ax
        Axes to draw on, of several panels an array; None: those of a new figure.

    """

    theme: Theme = "light"
    width: float | None = None
    height: float | None = None
    narrow: bool = False
    shown: bool = True
    ax: Any = None

    @property
    def colours(self) -> Colours:
        """Colours of the theme."""
        return COLOURS[self.theme]

    @property
    def beside(self) -> tuple[int, int]:
        """Rows and columns of two panels."""
        return (2, 1) if self.narrow else (1, 2)

    def chain_colour(self, index: int) -> str:
        """Return the colour of a chain or class."""
        return self.colours.chains[index % len(self.colours.chains)]

    def axes(
        self, height: float, *, width: float = 6.4, shape: tuple[int, int] = (1, 1), **options: Any
    ) -> Any:
        """Return the axes to draw on; of several panels an array."""
        if self.ax is not None:
            for each in np.ravel(self.ax):
                each.spines[["top", "right"]].set_visible(False)
            return self.ax
        size = (self.width or width, self.height or height)
        kind = import_module("matplotlib.pyplot").figure if self.shown else _figure()
        return kind(figsize=size, layout="constrained").subplots(*shape, **options)

    @property
    def settings(self) -> dict[str, Any]:
        """Matplotlib's settings."""
        colours = self.colours
        return {
            "svg.fonttype": "none",
            "svg.hashsalt": "bartserve",
            "font.family": ["DejaVu Sans"],
            "font.size": 9,
            "axes.labelsize": 9,
            "axes.titlesize": 9.5,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "text.color": colours.ink,
            "axes.labelcolor": colours.soft,
            "axes.titlecolor": colours.ink,
            "axes.edgecolor": colours.line,
            "axes.facecolor": "none",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "axes.axisbelow": True,
            "figure.facecolor": "#161c20" if self.theme == "dark" else "white",
            "grid.color": colours.line,
            "grid.linewidth": 0.7,
            "xtick.color": colours.soft,
            "ytick.color": colours.soft,
            "xtick.labelsize": 8.5,
            "ytick.labelsize": 8.5,
            "ytick.left": False,
            "xtick.major.size": 3,
            "legend.frameon": False,
            "legend.fontsize": 8.5,
            "legend.handlelength": 1.2,
            "text.parse_math": False,  # a column may be called $x$
            "figure.max_open_warning": 0,
        }


def chart(paint: _Paint) -> _Paint:
    """Let a function draw with the settings of its `style`, and write numbers of new axes as pages do."""

    @wraps(paint)
    def draw(style: ChartStyle, *results: Any) -> Any:
        with _matplotlib().rc_context(style.settings):
            axes = paint(style, *results)
            if style.ax is None:
                _write_numbers(np.ravel(axes)[0].figure)
            return axes

    return cast("_Paint", draw)


def to_svg(style: ChartStyle, draw: Callable[..., Any], *results: Any) -> bytes:
    """Return the SVG document of a chart of these results; threads take turns. Equal figures are equal."""
    style = replace(style, shown=False)
    with DRAWING, _matplotlib().rc_context(style.settings):
        figure = np.ravel(draw(style, *results))[0].figure
        sink = io.StringIO()
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    # Laid out with the widths of DejaVu, shown in the page's font.
    return sink.getvalue().replace("'DejaVu Sans'", FONTS).encode()


def svg_element(style: ChartStyle, draw: Callable[..., Any], *results: Any) -> str | None:
    """Return the SVG element of a chart for a page of HTML; None without matplotlib."""
    if find_spec("matplotlib") is None:
        return None
    document = to_svg(style, draw, *results).decode()
    return document[document.index("<svg") :]


def prepare() -> None:
    """Import matplotlib and find fonts, which takes seconds."""
    to_svg(ChartStyle(), ChartStyle.axes, 1.0)


def label_axes(axes: Any, x: str | None, y: str | None = None) -> None:
    """Name the axes; names may hold dollars, which axes made elsewhere would read as formulas."""
    if x is not None:
        axes.set_xlabel(x, parse_math=False)
    if y is not None:
        axes.set_ylabel(y, parse_math=False)


def name_lines(axes: Any, names: Sequence[str], style: ChartStyle) -> None:
    """Name horizontal lines at 0, 1, .. from below, with the grid across them."""
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.set_yticks(np.arange(len(names)), names, parse_math=False)
    axes.tick_params(axis="y", labelcolor=style.colours.ink)
    axes.set_ylim(-0.7, len(names) - 0.3)


def mark(ax: Any, x: Any, y: Any, style: ChartStyle, kinds: Any, size: float = 3.6) -> None:
    """Draw points of two `kinds`, (which, label), of which the second stands out."""
    for (which, label), colour, marker in zip(
        kinds, (style.colours.accent, style.colours.fair), "oD", strict=True
    ):
        if which.any():
            ax.plot(x[which], y[which], ls="none", marker=marker, ms=size, mew=0, color=colour, label=label)


def legend_above(axes: Any, place: str = "right", **options: Any) -> None:
    """Put the legend above the axes, since lines may be anywhere in them."""
    anchor = (1, 1) if place == "right" else (0, 1)
    axes.legend(loc=f"lower {place}", bbox_to_anchor=anchor, borderaxespad=0.2, columnspacing=1.2, **options)


def in_percent(axis: Any) -> None:
    """Write the shares on an axis as percentages."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")


def short(text: str, most: int = 40) -> str:
    """Shorten a name to at most `most` printable characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _matplotlib() -> Any:
    try:
        return import_module("matplotlib")
    except ImportError:
        raise ImportError(
            "charts need matplotlib, which is not installed: pip install 'bartserve[plot]'"
        ) from None


def _figure() -> Any:
    return import_module("matplotlib.figure").Figure


def _write_numbers(figure: Any) -> None:
    ticker = import_module("matplotlib.ticker")
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if type(axis.get_major_formatter()) is ticker.ScalarFormatter:
                axis.set_major_formatter(lambda value, _: number_to_text(value, 10).replace("-", "\u2212"))
