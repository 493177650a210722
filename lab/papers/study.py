"""A study of one table, figure or claim of a document: what it says, how it is run, how it is judged."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
DOCUMENTS = {
    "cgm10": "Chipman, George and McCulloch (2010), BART: Bayesian additive regression trees",
    "pg-bart": "Lakshminarayanan, Roy and Teh (2015), Particle Gibbs for Bayesian additive regression trees",
    "dcc-tree": "Cochrane, Wills and Johnson, DCC-Tree: divide, conquer, combine for Bayesian decision trees",
    "slides-boston": "Guo, Wang, Huang and Wu, slides on BART with the Boston houses",
    "slides-trees": "Wundervald (2019), An introduction to Bayesian regression trees (slides)",
}
WORDS = ("reproduced", "better", "not reproduced", "not yet")
NOT_RUN = "not run here yet"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Our number beside a document's, in words, with one of `WORDS`."""

    ours: str
    word: str
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """A number or statement of a document; without `judge` it isn't studied, and `why` says the reason."""

    text: str
    paper: str
    judge: Callable[[Figures], Answer] | None = None
    why: str = ""


class Parts(Protocol):
    """Keeper of a study's parts: computes a part unless it is kept."""

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the part of that name."""


@dataclass(frozen=True)
class Study:
    """One table, figure or claim.

    `count` replicates are run, of `of` in the document (0 where it has none). `run(parts, count)` returns
    figures that JSON can hold; `draw(figures, figure)` draws them on a matplotlib figure of `size` inches, in
    which `see` says what to look at. A `long` one runs only when it is asked for by name. The slow tests
    run `small` replicates, and expect what is recorded as reproduced again; 0 leaves the study out.
    """

    name: str
    document: str
    item: str
    claims: tuple[Claim, ...]
    protocol: str = ""
    run: Callable[[Parts, int], Figures] | None = None
    count: int = 1
    of: int = 0
    unit: str = "data set"
    draw: Callable[[Figures, Any], None] | None = None
    see: str = ""
    size: tuple[float, float] = (6.4, 2.6)
    long: bool = False
    small: int = 0

    @property
    def file(self) -> Path:
        """The file of the recorded result."""
        return RESULTS / f"{self.name}.json"

    def recorded(self) -> Recorded | None:
        """Return the recorded result, if there is one."""
        return Recorded(**json.loads(self.file.read_text())) if self.file.exists() else None

    def answers(self, figures: Figures | None) -> list[tuple[Claim, Answer]]:
        """Return each claim with its answer; those that aren't studied are "not yet"."""
        return [
            (
                claim,
                Answer("", "not yet", claim.why or NOT_RUN)
                if claim.judge is None or figures is None
                else claim.judge(figures),
            )
            for claim in self.claims
        ]


@dataclass(frozen=True)
class Recorded:
    """Figures of a study, with the day, the seconds of a processor and the number of replicates."""

    date: str
    seconds: float
    count: int
    figures: Figures


@dataclass
class Kept:
    """Parts of a study in memory and, with a path, in a file, so that a run can be resumed."""

    path: Path | None = None
    parts: dict[str, tuple[Any, float]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the parts of an earlier run."""
        if self.path is not None and self.path.exists():
            self.parts = json.loads(self.path.read_text())

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the part of that name, computed unless it is kept."""
        if name not in self.parts:
            began = time.process_time()
            # as they are read again
            value = json.loads(json.dumps(rounded(compute())))
            self.parts[name] = (value, round(time.process_time() - began, 2))
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self.parts))
        self.used.add(name)
        return self.parts[name][0]

    @property
    def seconds(self) -> float:
        """Seconds of a processor of the parts that were used, also in earlier runs."""
        return sum(self.parts[name][1] for name in self.used)


def rounded(value: Any) -> Any:
    """Return figures with five digits, as lists, dicts and numbers of Python."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    if hasattr(value, "tolist"):
        return rounded(value.tolist())
    return float(f"{value:.5g}") if isinstance(value, float) else value


def judged(ours: str, holds: bool, why: str = "", *, better: bool = False) -> Answer:
    """Answer by whether the claim holds; `why` says the reason where it doesn't, or what else to know."""
    return Answer(ours, ("better" if better else "reproduced") if holds else "not reproduced", why)
