"""A study of one table, figure or claim of a document: what it says, how it is run, how it is judged."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lab.papers.judges import NO_WORD, NOT_REPRODUCED, NOT_YET, Seen, Statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.papers.judges import Judge

RESULTS = Path(__file__).parent / "results"
DOCUMENTS = {
    "cgm10": "Chipman, George and McCulloch (2010), BART: Bayesian additive regression trees",
    "pg-bart": "Lakshminarayanan, Roy and Teh (2015), Particle Gibbs for Bayesian additive regression trees",
    "dcc-tree": "Cochrane, Wills and Johnson, DCC-Tree: divide, conquer, combine for Bayesian decision trees",
    "slides-boston": "Guo, Wang, Huang and Wu, slides on BART with the Boston houses",
    "slides-trees": "Wundervald (2019), An introduction to Bayesian regression trees (slides)",
}
NOT_RUN = "not run here yet"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Our number beside a document's, in words, with one of `judges.WORDS`."""

    ours: str
    word: str
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """A number, an order or a statement of a document.

    `look` reads off our figures what `judge` compares, or says why there is nothing yet; without it the claim
    isn't studied, and `why` says the reason. `other` says what makes ours another thing than the document's
    (its method, split or table), so that there is no word for it; a function of the figures where they tell.
    """

    text: str
    paper: str
    look: Callable[[Figures], Seen | str] | None = None
    judge: Judge = Statement()  # noqa: RUF009  # frozen
    why: str = ""
    other: str | Callable[[Figures], str] = ""

    def answer(self, figures: Figures | None) -> Answer:
        """Return the word for our figures."""
        if self.look is None or figures is None:
            return Answer("", NOT_YET, self.why or NOT_RUN)
        seen = self.look(figures)
        if isinstance(seen, str):
            return Answer("", NOT_YET, seen)
        other = self.other if isinstance(self.other, str) else self.other(figures)
        if other:
            return Answer(seen.ours, NO_WORD, other)
        word = self.judge.word(seen)
        reasons = [seen.why, seen.unless if word == NOT_REPRODUCED else ""]
        return Answer(seen.ours, word, "; ".join(each for each in reasons if each))


@dataclass(frozen=True)
class AuthorsCode:
    """A copy of the code of a document's authors, which isn't kept here, and the interpreter that runs it."""

    folder: Path
    python: Path


class Parts(Protocol):
    """Keeper of a study's parts: computes a part unless it is kept."""

    code: AuthorsCode | None

    def __call__(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the part of that name."""


@dataclass(frozen=True)
class Study:
    """One table, figure or claim.

    `count` replicates are run, of `of` in the document (0 where it says none). `run(parts, count)` returns
    figures that JSON can hold; `draw(figures, figure)` draws them on a matplotlib figure of `size` inches, in
    which `see` says what to look at. A `long` one runs only when it is asked for by name. The slow tests
    run `small` replicates, and expect what is recorded as reproduced again; 0 leaves the study out. `code`
    says what to fetch for one that runs the authors' own code, in a folder that is named when it runs.
    """

    name: str
    document: str
    item: str
    claims: tuple[Claim, ...]
    protocol: str = ""
    run: Callable[[Parts, int], Figures] | None = None
    count: int = 1
    of: int = 1
    unit: str = "data set"
    draw: Callable[[Figures, Any], None] | None = None
    see: str = ""
    size: tuple[float, float] = (6.4, 2.6)
    long: bool = False
    small: int = 0
    code: str = ""

    @property
    def file(self) -> Path:
        """The file of the recorded result."""
        return RESULTS / f"{self.name}.json"

    def recorded(self) -> Recorded | None:
        """Return the recorded result, if there is one."""
        return Recorded(**json.loads(self.file.read_text())) if self.file.exists() else None

    def answers(self, figures: Figures | None) -> list[tuple[Claim, Answer]]:
        """Return each claim with its answer; those that aren't studied are "not yet"."""
        return [(claim, claim.answer(figures)) for claim in self.claims]


@dataclass(frozen=True)
class Recorded:
    """Figures of a study, with its day, seconds of a processor, number of replicates, commit and protocol."""

    date: str
    seconds: float
    count: int
    figures: Figures
    commit: str = ""  # that made them; empty in records that are older than this field
    protocol: str = ""  # by which they were made, likewise


@dataclass
class Kept:
    """Parts of a study in memory and, with a path, in a file, so that a run can be resumed."""

    path: Path | None = None
    commit: str = ""  # that runs
    code: AuthorsCode | None = None
    parts: dict[str, list[Any]] = field(default_factory=dict)  # value, seconds, commit
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
            self.parts[name] = [value, round(time.process_time() - began, 2), self.commit]
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self.parts))
        self.used.add(name)
        return self.parts[name][0]

    @property
    def seconds(self) -> float:
        """Seconds of a processor of the parts that were used, also in earlier runs."""
        return sum(self.parts[name][1] for name in self.used)

    @property
    def commits(self) -> str:
        """The commits that made the parts that were used; nothing where one of them isn't known."""
        found = {(self.parts[name][2:] or [""])[0] for name in self.used}
        return ", ".join(sorted(found)) if all(found) else ""


def rounded(value: Any) -> Any:
    """Return figures with five digits, as lists, dicts and numbers of Python."""
    if isinstance(value, dict):
        return {str(key): rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    if hasattr(value, "tolist"):
        return rounded(value.tolist())
    return float(f"{value:.5g}") if isinstance(value, float) else value
