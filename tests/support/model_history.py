"""Invariants of a database after any kill, checked on its rows."""

from itertools import pairwise

from sqlalchemy import select

from app.store import draws, events, models
from app.store.engine import session_scope
from app.store.tables import CHAIN, DONE, FINISH, DrawBlock, Model, ModelEvent, Unit

ENDS = {"succeeded", "failed", "cancelled"}


def check(engine, model_id: str, *, succeeded: bool = True) -> None:
    """Check the invariants of one model: its log, its units, its blocks of draws."""
    with session_scope(engine, read_only=True) as session:
        model = session.get_one(Model, model_id)
        log = events.page(session, model_id, 0, 10_000)
        units = list(session.scalars(select(Unit).where(Unit.model_id == model_id)))
        blocks = list(session.scalars(select(DrawBlock).where(DrawBlock.model_id == model_id)))
        chains = models.chains(session, [model_id])[model_id]
        draws.read(session, model_id)  # verifies every checksum
    _check_log(log)
    for unit in units:
        # Each claim is one attempt and raises the token by one; only a sweep may raise it more.
        assert 0 <= unit.attempts <= unit.token <= unit.attempts + 1, unit.id
    by_chain = {chain.ordinal: [] for chain in chains}
    for block in sorted(blocks, key=lambda block: (block.chain, block.seq)):
        by_chain[block.chain].append(block)
    for chain in chains:
        _check_blocks(chain, by_chain[chain.ordinal])
    if succeeded:
        assert (model.state, model.error) == ("succeeded", None)
        assert {DONE} == {unit.state for unit in units}
        assert sum(unit.kind == FINISH for unit in units) >= 1
        assert {model.settings["num_draws"]} == {unit.num_draws for unit in units if unit.kind == CHAIN}
        assert [event.kind for event in log].count("succeeded") == 1


def _check_log(log: list[ModelEvent]) -> None:
    assert [event.sequence for event in log] == [*range(1, len(log) + 1)]
    assert log[0].kind == "created"
    assert [event.kind for event in log].count("started") == 1
    assert not ENDS & {event.kind for event in log[:-1]}
    finished = [(event.detail["chain"], event.detail["draws"]) for event in log if _ends_chain(event)]
    assert len(finished) == len(set(finished)), "a chain gets somewhere once: it has one writer"
    recovered = [(event.detail["chain"], event.detail["attempt"]) for event in log if _is_recovery(event)]
    for (chain, attempt), (next_chain, next_attempt) in pairwise(sorted(recovered)):
        assert chain < next_chain or attempt < next_attempt, "attempts go up"


def _ends_chain(event: ModelEvent) -> bool:
    return event.kind == "chain_finished"


def _is_recovery(event: ModelEvent) -> bool:
    return event.kind == "chain_recovered"


def _check_blocks(chain: Unit, blocks: list[DrawBlock]) -> None:
    """Check that no draw is missing or duplicated."""
    assert [block.seq for block in blocks] == [*range(len(blocks))]
    first = 0
    for block in blocks:
        assert block.first_draw == first, (chain.ordinal, block.seq)
        first += block.num_draws
    assert first == chain.num_draws, chain.ordinal
