"""Charts of a posterior with matplotlib (optional), those of the service's pages.

For example `posterior.plot.effects("weight")` or `posterior.plot.importance(X_held, y_held)`. Every chart
takes `ax`, the axes to draw on, and returns its axes; without `ax` it makes a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.data.scalars import named_with
from sampler.errors import SettingsError
from sampler.posterior.assessment.conformal import conformity
from sampler.posterior.assessment.convergence import independent_every
from sampler.posterior.assessment.diagnostics import evenly_spaced
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.charts import chains, checks, effects, one_row, rankings, residuals
from sampler.posterior.charts.style import ChartStyle, Theme
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.posterior import Posterior
from sampler.posterior.predicting import predict
from sampler.posterior.refusals import check
from sampler.posterior.results.effects import FeatureRows
from sampler.posterior.results.prediction import Prediction

MOST_POINTS = 500  # points of a trace, and rows of a chart


class Plots:
    """Charts of one posterior (`posterior.plot`) in a style."""

    def __init__(self, posterior: Posterior, style: ChartStyle | None = None) -> None:
        self._posterior = posterior
        self._style = style or ChartStyle()

    def styled(
        self, theme: Theme = "light", *, width: float | None = None, height: float | None = None
    ) -> Plots:
        """Return the charts in another theme ("light", "dark", "print") and of another size in inches."""
        return Plots(self._posterior, replace(self._style, theme=theme, width=width, height=height))

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

    def _on(self, ax: Any) -> ChartStyle:
        return replace(self._style, ax=ax)

    @property
    def _target(self) -> str:
        return named_with(self._posterior.schema.target.name, self._posterior.unit)

    @property
    def _outcome(self) -> str:
        return effects.outcome_name(self._target, self._posterior.classes)

    def _rows(self, *features: str) -> list[FeatureRows]:
        return [FeatureRows(unit=self._posterior.header.units.get(name)) for name in features]

    def traces(self, ax: Any = None) -> Any:
        """Draw sigma by draw, one line per chain; of classes and counts a mean over reference rows."""
        name, draws = self._followed()
        places = evenly_spaced(draws.shape[1], MOST_POINTS)
        return chains.traces(self._on(ax), draws[:, places], places, name)

    def ranks(self, ax: Any = None) -> Any:
        """Draw each chain's share of draws below each rank among all draws, less the expected share.

        What `traces` shows is ranked, thinned to about independent draws. Chains that agree stay in the band,
        all along with probability 95% (of Kolmogorov's statistic).
        """
        name, draws = self._followed()
        every = independent_every(draws)
        return chains.ranks(self._on(ax), draws[:, ::every], every, name)

    def convergence(self, axes: Any = None) -> Any:
        """Draw R-hat and effective sample sizes by number of draws, on two axes."""
        return chains.growth(self._on(axes), self._posterior.convergence())

    def calibration(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw observed against claimed shares on held-out rows, with binomial 95% intervals."""
        entries = self._posterior.calibration(X, y, weights)
        return checks.calibration(self._on(ax), entries, self._posterior.classes)

    def roc(self, X: Any, y: Any, *, ax: Any = None) -> Any:
        """Draw the ROC curve of two classes on held-out rows, with the area under it.

        Raises SettingsError for other models.
        """
        check("roc", self._posterior.law)
        classes = self._posterior.classes or ()
        scores = self._posterior.score(X, y)
        counts, area = scores["confusion_by_threshold"], scores["auc"]
        return checks.roc(self._on(ax), counts, area, classes[1])

    def pit(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw the histogram of held-out outcomes' probability integral transforms: flat if all is well.

        Raises SettingsError for classes, which have `calibration`, and censored outcomes.
        """
        _, u = self._transforms(X, y, weights)
        return residuals.pit(self._on(ax), u)

    def residuals(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None) -> Any:
        """Draw the quantile residuals of held-out rows against their predictions: standard normal everywhere.

        Raises SettingsError as `pit`.
        """
        mean, u = self._transforms(X, y, weights)
        return residuals.quantile_residuals(self._on(ax), mean, u, self._outcome)

    def _transforms(self, X: Any, y: Any, weights: Any) -> tuple[Floats, Floats]:
        law = self._posterior.law
        check("residuals", law)
        rows = LabelledRows.read(law, X, y, weights)
        return predict(law, rows.coded, level=None).mean, conformity(law, rows)

    def predictive_check(
        self, X: Any, y: Any, weights: Any = None, *, draws: int = 30, ax: Any = None
    ) -> Any:
        """Draw outcomes over those that the model draws for the same rows: do they look alike?

        `draws` sets of new outcomes are drawn, evenly spaced over the chains.
        """
        rows = LabelledRows.read(self._posterior.law, X, y, weights)
        drawn = self._posterior.sample_predictive(X, weights)
        chosen = drawn.reshape(-1, drawn.shape[-1])[spaced(drawn[..., 0].size, draws)]
        return residuals.predictive_check(self._on(ax), rows.y, chosen, rows.classes, self._target)

    def predictions(self, X: Any, y: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Draw predictions: with intervals by rank, or beside outcomes `y`.

        Numbers are drawn with their predictive intervals against the outcomes, probabilities of two classes
        as bars by class, and of several that of each row's own class. At most 500 rows are drawn, evenly
        spaced, of two classes all.
        """
        posterior, style = self._posterior, self._on(ax)
        prediction, classes = posterior.predict(X, level), posterior.classes
        if y is None:
            return by_rank(style, prediction, self._outcome)
        actual = LabelledRows.read(posterior.law, X, y).y
        if classes is not None and len(classes) == 2:
            return checks.probabilities(style, actual, prediction.mean, classes)
        shown = evenly_spaced(len(actual), MOST_POINTS)
        actual, mean = actual[shown], prediction.mean[shown]
        if classes is not None:
            own = np.take_along_axis(mean, actual[:, None].astype(np.int64), axis=1)[:, 0]
            return checks.own_class(style, actual, mean.argmax(axis=1), own, classes)
        lower, upper = prediction.lower[shown], prediction.upper[shown]
        return checks.predicted(style, actual, mean, lower, upper, self._outcome)

    def effects(
        self,
        features: str | Sequence[str],
        X: Any = None,
        *,
        level: float = 0.9,
        ice: int = 0,
        of: str = "mean",
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
            Number of single rows whose curves are drawn too, for one feature of numbers or dates.
        of
            "mean", predictions; "effect", the effect of the model's treatment.
        ax
            Axes to draw on; for two features an array of two (the mean, and its posterior sd), for three an
            array of three (the mean at the lowest, a middle and the highest value of the third).

        Returns
        -------
        Axes
            The axes drawn on.

        """
        effect = self._posterior.partial_dependence(features, X, level=level, ice=ice, of=of)
        label = "effect" if of == "effect" else self._target
        return effects.dependence(self._on(ax), effect, label, self._rows(*effect.features))

    def accumulated_effects(self, feature: str, X: Any = None, *, level: float = 0.9, ax: Any = None) -> Any:
        """Draw the accumulated local effects of a column of numbers or dates, with their interval."""
        effect = self._posterior.accumulated_effects(feature, X, level)
        return effects.accumulated(self._on(ax), effect, self._target, *self._rows(feature))

    def density(self, row: Any, *, ax: Any = None) -> Any:
        """Draw the densities of the prediction of one row, and of a new outcome."""
        return one_row.density(self._on(ax), self._posterior.density(row), self._outcome)

    def importance(self, X: Any, y: Any, weights: Any = None, *, ax: Any = None, **options: Any) -> Any:
        """Draw the permutation importance on held-out rows; `options` are those of `posterior.importance`."""
        ranked = self._posterior.importance(X, y, weights, **options)
        figures = zip(*ranked.columns().values(), strict=True)
        return rankings.importance(self._on(ax), figures, ranked.loss, self._posterior.unit, ranked.baseline)

    def inclusion(self, level: float = 0.9, *, ax: Any = None) -> Any:
        """Draw the share of split rules that use each feature, with intervals over draws."""
        shares = self._posterior.inclusion(level).columns().values()
        return rankings.inclusion(self._on(ax), zip(*shares, strict=True))


def by_rank(style: ChartStyle, prediction: Prediction, name: str = "") -> Any:
    """Draw a prediction's first intervals by rank; of several classes those of the most probable one."""
    if not prediction.intervals:
        raise SettingsError(
            "a chart of predictions needs an interval: predict with level=0.9",
            field="level",
            code="not_applicable",
        )
    name = name or ("prediction" if prediction.classes is None else "probability")
    figures = [prediction.mean, *prediction.intervals[0][1:]]
    if prediction.mean.ndim == 2:
        best, name = prediction.mean.argmax(axis=1)[:, None], "probability of the most probable class"
        figures = [np.take_along_axis(each, best, axis=1)[:, 0] for each in figures]
    shown = np.argsort(figures[0], kind="stable")[evenly_spaced(len(figures[0]), MOST_POINTS)]
    mean, lower, upper = (each[shown] for each in figures)
    return checks.by_rank(style, mean, lower, upper, name)
