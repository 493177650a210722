"""Table by which intervals and prediction sets are calibrated: the scores of rows the fit has not seen.

It is stored in a model's header; docs/maths.md#calibrated-intervals has the formulas and what they promise.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sampler.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CalibrationKind = Literal["holdout", "folds", "outcomes"]
KINDS: tuple[CalibrationKind, ...] = ("holdout", "folds", "outcomes")
MAX_ROWS = 10_000  # kept of the calibration rows: an end then moves by less than .003 in probability
TWO_SIDED_ROWS = 200  # with at least so many rows, each tail has its own share
SUMMARY_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
USUAL_LEVEL = 0.9  # level of intervals requested without one
NOT_PROMISED = "Not promised: the same for each value of the features, or if rows come to differ."


def rows_needed(level: float) -> int:
    """Return the least number of calibration rows for intervals or sets of a level."""
    return math.ceil(1 / (1 - level) - 1e-9) - 1


def gaps_inside(rows: int, level: float, *, of_classes: bool) -> int:
    """Return how many of the `rows` + 1 gaps between ordered scores intervals or sets of a level contain.

    The share of new rows inside then is Beta(gaps, rows + 1 - gaps), over tables of such rows.
    """
    if of_classes or rows < TWO_SIDED_ROWS:
        return _rank(rows, level)
    first, last = _ranks_of_ends(rows, level)
    return last - first


def _rank(rows: int, level: float) -> int:
    return math.ceil((rows + 1) * level - 1e-9)


def _ranks_of_ends(rows: int, level: float) -> tuple[int, int]:
    """Return the ranks of the scores that are the ends of two-sided intervals; 0 and `rows` + 1 for none."""
    first = math.floor((rows + 1) * (1 - level) / 2 + 1e-9)
    return first, math.ceil((rows + 1) * (1 + level) / 2 - 1e-9)


def check_held_out(held: int) -> None:
    """Refuse too few held-out rows for calibrated intervals of the usual level; raise SettingsError."""
    if held < (least := rows_needed(USUAL_LEVEL)):
        raise SettingsError(
            f"calibrate=holdout takes at least {least} held-out rows for {USUAL_LEVEL:.0%} intervals, and "
            f"{held} are held out: hold out a larger share, or calibrate by folds",
            field="calibrate",
            code="out_of_range",
        )


def kept_rows(count: int, most: int = MAX_ROWS) -> NDArray[np.int64]:
    """Choose the calibration rows of `count`: at most `most`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


@dataclass(frozen=True)
class CalibratedLevel:
    """Intervals or prediction sets of one level: how they are made, and what may be claimed of them.

    Attributes
    ----------
    level
        The level asked for.
    rows
        Number of calibration rows.
    at_least
        Expected share of new outcomes inside, at least; None where there is an estimate only.
    text
        The same in words.
    ends
        Numbers: probabilities of the predictive quantiles that are the ends, 0 and 1 for infinite ones.
    least_probability
        Classes: the smallest probability of a class in a set.

    """

    level: float
    rows: int
    at_least: float | None
    text: str
    ends: tuple[float, float] | None = None
    least_probability: float | None = None

    @property
    def claim(self) -> dict[str, Any]:
        """The claim as JSON values."""
        return {"level": self.level, "rows": self.rows, "at_least": self.at_least, "text": self.text}

    def to_json(self) -> dict[str, Any]:
        """Return JSON values that `from_json` reads."""
        ends = {"ends": None if self.ends is None else list(self.ends)}
        return self.claim | ends | {"least_probability": self.least_probability}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CalibratedLevel:
        """Read what `to_json` returned."""
        ends = values["ends"]
        return cls(**dict(values) | {"ends": None if ends is None else (float(ends[0]), float(ends[1]))})


@dataclass(frozen=True)
class ConformalTable:
    """Scores of calibration rows (Vovk, Gammerman and Shafer 2005).

    Attributes
    ----------
    kind
        Origin of the rows: held out from the fit ("holdout"), the training rows, each scored by a fit to the
        other folds ("folds"), or rows whose outcomes became known after the fit ("outcomes").
    draws
        Draws per chain of the model whose predictions are calibrated.
    scores
        float64 [row], ascending: the predictive probability of values below the outcome; of classes the
        probability of the row's own class.
    of_classes
        Whether the outcomes are classes.
    since_change
        Whether the rows are outcomes since a week that outcomes themselves chose, in an alarm: no claim is
        exact then.

    """

    kind: CalibrationKind
    draws: int
    scores: Floats
    of_classes: bool
    since_change: bool = False

    @classmethod
    def of(
        cls,
        kind: CalibrationKind,
        draws: int,
        scores: Floats,
        *,
        of_classes: bool,
        since_change: bool = False,
    ) -> ConformalTable:
        """Make a table of at most `MAX_ROWS` of the scores, evenly spaced in the order of the rows.

        Returns
        -------
        ConformalTable
            The table.

        Raises
        ------
        SettingsError
            For no rows.

        """
        if not len(scores):
            raise SettingsError("there are no rows to calibrate by", field="calibrate", code="out_of_range")
        kept = np.asarray(scores, np.float64)[kept_rows(len(scores))]
        return cls(kind, draws, np.sort(kept), of_classes, since_change)

    @property
    def rows(self) -> int:
        """Number of calibration rows."""
        return len(self.scores)

    def at(self, level: float) -> CalibratedLevel:
        """Return how intervals or sets of a level are made, and their claim.

        Raises
        ------
        SettingsError
            For a level that needs more calibration rows.

        """
        rank = _rank(self.rows, level)
        if rank > self.rows:
            raise SettingsError(
                f"level {level:g} takes at least {rows_needed(level)} calibration rows, and there are "
                f"{self.rows}",
                field="level",
                code="out_of_range",
            )
        at_least = None if self.kind == "folds" or self.since_change else level
        claim = CalibratedLevel(level, self.rows, at_least, self._text(level))
        if self.of_classes:
            least = float(self.scores[self.rows - rank])
            return CalibratedLevel(**vars(claim) | {"least_probability": least})
        return CalibratedLevel(**vars(claim) | {"ends": self._ends(level, rank)})

    def _ends(self, level: float, rank: int) -> tuple[float, float]:
        if self.rows < TWO_SIDED_ROWS:
            distance = float(np.sort(np.abs(self.scores - 0.5))[rank - 1])
            return 0.5 - distance, 0.5 + distance
        first, last = _ranks_of_ends(self.rows, level)
        return (
            float(self.scores[first - 1]) if first > 0 else 0.0,
            float(self.scores[last - 1]) if last <= self.rows else 1.0,
        )

    def _text(self, level: float) -> str:
        noun = "prediction sets" if self.of_classes else "intervals"
        if self.kind == "folds":
            return (
                f"Estimated: about {level:.4g} of new rows like the {self.rows} training rows fall inside "
                f"these {noun}, judged by fits that had not seen the rows. No guarantee goes with it."
            )
        if self.since_change:
            return (
                f"Of new rows like the {self.rows} outcomes since the change, about {level:.4g} fall inside "
                f"these {noun} on average; no exact statement, since the outcomes told when it was. "
                f"{NOT_PROMISED}"
            )
        origin = "rows held out from the fit" if self.kind == "holdout" else "outcomes reported after the fit"
        return (
            f"Of new rows like the {self.rows} {origin}, at least {level:.4g} fall inside "
            f"these {noun} on average. {NOT_PROMISED}"
        )

    @property
    def checksum(self) -> str:
        """Beginning of the SHA-256 of the scores, hexadecimal: another one after another calibration."""
        return hashlib.sha256(self.scores.astype("<f8").tobytes()).hexdigest()[:16]

    def summary(self) -> dict[str, Any]:
        """Return kind, numbers of draws and rows, checksum, and the claims of the usual levels, as JSON."""
        possible = (level for level in SUMMARY_LEVELS if rows_needed(level) <= self.rows)
        claims = [self.at(level).claim for level in possible]
        return self.to_json() | {"checksum": self.checksum, "claims": claims}

    def to_json(self) -> dict[str, Any]:
        """Return the table without its scores as JSON values."""
        chosen = {"since_change": True} if self.since_change else {}
        return {"kind": self.kind, "draws": self.draws, "rows": self.rows, **chosen}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], scores: Floats, *, of_classes: bool) -> ConformalTable:
        """Read what `to_json` returned, with the scores; raise ValueError for anything else."""
        kind, draws = values["kind"], values["draws"]
        if kind not in KINDS or type(draws) is not int or draws < 1:
            raise ValueError("the kind of its calibration is unknown")
        if np.any(np.diff(scores) < 0) or not (np.all(scores >= 0) and np.all(scores <= 1)):
            raise ValueError("the scores of its calibration are not ascending probabilities")
        return cls(kind, draws, scores, of_classes, values.get("since_change") is True)
