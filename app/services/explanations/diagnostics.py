"""Diagnostics of a fitted model, its held-out rows, topologies and draws."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlalchemy.orm import Session

from app.services.errors import (
    Fault,
    InvalidRequestError,
    NotFoundError,
    TooLargeError,
)
from app.services.explanations.finished_models import classes_of, finished
from app.services.predictions.answers import with_facts
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import Json
from sampler.data.scalars import named_with
from sampler.posterior.assessment.diagnostics import diagnose
from sampler.posterior.verdict.agreement import LIMITS

MAX_CELLS = 10_000_000  # draws times rows in one export: 80 MB


def converged_rhat(chains: int) -> float:
    """Return the largest R-hat of f that counts as converged with that number of chains."""
    return LIMITS["converged"].of(chains).rhat


@dataclass(frozen=True)
class Diagnostics:
    """The report of `sampler.posterior.assessment.diagnostics.diagnose` on a model."""

    model_id: str
    classes: list[str] | None
    verdict: str
    reasons: list[str]
    reason_codes: list[Json]
    advice: str
    precision: Json | None
    chains: int
    draws: int
    sigma: Json | None
    f: Json
    traces: Json
    moves: list[Json]
    trees: Json
    topologies: list[Json] | None
    groups: list[Json] | None


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of a model, their scores and predictions (`sampler.posterior.assessment.calibration`)."""

    model_id: str
    target: str
    scores: Json
    interval: str
    level: float
    classes: list[str] | None
    rows: Json
    calibration: list[Json]
    pit: list[float] | None = None  # of up to 2,000 rows of numbers, and their predictions
    predicted: list[float] | None = None


def diagnostics(predictor: Predictor, owner: str, model: str, max_points: int) -> Diagnostics:
    """Return the convergence diagnostics of a model, with traces and acceptance counts; raises as `finished`.

    `max_points` limits the points of each chain's trace.
    """
    head, posterior = finished(predictor, owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        chains = store.chains(session, [head.id])[head.id]
    statistics = [chain.statistics or {} for chain in chains]
    return Diagnostics(head.id, classes_of(posterior), **diagnose(posterior.law, max_points, statistics))


def held_out(session: Session, owner: str, model: str) -> HeldOut:
    """Return the held-out rows of a model with their predictions.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`; or the model has no holdout.
    """
    stored = find(session, owner, model)
    rows = store.held_out(session, stored.id)
    if rows is None:
        raise NotFoundError("The model has no holdout, or was fitted before held-out rows were stored.")
    names = ("interval", "level", "classes", "rows", "calibration")
    named = {name: rows[name] for name in names}
    checks = {name: rows[name] for name in ("pit", "predicted") if name in rows}
    return HeldOut(stored.id, stored.target, stored.holdout or {}, **named, **checks)


def held_out_by(predictor: Predictor, owner: str, model: str) -> HeldOut:
    """Return `held_out` in a transaction of its own."""
    with session_scope(predictor.engine, read_only=True) as session:
        return held_out(session, owner, model)


def topologies(predictor: Predictor, owner: str, model: str) -> list[Json] | None:
    """Return the topologies of a model's tree, the most probable first, or None when it has none."""
    with session_scope(predictor.engine, read_only=True) as session:
        probabilities: list[Json] | None = (find(session, owner, model).diagnostics or {}).get("topologies")
        return probabilities


def unit_of(predictor: Predictor, owner: str, model: str, name: str | None = None) -> str | None:
    """Return the unit of a column, without a name of the target; None for none, and for classes."""
    _, posterior, _ = predictor.lookup(owner, model)
    return posterior.unit if name is None else posterior.header.units.get(name)


def target_of(predictor: Predictor, owner: str, model: str) -> str:
    """Return the name of a model's target with its unit: "rent (EUR)"."""
    _, posterior, _ = predictor.lookup(owner, model)
    return named_with(posterior.schema.target.name, posterior.unit)


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
    head, posterior = finished(predictor, owner, model)
    used = posterior.num_draws if draws is None else draws
    reference = posterior.reference
    classes = classes_of(posterior)
    figures = reference.num_rows * (len(classes) if classes and len(classes) > 2 else 1)
    if f and posterior.num_chains * used * figures > MAX_CELLS:
        raise TooLargeError("These draws of f are too many for one response: ask for fewer draws.")
    if not 1 <= used <= posterior.num_draws:
        message = f"draws must be from 1 to {posterior.num_draws}, not {used}"
        raise InvalidRequestError(errors=[Fault("draws", None, message)])
    chain, draw = np.indices((posterior.num_chains, used)).reshape(2, -1)
    named: dict[str, pa.Array] = {"chain": pa.array(chain), "draw": pa.array(draw)}
    if posterior.sigma is not None:
        named["sigma"] = pa.array(np.ascontiguousarray(posterior.sigma[:, :used]).reshape(-1))
    if f:
        values = posterior.sample(reference, used).reshape(len(chain), -1)
        named["f"] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    facts = {
        "model_id": head.id,
        "chains": posterior.num_chains,
        "draws": used,
        "classes": classes,
        "verdict": predictor.verdict(head, posterior, used),
    }
    return with_facts(pa.table(named), facts)
