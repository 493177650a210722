"""Draws of random intercepts of groups beside the trees (docs/maths.md#groups)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.groupings import FOREST, sd_names
from sampler.errors import PackedError
from sampler.posterior import rhat_ess
from sampler.posterior.display.tabular import to_pandas
from sampler.posterior.verdict.agreement import FEWEST_DRAWS
from sampler.posterior.verdict.reasons import Reason, defined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.data.groupings import Groupings
    from sampler.data.schema import Column
    from sampler.posterior.intervals import Sums
    from sampler.storage.draws import Draws

    Floats = NDArray[np.float64]

INCLUDED = {  # what answers include, by the kind of interval
    "predictive": "a new outcome in its group: the intercept of a known group, that of a new one with the "
    "standard deviation of all groups, and noise",
    "credible": "the mean outcome in the row's group; of a new group the mean over groups, without their "
    "standard deviation",
    "calibrated": "a new outcome in its group, as covered for held-out rows",
}
MOST_RHAT = 1.2  # of a standard deviation, above which the summary says so
MOST_STEPS = 1 << 30  # of a sum of trees, to which int32 intercepts of four columns can be added
LARGEST = 1e150  # of a standard deviation, in units of y: its square is still finite


def figures_of(sd: Floats) -> dict[str, float | None]:
    """Compute mean, sd and convergence of draws of one scalar [chain, draw]; undefined figures are None."""
    figures = {"mean": float(sd.mean()), "sd": float(sd.std(ddof=1)) if sd.size > 1 else 0.0}
    known = sd.shape[1] >= FEWEST_DRAWS
    named = {"rhat": rhat_ess.rhat, "ess_bulk": rhat_ess.ess_bulk, "ess_tail": rhat_ess.ess_tail}
    return figures | {name: defined(of(sd[None])[0]) if known else None for name, of in named.items()}


@dataclass(frozen=True)
class GroupEffects:
    """Intercepts of the groups of one column, with those of their standard deviation.

    Attributes
    ----------
    column
        Name of the column.
    scale
        What intercepts are in units of, in words.
    groups
        Names of the groups.
    rows
        Training rows of each group, int64 [group].
    mean, sd, lower, upper
        Of the intercepts over draws, float64 [group].
    level
        Probability of the intervals.
    standard_deviation
        Of the intercepts of all groups, new ones included: ``mean, sd, lower, upper, rhat, ess_bulk,
        ess_tail``; undefined figures are None.
    share
        Mean of the share of the variance beside f that is between the groups: of this column, other columns
        and the noise.

    """

    column: str
    scale: str
    groups: tuple[str, ...]
    rows: NDArray[np.int64]
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    level: float
    standard_deviation: dict[str, float | None]
    share: float

    def to_pandas(self) -> Any:
        """Return a data frame with a row for each group: group, rows, mean, sd, lower, upper."""
        return to_pandas(
            {
                "group": list(self.groups),
                "rows": self.rows,
                "mean": self.mean,
                "sd": self.sd,
                "lower": self.lower,
                "upper": self.upper,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, with a list of groups."""
        figures = (self.groups, self.rows, self.mean, self.sd, self.lower, self.upper)
        lists = [list(figure) if isinstance(figure, tuple) else figure.tolist() for figure in figures]
        names = ("group", "rows", "mean", "sd", "lower", "upper")
        return {
            "column": self.column,
            "scale": self.scale,
            "level": self.level,
            "standard_deviation": self.standard_deviation,
            "share": self.share,
            "groups": [dict(zip(names, each, strict=True)) for each in zip(*lists, strict=True)],
        }

    def __str__(self) -> str:
        width = max(map(len, (*self.groups, self.column))) + 2
        rows = (
            f"{name:{width}}{count:8}{mean:10.4g}{low:10.4g}{high:10.4g}"
            for name, count, mean, low, high in zip(
                self.groups, self.rows, self.mean, self.lower, self.upper, strict=True
            )
        )
        of_all = self.standard_deviation
        return "\n".join(
            [
                f"standard deviation {of_all['mean']:.4g} ({of_all['lower']:.4g} to {of_all['upper']:.4g}), "
                f"{self.share:.0%} of the variance beside f",
                f"{self.column:{width}}{'rows':>8}{'mean':>10}{'lower':>10}{'upper':>10}",
                *rows,
            ]
        )

    __repr__ = __str__


class InterceptDraws:
    """Intercepts of all draws, one chain after the other, in grid steps."""

    def __init__(
        self, groupings: Groupings, columns: Sequence[Column], chains: Sequence[Draws], step: float
    ) -> None:
        self.groupings, self.columns, self._step = groupings, columns, step
        sizes = [len(column.levels) for column in columns]
        self._starts = np.cumsum([0, *sizes])
        names = sd_names(len(columns))
        for draws in chains:
            there = draws.forests.get(FOREST)
            alone = (
                there is not None
                and there.num_trees == sum(sizes)
                and there.num_nodes == there.leaf_counts.size
            )
            if not alone or not all(name in draws.scalars for name in names):
                raise PackedError("the draws don't have the intercepts of the model's groups")
        self._effects = np.concatenate([d.forests[FOREST].leaf.reshape(d.num_draws, -1) for d in chains])
        self.sds = np.concatenate([np.stack([d.scalars[name] for name in names]) for d in chains], axis=1)
        if not np.all((self.sds > 0) & (self.sds < LARGEST)):
            raise PackedError("the draws of the groups' standard deviations are out of range")

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._effects.nbytes + self.sds.nbytes

    @staticmethod
    def disagreement(sds: Floats) -> Reason | None:
        """Return the reason where chains disagree on standard deviations [column, chain, draw]."""
        if sds.shape[2] < FEWEST_DRAWS:
            return None
        worst = float(np.max(rhat_ess.rhat(sds)))
        if not worst > MOST_RHAT:
            return None
        return Reason("groups_disagree", {"rhat": worst, "limit": MOST_RHAT})

    def effects(
        self, chosen: NDArray[np.int64], num_chains: int, sigma: Floats, level: float, scale: str
    ) -> list[GroupEffects]:
        """Summarise the intercepts of each column over the chosen draws, as many of each chain.

        `sigma` is the noise sd of these draws, float64 [draw]; `scale` says what intercepts are in units of.
        """
        tails = (1 - level) / 2, (1 + level) / 2
        between = self.sds[:, chosen] ** 2
        shares = (between / (between.sum(axis=0) + sigma**2)).mean(axis=1)
        figures = []
        for k, column in enumerate(self.columns):
            drawn = self._step * self._effects[chosen, self._starts[k] : self._starts[k + 1]]
            lower, upper = np.quantile(drawn, tails, axis=0)
            sd = self.sds[k, chosen]
            ends = dict(zip(("lower", "upper"), np.quantile(sd, tails).tolist(), strict=True))
            figures.append(
                GroupEffects(
                    column.name,
                    scale,
                    column.levels,
                    np.array(self.groupings.rows[k], np.int64),
                    drawn.mean(axis=0),
                    drawn.std(axis=0, ddof=1) if len(chosen) > 1 else np.zeros(len(column.levels)),
                    lower,
                    upper,
                    level,
                    figures_of(sd.reshape(num_chains, -1)) | ends,
                    float(shares[k]),
                )
            )
        return figures

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add the intercepts of known groups to draws of f [draw, row]."""
        for start, places in zip(self._starts, self._places(coded), strict=False):
            known = np.flatnonzero(places >= 0)
            f[:, known] += self._step * self._effects[chosen[:, None], start + places[known]]

    def known(self, coded: Coded) -> NDArray[np.bool_]:
        """Return which rows are of known groups in every column, bool [row]."""
        return np.asarray(np.all(self._places(coded) >= 0, axis=0))

    def added(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:
        """Add the intercepts of rows of known groups to sums of trees [draw, row], in grid steps."""
        if sums.dtype == np.int32 and int(np.abs(sums).max(initial=0)) >= MOST_STEPS:
            sums = sums.astype(np.int64)
        for start, places in zip(self._starts, self._places(coded), strict=False):
            sums += self._effects[chosen[:, None], start + places]
        return sums

    def new_variance(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:
        """Return the variance of the intercepts of rows of new groups, float64 [draw, row]; None for none."""
        places = self._places(coded)
        if np.all(places >= 0):
            return None
        variance = np.zeros((len(chosen), coded.num_rows))
        for sd, own in zip(self.sds, places, strict=True):
            variance[:, own < 0] += sd[chosen, None] ** 2
        return variance

    @staticmethod
    def _places(coded: Coded) -> NDArray[np.int32]:
        assert coded.groups is not None, "rows of a model with groups keep them"
        return coded.groups
