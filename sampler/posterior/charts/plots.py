"""Charts of a posterior with matplotlib (optional), of the numbers that the service's pages draw.

For example `posterior.plot.effects("weight")` or `posterior.plot.importance(X_held, y_held)`. Every chart
takes `ax`, the axes to draw on, and returns its axes; without `ax` it makes a figure.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.scalars import number_to_text
from sampler.errors import SettingsError
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.convergence import independent_every, rank_curves
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.charts.check_plots import draw_pit, draw_predictive_check, draw_residuals, draw_roc
from sampler.posterior.charts.effect_drawing import by_effect, draw_curve, draw_surfaces, places_of
from sampler.posterior.charts.figure import (
    ACCENT,
    COLOURS,
    FAIR,
    MOST_FEATURES,
    SOFT,
    chart,
    colour_of,
    height_of,
    label_axes,
    level_name,
    new_axes,
    short,
)
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.predicting import predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior
    from sampler.posterior.results.prediction import Prediction
    from sampler.posterior.results.rankings import Inclusion, PermutationImportance

    Floats = NDArray[np.float64]

MOST_POINTS = 500  # points of a trace, and rows of a chart
MOST_CLASSES = 8  # classes in one chart: those that change most
DASHED: Any = (0, (4, 3))


class Plots:
    """Charts of one posterior (`posterior.plot`)."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior

    def _followed(self) -> tuple[str, Floats]:
        """Return a name and draws [chain, draw] of sigma; without one, of a mean over reference rows."""
        posterior = self._posterior
        if posterior.sigma is not None:
            return "sigma", np.asarray(posterior.sigma)
        f = posterior.law.draws_by_figure(posterior.reference)
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
        places = evenly_spaced(draws.shape[1], MOST_POINTS)
        for chain, values in enumerate(draws):
            ax.plot(
                places, values[places], lw=0.8, alpha=0.85, color=colour_of(chain), label=f"chain {chain + 1}"
            )
        label_axes(ax, "kept draw", name)
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
            ax.plot(share, above, lw=1.2, color=colour_of(chain), label=f"chain {chain + 1}")
        half = float(kolmogi(0.05)) * np.sqrt((1 - 1 / len(ranked)) / ranked.shape[1])
        ax.axhspan(-half, half, color=SOFT, alpha=0.14, lw=0)
        thinning = "" if every == 1 else f"; one draw in {every}"
        label_axes(ax, f"rank of {name}, as a share{thinning}", "share below, less expected")
        _legend(ax, len(ranked))
        return ax

    @chart
    def convergence(self, axes: Any = None) -> Any:
        """Draw R-hat and effective sample sizes by number of draws, on two axes."""
        curves = self._posterior.convergence()
        if axes is None:
            _, axes = import_module("matplotlib.pyplot").subplots(
                1, 2, figsize=(9.6, 3.2), layout="constrained"
            )
        left, right = (new_axes(ax) for ax in axes)
        draws, f, sigma = curves["draws"], curves["f"], curves["sigma"]
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
        limit = curves["limits"]["converged"]["rhat"]
        left.axhline(limit, color=SOFT, lw=0.9, ls=":", label=f"{limit}: converged")
        right.set_ylim(bottom=0)
        for ax, name in ((left, "R-hat"), (right, "effective draws")):
            label_axes(ax, "kept draws of each chain", name)
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
            label_axes(ax, "predictive intervals claim to hold", "of the outcomes they held")
        elif len(classes) == 2:
            label_axes(ax, f"predicted probability of {classes[1]}", "share of rows of that class")
        else:
            label_axes(ax, "probability of the most probable class", "share of rows of that class")
        return ax

    @chart
    def roc(self, X: Any, y: Any, *, ax: Any = None) -> Any:
        """Draw the ROC curve of two classes on held-out rows, with the area under it.

        Raises SettingsError for other models.
        """
        classes = self._posterior.classes
        if classes is None or len(classes) != 2:
            raise SettingsError("ROC curves are of two classes", field=None, code="not_applicable")
        scores = self._posterior.score(X, y)
        return draw_roc(scores["confusion_by_threshold"], scores["auc"], classes[1], new_axes(ax, 4.4, 4.6))

    @chart
    def pit(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw the histogram of held-out outcomes' probability integral transforms: flat if all is well.

        Raises SettingsError for classes, which have `calibration`, and censored outcomes.
        """
        _, u = self._transforms(X, y, weights)
        return draw_pit(u, new_axes(ax, 3.6, 4.6))

    @chart
    def residuals(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw the quantile residuals of held-out rows against their predictions: standard normal everywhere.

        Raises SettingsError as `pit`.
        """
        mean, u = self._transforms(X, y, weights)
        return draw_residuals(mean, u, self._posterior.header.schema.target.name, new_axes(ax))

    def _transforms(self, X: Any, y: Any, weights: Any) -> tuple[Floats, Floats]:
        law = self._posterior.law
        if law.classes is not None:
            raise SettingsError(
                "residuals are of numbers and counts: classes have `calibration` and `roc`",
                field=None,
                code="not_applicable",
            )
        rows = LabelledRows.read(law, X, y, weights)
        return predict(law, rows.coded, level=None).mean, conformity(law, rows)

    @chart
    def predictive_check(
        self, X: Any, y: Any, weights: Any = None, *, draws: int = 30, ax: Any = None
    ) -> Any:
        """Draw outcomes over those that the model draws for the same rows: do they look alike?

        `draws` sets of new outcomes are drawn, evenly spaced over the chains.
        """
        posterior = self._posterior
        rows = LabelledRows.read(posterior.law, X, y, weights)
        drawn = posterior.sample_predictive(X, weights)
        chosen = drawn.reshape(-1, drawn.shape[-1])[spaced(drawn[..., 0].size, draws)]
        name = posterior.header.schema.target.name
        return draw_predictive_check(rows.y, chosen, rows.classes, name, new_axes(ax))

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
            Axes to draw on; for two features an array of two (the mean, and its posterior sd).

        Returns
        -------
        Axes
            The axes drawn on.

        """
        posterior = self._posterior
        names = [features] if isinstance(features, str) else list(features)
        effect = posterior.partial_dependence(names, X, level=level, ice=ice)
        kinds = [column.kind for name in names for column in posterior.schema.columns if column.name == name]
        target = posterior.schema.target.name
        classes = list(posterior.classes or ())
        label = f"probability of {classes[1]}" if len(classes) == 2 else target
        if len(names) == 2:
            return draw_surfaces(effect, kinds, label, classes, ax)
        axes = new_axes(ax)
        (grid,), (kind,) = effect.grid, kinds
        if effect.ice is not None and effect.ice.mean.ndim == 2:
            at = places_of(grid, kind)
            axes.plot(at, effect.ice.mean.T, color=SOFT, lw=0.6, alpha=0.5, zorder=1)
        curves = [(effect.mean, effect.lower, effect.upper, ACCENT, None)]
        if effect.mean.ndim == 2:
            moved = np.argsort(-np.ptp(effect.mean, axis=0), kind="stable")[:MOST_CLASSES]
            curves = [
                (effect.mean[:, k], effect.lower[:, k], effect.upper[:, k], colour_of(i), classes[k])
                for i, k in enumerate(sorted(moved.tolist()))
            ]
            label = "probability"
        for i, curve in enumerate(curves):
            draw_curve(axes, grid, kind, curve, (i + 0.5) / len(curves) - 0.5)
        if kind in {"category", "boolean"}:
            order = by_effect(grid, kind, effect.mean)
            axes.set_yticks(np.arange(len(grid)), [level_name(grid[k]) for k in order], parse_math=False)
            label_axes(axes, label, names[0])
        else:
            label_axes(axes, names[0], label)
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize="small")
        return axes

    @chart
    def accumulated_effects(self, feature: str, X: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Draw the accumulated local effects of a column of numbers or dates, with their interval."""
        effect = self._posterior.accumulated_effects(feature, X, level)
        (kind,) = (column.kind for column in self._posterior.schema.columns if column.name == feature)
        axes = new_axes(ax)
        curves: list[Any] = [(effect.mean, effect.lower, effect.upper, ACCENT, None)]
        if effect.mean.ndim == 2:
            curves = [
                (effect.mean[:, k], effect.lower[:, k], effect.upper[:, k], colour_of(k), name)
                for k, name in enumerate(effect.classes or ())
            ][:MOST_CLASSES]
        for curve in curves:
            draw_curve(axes, effect.grid, kind, curve, 0.0)
        axes.axhline(0, color=SOFT, lw=0.9, ls=":")
        label_axes(axes, feature, f"effect on {self._posterior.schema.target.name}, mean 0")
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
        shares = self._posterior.inclusion(level)
        ax = _draw_ranked(shares, shares.order, new_axes(ax, height_of(len(shares.names))))
        ax.axvline(1 / len(shares.names), color=SOFT, lw=0.9, ls=":")
        ax.set_xlim(left=0)
        ax.set_xlabel("share of the split rules")
        return ax


@chart
def draw_importance(importance: PermutationImportance, ax: Any = None) -> Any:
    """Draw the increase of the loss by feature with its interval, the largest on top."""
    ax = _draw_ranked(importance, importance.order, new_axes(ax, height_of(len(importance.names))))
    ax.axvline(0, color=SOFT, lw=0.9, ls=":")
    of = "RMSE" if importance.loss == "rmse" else "log loss"
    ax.set_xlabel(f"increase of the {of} (from {number_to_text(importance.baseline, 3)}) when shuffled")
    return ax


@chart
def draw_prediction(prediction: Prediction, ax: Any = None) -> Any:
    """Draw a prediction's first intervals by rank of the mean."""
    name = "prediction" if prediction.classes is None else "probability"
    return _draw_intervals(*_by_row(prediction, None), None, name, new_axes(ax, 4.0))


def _outcome(posterior: Posterior, X: Any, y: Any) -> Floats:
    from sampler.posterior.assessment.labelled_rows import LabelledRows  # noqa: PLC0415  # imports scipy

    return LabelledRows.read(posterior.law, X, y).y


def _by_row(prediction: Prediction, outcome: Floats | None) -> tuple[Floats, Floats, Floats]:
    """Return mean and ends [row]; of several classes, those of the row's own or most probable one."""
    if not prediction.intervals:
        raise SettingsError(
            "a chart of predictions needs an interval: predict with level=0.9",
            field="level",
            code="not_applicable",
        )
    _, lower, upper = prediction.intervals[0]
    if prediction.mean.ndim == 1:
        return prediction.mean, lower, upper
    own = prediction.mean.argmax(axis=1) if outcome is None else outcome.astype(np.int64)
    if own.max(initial=0) >= prediction.mean.shape[1]:
        raise SettingsError("y has a class that the model never saw", field="y", code="unknown")
    rows = np.arange(len(own))
    return prediction.mean[rows, own], lower[rows, own], upper[rows, own]


def _draw_intervals(
    mean: Floats, lower: Floats, upper: Floats, outcome: Floats | None, name: str, axes: Any
) -> Any:
    order = np.argsort(mean, kind="stable")[evenly_spaced(len(mean), MOST_POINTS)]
    mean, lower, upper = mean[order], lower[order], upper[order]
    if outcome is None:
        at = np.arange(len(mean))
        axes.vlines(at, lower, upper, color=ACCENT, lw=1.0, alpha=0.38)
        axes.plot(at, mean, ls="none", marker="o", ms=3, mew=0, color=ACCENT)
        label_axes(axes, "rows, by prediction", name)
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
    label_axes(axes, f"actual {name}", f"predicted {name}")
    axes.legend(frameon=False, fontsize="small")
    return axes


def _draw_ranked(features: PermutationImportance | Inclusion, order: Sequence[int], axes: Any) -> Any:
    shown = list(order[:MOST_FEATURES])
    at = np.arange(len(shown))[::-1]
    axes.hlines(at, features.lower[shown], features.upper[shown], color=ACCENT, lw=5, alpha=0.28)
    axes.plot(features.mean[shown], at, ls="none", marker="o", ms=5, mew=0, color=ACCENT)
    axes.set_yticks(at, [short(features.names[j]) for j in shown], parse_math=False)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    return axes


def _legend(axes: Any, count: int) -> None:
    if count <= len(COLOURS):
        axes.legend(frameon=False, fontsize="small", ncols=min(count, 4), loc="best")
