"""Stored posteriors, of one outcome or of several: as files, as services keep them, and their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sampler.posterior.posterior import Posterior
from sampler.posterior.results.answer import draw
from sampler.posterior.results.card_document import ModelCard
from sampler.posterior.several.posterior import SeveralPosterior
from sampler.posterior.verdict.reasons import VERDICTS
from sampler.storage.model_file import read_parts
from sampler.storage.model_header import Header


def read_posterior(data: bytes) -> Any:
    """Decode a model file: a `Posterior`, or a `SeveralPosterior` of several outcomes; raise PackedError."""
    header, *_ = read_parts(data)
    of_several = Header.from_bytes(header).others
    return (SeveralPosterior if of_several else Posterior).from_bytes(data)


def posterior_of(
    header: bytes, blocks: Sequence[Sequence[bytes]], statistics: Sequence[dict[str, Any]] | None = None
) -> Posterior:
    """Decode a posterior; of several outcomes that of the first, with all as its `several`.

    Raises PackedError and NotFittedError as `Posterior.from_blocks`.
    """
    if not Header.from_bytes(header).others:
        return Posterior.from_blocks(header, blocks, statistics)
    several = SeveralPosterior.from_blocks(header, blocks, statistics)
    return several[several.outcomes[0]]


def outcomes_of(posterior: Posterior) -> list[Posterior]:
    """Return the posteriors of all outcomes, of a model of one the posterior itself."""
    several = posterior.several
    return [posterior] if several is None else [several[name] for name in several.outcomes]


def least_settled(posterior: Posterior) -> Posterior:
    """Return the posterior, of several outcomes that with the worst verdict."""
    return max(outcomes_of(posterior), key=lambda each: [*VERDICTS].index(each.summary().verdict))


def stored_card(
    posterior: Posterior,
    scores: Mapping[str, Any] | None,
    by_row: Mapping[str, Any] | None,
    facts: Mapping[str, str],
) -> ModelCard:
    """Describe a posterior, or all outcomes of one of several, by what services store of its held-out rows.

    Of several outcomes the scores, and the figures by row, have those of the others under ``outcomes``.
    """
    held, rows, first = scores or {}, by_row or {}, posterior.schema.target.name
    stored = {first: rows, **rows.get("outcomes", {})}
    ranked = {name: (each.get("importance") or [None])[0] for name, each in stored.items()}
    if posterior.several is None:
        return posterior.model_card(scores=scores, importance=ranked[first], facts=facts)
    own = {first: scores, **held.get("outcomes", {})}
    joint = held.get("joint")
    card: ModelCard = draw("several_card:several_card", posterior.several, joint, own, ranked, facts)
    return card
