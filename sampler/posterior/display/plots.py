"""Charts of a posterior with matplotlib (optional), of the numbers that the service's pages draw.

For example `posterior.plot.effects("weight")` or `posterior.plot.importance(X_held, y_held)`. Every chart
takes `ax`, the axes to draw on, and returns its axes; without `ax` it makes a figure.
"""

from __future__ import annotations

import io
import threading
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from sampler.errors import SettingsError
from sampler.posterior.assessment.convergence import independent_every, rank_curves
from sampler.posterior.report import evenly_spaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sampler.posterior.explanations.inclusion import Inclusion
    from sampler.posterior.explanations.permutation import PermutationImportance
    from sampler.posterior.posterior import Posterior
    from sampler.posterior.prediction import Prediction

    Floats = NDArray[np.float64]

COLOURS = ("#0b6b72", "#b8600b", "#6d4fa8", "#a5343f", "#4f7a28", "#1f5f9e", "#8a6d1a", "#7a4d65")
ACCENT, FAIR = COLOURS[:2]
SOFT = "#566169"
RAMP = ("#f3efe2", "#79b5b0", "#0a4a52")
MOST_POINTS = 500  # of a trace, and rows of a chart
MOST_FEATURES = 30
MOST_CLASSES = 8  # of one chart: those that change most
MOST_NAME = 40  # characters of a name
DASHED: Any = (0, (4, 3))
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


def _label(axes: Any, x: str, y: str) -> None:
    """Name the axes; names may hold dollars, which axes made elsewhere would read as formulas."""
    axes.set_xlabel(short(x), parse_math=False)
    axes.set_ylabel(short(y), parse_math=False)


def short(text: str) -> str:
    """Shorten a name to 40 printable characters."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= MOST_NAME else text[: MOST_NAME - 1] + "…"


class Plots:
    """Charts of one posterior (`posterior.plot`)."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior

    def _followed(self) -> tuple[str, Floats]:
        """Return a name and draws [chain, draw] of sigma; without one, of a mean over reference rows."""
        posterior = self._posterior
        if posterior.sigma is not None:
            return "sigma", np.asarray(posterior.sigma)
        f = posterior.draws_by_figure(posterior.reference)
        f = f.reshape(posterior.reference.num_rows, -1, *f.shape[1:]).mean(axis=0)
        if posterior.classes is None:
            return f"mean of {posterior.schema.target.name}", f[0]
        classes = posterior.classes
        most = int(np.argmax(f.std(axis=(1, 2))))
        return f"mean probability of {classes[most] if len(f) > 1 else classes[1]}", f[most]

    @chart
    def traces(self, ax: Any = None) -> Any:
        """Draw sigma by draw, one line per chain; of classes and counts a mean over reference rows."""
        name, draws = self._followed()
        ax = new_axes(ax)
        shown = evenly_spaced(draws.shape[1], MOST_POINTS)
        for chain, values in enumerate(draws):
            ax.plot(
                shown, values[shown], lw=0.8, alpha=0.85, color=_colour(chain), label=f"chain {chain + 1}"
            )
        _label(ax, "kept draw", name)
        _legend(ax, len(draws))
        return ax

    @chart
    def ranks(self, ax: Any = None) -> Any:
        """Draw each chain's share of draws below each rank among all draws, less the expected share.

        What `traces` shows is ranked, thinned to about independent draws. Chains that agree stay in the band,
        all along with probability 95% (of Kolmogorov's statistic).
        """
        from scipy.special import kolmogi  # noqa: PLC0415

        name, draws = self._followed()
        every = independent_every(draws)
        ranked = np.ascontiguousarray(draws[:, ::every])
        ax = new_axes(ax)
        for chain, (share, above) in enumerate(rank_curves(ranked)):
            ax.plot(share, above, lw=1.2, color=_colour(chain), label=f"chain {chain + 1}")
        half = float(kolmogi(0.05)) * np.sqrt((1 - 1 / len(ranked)) / ranked.shape[1])
        ax.axhspan(-half, half, color=SOFT, alpha=0.14, lw=0)
        taken = "" if every == 1 else f"; one draw in {every}"
        _label(ax, f"rank of {name}, as a share{taken}", "share below, less expected")
        _legend(ax, len(ranked))
        return ax

    @chart
    def convergence(self, axes: Any = None) -> Any:
        """Draw R-hat and effective sample sizes by number of draws, on two axes."""
        found = self._posterior.convergence()
        if axes is None:
            _, axes = import_module("matplotlib.pyplot").subplots(
                1, 2, figsize=(9.6, 3.2), layout="constrained"
            )
        left, right = (new_axes(ax) for ax in axes)
        draws, f, sigma = found["draws"], found["f"], found["sigma"]
        lines = [
            (left, f.get("rhat"), "f, median row", ACCENT, "-"),
            (left, f.get("rhat_p95"), "f, 95% of rows", ACCENT, DASHED),
            (left, sigma and sigma.get("rhat"), "sigma", FAIR, "-"),
            (right, f.get("ess_bulk"), "f, centre", ACCENT, "-"),
            (right, f.get("ess_tail"), "f, tails", ACCENT, DASHED),
            (right, sigma and sigma.get("ess_bulk"), "sigma", FAIR, "-"),
        ]
        for ax, values, label, colour, style in lines:
            if values:
                known = np.array(values, np.float64)
                ax.plot(draws, known, color=colour, ls=style, lw=1.5, marker="o", ms=3, label=label)
        limit = found["limits"]["converged"]["rhat"]
        left.axhline(limit, color=SOFT, lw=0.9, ls=":", label=f"{limit}: converged")
        right.set_ylim(bottom=0)
        for ax, name in ((left, "R-hat"), (right, "effective draws")):
            _label(ax, "kept draws of each chain", name)
            ax.legend(frameon=False, fontsize="small")
        return axes

    @chart
    def calibration(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw observed against claimed shares on held-out rows, with binomial 95% intervals."""
        classes = self._posterior.classes
        entries = self._posterior.calibration(X, y, weights)
        ax = new_axes(ax, 4.4, 4.6)
        level, observed, lower, upper = (
            np.array([entry[name] for entry in entries]) for name in ("level", "observed", "lower", "upper")
        )
        ax.plot([0, 1], [0, 1], color=SOFT, lw=0.9, ls=DASHED)
        if classes:
            ax.vlines(level, lower, upper, color=ACCENT, lw=1.4, alpha=0.6)
        else:
            ax.fill_between(level, lower, upper, color=ACCENT, alpha=0.18, lw=0)
        ax.plot(level, observed, color=ACCENT, lw=0 if classes else 1.5, marker="o", ms=3.4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        if classes is None:
            _label(ax, "predictive intervals claim to hold", "of the outcomes they held")
        elif len(classes) == 2:
            _label(ax, f"predicted probability of {classes[1]}", "share of rows of that class")
        else:
            _label(ax, "probability of the most probable class", "share of rows of that class")
        return ax

    @chart
    def predictions(self, X: Any, y: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Draw predictions with intervals: by rank, or with outcomes `y` against these.

        Intervals are predictive, for classes credible. Of more than two classes only the probability of the
        row's own class (or, without `y`, of the most probable one) is drawn. At most 500 rows are drawn,
        evenly spaced.
        """
        posterior = self._posterior
        prediction = posterior.predict(X, level)
        target, classes = posterior.schema.target.name, posterior.classes
        name = target if classes is None else f"probability of {classes[1]}"
        if prediction.mean.ndim == 2:
            name = "probability of the most probable class" if y is None else "probability of the own class"
        outcome = None if y is None else _outcome(posterior, X, y)
        mean, lower, upper = _by_row(prediction, outcome)
        numeric = outcome is not None and classes is None
        return _draw_intervals(mean, lower, upper, outcome if numeric else None, name, new_axes(ax, 4.0))

    @chart
    def effects(
        self,
        features: str | Sequence[str],
        X: Any = None,
        *,
        level: float = 0.9,
        ice: int = 0,
        ax: Any = None,
    ) -> Any:
        """Draw the partial dependence on one feature with its interval, or on two as surfaces.

        Parameters
        ----------
        features
            One name or two.
        X
            Rows to average over; None takes the reference rows.
        level
            Probability of the interval.
        ice
            Number of single rows whose curves are drawn too, for one feature.
        ax
            Axes to draw on; for two features an array of two (the mean, and the width of its interval).

        """
        posterior = self._posterior
        names = [features] if isinstance(features, str) else list(features)
        found = posterior.partial_dependence(names, X, level=level, ice=ice)
        kinds = [column.kind for name in names for column in posterior.schema.columns if column.name == name]
        target = posterior.schema.target.name
        classes = list(posterior.classes or ())
        shown = f"probability of {classes[1]}" if len(classes) == 2 else target
        if len(names) == 2:
            return _draw_surfaces(found, kinds, shown, classes, ax)
        axes = new_axes(ax)
        (grid,), (kind,) = found.grid, kinds
        if found.ice is not None and found.ice.mean.ndim == 2:
            at = _places(grid, kind)
            axes.plot(at, found.ice.mean.T, color=SOFT, lw=0.6, alpha=0.5, zorder=1)
        curves = [(found.mean, found.lower, found.upper, ACCENT, None)]
        if found.mean.ndim == 2:
            moved = np.argsort(-np.ptp(found.mean, axis=0), kind="stable")[:MOST_CLASSES]
            curves = [
                (found.mean[:, k], found.lower[:, k], found.upper[:, k], _colour(i), classes[k])
                for i, k in enumerate(sorted(moved.tolist()))
            ]
            shown = "probability"
        for i, curve in enumerate(curves):
            _draw_curve(axes, grid, kind, curve, (i + 0.5) / len(curves) - 0.5)
        if kind in {"category", "boolean"}:
            order = _by_effect(grid, kind, found.mean)
            axes.set_yticks(np.arange(len(grid)), [_level(grid[k]) for k in order], parse_math=False)
            _label(axes, shown, names[0])
        else:
            _label(axes, names[0], shown)
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize="small")
        return axes

    @chart
    def accumulated_effects(self, feature: str, X: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Draw the accumulated local effects of a column of numbers or dates, with their interval."""
        found = self._posterior.accumulated_effects(feature, X, level)
        (kind,) = (column.kind for column in self._posterior.schema.columns if column.name == feature)
        axes = new_axes(ax)
        curves: list[Any] = [(found.mean, found.lower, found.upper, ACCENT, None)]
        if found.mean.ndim == 2:
            curves = [
                (found.mean[:, k], found.lower[:, k], found.upper[:, k], _colour(k), name)
                for k, name in enumerate(found.classes or ())
            ][:MOST_CLASSES]
        for curve in curves:
            _draw_curve(axes, found.grid, kind, curve, 0.0)
        axes.axhline(0, color=SOFT, lw=0.9, ls=":")
        _label(axes, feature, f"effect on {self._posterior.schema.target.name}, mean 0")
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize="small")
        return axes

    @chart
    def importance(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None, **options: Any) -> Any:
        """Draw the permutation importance on held-out rows; `options` are those of `posterior.importance`."""
        return draw_importance(self._posterior.importance(X, y, weights, **options), ax)

    @chart
    def inclusion(self, level: float = 0.9, *, ax: Any = None) -> Any:
        """Draw the share of split rules that use each feature, with intervals over draws."""
        found = self._posterior.inclusion(level)
        ax = _draw_ranked(found, found.order, new_axes(ax, height_of(len(found.names))))
        ax.axvline(1 / len(found.names), color=SOFT, lw=0.9, ls=":")
        ax.set_xlim(left=0)
        ax.set_xlabel("share of the split rules")
        return ax


@chart
def draw_importance(found: PermutationImportance, ax: Any = None) -> Any:
    """Draw the increase of the loss by feature with its interval, the largest on top."""
    ax = _draw_ranked(found, found.order, new_axes(ax, height_of(len(found.names))))
    ax.axvline(0, color=SOFT, lw=0.9, ls=":")
    of = "RMSE" if found.loss == "rmse" else "log loss"
    ax.set_xlabel(f"increase of the {of} (from {found.baseline:.3g}) when shuffled")
    return ax


@chart
def draw_prediction(found: Prediction, ax: Any = None) -> Any:
    """Draw a prediction's first intervals by rank of the mean."""
    name = "prediction" if found.classes is None else "probability"
    return _draw_intervals(*_by_row(found, None), None, name, new_axes(ax, 4.0))


def _outcome(posterior: Posterior, X: Any, y: Any) -> Floats:
    from sampler.posterior.assessment.scoring import LabelledRows  # noqa: PLC0415  # imports scipy

    return LabelledRows.read(posterior, X, y).y


def _by_row(found: Prediction, outcome: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Return mean and ends [row]; of several classes, those of the row's own or most probable one."""
    if not found.intervals:
        raise SettingsError(
            "a chart of predictions needs an interval: predict with level=0.9",
            field="level",
            code="not_applicable",
        )
    _, lower, upper = found.intervals[0]
    if found.mean.ndim == 1:
        return found.mean, lower, upper
    own = found.mean.argmax(axis=1) if outcome is None else outcome.astype(np.int64)
    if own.max(initial=0) >= found.mean.shape[1]:
        raise SettingsError("y has a class that the model never saw", field="y", code="unknown")
    rows = np.arange(len(own))
    return found.mean[rows, own], lower[rows, own], upper[rows, own]


def _draw_intervals(
    mean: Floats, lower: Floats, upper: Floats, outcome: Floats | None, name: str, axes: Any
) -> Any:
    order = np.argsort(mean, kind="stable")[evenly_spaced(len(mean), MOST_POINTS)]
    mean, lower, upper = mean[order], lower[order], upper[order]
    if outcome is None:
        at = np.arange(len(mean))
        axes.vlines(at, lower, upper, color=ACCENT, lw=1.0, alpha=0.38)
        axes.plot(at, mean, ls="none", marker="o", ms=3, mew=0, color=ACCENT)
        _label(axes, "rows, by prediction", name)
        return axes
    actual = outcome[order]
    ends = [min(actual.min(), mean.min()), max(actual.max(), mean.max())]
    axes.plot(ends, ends, color=SOFT, lw=0.9, ls=DASHED, zorder=1)
    inside = (lower <= actual) & (actual <= upper)
    for which, colour, marker, label in (
        (inside, ACCENT, "o", "interval holds the outcome"),
        (~inside, FAIR, "D", "interval misses it"),
    ):
        axes.vlines(actual[which], lower[which], upper[which], color=colour, lw=1.0, alpha=0.38, zorder=2)
        axes.plot(
            actual[which], mean[which], ls="none", marker=marker, ms=3.6, mew=0, color=colour, zorder=3,
            label=f"{label} ({int(which.sum())})",
        )  # fmt: skip
    _label(axes, f"actual {name}", f"predicted {name}")
    axes.legend(frameon=False, fontsize="small")
    return axes


def _draw_ranked(found: PermutationImportance | Inclusion, order: Sequence[int], axes: Any) -> Any:
    shown = list(order[:MOST_FEATURES])
    at = np.arange(len(shown))[::-1]
    axes.hlines(at, found.lower[shown], found.upper[shown], color=ACCENT, lw=5, alpha=0.28)
    axes.plot(found.mean[shown], at, ls="none", marker="o", ms=5, mew=0, color=ACCENT)
    axes.set_yticks(at, [short(found.names[j]) for j in shown], parse_math=False)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    return axes


def height_of(features: int) -> float:
    """Return the height in inches of a chart with a bar for each feature."""
    return 0.9 + 0.27 * min(features, MOST_FEATURES)


def _places(grid: Sequence[Any], kind: str) -> Any:
    """Return the places of a grid on an axis: numbers, times, or positions of levels."""
    if kind == "date":
        return np.array(grid, "datetime64[us]")
    return np.array(grid, np.float64) if kind == "number" else np.arange(len(grid))


def _by_effect(grid: Sequence[Any], kind: str, mean: Floats) -> list[int]:
    """Order levels from the least mean to the greatest; booleans and several classes keep their order."""
    if kind == "boolean" or mean.ndim == 2:
        return list(range(len(grid)))
    return [int(k) for k in np.argsort(mean, kind="stable")]


def _draw_curve(axes: Any, grid: Sequence[Any], kind: str, curve: Any, beside: float) -> None:
    mean, lower, upper, colour, label = curve
    name = None if label is None else short(label)
    at = _places(grid, kind)
    if kind in {"category", "boolean"}:
        order = _by_effect(grid, kind, mean if label is None else mean[:, None])
        places = at + 0.6 * beside
        axes.hlines(places, lower[order], upper[order], color=colour, lw=4, alpha=0.28)
        axes.plot(mean[order], places, ls="none", marker="o", ms=5, mew=0, color=colour, label=name)
        return
    axes.fill_between(at, lower, upper, color=colour, alpha=0.18, lw=0)
    # The points divide the training rows evenly: their marks show where data are.
    axes.plot(at, mean, color=colour, lw=1.8, marker="|", ms=6, label=name)


def _draw_surfaces(found: Any, kinds: Sequence[str], shown: str, classes: Sequence[str], axes: Any) -> Any:
    pyplot, colors = (import_module(f"matplotlib.{name}") for name in ("pyplot", "colors"))
    mean, lower, upper = found.mean, found.lower, found.upper
    if mean.ndim == 3:
        most = int(np.argmax(np.ptp(mean, axis=(0, 1))))
        mean, lower, upper = mean[..., most], lower[..., most], upper[..., most]
        shown = f"probability of {classes[most]}"
    if axes is None:
        _, axes = pyplot.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    ramp = colors.LinearSegmentedColormap.from_list("surface", list(RAMP))
    titles = (shown, f"width of its {100 * found.intervals[0].level:g}% interval")
    for ax, values, title in zip(axes, (mean, upper - lower), titles, strict=True):
        places = [_places(grid, kind) for grid, kind in zip(found.grid, kinds, strict=True)]
        mesh = ax.pcolormesh(*places, values.T, cmap=ramp, shading="nearest")
        ax.figure.colorbar(mesh, ax=ax, pad=0.02)
        for axis, grid, kind in zip((ax.xaxis, ax.yaxis), found.grid, kinds, strict=True):
            if kind in {"category", "boolean"}:
                axis.set_ticks(np.arange(len(grid)), [_level(level) for level in grid], parse_math=False)
        ax.set_title(short(title), fontsize="medium", loc="left", parse_math=False)
        _label(ax, *found.features)
    return axes


def _level(level: Any) -> str:
    return "missing" if level is None else short(str(level))


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _legend(axes: Any, count: int) -> None:
    if count <= len(COLOURS):
        axes.legend(frameon=False, fontsize="small", ncols=min(count, 4), loc="best")
