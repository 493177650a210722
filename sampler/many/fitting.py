"""Fits of many small models, one for each group of a table, in processes."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.rows import Rows
from sampler.data.scalars import counted
from sampler.data.table import Table, read
from sampler.definitions.data import COLUMN_ROLES, NAMED
from sampler.definitions.other_names import meant_setting
from sampler.errors import DataWarning, SamplerError, SettingsError, suggestion
from sampler.fitting import fit
from sampler.interrupt import count_cores
from sampler.many.folder import GroupFacts, ModelFolder, fingerprint_of
from sampler.many.grouping import GroupKey, read_by, rows_by_group
from sampler.many.posteriors import ManyPosteriors
from sampler.posterior.core.progress import shown_bars
from sampler.running import Tasks, tasks_of

NOT_SHARED = (
    "X",
    "y",
    "num_threads",
    "executor",
    "progress",
)  # arguments of `fit` that are not for all groups
AHEAD = 64  # tasks in an executor beyond those that it runs: so many parts of the table are held twice
LOST = (
    "the process that fitted it ended: was it killed for lack of memory, or does a script call this without "
    'if __name__ == "__main__":, so that each process runs the script again?'
)


@dataclass(frozen=True)
class _Fits:
    """Fits to do: the features, outcomes and other columns of all rows, and which rows are a group's."""

    table: Table
    groups: Mapping[GroupKey, NDArray[np.int64]]
    target: str
    roles: Mapping[str, str]
    settings: Mapping[str, Any]

    def part(self, group: GroupKey) -> Table:
        part = self.table.part(self.groups[group])
        return part.with_columns({name: part.column(name) for name in part.names})

    def submit(self, tasks: Tasks, group: GroupKey) -> Future[FittedGroup]:
        return tasks.submit(fit_group, self.part(group), self.target, self.roles, self.settings)

    def fingerprint(self, group: GroupKey) -> str:
        return fingerprint_of(self.part(group), {**self.settings, "target": self.target, "roles": self.roles})


class _Found:
    """Models that are there, of groups that were fitted here or earlier; and failures."""

    def __init__(self, fits: _Fits, folder: ModelFolder | None) -> None:
        self._folder = folder
        self.models: dict[GroupKey, bytes | Path] = {}
        self.facts: dict[GroupKey, GroupFacts] = {}
        self.failed: dict[GroupKey, SamplerError] = {}
        self._fingerprints = (
            {} if folder is None else {group: fits.fingerprint(group) for group in fits.groups}
        )
        for group, (file, fingerprint, facts) in (folder.entries() if folder else {}).items():
            if self._fingerprints.get(group) == fingerprint:
                self.models[group], self.facts[group] = file, facts
        if folder is not None:
            folder.keep_order(fits.groups)

    def take(self, group: GroupKey, fitted: FittedGroup) -> None:
        if fitted.facts is None:
            self.failed[group] = fitted.error or SamplerError(LOST)
            return
        self.facts[group] = fitted.facts
        self.models[group] = fitted.model
        if self._folder is not None:
            fingerprint = self._fingerprints[group]
            self.models[group] = self._folder.keep(group, fitted.model, fingerprint, fitted.facts)


@dataclass(frozen=True)
class FittedGroup:
    """Model file and facts of a group, or why there is none."""

    model: bytes = b""
    facts: GroupFacts | None = None
    error: SamplerError | None = None


def fit_many(
    table: Any,
    *,
    by: str | Sequence[str],
    target: str,
    folder: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    num_processes: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> ManyPosteriors:
    """Fit a model to each group of a table, in processes: each equals `fit` to the group's rows, bit for bit.

    A group whose fit fails is listed, with the reason, and the others go on. In a script, call it under
    ``if __name__ == "__main__":``, since processes are started that read the script.

    Parameters
    ----------
    table
        A pandas, polars or pyarrow table, or a mapping of columns; n rows.
    by
        Name of the column that tells a row's group (shop, product, site), or names of up to four; they are
        no features.
    target
        Name of the column of outcomes.
    folder
        Where models are kept as they end: a file each, and their list. Groups that are there, with the same
        rows and settings, are not fitted again. None keeps the models in memory, 1 to 2 MB each with default
        settings.
    executor
        A `concurrent.futures.Executor` in which the groups are fitted, one task each (Dask's
        ``client.get_executor()``); None starts processes here.
    num_processes
        Number of processes; None takes one per core.
    progress
        Show a progress bar.
    settings
        Settings of all fits, as `fit` takes them.

    Returns
    -------
    ManyPosteriors
        Posteriors by group, their table, failures, and predictions of rows of all groups.

    Raises
    ------
    DataError
        For rows without a group; and the first group's error where no group could be fitted.
    SettingsError
        For an invalid setting, a column that the table does not have, and a folder with other models.

    """
    data = read(table)
    data = data.reading_once(data.names)
    names = read_by(by, data.names)
    data, roles = _check(data, names, target, settings)
    kept = None if folder is None else ModelFolder.open(folder, names, target)
    fits = _Fits(data.without(names), rows_by_group(data, names), target, roles, settings)
    found = _Found(fits, kept)
    with shown_bars() if progress else nullcontext() as bars:
        total, done = len(fits.groups), len(found.models)
        bar = None if bars is None else bars.add_task("models", total=total, completed=done)
        left = deque(group for group in fits.groups if group not in found.models)
        for group, fitted in _run_all(left, fits, executor, num_processes or count_cores()):
            found.take(group, fitted)
            if bars is not None and bar is not None:
                bars.advance(bar)
    if found.failed and not found.models:
        raise next(iter(found.failed.values()))
    if found.failed:
        message = (
            f"{counted(len(found.failed), 'group')} of {len(fits.groups)} could not be fitted: see .failures"
        )
        warnings.warn(message, DataWarning, stacklevel=2)
    return ManyPosteriors(
        names,
        target,
        {group: found.models[group] for group in fits.groups if group in found.models},
        found.facts,
        {group: str(found.failed[group]) for group in fits.groups if group in found.failed},
    )


def load_many(folder: str | os.PathLike[str]) -> ManyPosteriors:
    """Open the models that `fit_many` keeps in a folder; raise SettingsError where there are none.

    Each is read when it is asked for.
    """
    found = ModelFolder.found(folder)
    entries = found.entries()
    return ManyPosteriors(
        found.by,
        found.target,
        {group: file for group, (file, _, _) in entries.items()},
        {group: facts for group, (_, _, facts) in entries.items()},
    )


def fit_group(
    table: Table, target: str, roles: Mapping[str, str], settings: Mapping[str, Any]
) -> FittedGroup:
    """Fit to the rows of one group, on one thread; a refusal is returned."""
    begun = time.perf_counter()
    columns: dict[str, Any] = {role: table.column(name) for role, name in roles.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # kept in the model
            posterior = fit(table, table.column(target), **columns, **settings, num_threads=1, progress=False)
    except SamplerError as error:
        return FittedGroup(error=error)
    seconds = time.perf_counter() - begun
    facts = GroupFacts(table.num_rows, posterior.summary().verdict, seconds, posterior.warnings)
    return FittedGroup(posterior.to_bytes(), facts)


def _check(
    table: Table, by: Sequence[str], target: str, settings: dict[str, Any]
) -> tuple[Table, dict[str, str]]:
    """Check the names of arguments and columns; take the columns with a role out of the settings.

    Returns the table, with these, and their names by role.
    """
    known = inspect.signature(fit).parameters
    for name in settings:
        if name not in known or name in NOT_SHARED:
            raise TypeError(f"fit_many() has no argument {name!r}{meant_setting(name, known)}")
    given = {role: settings.pop(role) for role in COLUMN_ROLES if settings.get(role) is not None}
    named = {role: name for role, name in given.items() if isinstance(name, str)}
    for field, name in {"target": target, **named}.items():
        if name not in table.names or name in by:
            raise SettingsError(
                f"{field} must be the name of a column beside those of by, not {name!r}"
                f"{suggestion(name, table.names)}",
                field=field,
                code="unknown",
            )
    if {*given} != {*named} or any(settings.get(role) is not None for role in NAMED):
        settings |= given
        rows = Rows.of_arguments(table, table.column(target), settings, settings.get("target_name"))
        table = rows.table.with_columns({column.name: column for column in rows.roles.values()})
        named = {role: column.name for role, column in rows.roles.items()}
    return table, named


def _run_all(
    left: deque[GroupKey], fits: _Fits, executor: Executor | None, count: int
) -> Iterator[tuple[GroupKey, FittedGroup]]:
    """Fit the groups that are left, and yield each as it ends.

    Where processes of our own end before their task, others are started; the groups that were being fitted
    then go one at a time, so that the one to blame is known.
    """
    suspects: deque[GroupKey] = deque()
    while left or suspects:
        running: dict[Future[FittedGroup], GroupKey] = {}
        try:
            with _processes(executor, count) as there, tasks_of(there) as tasks:
                while left or suspects or running:
                    if not running:
                        queue, most = (suspects, 1) if suspects else (left, count + AHEAD)
                    while queue and len(running) < most:
                        future = fits.submit(tasks, queue[0])  # which fails where the processes ended
                        running[future] = queue.popleft()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        fitted = future.result()
                        yield running.pop(future), fitted
        except BrokenExecutor:
            if executor is not None:
                raise
            if len(running) == 1:
                yield next(iter(running.values())), FittedGroup()
            else:
                suspects.extend(running.values())


@contextmanager
def _processes(executor: Executor | None, count: int) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
