"""Running of a prepared fit: its chains in parallel threads, their draws pooled, and more draws later."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

from sampler.chains import AnyChain, needed_kernels, resume_chain, start_chain, use_cores
from sampler.data.scalars import counted
from sampler.errors import DataError, DataWarning, PackedError, SettingsError
from sampler.interrupt import count_cores
from sampler.kernels.jit import is_warm, warm
from sampler.methods import check_extends
from sampler.posterior.charts.fit_progress import Report, progress_bars
from sampler.posterior.core.progress import shown_bars
from sampler.posterior.posterior import Posterior
from sampler.posterior.several.posterior import SeveralPosterior
from sampler.posterior.treated_posterior import Origin
from sampler.preparation import prepare_again
from sampler.prepared_fit import PreparedFit
from sampler.settings import LIMITS, SETTINGS
from sampler.storage.draw_codec import pack
from sampler.storage.draws import Draws, concatenate
from sampler.training import Training

P = ParamSpec("P")
R = TypeVar("R")
SLICE_SECONDS = 0.2  # between checks for an interruption, and updates of the progress bar


def run(
    problem: PreparedFit,
    *,
    progress: bool = False,
    num_threads: int | None = None,
    executor: Executor | None = None,
    report: Report | None = None,
) -> Posterior:
    """Run all chains of a prepared fit, on `num_threads` threads (None: one per core), and pool their draws.

    With an executor the chains are its tasks instead, wherever it runs them. `report` is called with a chain
    and its index every few iterations of those in threads; what it raises ends the fit.
    """
    if executor is not None:
        return _run_elsewhere(problem, executor, num_threads, progress=progress)

    def start(training: Training) -> list[AnyChain]:
        return [start_chain(training, chain) for chain in range(training.settings.num_chains)]

    return _run(problem, start, [], progress=progress, num_threads=num_threads, report=report)


def extend(
    posterior: Posterior,
    origin: Origin,
    num_draws: int,
    rows: tuple[Any, Any, Any] | None = None,
    *,
    progress: bool = False,
    num_threads: int | None = None,
    report: Report | None = None,
) -> Posterior:
    """Continue a posterior's chains; the result equals that of one longer fit, bit for bit.

    Parameters
    ----------
    posterior
        The posterior to extend.
    origin
        Data and states from which its chains continue.
    num_draws
        Number of further draws per chain.
    rows
        X, y and weights of the fit, needed where `origin` has no data.
    progress
        Show a progress bar.
    num_threads, report
        As of `run`.

    Returns
    -------
    Posterior
        A new posterior with the earlier and the further draws.

    Raises
    ------
    SettingsError
        For a method or number of draws that can't be extended, and for missing rows.
    DataError
        For rows that are not those of the fit.

    """
    check_extends(str(posterior.settings["method"]))
    total = posterior.num_draws + SETTINGS["num_draws"].check("num_draws", num_draws)
    if total > LIMITS["num_draws"][1]:
        most = LIMITS["num_draws"][1]
        raise SettingsError(
            f"each chain would have {total} draws; the maximum is {most}",
            field="num_draws",
            code="out_of_range",
        )
    problem = origin.problem
    if rows is not None:
        problem = prepare_again(posterior.header, *rows)
    if problem is None:
        raise SettingsError(
            "a loaded posterior has no training rows: give them again, as in load(path).extend(500, X, y)",
            field="X",
            code="unavailable",
        )
    training = problem.training
    lengths = {"num_draws": total, "discarded": int(posterior.settings.get("discarded", 0))}
    training = replace(training, settings=replace(training.settings, **lengths))

    drawn = posterior.drawn()

    def resume(training: Training) -> list[AnyChain]:
        try:
            chains = [resume_chain(training, checkpoint) for checkpoint in origin.checkpoints]
        except PackedError as error:
            raise DataError(
                f"the chains can't continue ({error}): give the rows of the fit, in the same order"
            ) from error
        kept = [training.settings.discarded + (draws.num_draws if draws else 0) for draws in drawn]
        if kept != [chain.num_kept for chain in chains]:
            raise DataError("the chains can't continue: the file's states are of other draws")
        return chains

    again = replace(problem, training=training)
    return _run(again, resume, drawn, progress=progress, num_threads=num_threads, report=report)


def _run(
    problem: PreparedFit,
    begin: Callable[[Training], list[AnyChain]],
    drawn: Sequence[Draws | None],
    *,
    progress: bool,
    num_threads: int | None = None,
    report: Report | None = None,
) -> Posterior:
    """Run chains to their end and pool their draws with earlier ones."""
    training = problem.training
    cores = num_threads or count_cores()
    of_chain = cores // training.settings.num_chains
    needed = needed_kernels(training, of_chain)
    with progress_bars(training, shown=progress, cold=not is_warm(needed)) as (
        compiling,
        compiled,
        show,
    ):
        compiled(warm(needed, compiling))
        chains = begin(training)
        for chain in chains:
            use_cores(chain, of_chain)
        interrupted = _run_chains(chains, report or show, cores)
    before = drawn or [None] * len(chains)
    parts = [[d for d in (b, chain.take()) if d] for b, chain in zip(before, chains, strict=True)]
    blocks = [[pack(concatenate(part))] if part else [] for part in parts]
    if interrupted and not any(blocks):
        raise KeyboardInterrupt
    header = problem.header()
    if interrupted:
        counts = [sum(draws.num_draws for draws in part) for part in parts if part]
        warning = (
            f"the fit was interrupted: {counted(len(counts), 'chain')} of {counted(min(counts), 'draw')} kept"
        )
        warnings.warn(warning, DataWarning, stacklevel=5)
        header = replace(problem, warnings=[*problem.warnings, warning]).header()
    kind: Any = SeveralPosterior if problem.others else Posterior
    posterior: Posterior = kind.from_blocks(header, blocks, [chain.statistics() for chain in chains])
    posterior.origin = Origin(problem, [chain.checkpoint() for chain in chains])
    if not problem.others:
        posterior.keep_support()
    return posterior


def _run_chains(chains: Sequence[AnyChain], report: Report, cores: int) -> bool:
    """Run all chains to their end or to an interruption; return whether they were interrupted."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=min(cores, len(chains))) as pool:
        futures = [pool.submit(_run_chain, i, chain, stop, report) for i, chain in enumerate(chains)]
        try:
            unfinished: set[Future[None]] = set(futures)
            while unfinished:  # on some systems a wait without timeout can't be interrupted
                done, unfinished = wait(unfinished, timeout=SLICE_SECONDS, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
        except KeyboardInterrupt:
            return True
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return False


def _run_chain(index: int, chain: AnyChain, stop: threading.Event, report: Report) -> None:
    iterations = 1
    while not chain.done and not stop.is_set():
        start = time.perf_counter()
        chain.run(iterations)
        seconds = max(time.perf_counter() - start, 1e-6)
        iterations = max(1, min(4 * iterations, int(iterations * SLICE_SECONDS / seconds)))
        report(index, chain)


def _run_elsewhere(
    problem: PreparedFit, executor: Executor, num_threads: int | None, *, progress: bool
) -> Posterior:
    """Run each chain as a task of an executor, and pool the draws; an interruption leaves nothing."""
    training = problem.training
    count = training.settings.num_chains
    with tasks_of(executor, num_threads) as tasks, shown_bars() if progress else nullcontext() as bars:
        bar = None if bars is None else bars.add_task("chains", total=count)
        futures = [tasks.submit(run_chain, training, chain) for chain in range(count)]
        for done, future in enumerate(as_completed(futures), 1):
            future.result()  # the first that failed ends the fit
            if bars is not None and bar is not None:
                bars.update(bar, completed=done)
        ended = [future.result() for future in futures]
    blocks = [[block] if block else [] for block, _, _ in ended]
    kind: Any = SeveralPosterior if problem.others else Posterior
    drawn = [statistics for _, statistics, _ in ended]
    posterior: Posterior = kind.from_blocks(problem.header(), blocks, drawn)
    posterior.origin = Origin(problem, [checkpoint for _, _, checkpoint in ended])
    if not problem.others:
        posterior.keep_support()
    return posterior


def run_chain(training: Training, chain: int) -> tuple[bytes, dict[str, Any], bytes]:
    """Run the chain of that index from start to end; return packed draws, its statistics and last state."""
    warm(needed_kernels(training))
    started = start_chain(training, chain)
    while not started.done:
        started.run(started.iterations)
    draws = started.take()
    return pack(concatenate([draws])) if draws else b"", started.statistics(), started.checkpoint()


class Tasks:
    """Tasks of one call in an executor that others may use too: only these are cancelled.

    Parameters
    ----------
    executor
        Where they run.

    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.submitted: list[Future[Any]] = []

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call."""
        future = self._executor.submit(function, *args, **kwargs)
        self.submitted.append(future)
        return future


@contextmanager
def tasks_of(executor: Executor | None, num_threads: int | None = None) -> Iterator[Tasks]:
    """Yield the tasks of an executor, or of threads (None: one per core); the unfinished ones end with it.

    Raises
    ------
    SettingsError
        For anything that is no executor, and for threads beside one.

    """
    if executor is None:
        with ThreadPoolExecutor(num_threads or count_cores()) as pool:
            try:
                yield Tasks(pool)
            finally:
                pool.shutdown(cancel_futures=True)
        return
    if not callable(getattr(executor, "submit", None)):
        raise SettingsError(
            "executor must be one of concurrent.futures, such as a ProcessPoolExecutor or Dask's "
            f"client.get_executor(), not {type(executor).__name__}",
            field="executor",
            code="not_accepted",
        )
    if num_threads is not None:
        raise SettingsError(
            "num_threads is not for an executor, which decides how many tasks run at once: leave it out",
            field="num_threads",
            code="not_applicable",
        )
    tasks = Tasks(executor)
    try:
        yield tasks
    finally:
        for future in tasks.submitted:
            future.cancel()
