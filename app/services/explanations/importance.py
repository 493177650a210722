"""Importance of features and interactions of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from app.services.errors import (
    Fault,
    InvalidRequestError,
    TooLargeError,
)
from app.services.explanations.finished_models import finished
from app.services.explanations.work import FEWEST_DRAWS, affordable
from app.services.predictions.predict_rows import Predictor, understood
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import Json
from sampler.posterior.explanations.interactions import COLUMNS, ROWS
from sampler.posterior.explanations.work import interactions_work

MOST_FEATURES = 12  # with more features, pairs are not compared: these take about a second of a core


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
    head, posterior = finished(predictor, owner, model)
    with understood():
        shares = posterior.inclusion(level, of)
    columns = (shares.names, shares.mean.tolist(), shares.lower.tolist(), shares.upper.tolist())
    features = [
        FeatureShare(name, mean, lower, upper) for name, mean, lower, upper in zip(*columns, strict=True)
    ]
    return Importance(
        head.id,
        posterior.num_draws,
        level,
        _permutation(predictor, head.id, loss),
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
    scale: str
    pairs: list[Pair]


def interactions(
    predictor: Predictor, owner: str, model: str, features: Sequence[str] | None, level: float
) -> PairsOfFeatures:
    """Return the interactions of each two features, by all draws or as many as are affordable.

    Raises
    ------
    NotFoundError, NotFinishedError
        As `finished`.
    InvalidRequestError, TooLargeError
        The features are unknown or too many, or the model has no interactions.
    """
    if features is not None and len(features) > MOST_FEATURES:
        raise TooLargeError(f"Interactions are of at most {MOST_FEATURES} features at once.")
    head, posterior = finished(predictor, owner, model)
    many = len(features) if features is not None else min(COLUMNS, len(posterior.schema.columns))
    stored = posterior.num_chains * posterior.num_draws
    draws = affordable(lambda draws: interactions_work(posterior.law, draws, many, ROWS), stored)
    with understood():
        answer = posterior.interactions(features, level=level, max_draws=max(draws, FEWEST_DRAWS))
    figures = [getattr(answer, field.name).tolist() for field in fields(Pair)[1:]]
    pairs = [Pair(names, *row) for names, *row in zip(answer.pairs, *figures, strict=True)]
    return PairsOfFeatures(head.id, level, answer.draws, answer.scale, pairs)
