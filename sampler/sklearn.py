"""BART as scikit-learn estimators, for pipelines, grid searches and cross-validation.

>>> from bartserve import BARTRegressor
>>> mean, sd = BARTRegressor(random_state=0).fit(X, y).predict(X_new, return_std=True)

Arrays are checked by scikit-learn's functions (missing values are allowed); tables that hold more than
numbers are passed to `sampler.fit` unchanged, so that categories, dates and text can be used. `posterior_` is
the posterior.

`sample_weight` is a precision: row i has variance sigma^2 / weight. It differs from repeating the row, which
would also increase the number of rows from which the noise is estimated. One of scikit-learn's checks demands
that it doesn't; `expected_failed_checks` declares it:

    check_estimator(model, expected_failed_checks=expected_failed_checks(model))

"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import assert_all_finite, check_random_state
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
except ImportError as error:  # pragma: no cover  # the development environment has it
    raise ImportError("sampler.sklearn needs scikit-learn 1.6 or newer: pip install scikit-learn") from error

from collections.abc import Mapping, Sequence

from numpy.typing import NDArray

from sampler.data.convert import to_labels
from sampler.data.rows import named_column
from sampler.data.table import RawColumn, check_row_labels, read, read_column, row_labels
from sampler.definitions.other_names import suggest_arguments
from sampler.fitting import fit
from sampler.methods import find_method
from sampler.posterior.results.prediction import Prediction
from sampler.posterior.results.survival import SurvivalCurves

if TYPE_CHECKING:
    from sampler.posterior.core.intervals import Interval
    from sampler.posterior.posterior import Posterior


class _BART(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Common base of the estimators: parameters, and the passage of data to `sampler.fit` and back."""

    posterior_: Posterior

    @suggest_arguments
    def __init__(
        self,
        *,
        method: str = "bart",
        family: str | None = None,
        num_trees: int | None = None,
        num_chains: int | None = None,
        num_burnin: int | None = None,
        num_draws: int | None = None,
        thin: int | None = None,
        prior: Mapping[str, Any] | None = None,
        moves: str | Mapping[str, float] = "default",
        noise: str | None = None,
        linear: bool | str | None = None,
        outcome_transform: str | None = None,
        categories: str = "indicators",
        recipe: str = "none",
        monotone: Mapping[str, str] | None = None,
        parts: Mapping[str, Any] | None = None,
        exposure: str | None = None,
        offset: str | None = None,
        lower: str | None = None,
        upper: str | None = None,
        treatment: str | None = None,
        propensity: str | None = None,
        effects: str = "bcf",
        assignment: str = "observed",
        recalibrate: str = "auto",
        groups: str | Sequence[str] | None = None,
        slopes: str | Sequence[str] | None = None,
        adoption: str | None = None,
        period: str | None = None,
        calibrate: str = "none",
        holdout: float | None = None,
        new_rows: str | Mapping[str, Any] | None = None,
        subgroups: Sequence[Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.family = family
        self.num_trees = num_trees
        self.num_chains = num_chains
        self.num_burnin = num_burnin
        self.num_draws = num_draws
        self.thin = thin
        self.prior = prior
        self.moves = moves
        self.noise = noise
        self.linear = linear
        self.outcome_transform = outcome_transform
        self.categories = categories
        self.recipe = recipe
        self.monotone = monotone
        self.parts = parts
        self.exposure = exposure
        self.offset = offset
        self.lower = lower
        self.upper = upper
        self.treatment = treatment
        self.propensity = propensity
        self.effects = effects
        self.assignment = assignment
        self.recalibrate = recalibrate
        self.groups = groups
        self.slopes = slopes
        self.adoption = adoption
        self.period = period
        self.calibrate = calibrate
        self.holdout = holdout
        self.new_rows = new_rows
        self.subgroups = subgroups
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def predict_interval(self, X: Any, level: float = 0.9, interval: str | None = None) -> NDArray[Any]:
        """Compute the ends of the central interval at each row, float64 [row, 2], or [row, class, 2].

        Parameters
        ----------
        X
            Rows to predict.
        level
            Probability of the interval.
        interval
            "predictive", for a new outcome, "calibrated", the same with a stated coverage (for a regressor
            with `calibrate`), or "credible", for the regression function; None is predictive for a regressor.
            A classifier has credible ones alone: of two classes, of the probability of the second; of more,
            of that of each (`predict_set` has its calibrated sets).

        Returns
        -------
        ndarray
            The ends, lower before upper.

        """
        bounds: Interval = self._predict(X, level, interval).intervals[0]
        return np.stack([bounds.lower, bounds.upper], axis=-1)

    def _fit(self, X: Any, y: Any, weights: Any, family: str, target_name: str, **roles: Any) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = self.get_params(deep=False)
        del settings["random_state"]
        n_jobs = settings.pop("n_jobs")
        settings |= {"transform": settings.pop("outcome_transform"), "family": self.family or family} | roles
        self.posterior_ = fit(
            self._named(X),
            y,
            weights,
            **settings,
            seed=seed,
            target_name=target_name,
            num_threads=None if n_jobs is None else effective_n_jobs(n_jobs),
            progress=False,
        )

    def _predict(self, X: Any, level: float | None = None, interval: str | None = None) -> Prediction:
        check_is_fitted(self)
        table = self._named(self._table(X, reset=False))
        return self.posterior_.predict(table, level=level, interval=interval)

    def _named(self, table: Any) -> Any:
        """Return an array of a table's numbers with the table's column names; any other value unchanged."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or not isinstance(table, np.ndarray):
            return table
        return {name: table[:, j] for j, name in enumerate(names)}

    def _name_of(self, y: Any) -> str:
        """Return the name of a column y, or "target", or another where a feature has that name."""
        names = [getattr(y, "name", None), *getattr(y, "columns", ())][:2]
        taken = set(getattr(self, "feature_names_in_", ()))
        usable = [name for name in names if isinstance(name, str) and name and name not in taken]
        name = usable[0] if usable else "target"
        while name in taken:
            name += "_"
        return name

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Check an array by scikit-learn's functions, or note or compare a table's column names."""
        if hasattr(X, "columns") and not _is_numeric(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        fewest = 2 if reset else 1
        return validate_data(
            self,
            X,
            reset=reset,
            dtype="numeric",
            ensure_all_finite="allow-nan",
            ensure_min_samples=fewest,
        )


class BARTRegressor(RegressorMixin, _BART):  # type: ignore[misc]
    """Sum of trees with Gaussian noise, or another `method`; of counts with `family="negative-binomial"`.

    The parameters are those of `sampler.fit`, where None is the method's default; columns with a role, such
    as `treatment` and `groups`, are named, and new rows have theirs in them too. `random_state` takes the
    place of `seed`, `outcome_transform` that of `transform`, which scikit-learn takes for a method. `n_jobs`
    is the number of threads for the chains: None takes one per core. With `calibrate` "holdout" or "folds",
    `predict_interval(X, interval="calibrated")` has intervals with a coverage that is stated however wrong
    the model.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BARTRegressor:
        """Draw from the posterior given X [n, p] and y [n]; rows of weight 0 are left out.

        `sample_weight` may be the name of a column of X, which is no feature then.
        """
        _check_labels(X, y, sample_weight)
        table = self._table(X, reset=True)
        target_name = self._name_of(y)
        y = column_or_1d(y, warn=True, dtype=np.float64)
        weights: Any = None
        by_name = isinstance(sample_weight, str)
        if by_name:
            column = named_column(read(self._named(table)), "sample_weight", sample_weight)
            sample_weight = np.array(column.cells if column.numbers is None else column.numbers)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
            seen = weights > 0
            if not seen.all():
                rows = np.flatnonzero(seen)
                table, y, weights = _take(table, rows), y[rows], weights[rows]
        if by_name:
            weights = RawColumn(column.name, "number", weights)
        self._fit(table, y, weights, "gaussian", target_name)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Compute predictive means, float64 [row], and with `return_std` the sd of a new outcome too."""
        prediction = self._predict(X)
        return (prediction.mean, prediction.sd) if return_std else prediction.mean


class BARTSurvival(_BART):
    """Times until an event, censored where it hasn't come: accelerated failure times on trees.

    The parameters are those of `BARTRegressor`. Outcomes and methods are those of scikit-survival's
    estimators: a structured array of an event (bool) and a time.
    """

    def fit(self, X: Any, y: Any) -> BARTSurvival:
        """Draw from the posterior given X [n, p] and y [n], whose fields are the event and the time."""
        table = self._table(X, reset=True)
        event, time = _event_and_time(y)
        self._fit(table, time, None, "gaussian", self._name_of(None), event=event)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Compute risk scores, float64 [row]: the larger, the earlier the event (minus the median time)."""
        return -self._curves(X, None).median.value

    def predict_survival_function(self, X: Any, times: Any = None) -> NDArray[np.float64]:
        """Compute the probability that the event is after each time, float64 [row, time].

        Parameters
        ----------
        X
            Rows.
        times
            The times; None takes 50 of the training rows' range, which `unique_times_` then has.

        Returns
        -------
        ndarray
            The probabilities.

        """
        curves = self._curves(X, times)
        self.unique_times_ = np.asarray(curves.times)
        return np.asarray(curves.survival)

    def score(self, X: Any, y: Any) -> float:
        """Compute the concordance of risks and times (Harrell's C)."""
        check_is_fitted(self)
        event, time = _event_and_time(y)
        table = read(self._named(self._table(X, reset=False)))
        names = self.posterior_.header.censoring
        rows = table.with_columns({names["event"]: read_column(event, names["event"])})
        return float(self.posterior_.score(rows, time)["concordance"])

    def _curves(self, X: Any, times: Any) -> SurvivalCurves:
        check_is_fitted(self)
        return self.posterior_.survival(self._named(self._table(X, reset=False)), times)


def _event_and_time(y: Any) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Take the event and the time from a structured array; raise ValueError for any other."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if not names or len(names) != 2 or y.dtype[0] != np.bool_:
        raise ValueError(
            "y must be a structured array of an event (bool) and a time, as scikit-survival's Surv makes it"
        )
    return y[names[0]], np.asarray(y[names[1]], np.float64)


class BARTClassifier(ClassifierMixin, _BART):  # type: ignore[misc]
    """Probit BART for two classes, a multinomial logit of sums of trees for more, or ordered classes.

    With `family="ordinal"` classes have the order of numbers, or of an ordered `Categorical` of pandas.

    The parameters are those of `sampler.fit`, where None is the method's default; `random_state` takes the
    place of `seed`, `outcome_transform` that of `transform`, which scikit-learn takes for a method. `n_jobs`
    is the number of threads for the chains: None takes one per core. With `calibrate` "holdout"
    or "folds", `predict_set` has sets of classes whose coverage is stated however wrong the model.
    """

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> BARTClassifier:
        """Draw from the posterior given X [n, p] and the classes y [n]."""
        _check_labels(X, y)
        table = self._table(X, reset=True)
        target_name = self._name_of(y)
        roles = {"levels": read_column(y, target_name).levels or None} if self.family == "ordinal" else {}
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind not in ("binary", "multiclass"):
            raise ValueError(f"Only classes are supported. The type of the target is {kind}.")
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_[0]!r}: there is nothing to learn")
        two = len(self.classes_) == 2 and "probit" in find_method(self.method).families
        self._fit(table, y, None, "probit" if two else "categorical", target_name, **roles)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute posterior mean probabilities of the classes, float64 [row, class]."""
        mean = self._predict(X).mean
        return self._by_class(np.column_stack([1 - mean, mean]) if mean.ndim == 1 else mean)

    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]:
        """Compute calibrated prediction sets, bool [row, class] in the order of `classes_`.

        Parameters
        ----------
        X
            Rows to predict.
        level
            Share of new rows whose class is in their set.

        Returns
        -------
        ndarray
            Whether each class is in the set.

        Raises
        ------
        SettingsError
            For an estimator without `calibrate`, and a level that takes more rows than it was calibrated by.

        """
        return self._by_class(self._predict(X, level, "calibrated").sets[0].members)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row."""
        check_is_fitted(self)
        likeliest: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return likeliest

    def _by_class(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put columns of the posterior's classes at the places of `classes_`; one all held out has zeros."""
        labels = to_labels(read_column(self.classes_, "classes"), [])
        place = {labels.names[index]: k for k, index in enumerate(labels.index)}
        columns = np.zeros((len(values), len(self.classes_)), values.dtype)
        columns[:, [place[name] for name in self.posterior_.classes or ()]] = values
        return columns


def expected_failed_checks(estimator: BaseEstimator) -> dict[str, str]:
    """Return scikit-learn's checks that an estimator fails by design, with the reason of each.

    For the argument of that name of `sklearn.utils.estimator_checks.check_estimator`.
    """
    if not isinstance(estimator, BARTRegressor):
        return {}
    why = "weights are precisions: weight 2 is not two rows"
    return {"check_sample_weight_equivalence_on_dense_data": why}


def _check_labels(X: Any, y: Any, weights: Any = None) -> None:
    """Raise DataError where row labels of pandas objects differ; scikit-learn's checks drop them."""
    check_row_labels({"X": row_labels(X), "y": row_labels(y), "sample_weight": row_labels(weights)})


def _is_numeric(table: Any) -> bool:
    """Tell whether all columns of a table are numeric, so that scikit-learn's own checks apply."""
    import narwhals as nw  # noqa: PLC0415  # slow to import

    return all(dtype.is_numeric() for dtype in nw.from_native(table, eager_only=True).schema.values())


def _take(table: Any, rows: NDArray[np.intp]) -> Any:
    import narwhals as nw  # noqa: PLC0415

    if isinstance(table, np.ndarray):
        return table[rows]
    return nw.from_native(table, eager_only=True)[rows, :].to_native()
