"""From a paint function to SVG: chart styles, and drawing one chart at a time.

Matplotlib's settings are global to the process, as is pyplot, which ArviZ uses; so a lock lets only one chart
be drawn at a time. Importing either takes seconds, so it happens with the first chart.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.dashboard.formatting import number
from app.services.explanations.model_cards import DRAWING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]
Shape = Literal["wide", "narrow"]
FONTS = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Colours:
    """Colours of a theme, the same as in the style sheet."""

    ink: str
    soft: str
    line: str
    accent: str
    wash: str
    fair: str
    chains: tuple[str, ...]
    ramp: tuple[str, str, str]  # for surfaces, from low to high


COLOURS: dict[str, Colours] = {
    "light": Colours(
        ink="#1b2226",
        soft="#566169",
        line="#dcdfda",
        accent="#0b6b72",
        wash="#9fc9c8",
        fair="#b8600b",
        chains=("#0b6b72", "#b8600b", "#6d4fa8", "#a5343f", "#4f7a28", "#1f5f9e", "#8a6d1a", "#7a4d65"),
        ramp=("#f3efe2", "#79b5b0", "#0a4a52"),
    ),
    "dark": Colours(
        ink="#e4e8e8",
        soft="#9ba8ad",
        line="#39444a",
        accent="#63c3c4",
        wash="#2c5a5b",
        fair="#e9a95b",
        chains=("#63c3c4", "#e9a95b", "#b39ce6", "#f0938a", "#a3cf73", "#7fb3ea", "#d6c069", "#d6a0bd"),
        ramp=("#182427", "#2f7f82", "#bff0e6"),
    ),
}


@dataclass(frozen=True)
class ChartStyle:
    """Style of a chart: its theme and available room."""

    theme: Theme = "light"
    shape: Shape = "wide"
    half: bool = False  # beside another chart
    height: float = 3.0  # in inches; a narrow chart may be taller than wide

    @property
    def colours(self) -> Colours:
        """Colours of the theme."""
        return COLOURS[self.theme]

    @property
    def narrow(self) -> bool:
        """Whether there is little room."""
        return self.shape == "narrow"

    @property
    def width(self) -> float:
        """Width in inches, which makes the text of the chart small on the page."""
        return 4.3 if self.narrow else 5.9 if self.half else 11.2


Paint = Callable[["Figure", ChartStyle], None]


def draw(paint: Paint, look: ChartStyle) -> bytes:
    """Return the SVG document that a function paints on an empty figure; waits for other charts."""
    with DRAWING:
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415

        with mpl.rc_context(_settings(look)):
            figure = Figure(figsize=(look.width, look.height), layout="constrained")
            paint(figure, look)
            return _written(figure)


def draw_arviz(make: Callable[[dict[str, Any], ChartStyle], Any], finish: Paint, look: ChartStyle) -> bytes:
    """Return the SVG document of an ArviZ plot: `make` takes its arguments and returns its collection."""
    with DRAWING:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415

        with mpl.rc_context(_settings(look)):
            size = {"figsize": (look.width, look.height), "layout": "constrained"}
            figure = None
            try:
                figure = make({"figure_kwargs": size, "backend": "matplotlib"}, look).viz["figure"].item()
                finish(figure, look)
                return _written(figure)
            finally:
                plt.close("all")


def _written(figure: "Figure") -> bytes:
    from matplotlib.ticker import FuncFormatter, ScalarFormatter  # noqa: PLC0415

    as_on_pages = FuncFormatter(lambda value, _: number(value, 10).replace("-", "\u2212"))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if type(axis.get_major_formatter()) is ScalarFormatter:
                axis.set_major_formatter(as_on_pages)
    sink = io.StringIO()
    figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    # Laid out with the widths of DejaVu, shown in the page's font.
    return sink.getvalue().replace("'DejaVu Sans'", FONTS).encode()


def _settings(look: ChartStyle) -> dict[str, Any]:
    colours = look.colours
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
