"""Chains run part of the way by the worker's functions, and released at will."""

from app.settings import Settings
from app.store import draws
from app.store.engine import session_scope
from app.store.queue import claims, units
from app.store.queue.claims import Claim
from app.store.queue.units import Progress, Slice
from sampler import resume_chain, start_chain
from worker.fits.draw_blocks import BlockWriter
from worker.fits.fit_spec import prepare_problem, read_rows, read_spec, split


def take_chains(engine, *kept: int) -> list[Claim]:
    """Claim a chain per number and sample it to that many draws; it stays claimed."""
    return [_take(engine, number) for number in kept]


def give_back(engine, claims: list[Claim]) -> None:
    for claim in claims:
        with session_scope(engine) as session:
            units.release(session, claim)


def _take(engine, kept: int) -> Claim:
    with session_scope(engine) as session:
        claim = claims.claim(session, "tests", Settings().lease_seconds)
    assert claim is not None
    with session_scope(engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
        training = split(spec, read_rows(session, spec)).training
        checkpoint = units.checkpoint(session, claim)
        last = draws.last_block(session, claim.model_id, claim.ordinal) if checkpoint else None
    problem = prepare_problem(spec, training)
    data, knobs = problem.training, problem.training.settings
    chain = start_chain(data, claim.ordinal) if checkpoint is None else resume_chain(data, checkpoint)
    chain.run(knobs.num_burnin + kept * knobs.thin - chain.iteration)
    blocks = BlockWriter(knobs.num_trees, last).add(chain.take())
    progress = Progress(chain.phase, chain.iteration, chain.iterations, chain.num_kept, 10.0)
    slice_ = Slice(progress, chain.checkpoint(), chain.statistics(), blocks)
    with session_scope(engine) as session:
        units.keep_header(session, claim, problem.header(), [])
        units.commit_slice(session, claim, slice_)
    return claim
