"""A `chain` unit: one chain of a model, sampled in slices of about a second, each one transaction.

A killed chain continues from its last slice on any machine; the draws don't depend on the slices.
"""

import ctypes
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from app.store import draws, models
from app.store.engine import session_scope
from app.store.queue import units
from app.store.queue.claims import Claim
from app.store.queue.counters import ITERATIONS, RESUMED, SLICES
from app.store.queue.units import Directive, Progress, Slice
from app.store.tables import Json
from sampler import AnyChain, PreparedFit, resume_chain, start_chain
from sampler.host.fits import needed_kernels, use_cores
from sampler.host.settings import AUTO_NOISE, METHODS
from worker.context import Context
from worker.errors import Stopped
from worker.fits.draw_blocks import BlockWriter
from worker.fits.fit_spec import Spec, prepare_problem, read_rows, read_spec, resemblances, split
from worker.fits.forecasts import run_member
from worker.heartbeat import Watch
from worker.kernels import load_kernels

PIECES = 8  # pieces of a slice, between checks of the clock
GROWTH = 4.0  # largest ratio of the iterations of successive pieces
FIRST_SLICE = 0.2  # longest first slice in seconds: shows progress soon, and limits a wrong guess
# A chain checks whether another owner waits after this many slices, and this multiple of the time to prepare
# its data, since the next unit has to prepare its own.
PATIENCE, PREPARATIONS = 3, 3.0
AWAITING = 0.2  # seconds between looks for what another chain chooses


def run_chain(context: Context, claim: Claim, watch: Watch) -> None:
    """Sample the claimed chain to its end.

    Raises
    ------
    Stopped
        A cancel, a drain, or another owner's turn ends the unit early.
    EndedError, LeaseLostError
        The unit was ended meanwhile, or another worker has it.
    """
    with session_scope(context.engine, read_only=True) as session:
        spec = read_spec(session, claim.model_id)
    if spec.settings.get("time"):
        run_member(context, claim, watch, spec)
        return
    with session_scope(context.engine, read_only=True) as session:
        checkpoint = None if claim.is_first else units.checkpoint(session, claim)
        last = draws.last_block(session, claim.model_id, claim.ordinal) if checkpoint else None
    prepared = _prepare(context, claim, watch, spec)
    watch.check()
    training = prepared.problem.training
    threads = context.settings.worker_chain_threads
    load_kernels(watch, *needed_kernels(training, threads))
    if checkpoint is not None:
        context.counts.add(RESUMED, "lost" if claim.recovered else "released")
    chain = resume_chain(training, checkpoint) if checkpoint else start_chain(training, claim.ordinal)
    use_cores(chain, threads)
    writer = BlockWriter(training.settings.num_trees, last)
    assert writer.num_draws == _num_stored(chain), "the stored draws end where the checkpoint does"
    _obey(watch.beat(Progress(chain.phase, chain.iteration, chain.iterations, _num_stored(chain))))
    _sample(context, claim, watch, chain, writer, prepared)


@dataclass
class _Prepared:
    model_id: str
    settings: Json  # an extended model has different ones
    problem: PreparedFit
    seconds: float  # duration of the preparation


_last_prepared: list[_Prepared] = []  # a process often runs several chains of a model in a row


def _prepare(context: Context, claim: Claim, watch: Watch, spec: Spec) -> _Prepared:
    """Prepare the data; what is chosen by them, the first chain that is worked on chooses for all."""
    if _last_prepared and (_last_prepared[0].model_id, _last_prepared[0].settings) == (
        spec.model_id,
        spec.settings,
    ):
        return _last_prepared[0]
    _last_prepared.clear()  # frees the memory before the next preparation
    while spec.settings.get("noise") == AUTO_NOISE and _is_chosen_elsewhere(context, claim):
        watch.check()
        watch.note_life()
        time.sleep(AWAITING)
    began = time.monotonic()
    with session_scope(context.engine, read_only=True) as session:
        rows, header = read_rows(session, spec), models.header(session, spec.model_id)
    training = split(spec, rows).training
    problem = prepare_problem(spec, training, header)
    if header is None:
        with session_scope(context.engine, read_only=True) as session:
            alike = resemblances(session, spec, problem)
        problem = replace(problem, warnings=[*problem.warnings, *alike])
        warnings = list(dict.fromkeys([*spec.warnings, *problem.warnings]))
        with session_scope(context.engine) as session:
            header = units.keep_header(session, claim, problem.header(), warnings)
        if header != problem.header():  # another machine may have chosen otherwise
            problem = prepare_problem(spec, training, header)
    seconds = time.monotonic() - began
    del rows, training
    _give_back_memory()  # of columns that were read: the chain needs the room
    _last_prepared.append(_Prepared(spec.model_id, spec.settings, problem, seconds))
    return _last_prepared[0]


def _is_chosen_elsewhere(context: Context, claim: Claim) -> bool:
    with session_scope(context.engine, read_only=True) as session:
        return units.awaits_header(session, claim)


def _give_back_memory() -> None:
    """Give memory that was freed back to the system, where allocators keep it for later."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


def _sample(
    context: Context, claim: Claim, watch: Watch, chain: AnyChain, writer: BlockWriter, prepared: _Prepared
) -> None:
    patience = max(PATIENCE * context.settings.slice_seconds, PREPARATIONS * prepared.seconds)
    looked = time.monotonic()
    pace = _Pace(context.settings.slice_seconds, prepared.problem)
    while True:
        before, started = chain.iteration, time.monotonic()
        rate = pace.run(chain)
        watch.check()
        context.counts.add(ITERATIONS, amount=chain.iteration - before)
        context.counts.observe(SLICES, time.monotonic() - started)
        blocks = writer.add(chain.take())
        slice_ = Slice(
            Progress(chain.phase, chain.iteration, chain.iterations, _num_stored(chain), rate),
            chain.checkpoint(),
            chain.statistics(),
            blocks,
        )
        look = time.monotonic() - looked >= patience
        looked = time.monotonic() if look else looked
        with session_scope(context.engine) as session:
            if chain.done:
                units.finish_chain(session, claim, slice_)
            else:
                directive = units.commit_slice(session, claim, slice_, gives_way=look)
        if chain.done:
            return
        watch.note_progress()
        _obey(directive)


def _num_stored(chain: AnyChain) -> int:
    """Return the number of draws so far, without those that were discarded before an extension."""
    return chain.num_kept - chain.training.settings.discarded


class _Pace:
    """Runs a chain for the duration of a slice, in pieces, to notice when the machine slows down."""

    def __init__(self, seconds: float, problem: PreparedFit) -> None:
        training = problem.training
        self._seconds = min(seconds, FIRST_SLICE)
        self._longest = seconds
        self._piece = 1  # single trees: an iteration takes a microsecond to a second, so no guess
        update = METHODS[training.settings.method].engine.update_seconds
        if update is not None:
            guess = training.codes.shape[1] * training.settings.num_trees * update
            self._piece = max(1, int(self._seconds / PIECES / guess))

    def run(self, chain: AnyChain) -> float:
        """Run one slice; return iterations per second (for a filter, particles)."""
        began, done, before = time.monotonic(), 0, chain.iteration
        while True:
            done += chain.run(self._piece)
            seconds = max(time.monotonic() - began, 1e-6)
            if chain.done or seconds >= self._seconds * (1 - 0.5 / PIECES):
                break
            self._piece = max(1, int(min(done / seconds * self._seconds / PIECES, self._piece * GROWTH)))
        self._seconds = self._longest
        return (chain.iteration - before) / seconds


def _obey(directive: Directive) -> None:
    if directive is not Directive.CONTINUE:
        raise Stopped(directive)
