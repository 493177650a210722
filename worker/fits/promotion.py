"""The gate of a refit: whether the name moves to it, by what neither model has seen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sqlalchemy.orm import Session

from app.store import draws, models
from app.store.engine import session_scope
from app.store.errors import StoreError
from app.store.tables import ALWAYS, AUTO, KEPT, PROMOTED, REFUSED, Json, Model
from sampler import DataError, Posterior, SettingsError
from sampler.host.assessment import LabelledRows, row_scores
from sampler.host.data import Rows, are_among, counted
from sampler.host.posteriors import ModelComparison, posterior_of
from sampler.host.storage import kept_rows
from worker.context import Context
from worker.fits.fit_spec import Spec, read_rows, read_spec, split

FEWEST_ROWS = 30  # by which a difference of log scores is judged
MOST_ROWS = 2_000
FEWEST_UNITS = 5  # groups or weeks, where rows of one count once
FIGURES = ("champion", "challenger", "difference", "lower", "upper")
VERDICTS = ("not_converged", "approximate", "converged")  # from worst to best


@dataclass(frozen=True)
class RefitComparison:
    """A comparison of a refit with the model before.

    Attributes
    ----------
    name, figures
        What is compared, and its figures, as the decision shows them; None without any.
    against
        Why they can't be compared, or by how much the refit is worse; "" if it is no worse.
    text
        The figures in a sentence; "" without any.

    """

    name: str
    figures: Json | None
    against: str
    text: str


def decided(
    context: Context, model_id: str, verdict: str, compare: Callable[[str, Json, bytes], RefitComparison]
) -> Json | None:
    """Decide whether the name moves to a refit that is ending; None for other fits, and decided ones.

    Parameters
    ----------
    model_id, verdict
        The refit.
    compare
        Compares it with the model before, by its id, settings and header.
    """
    with session_scope(context.engine, read_only=True) as session:
        model = session.get_one(Model, model_id)
        refit = model.refit
        if refit is None or refit.get("decision"):
            return None
        before = _champion(session, model)
        if before is None or before.header is None:
            text = f"Model {refit['of']} is gone: there is nothing to compare with."
            return refit | {"decision": PROMOTED, "champion": None, "text": text}
    compared = compare(before.model_id, before.settings, before.header)
    against = [compared.against] if compared.against else []
    if VERDICTS.index(verdict) < VERDICTS.index(before.verdict):
        against.append(f"its verdict is {_words(verdict)}, that of the model before {_words(before.verdict)}")
    moves = refit["promote"] == ALWAYS or (refit["promote"] == AUTO and not against)
    decision = PROMOTED if moves else REFUSED if refit["promote"] == AUTO else KEPT
    return refit | {
        "decision": decision,
        "champion": before.model_id,
        "verdicts": {"champion": before.verdict, "challenger": verdict},
        compared.name: compared.figures,
        "text": _text(decision, against) + compared.text,
    }


def by_rows(
    context: Context,
    spec: Spec,
    posterior: Posterior,
    held: Rows,
    unit: NDArray[np.int64] | None,
    beat: Callable[[], None],
) -> Callable[[str, Json, bytes], RefitComparison]:
    """Return how a refit is compared by rows that neither model has seen.

    Parameters
    ----------
    spec, posterior
        The refit.
    held
        Its held-out rows.
    unit
        int64 [row], equal for those of them that count once; None: each counts.
    beat
        Called between batches of rows.
    """

    def compare(champion_id: str, settings: Json, _header: bytes) -> RefitComparison:
        compared, problem = None, ""
        if settings.get("time"):
            return RefitComparison(
                "log_score", None, "its scores can't be compared: the model before forecasts", ""
            )
        try:
            compared = _compared(context, champion_id, spec, posterior, held, unit, beat)
        except (DataError, SettingsError, StoreError, KeyError) as error:
            problem = f"its scores can't be compared: {error}"
        if compared is not None and compared["rows"] < FEWEST_ROWS:
            problem = (
                f"{counted(compared['rows'], 'held-out row')} that neither has seen: {FEWEST_ROWS} are needed"
            )
        elif compared is not None and compared.get("units", FEWEST_UNITS) < FEWEST_UNITS:
            problem = (
                f"its held-out rows that neither has seen are of "
                f"{counted(compared['units'], 'group or period')}: {FEWEST_UNITS} are needed"
            )
        if not problem and compared is not None and compared["upper"] < 0:
            problem = f"its log score is lower by {-compared['difference']:.3g}"
        return RefitComparison("log_score", compared, problem, _figures(compared))

    return compare


def stands(session: Session, model_id: str, refit: Json) -> bool:
    """Tell whether the name still means the model that a refit was compared with; it does until the commit.

    Another may have got it: a refit that ended at the same time, or one promoted by hand.
    """
    model = session.get_one(Model, model_id)
    models.lock_name(session, model)
    before = _champion(session, model)
    compared = None if before is None or before.header is None else before.model_id
    return bool(refit["champion"] == compared)


class _Before:
    def __init__(self, model: Model, header: bytes | None) -> None:
        self.model_id, self.verdict, self.header = model.id, model.verdict or VERDICTS[0], header
        self.settings: Json = model.settings


def _champion(session: Session, model: Model) -> _Before | None:
    """Find the model that the name means now, or else the one that was fitted again."""
    assert model.refit is not None
    named = None if model.name is None else models.meant(session, model.owner, model.name)
    answers = named is not None and models.answers(named)
    found = named if answers else models.get(session, model.owner, model.refit["of"])
    return None if found is None else _Before(found, models.header(session, found.id))


def _compared(
    context: Context,
    champion_id: str,
    spec: Spec,
    posterior: Posterior,
    held: Rows,
    unit: NDArray[np.int64] | None,
    beat: Callable[[], None],
) -> Json | None:
    """Compare log scores on the refit's held-out rows that the champion wasn't fitted to.

    None where no row was held out, or none is left.
    """
    with session_scope(context.engine, read_only=True) as session:
        before = read_spec(session, champion_id)
        seen = split(before, read_rows(session, before)).training
        header = models.header(session, champion_id)
        blocks = draws.read(session, champion_id)
        chains = models.chains(session, [champion_id])[champion_id]
    beat()
    shared = [name for name in spec.learnt if name in seen.table.names and name in held.table.names]
    unseen = np.flatnonzero(~are_among(held, seen, shared)) if held.num_rows else np.zeros(0, np.int64)
    del seen
    if len(unseen) < FEWEST_ROWS or header is None:
        return {"rows": len(unseen)} | dict.fromkeys(FIGURES)
    places = unseen[kept_rows(len(unseen), MOST_ROWS)]
    rows = held.take(places)
    once = None if unit is None else unit[places]
    counted_once = {} if once is None else {"units": len(np.unique(once))}
    free = counted_once.get("units", rows.num_rows) - 1
    if once is not None and free + 1 < FEWEST_UNITS:
        return {"rows": rows.num_rows} | counted_once | dict.fromkeys(FIGURES)
    drawn = [chain.statistics or {} for chain in chains if chain.num_draws]
    champion = posterior_of(header, blocks, drawn)
    # Rows that recalibrate the one are no evidence for it: both are compared as their draws make them.
    laws = (each.law.before_recalibration for each in (posterior, champion))
    new, old = (row_scores(law, LabelledRows.of(law, rows), beat) for law in laws)
    found = next(e for e in ModelComparison.of(new, old, once).differences if e.score == "log_score")
    errors = float(stdtrit(free, 0.975))
    return {
        "rows": rows.num_rows,
        **counted_once,
        "champion": found.second,
        "challenger": found.first,
        "difference": found.difference,
        "lower": found.difference - errors * found.error,
        "upper": found.difference + errors * found.error,
    }


def _text(decision: str, against: list[str]) -> str:
    told = {
        PROMOTED: "The name moved to this model",
        REFUSED: "The name stays with the model before",
        KEPT: "The name stays with the model before, as was asked",
    }[decision]
    if against:
        told += f": {'; '.join(against)}." if decision == REFUSED else f", though {'; '.join(against)}."
    else:
        told += ": its scores and its verdict are no worse."
    return told


def _figures(compared: Json | None) -> str:
    if compared is None or compared["difference"] is None:
        return ""
    return (
        f" On {counted(compared['rows'], 'row')} that neither has seen its log score is "
        f"{compared['challenger']:.4g}, that of the model before {compared['champion']:.4g} (difference "
        f"{compared['difference']:.3g}, 95% interval {compared['lower']:.3g} to {compared['upper']:.3g})."
    )


def _words(verdict: Any) -> str:
    return str(verdict).replace("_", " ")
