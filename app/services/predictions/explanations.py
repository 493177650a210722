"""Explanations of a fitted model: diagnostics, variable importance, partial dependence, draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy.orm import Session

from app.services.errors import (
    Fault,
    InvalidRequestError,
    NotFinishedError,
    NotFoundError,
    TooLargeError,
    UnusableDataError,
)
from app.services.predictions.answers import with_facts
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor, understood
from app.services.predictions.rows import columns_of, lists_of
from app.store import datasets as dataset_store
from app.store import models as store
from app.store.engine import session_scope
from app.store.errors import DatasetGoneError
from app.store.tables import SUCCEEDED, Json, Model
from sampler import Posterior
from sampler.data.scalars import MICROSECONDS_A_DAY, as_text, days_to_text
from sampler.posterior.explanations.partial_dependence import PartialDependence
from sampler.posterior.intervals import Interval
from sampler.posterior.report import diagnose

MAX_WORK = 2e10  # tree evaluations for one partial dependence: two seconds of a core
RUG = 200  # values of a feature shown below its effect
MOST_FEATURES = 12  # of which all pairs are compared: about a second of a core
MAX_POINTS = 10_000  # grid points in one response
ICE_ROWS = 50  # rows with individual curves
TOO_LARGE = "The result exceeds the largest float: rescale the target."
MAX_CELLS = 10_000_000  # draws times rows in one export: 80 MB


@dataclass(frozen=True)
class DependenceRequest:
    """A request for partial dependence (`POST /models/{id}/partial-dependence`)."""

    features: Sequence[str]
    grid: Mapping[str, Any] | None = None
    levels: Sequence[float] = (0.9,)
    ice: bool = False
    draws: int | None = None
    of: str = "mean"
    rows: Any = None  # list of objects to average over; without rows and columns: the reference rows
    columns: Any = None


@dataclass(frozen=True)
class Diagnostics:
    """The report of `sampler.posterior.report.diagnose` on a model."""

    model_id: str
    classes: list[str] | None
    verdict: str
    reasons: list[str]
    reason_codes: list[Json]
    advice: str
    chains: int
    draws: int
    sigma: Json | None
    f: Json
    traces: Json
    moves: list[Json]
    trees: Json
    topologies: list[Json] | None


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of a model with their predictions: `sampler.posterior.assessment.calibration`."""

    model_id: str
    target: str
    interval: str
    level: float
    classes: list[str] | None
    rows: Json
    calibration: list[Json]


@dataclass(frozen=True)
class FeatureShare:
    """Share of the split rules that use a feature: its posterior mean and an interval."""

    name: str
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class LossGrowth:
    """Increase of a loss when a feature is shuffled: its mean and an interval."""

    name: str
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Permutation:
    """Increase of a loss on held-out rows by feature, largest first, as `Posterior.importance` gives it."""

    loss: str
    baseline: float | None
    level: float
    rows: int
    draws: int
    permutations: int
    features: list[LossGrowth]


@dataclass(frozen=True)
class Importance:
    """Increase of the loss by feature, shares of the split rules, and the slopes of a linear part.

    The largest come first; `level` is that of the intervals of shares and slopes.
    """

    model_id: str
    draws: int
    level: float
    permutation: Permutation | None
    features: list[FeatureShare]
    draws_without_rules: int
    linear: list[Json] | None  # as `Posterior.linear_part` returns them


@dataclass(frozen=True)
class CurveBounds:
    """Bounds at one level, nested lists in the shape of the mean."""

    level: float
    lower: list[Any]
    upper: list[Any]


@dataclass(frozen=True)
class RowCurves:
    """Curves of single rows, [row][point] or [row][point][class]."""

    rows: list[int]
    mean: list[Any]
    intervals: list[CurveBounds]


@dataclass(frozen=True)
class Dependence:
    """Partial dependence by grid point: [first], or [first][second]; of several classes [..][class]."""

    model_id: str
    draws: int
    classes: list[str] | None
    features: list[str]
    grid: list[list[Any]]
    rows: int
    mean: list[Any]
    intervals: list[CurveBounds]
    ice: RowCurves | None


def finished(predictor: Predictor, owner: str, model: str) -> tuple[Model, Posterior]:
    """Return the succeeded model with this id, or the newest with this name, and its posterior.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    """
    found, posterior, _ = predictor.lookup(owner, model)
    check_succeeded(found)
    return found, posterior


def check_succeeded(model: Model) -> None:
    """Raise NotFinishedError for a model that is being fitted or extended, even if it has draws."""
    if model.state != SUCCEEDED:
        raise NotFinishedError(f"Model {model.id} is {model.state}: ask again when it has succeeded.")


def diagnostics(predictor: Predictor, owner: str, model: str, max_points: int) -> Diagnostics:
    """Return the convergence diagnostics of a model, with traces and acceptance counts; raises as `finished`.

    `max_points` limits the points of each chain's trace.
    """
    found, posterior = finished(predictor, owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        chains = store.chains(session, [found.id])[found.id]
    statistics = [chain.statistics or {} for chain in chains]
    return Diagnostics(found.id, classes_of(posterior), **diagnose(posterior, statistics, max_points))


def held_out(session: Session, owner: str, model: str) -> HeldOut:
    """Return the held-out rows of a model with their predictions.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`; or the model has no holdout.
    """
    found = find(session, owner, model)
    rows = store.held_out(session, found.id)
    if rows is None:
        raise NotFoundError("The model has no holdout, or was fitted before held-out rows were stored.")
    names = ("interval", "level", "classes", "rows", "calibration")
    return HeldOut(found.id, found.target, **{name: rows[name] for name in names})


def held_out_by(predictor: Predictor, owner: str, model: str) -> HeldOut:
    """Return `held_out` in a transaction of its own."""
    with session_scope(predictor.engine, read_only=True) as session:
        return held_out(session, owner, model)


def topologies(predictor: Predictor, owner: str, model: str) -> list[Json] | None:
    """Return the topologies of a model's tree, the most probable first, or None when it has none."""
    with session_scope(predictor.engine, read_only=True) as session:
        found: list[Json] | None = (find(session, owner, model).diagnostics or {}).get("topologies")
        return found


def target_of(predictor: Predictor, owner: str, model: str) -> str:
    """Return the name of a model's target."""
    with session_scope(predictor.engine, read_only=True) as session:
        return find(session, owner, model, partly=True).target


def importance(
    predictor: Predictor, owner: str, model: str, level: float, of: str = "mean", loss: str | None = None
) -> Importance:
    """Return what each feature does for held-out rows, its share of the split rules, and linear slopes.

    ``permutation`` is the increase of a loss on the held-out rows (`worker.fits.scoring`); None for
    a model without them, or finished by an earlier version.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError
        The part of the model has no trees, or the model no importance by that loss.
    """
    found, posterior = finished(predictor, owner, model)
    with understood():
        shares = posterior.inclusion(level, of)
    columns = (shares.names, shares.mean.tolist(), shares.lower.tolist(), shares.upper.tolist())
    features = [
        FeatureShare(name, mean, lower, upper) for name, mean, lower, upper in zip(*columns, strict=True)
    ]
    return Importance(
        found.id,
        posterior.num_draws,
        level,
        _permutation(predictor, found.id, loss),
        sorted(features, key=lambda feature: -feature.mean),
        shares.draws_without_rules,
        posterior.linear_part(level),
    )


def _permutation(predictor: Predictor, model_id: str, loss: str | None) -> Permutation | None:
    with session_scope(predictor.engine, read_only=True) as session:
        by_loss = (store.held_out(session, model_id) or {}).get("importance") or []
    if not by_loss:
        return None
    ranked = next((each for each in by_loss if loss in {None, each["loss"]}), None)
    if ranked is None:
        named = " or ".join(each["loss"] for each in by_loss)
        raise InvalidRequestError(errors=[Fault("loss", None, f"this model's importance is by {named}")])
    return Permutation(**ranked | {"features": [LossGrowth(**each) for each in ranked["features"]]})


@dataclass(frozen=True)
class Pair:
    """Interaction of two features, as in `sampler.posterior.explanations.interactions.Interactions`."""

    features: tuple[str, str]
    strength: float
    strength_lower: float
    strength_upper: float
    h: float
    h_lower: float
    h_upper: float
    inclusion: float
    inclusion_lower: float
    inclusion_upper: float
    expected: float


@dataclass(frozen=True)
class PairsOfFeatures:
    """Interactions of each two features, the strongest first."""

    model_id: str
    level: float
    draws: int
    pairs: list[Pair]


def interactions(
    predictor: Predictor, owner: str, model: str, features: Sequence[str] | None, level: float
) -> PairsOfFeatures:
    """Return the interactions of each two features.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, TooLargeError
        The features are unknown or too many, or the model has no interactions.
    """
    if features is not None and len(features) > MOST_FEATURES:
        raise TooLargeError(f"Interactions are of at most {MOST_FEATURES} features at once.")
    found, posterior = finished(predictor, owner, model)
    with understood():
        answer = posterior.interactions(features, level=level)
    figures = [getattr(answer, field.name).tolist() for field in fields(Pair)[1:]]
    pairs = [Pair(names, *row) for names, *row in zip(answer.pairs, *figures, strict=True)]
    return PairsOfFeatures(found.id, level, answer.draws, pairs)


def dependence(predictor: Predictor, owner: str, model: str, request: DependenceRequest) -> Dependence:
    """Return how predictions change with one or two features, averaged over the other features in the rows.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request or its data are invalid; names the field, or the column and row.
    """
    grid = lists_of(dict(request.grid or {}))
    if np.prod([float(len(points)) for points in grid.values()]) > MAX_POINTS:
        raise TooLargeError(f"A grid has at most {MAX_POINTS} points.")
    given = None
    if request.rows is not None or request.columns is not None:
        given = columns_of(request.rows, request.columns, predictor.max_rows)
    found, posterior = finished(predictor, owner, model)
    with understood():
        result = posterior.partial_dependence(
            request.features,
            given,
            grid=grid,
            level=list(request.levels),
            ice=ICE_ROWS if request.ice else 0,
            num_draws=request.draws,
            max_work=MAX_WORK,
            of=request.of,
        )
    _check_finite(result)
    draws = posterior.num_draws if request.draws is None else request.draws
    ice = result.ice
    return Dependence(
        found.id,
        draws,
        classes_of(posterior),
        result.features,
        result.grid,
        result.rows,
        result.mean.tolist(),
        _intervals(result.intervals),
        None if ice is None else RowCurves(ice.rows.tolist(), ice.mean.tolist(), _intervals(ice.intervals)),
    )


@dataclass(frozen=True)
class FeatureRows:
    """Values of a feature in the rows of a model's dataset; nothing for an imported model.

    `values` are up to 200 numbers, or dates in ISO 8601, at even quantiles; `counts` the rows of each level
    of a category (None: missing).
    """

    values: list[Any] | None = None
    counts: dict[str | None, int] | None = None


def feature_rows(predictor: Predictor, owner: str, model: str, feature: str) -> FeatureRows:
    """Describe the values of a feature; raises as `Predictor.lookup`."""
    with session_scope(predictor.engine, read_only=True) as session:
        found = find(session, owner, model)
        if found.dataset_id is None:
            return FeatureRows()
        try:
            column = dataset_store.read(session, found.dataset_id, [feature]).column(0)
        except (KeyError, DatasetGoneError):
            return FeatureRows()
    kind = (found.settings.get("columns") or {}).get(feature)
    if kind in {"category", "boolean"}:
        counted = zip(*column.value_counts().flatten(), strict=True)
        levels = [(value.as_py(), count.as_py()) for value, count in counted]
        return FeatureRows(counts={v if v is None else as_text(v): count for v, count in levels})
    dates = pa.types.is_timestamp(column.type)
    present = column.drop_null().cast(pa.int64()) if dates else column.drop_null().cast(pa.float64())
    values = np.sort(present.to_numpy())
    if len(values) == 0:
        return FeatureRows()
    rug = values[np.linspace(0, len(values) - 1, min(len(values), RUG)).round().astype(int)].tolist()
    return FeatureRows([days_to_text(value / MICROSECONDS_A_DAY) for value in rug] if dates else rug)


def _check_finite(result: PartialDependence) -> None:
    figures = [result.mean, *(end for interval in result.intervals for end in interval[1:])]
    if not all(np.isfinite(values).all() for values in figures):
        raise UnusableDataError(TOO_LARGE)


def _intervals(intervals: Sequence[Interval]) -> list[CurveBounds]:
    return [CurveBounds(level, lower.tolist(), upper.tolist()) for level, lower, upper in intervals]


def export(predictor: Predictor, owner: str, model: str, *, f: bool, draws: int | None) -> pa.Table:
    """Return the draws as columns: `chain`, `draw`, `sigma` (not for classes), and `f` at the reference rows.

    There is one row per draw, chain by chain, so columns have the shape [chain, draw], and `f` [chain, draw,
    row].

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, TooLargeError
        The model has fewer draws, or the response would be too large.
    """
    found, posterior = finished(predictor, owner, model)
    used = posterior.num_draws if draws is None else draws
    reference = posterior.reference
    classes = classes_of(posterior)
    figures = reference.num_rows * (len(classes) if classes and len(classes) > 2 else 1)
    if f and posterior.num_chains * used * figures > MAX_CELLS:
        raise TooLargeError("These draws of f are too many for one response: ask for fewer draws.")
    if not 1 <= used <= posterior.num_draws:
        told = f"draws must be from 1 to {posterior.num_draws}, not {used}"
        raise InvalidRequestError(errors=[Fault("draws", None, told)])
    chain, draw = np.indices((posterior.num_chains, used)).reshape(2, -1)
    named: dict[str, pa.Array] = {"chain": pa.array(chain), "draw": pa.array(draw)}
    if posterior.sigma is not None:
        named["sigma"] = pa.array(np.ascontiguousarray(posterior.sigma[:, :used]).reshape(-1))
    if f:
        values = posterior.sample(reference, used).reshape(len(chain), -1)
        named["f"] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    facts = {
        "model_id": found.id,
        "chains": posterior.num_chains,
        "draws": used,
        "classes": classes,
        "verdict": predictor.verdict(found, posterior, used),
    }
    return with_facts(pa.table(named), facts)


def classes_of(posterior: Posterior) -> list[str] | None:
    """Return the classes of a model, or None for a numeric target; of two, figures are P(second)."""
    return None if posterior.classes is None else list(posterior.classes)
