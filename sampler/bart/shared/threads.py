"""Threads that share the passes over rows of one chain while it runs (docs/maths.md#several-threads)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sampler.bart.kernels.leaf_models import shared_parts
from sampler.bart.kernels.state import Work
from sampler.bart.state import make_team
from sampler.kernels.arrays import LANES
from sampler.kernels.jit import address, warm
from sampler.kernels.shared import parts, team

MOST_LOSS = 20_000_000  # ns that waiting may take longer than what is saved, before a run goes on alone
LONGEST_REST = 63  # runs alone before the next attempt; each attempt in vain doubles them
STEPS = {
    team.GROWN: parts.GROWN_PART,
    team.PRUNED: parts.PRUNED_PART,
    team.CODES: parts.CODES_PART,
    team.MOVED: shared_parts.MOVED_PART,
    team.PAIR: shared_parts.PAIR_PART,
    team.BY_CODE: shared_parts.BY_CODE_PART,
}


class Threads:
    """Threads of one chain, which start and end with each of its runs.

    Attributes
    ----------
    count
        How many there are, the chain's own included.

    """

    def __init__(self, count: int, num_rows: int) -> None:
        """Make room for `count` threads, or one for every block of rows if these are fewer."""
        warm("team")
        self.count = max(1, min(count, num_rows // LANES))
        self._team, self._sums = make_team(self.count)
        for place, part in STEPS.items():
            self._team.steps[place] = address(part)
        self._others: list[threading.Thread] = []
        self._rest = self._next_rest = 0

    def join(self, work: Work) -> Work:
        """Return `work` with these threads."""
        return work._replace(team=self._team, shared=self._sums)

    @property
    def passes(self) -> int:
        """Number of passes shared since the start."""
        return int(self._team.words[team.PASSES])

    @property
    def mean_wait(self) -> float:
        """Microseconds that a pass waited for the other threads on average, since the start."""
        return float(self._team.words[team.WAITED]) / max(self.passes, 1) / 1000

    @contextmanager
    def working(self) -> Iterator[None]:
        """Share passes in this block, unless it rests from attempts that were in vain."""
        if self._rest > 0 or self.count == 1:
            self._rest -= 1
            yield
            return
        words = self._team.words
        self._end()  # a former end may have been interrupted
        words[[team.CALL, team.LOSS]], words[team.MOST_LOSS] = 0, MOST_LOSS
        words[team.DONE :: team.LINE] = 0
        self._others = [
            threading.Thread(target=parts.follow, args=(words, number, self.count), daemon=True)
            for number in range(1, self.count)
        ]
        try:
            for thread in self._others:
                thread.start()
            words[team.MEMBERS] = self.count
            yield
            paid = words[team.MEMBERS] == self.count
            self._next_rest = 0 if paid else min(2 * self._next_rest + 1, LONGEST_REST)
            self._rest = self._next_rest
        finally:
            self._end()

    def _end(self) -> None:
        """Dismiss the other threads and wait until they have ended."""
        team.dismiss(self._team.words)
        for thread in self._others:
            if thread.ident is not None:
                thread.join()
        self._others = []
