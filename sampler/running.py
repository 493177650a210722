"""Running of a prepared fit: its chains in parallel threads, their draws pooled, and more draws later."""

from __future__ import annotations

import os
import threading
import time
import warnings
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sampler.chains import needed_kernels, resume_chain, start_chain
from sampler.data.scalars import counted
from sampler.errors import DataError, DataWarning, PackedError, SettingsError
from sampler.kernels.jit import is_warm, warm
from sampler.methods import check_extends
from sampler.posterior.charts.fit_progress import progress_bars
from sampler.posterior.posterior import Posterior
from sampler.posterior.treated_posterior import Origin
from sampler.preparation import prepare_again
from sampler.settings import LIMITS, SETTINGS
from sampler.storage.draw_codec import pack
from sampler.storage.draws import concatenate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sampler.chains import AnyChain
    from sampler.prepared_fit import PreparedFit
    from sampler.storage.draws import Draws
    from sampler.training import Training

    Report = Callable[[int, AnyChain], None]

SLICE_SECONDS = 0.2  # between checks for an interruption, and updates of the progress bar


def run(
    problem: PreparedFit,
    *,
    progress: bool = False,
    num_threads: int | None = None,
    report: Report | None = None,
) -> Posterior:
    """Run all chains of a prepared fit, on `num_threads` threads (None: one per core), and pool their draws.

    `report` is called with a chain and its index every few iterations; what it raises ends the fit.
    """

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
    problem = origin.problem if rows is None else prepare_again(posterior.header, *rows)
    if problem is None:
        raise SettingsError(
            "a loaded posterior has no training rows: give them again, as in load(path).extend(500, X, y)",
            field="X",
            code="unavailable",
        )
    training = problem.training
    lengths = {"num_draws": total, "discarded": int(posterior.settings.get("discarded", 0))}
    training = replace(training, settings=replace(training.settings, **lengths))

    def resume(training: Training) -> list[AnyChain]:
        try:
            return [resume_chain(training, checkpoint) for checkpoint in origin.checkpoints]
        except PackedError as error:
            raise DataError(
                f"the chains can't continue ({error}): give the rows of the fit, in the same order"
            ) from error

    return _run(replace(problem, training=training), resume, posterior.drawn(), progress=progress)


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
    needed = needed_kernels(training)
    with progress_bars(training, shown=progress, cold=not is_warm(needed)) as (
        compiling,
        compiled,
        show,
    ):
        compiled(warm(needed, compiling))
        chains = begin(training)
        interrupted = _run_chains(chains, report or show, num_threads)
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
    posterior = Posterior.from_blocks(header, blocks, [chain.statistics() for chain in chains])
    posterior.origin = Origin(problem, [chain.checkpoint() for chain in chains])
    return posterior


def _run_chains(chains: Sequence[AnyChain], report: Report, num_threads: int | None) -> bool:
    """Run all chains to their end or to an interruption; return whether they were interrupted."""
    stop = threading.Event()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(max_workers=min(num_threads or cores, len(chains))) as pool:
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
