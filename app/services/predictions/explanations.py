"""What a fitted model says of itself: diagnostics, variable importance, partial dependence, its draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import SUCCEEDED, Model
from sampler import Posterior
from sampler.posterior.intervals import Interval
from sampler.posterior.partial_dependence import PartialDependence
from sampler.posterior.report import diagnose

MAX_WORK = 2e10  # trees looked up for one partial dependence: two seconds of a core
MAX_POINTS = 10_000  # of one answer
ICE_ROWS = 50  # that have curves of their own
MAX_CELLS = 10_000_000  # draws times rows of one export: 80 MB


@dataclass(frozen=True)
class DependenceRequest:
    """What `POST /models/{id}/partial-dependence` asks for."""

    features: Sequence[str]
    grid: Mapping[str, Any] | None = None
    levels: Sequence[float] = (0.9,)
    ice: bool = False
    draws: int | None = None
    rows: Any = None  # to average over, a list of objects; without these and columns: the reference rows
    columns: Any = None


def finished(predictor: Predictor, owner: str, model: str) -> tuple[Model, Posterior]:
    """The succeeded model of an id, or the newest of a name, and its posterior.

    Raises
    ------
    NotFoundError, NotFinishedError
        There is no such model; it has not finished.
    """
    found, posterior, _ = predictor.lookup(owner, model)
    check_succeeded(found)
    return found, posterior


def check_succeeded(model: Model) -> None:
    """Raise NotFinishedError for a model that is being fitted or extended, though it may have draws."""
    if model.state != SUCCEEDED:
        raise NotFinishedError(f"Model {model.id} is {model.state}: ask again when it has succeeded.")


def diagnostics(predictor: Predictor, owner: str, model: str, max_points: int) -> dict[str, Any]:
    """Whether the model's chains agree, with figures, traces and counts; raises as `finished`.

    `max_points` bounds what a trace shows of each chain.
    """
    found, posterior = finished(predictor, owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        chains = store.chains(session, [found.id])[found.id]
    statistics = [chain.statistics or {} for chain in chains]
    return {
        "model_id": found.id,
        "classes": classes_of(posterior),
        **diagnose(posterior, statistics, max_points),
    }


def held_out(session: Session, owner: str, model: str) -> dict[str, Any]:
    """The rows that a model never saw, one by one, with what it predicts of them (`worker.scoring.look_at`).

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`; or no rows were held out.
    """
    found = find(session, owner, model)
    rows = store.held_out(session, found.id)
    if rows is None:
        raise NotFoundError("No rows of this model were held out, or it is older than this figure.")
    return {"model_id": found.id, **rows}


def held_out_by(predictor: Predictor, owner: str, model: str) -> dict[str, Any]:
    """The same, with the ``target``."""
    with session_scope(predictor.engine, read_only=True) as session:
        found = held_out(session, owner, model)
        return found | {"target": find(session, owner, model).target}


def topologies(predictor: Predictor, owner: str, model: str) -> list[dict[str, Any]] | None:
    """The shapes that a model's tree may have, the most probable first, as it was judged; None of no tree."""
    with session_scope(predictor.engine, read_only=True) as session:
        found: list[dict[str, Any]] | None = (find(session, owner, model).diagnostics or {}).get("topologies")
        return found


def target_of(predictor: Predictor, owner: str, model: str) -> str:
    """What a model predicts."""
    with session_scope(predictor.engine, read_only=True) as session:
        return find(session, owner, model, partly=True).target


def importance(predictor: Predictor, owner: str, model: str, level: float) -> dict[str, Any]:
    """The share of the split rules that use each feature, the largest first; raises as `finished`."""
    found, posterior = finished(predictor, owner, model)
    shares = posterior.inclusion(level)
    columns = (shares.names, shares.mean.tolist(), shares.lower.tolist(), shares.upper.tolist())
    features = [
        {"name": name, "mean": mean, "lower": lower, "upper": upper}
        for name, mean, lower, upper in zip(*columns, strict=True)
    ]
    return {
        "model_id": found.id,
        "draws": posterior.num_draws,
        "level": level,
        "features": sorted(features, key=lambda feature: -float(feature["mean"])),
        "draws_without_rules": shares.draws_without_rules,
    }


def dependence(predictor: Predictor, owner: str, model: str, request: DependenceRequest) -> dict[str, Any]:
    """How predictions move with one or two features, the others as in the rows.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, UnusableDataError, TooLargeError
        The request is to blame: names the field, or the column and row.
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
        )
    _check_finite(result)
    draws = posterior.num_draws if request.draws is None else request.draws
    return {"model_id": found.id, "draws": draws, "classes": classes_of(posterior), **_shown(result)}


def _check_finite(result: PartialDependence) -> None:
    figures = [result.mean, *(end for interval in result.intervals for end in interval[1:])]
    if not all(np.isfinite(values).all() for values in figures):
        raise UnusableDataError("The answer is beyond the largest number there is: rescale the target.")


def _shown(result: PartialDependence) -> dict[str, Any]:
    ice = result.ice
    return {
        "features": result.features,
        "grid": result.grid,
        "rows": result.rows,
        "mean": result.mean.tolist(),
        "intervals": _intervals(result.intervals),
        "ice": ice
        and {
            "rows": ice.rows.tolist(),
            "mean": ice.mean.tolist(),
            "intervals": _intervals(ice.intervals),
        },
    }


def _intervals(intervals: Sequence[Interval]) -> list[dict[str, Any]]:
    return [
        {"level": level, "lower": lower.tolist(), "upper": upper.tolist()}
        for level, lower, upper in intervals
    ]


def export(predictor: Predictor, owner: str, model: str, *, f: bool, draws: int | None) -> pa.Table:
    """The draws as columns: `chain`, `draw`, `sigma` (not of two classes), and `f` at the reference rows.

    A row for each draw, chain by chain, so every column has the shape [chain, draw], `f` [chain, draw, row].

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, TooLargeError
        There are not so many draws; they are too many for one answer.
    """
    found, posterior = finished(predictor, owner, model)
    used = posterior.num_draws if draws is None else draws
    reference = posterior.reference
    if f and posterior.num_chains * used * reference.num_rows > MAX_CELLS:
        raise TooLargeError("So many draws of f are too many for one answer: ask for fewer draws.")
    if not 1 <= used <= posterior.num_draws:
        told = f"draws must be from 1 to {posterior.num_draws}, not {used}"
        raise InvalidRequestError(errors=[Fault("draws", None, told)])
    chain, draw = np.indices((posterior.num_chains, used)).reshape(2, -1)
    named: dict[str, pa.Array] = {"chain": pa.array(chain), "draw": pa.array(draw)}
    if posterior.sigma is not None:
        named["sigma"] = pa.array(np.ascontiguousarray(posterior.sigma[:, :used]).reshape(-1))
    if f:
        values = posterior.sample(reference, used)
        named["f"] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), reference.num_rows)
    facts = {
        "model_id": found.id,
        "chains": posterior.num_chains,
        "draws": used,
        "classes": classes_of(posterior),
        "verdict": predictor.verdict(found, posterior, used),
    }
    return with_facts(pa.table(named), facts)


def classes_of(posterior: Posterior) -> list[str] | None:
    """The two classes, of which figures are the probability of the second; None for numbers."""
    return None if posterior.classes is None else list(posterior.classes)
