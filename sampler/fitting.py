"""The whole of a fit in one call: prepare the data, run the chains over the cores, pool their draws.

What is slow to import is imported when a fit begins: a notebook's first line should not be.
"""

from __future__ import annotations

import io
import os
import threading
import time
import warnings
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampler.errors import DataError, DataWarning, PackedError, SettingsError
from sampler.methods import check_extends, find_method
from sampler.settings import LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.progress import Progress

    from sampler.chains import AnyChain
    from sampler.kernels.jit import Tell
    from sampler.posterior.posterior import Origin, Posterior
    from sampler.preparation import PreparedFit
    from sampler.settings import Settings
    from sampler.storage.draws import Draws
    from sampler.training import Training

    Report = Callable[[int, AnyChain], None]

SLICE_SECONDS = 0.2  # between looks at an interruption, and steps of the progress bar


def fit(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    family: str = "gaussian",
    method: str = "bart",
    num_trees: int | None = None,
    num_chains: int | None = None,
    num_burnin: int | None = None,
    num_draws: int | None = None,
    thin: int | None = None,
    seed: int = 0,
    prior: Mapping[str, Any] | None = None,
    moves: str | Mapping[str, float] = "default",
    prior_only: bool = False,
    particles: int = 10,
    start: str = "stumps",
    search: Mapping[str, float] | None = None,
    features: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    target_name: str | None = None,
    progress: bool = True,
) -> Posterior:
    """Draw from the posterior of a sum of trees.

    The chains run in threads, one per core. The same data, settings and seed give the same posterior.
    An interruption (Ctrl-C) returns what was drawn by then, if anything was.

    Parameters
    ----------
    X
        a pandas, polars or pyarrow table, a 2-D array, or a mapping of columns; n rows, missing values learnt
    y
        n outcomes
    weights
        n positive precision weights, or None: row i has variance sigma^2 / weight
    family
        "gaussian" for numbers; "probit" (of bart) for two classes of any type: predictions are then the
        probability of the second (in order of value or spelling); "categorical" (of a single tree) for
        classes of any number; "auto" looks at y
    method
        "bart", a sum of trees; or one tree: "bcart" (Chipman, George and McCulloch 1998),
        "bcart-mean-variance" (leaves with a noise of their own), "bcart-wu" (with the radical restructure of
        Wu, Tjelmeland and West 2007), "smc" (the particle filter of Lakshminarayanan, Roy and Teh 2013, whose
        draws are weighted); or one tree of soft splits, which rows pass with a probability: "rjhmc-df" (each
        split by one column), "rjhmc-dfi" (by a weighted sum of them; Cochrane, Wills and Johnson 2023) and
        "dcc-tree" (Divide, Conquer, Combine: topologies with chains of their own; weighted draws)
    num_trees, num_chains, num_burnin, num_draws, thin, seed
        trees in the sum (200 of bart); chains (4; 8 of bcart, which restarts rather than runs long);
        iterations before the first draw; draws kept per chain (250), one in `thin` (8; 80 of bcart). Of smc
        the runs (4) and the particles of each (1,000)
    prior
        CGM10's hyper-parameters or absolute constants (`sampler.bart.prior.calibrate`), and `cuts`
    moves
        a named set of moves, or their probabilities
    prior_only
        leave the data's likelihood out: draws from the prior
    particles
        of particle Gibbs (moves="pg", or a probability of "pg" among the moves)
    start
        every chain's first state: "stumps"; "smc": trees drawn in turn by sequential Monte Carlo; "annealed":
        stumps, and in the first half of the burn-in the likelihood counts less (for few, large trees, which
        get stuck in what they grew first)
    search
        of "dcc-tree": iterations, first (topologies drawn from the prior), proposals (that make one active),
        most (active ones), chains and draws (of each at a time), samples (around each draw), delta, kappa,
        optimism (of the utility), spatial (1, or 0 for the basic weights)
    features, columns
        which columns to learn from, and kinds to use instead of the inferred ones
    progress
        show a progress bar

    Raises
    ------
    DataError
        naming column and row of what can't be used
    SettingsError
        for a setting that can't be

    """
    from sampler.preparation import prepare  # noqa: PLC0415

    problem = prepare(
        X,
        y,
        weights=weights,
        features=features,
        columns=columns,
        target_name=target_name,
        prior=prior,
        family=family,
        method=method,
        num_trees=num_trees,
        num_chains=num_chains,
        num_burnin=num_burnin,
        num_draws=num_draws,
        thin=thin,
        seed=seed,
        moves=moves,
        prior_only=prior_only,
        particles=particles,
        start=start,
        search=search,
    )
    for warning in problem.warnings:
        warnings.warn(warning, DataWarning, stacklevel=2)
    return run(problem, progress=progress)


def run(problem: PreparedFit, *, progress: bool = False) -> Posterior:
    """Run every chain of a prepared problem and pool their draws."""
    from sampler.chains import start_chain  # noqa: PLC0415

    def start(training: Training) -> list[AnyChain]:
        return [start_chain(training, chain) for chain in range(training.settings.num_chains)]

    return _run(problem, start, [], progress=progress)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read the posterior that `save` wrote, here or elsewhere; raise PackedError for any other file."""
    from sampler.posterior.posterior import Posterior  # noqa: PLC0415

    return Posterior.from_bytes(Path(path).read_bytes())


def extend(
    posterior: Posterior,
    origin: Origin,
    num_draws: int,
    rows: tuple[Any, Any, Any] | None = None,
    *,
    progress: bool = False,
) -> Posterior:
    """The posterior with so many more draws per chain: what one longer fit would have given, bit for bit.

    `rows`: X, y and weights of the fit, given again.
    """
    from sampler.chains import resume_chain  # noqa: PLC0415
    from sampler.settings import checked_count  # noqa: PLC0415

    check_extends(str(posterior.settings["method"]))
    total = posterior.num_draws + checked_count("num_draws", num_draws)
    if total > LIMITS["num_draws"][1]:
        most = LIMITS["num_draws"][1]
        raise SettingsError(
            f"each chain would have {total} draws, where {most} is the most",
            field="num_draws",
            code="out_of_range",
        )
    problem = origin.problem if rows is None else posterior.problem_of(*rows)
    if problem is None:
        raise SettingsError(
            "a loaded posterior has no training rows: give them again, as in load(path).extend(500, X, y)",
            field="X",
            code="unavailable",
        )
    training = problem.training
    training = replace(training, settings=replace(training.settings, num_draws=total))

    def resume(training: Training) -> list[AnyChain]:
        try:
            return [resume_chain(training, checkpoint) for checkpoint in origin.checkpoints]
        except PackedError as error:
            raise DataError(
                f"the chains can't go on ({error}): give the rows, in their order, that the fit was given"
            ) from error

    return _run(replace(problem, training=training), resume, posterior.drawn(), progress=progress)


def _run(
    problem: PreparedFit,
    begin: Callable[[Training], list[AnyChain]],
    drawn: Sequence[Draws | None],
    *,
    progress: bool,
) -> Posterior:
    """Run chains to their end and pool their draws with those they had."""
    from sampler.kernels.jit import is_warm, warm  # noqa: PLC0415
    from sampler.posterior.posterior import Origin, Posterior  # noqa: PLC0415
    from sampler.storage.draw_codec import pack  # noqa: PLC0415
    from sampler.storage.draws import concatenate  # noqa: PLC0415

    training = problem.training
    method = find_method(training.settings.method)
    needed: list[Settings | str] = [training.settings, *method.training_kernels(training)]
    with _bar(training, shown=progress, cold=not all(map(is_warm, needed))) as (compiling, compiled, report):
        compiled(sum(warm(kernels, compiling) for kernels in needed))
        chains = begin(training)
        interrupted = _run_chains(chains, report)
    before = drawn or [None] * len(chains)
    parts = [[d for d in (b, chain.take()) if d] for b, chain in zip(before, chains, strict=True)]
    blocks = [[pack(concatenate(part))] if part else [] for part in parts]
    if interrupted and not any(blocks):
        raise KeyboardInterrupt
    posterior = Posterior.from_blocks(problem.header(), blocks, [chain.statistics() for chain in chains])
    posterior.origin = Origin(problem, [chain.checkpoint() for chain in chains])
    if interrupted:
        kept = f"{posterior.num_chains} chains of {posterior.num_draws} draws were kept"
        warnings.warn(f"the fit was interrupted: {kept}", DataWarning, stacklevel=4)
    return posterior


def _run_chains(chains: Sequence[AnyChain], report: Report) -> bool:
    """Run all chains to their end, or to an interruption; whether there was one."""
    stop = threading.Event()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(max_workers=min(cores, len(chains))) as pool:
        futures = [pool.submit(_run_chain, i, chain, stop, report) for i, chain in enumerate(chains)]
        try:
            unfinished: set[Future[None]] = set(futures)
            while unfinished:  # waiting without end would not notice an interruption everywhere
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
        took = max(time.perf_counter() - start, 1e-6)
        iterations = max(1, min(4 * iterations, int(iterations * SLICE_SECONDS / took)))
        report(index, chain)


@contextmanager
def _as_text(bars: Progress) -> Iterator[None]:
    """Bars in a notebook as lines of text, written anew in their place twice a second."""
    from IPython.display import display  # noqa: PLC0415  # a notebook has it
    from rich.console import Console  # noqa: PLC0415

    page = Console(file=io.StringIO(), force_jupyter=False, force_terminal=False, width=100)

    def text() -> dict[str, str]:
        with page.capture() as captured:
            page.print(bars.get_renderable())
        return {"text/plain": captured.get()}

    over = threading.Event()
    shown = display(text(), raw=True, display_id=True)

    def refresh() -> None:
        while not over.wait(0.5):
            shown.update(text(), raw=True)

    thread = threading.Thread(target=refresh, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        shown.update(text(), raw=True)


@contextmanager
def _bar(
    training: Training, *, shown: bool, cold: bool
) -> Iterator[tuple[Tell, Callable[[float], None], Report]]:
    """A progress bar per chain, and one for compiling when that has to be done, with what it took."""
    if not shown:
        yield (lambda _done, _total: None), (lambda _seconds: None), (lambda _index, _chain: None)
        return
    from rich.console import Console  # noqa: PLC0415  # only those who look pay for it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bars = Progress(*parts, console=console)
    # In a notebook rich shows bars by ipywidgets, and without them a warning.
    alone = console.is_jupyter and find_spec("ipywidgets") is None
    with _as_text(bars) if alone else bars:
        word = "compiling, first run only" if cold else "loading kernels"
        loading = bars.add_task(word, visible=False, total=None)
        tasks = [bars.add_task(f"chain {c + 1}", total=None) for c in range(training.settings.num_chains)]
        begun = time.monotonic()

        def compiling(done: int, total: int) -> None:
            late = time.monotonic() - begun > 1
            bars.update(loading, completed=done, total=total, visible=late and done < total)

        def compiled(seconds: float) -> None:
            if seconds > 0:
                console.print(f"compiled in {seconds:.0f} s; kept on disk, so the next fit starts at once")

        def report(index: int, chain: AnyChain) -> None:
            phase = "burn-in" if chain.phase == "burn_in" else "sampling"
            described = f"chain {index + 1}, {phase}"
            bars.update(
                tasks[index], description=described, completed=chain.iteration, total=chain.iterations
            )

        yield compiling, compiled, report
