"""A `finish` unit: the verdict on a model's chains, and the score on its held-out rows."""

import math
from typing import Any

import numpy as np

from app.store import draws, models, units
from app.store.engine import session_scope
from app.store.tables import Json
from app.store.units import Claim, Directive
from sampler import Posterior, warm
from worker.context import Context
from worker.errors import Stopped
from worker.held_out import look_at
from worker.scores import score
from worker.spec import Rows, read_rows, read_spec, split


def run_finish(context: Context, claim: Claim) -> None:
    """Judge the model and end it; raises as `worker.chain.run_chain`."""
    warm()
    with session_scope(context.engine, read_only=True) as session:
        header = models.header(session, claim.model_id)
        blocks = draws.read(session, claim.model_id)
        chains = models.chains(session, [claim.model_id])[claim.model_id]
    assert header is not None, "chains store the header with their first slice"
    _beat(context, claim)
    posterior = Posterior.from_blocks(header, blocks, [chain.statistics or {} for chain in chains])
    summary = posterior.summary()
    _beat(context, claim)
    holdout, held_out = _score(context, claim, posterior)
    with session_scope(context.engine) as session:
        units.finish_model(
            session,
            claim,
            verdict=summary.verdict,
            diagnostics=json_safe(summary.to_json()),
            holdout=json_safe(holdout),
            held_out=json_safe(held_out),
        )


def _score(context: Context, claim: Claim, posterior: Posterior) -> tuple[Json | None, Json | None]:
    with session_scope(context.engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
        if len(spec.held_out) == 0:
            return None, None
        rows: Rows = read_rows(session, spec)
    training, held = split(spec, rows)

    def beat() -> None:
        _beat(context, claim)

    scores = score(posterior, training, held, beat)
    return scores, look_at(posterior, training, held, spec.held_out, beat)


def _beat(context: Context, claim: Claim) -> None:
    with session_scope(context.engine) as session:
        directive = units.heartbeat(session, claim)
    if directive is not Directive.CONTINUE:
        raise Stopped(directive)


def json_safe(value: Any) -> Any:
    """The value with plain numbers and null for what JSON has no word for (NaN, infinities)."""
    if isinstance(value, dict):
        return {str(name): json_safe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, np.ndarray):
        return json_safe(value.tolist())
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
