"""Draws of random intercepts and slopes of groups beside the trees (docs/maths.md#groups)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.groupings import FOREST, scalar_names
from sampler.data.scalars import cells_to_text, number_to_text, range_to_text
from sampler.errors import PackedError
from sampler.posterior import rhat_ess
from sampler.posterior.display.tabular import to_pandas
from sampler.posterior.verdict.agreement import FEWEST_DRAWS
from sampler.posterior.verdict.reasons import Reason, defined

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sampler.data.encode import Coded
    from sampler.data.groupings import Groupings
    from sampler.data.schema import Column, Schema
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
MOST_RHAT = 1.2  # largest R-hat of a standard deviation that the summary does not mention
MOST_STEPS = 1 << 30  # largest sum of trees to which int32 intercepts of four columns can be added
FIGURES = ("mean", "sd", "lower", "upper")
LARGEST = 1e150  # largest standard deviation, in units of y: its square is still finite


def figures_of(sd: Floats) -> dict[str, float | None]:
    """Compute mean, sd and convergence of draws of one scalar [chain, draw]; undefined figures are None."""
    figures = {"mean": float(sd.mean()), "sd": float(sd.std(ddof=1)) if sd.size > 1 else 0.0}
    known = sd.shape[1] >= FEWEST_DRAWS
    named = {"rhat": rhat_ess.rhat, "ess_bulk": rhat_ess.ess_bulk, "ess_tail": rhat_ess.ess_tail}
    return figures | {name: defined(of(sd[None])[0]) if known else None for name, of in named.items()}


@dataclass(frozen=True)
class GroupSlopes:
    """Slopes of one feature by group, beside those that all groups share.

    Attributes
    ----------
    feature
        Name of the feature.
    mean, sd, lower, upper
        Change for one more unit of the feature, by group, over draws, float64 [group].
    standard_deviation
        Of the slopes of all groups, as of the intercepts.
    correlation
        Of slopes with the intercepts, which are at the feature's mean: ``mean, lower, upper``.

    """

    feature: str
    mean: Floats
    sd: Floats
    lower: Floats
    upper: Floats
    standard_deviation: dict[str, float | None]
    correlation: dict[str, float]


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
    slopes
        Slopes by group of each feature that has such; intercepts are then at these features' means.

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
    slopes: tuple[GroupSlopes, ...] = ()

    def to_pandas(self) -> Any:
        """Return a data frame with a row for each group: group, rows, mean, sd, lower, upper.

        Slopes have the columns mean, sd, lower and upper too, after the feature's name and a colon.
        """
        columns: dict[str, Any] = {"group": list(self.groups), "rows": self.rows}
        columns |= {name: getattr(self, name) for name in FIGURES}
        for each in self.slopes:
            columns |= {f"{each.feature}: {name}": getattr(each, name) for name in FIGURES}
        return to_pandas(columns)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, with a list of groups."""
        lists = [list(self.groups), self.rows.tolist(), *(getattr(self, name).tolist() for name in FIGURES)]
        names = ("group", "rows", *FIGURES)
        return {
            "column": self.column,
            "scale": self.scale,
            "level": self.level,
            "standard_deviation": self.standard_deviation,
            "share": self.share,
            "groups": [dict(zip(names, each, strict=True)) for each in zip(*lists, strict=True)],
            "slopes": [
                {
                    "feature": each.feature,
                    "standard_deviation": each.standard_deviation,
                    "correlation": each.correlation,
                    "groups": [
                        dict(zip(("group", *FIGURES), own, strict=True))
                        for own in zip(
                            self.groups, *(getattr(each, name).tolist() for name in FIGURES), strict=True
                        )
                    ],
                }
                for each in self.slopes
            ],
        }

    def __str__(self) -> str:
        width = max(map(len, (*self.groups, self.column))) + 2
        lines = [
            f"standard deviation {_with_interval(self.standard_deviation)}, "
            f"{self.share:.0%} of the variance beside f",
            f"{self.column:{width}}{'rows':>8}{'mean':>10}{'lower':>10}{'upper':>10}",
        ]
        for name, count, *figures in zip(
            self.groups, self.rows, self.mean, self.lower, self.upper, strict=True
        ):
            lines.append(f"{name:{width}}{count:8}" + cells_to_text(figures, 10))
        for each in self.slopes:
            lines += [
                "",
                f"slope of {each.feature}: standard deviation {_with_interval(each.standard_deviation)}, "
                f"correlation with the intercept {_with_interval(each.correlation)}",
            ]
            for name, *figures in zip(self.groups, each.mean, each.lower, each.upper, strict=True):
                lines.append(f"{name:{width + 8}}" + cells_to_text(figures, 10))
        return "\n".join(lines)

    __repr__ = __str__


def _with_interval(figures: Mapping[str, float | None]) -> str:
    return f"{number_to_text(figures['mean'])} ({range_to_text(figures['lower'], figures['upper'])})"


class InterceptDraws:
    """Intercepts and slopes of all draws, one chain after the other, in grid steps."""

    def __init__(
        self, groupings: Groupings, columns: Sequence[Column], chains: Sequence[Draws], step: float
    ) -> None:
        self.groupings, self.columns, self._step = groupings, columns, step
        self._terms = 1 + groupings.num_slopes
        self._sizes = [len(column.levels) for column in columns]
        self._starts = np.cumsum([0, *(self._terms * size for size in self._sizes)])
        names = [scalar_names(k, groupings.num_slopes) for k in range(len(columns))]
        for draws in chains:
            there = draws.forests.get(FOREST)
            alone = (
                there is not None
                and there.num_trees == self._starts[-1]
                and there.num_nodes == there.leaf_counts.size
            )
            if not alone or not all(name in draws.scalars for own in names for name in own):
                raise PackedError("the draws don't have the intercepts of the model's groups")
        self._effects = np.concatenate([d.forests[FOREST].leaf.reshape(d.num_draws, -1) for d in chains])
        drawn = [
            np.stack([np.concatenate([d.scalars[name] for d in chains]) for name in own]) for own in names
        ]
        sds = np.array([own[: self._terms] for own in drawn])
        if not np.all((sds > 0) & (sds < LARGEST)):
            raise PackedError("the draws of the groups' standard deviations are out of range")
        partial = np.array([own[self._terms :] for own in drawn])
        if not np.all(np.abs(partial) < 1):
            raise PackedError("the draws of the groups' correlations are out of range")
        self.all_sds = sds  # [column, term, draw]
        self._factor = _factors(sds, partial)

    @property
    def sds(self) -> Floats:
        """Standard deviations of intercepts, float64 [column, draw]."""
        return self.all_sds[:, 0]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._effects.nbytes + self.all_sds.nbytes + self._factor.nbytes

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
        self,
        chosen: NDArray[np.int64],
        num_chains: int,
        sigma: Floats,
        level: float,
        scale: str,
        schema: Schema,
    ) -> list[GroupEffects]:
        """Summarise the effects of each column over the chosen draws, of which each chain has equally many.

        `sigma` is the noise sd of these draws, float64 [draw]; `scale` says what intercepts are in units of.
        """
        tails = (1 - level) / 2, (1 + level) / 2
        between = np.sum(self.all_sds[:, :, chosen] ** 2, axis=1)  # at rows like those of training
        shares = (between / (between.sum(axis=0) + sigma**2)).mean(axis=1)
        summaries = []
        for k, column in enumerate(self.columns):
            size = self._sizes[k]

            def figures(term: int, unit: float, k: int = k, size: int = size) -> dict[str, Any]:
                start = self._starts[k] + term * size
                drawn = self._step / unit * self._effects[chosen, start : start + size]
                lower, upper = np.quantile(drawn, tails, axis=0)
                spread = drawn.std(axis=0, ddof=1) if len(chosen) > 1 else np.zeros(size)
                sd = self.all_sds[k, term, chosen] / unit
                of_all = figures_of(sd.reshape(num_chains, -1)) | _ends(sd, tails)
                return {
                    "mean": drawn.mean(axis=0),
                    "sd": spread,
                    "lower": lower,
                    "upper": upper,
                    "standard_deviation": of_all,
                }

            slopes = []
            for term in range(1, self._terms):
                assert self.groupings.slopes is not None
                position, unit = (
                    self.groupings.slopes.column[term - 1],
                    self.groupings.slopes.scale[term - 1],
                )
                factor = self._factor[k, chosen]
                with_intercept = factor[:, term, 0] / self.all_sds[k, term, chosen]
                correlation = {"mean": float(with_intercept.mean()), **_ends(with_intercept, tails)}
                name = schema.columns[schema.coded[position][0]].name
                slopes.append(GroupSlopes(name, **figures(term, unit), correlation=correlation))
            summaries.append(
                GroupEffects(
                    column=column.name,
                    scale=scale,
                    groups=column.levels,
                    rows=np.array(self.groupings.rows[k], np.int64),
                    level=level,
                    share=float(shares[k]),
                    slopes=tuple(slopes),
                    **figures(0, 1.0),
                )
            )
        return summaries

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add the effects of known groups to draws of f [draw, row]."""
        for k, places in enumerate(self._places(coded)):
            known = np.flatnonzero(places >= 0)
            f[:, known] += self._step * self._of_rows(k, places[known], self._z(coded, known), chosen)

    def known(self, coded: Coded) -> NDArray[np.bool_]:
        """Return which rows are of known groups in every column, bool [row]."""
        return np.asarray(np.all(self._places(coded) >= 0, axis=0))

    def added(self, sums: Sums, coded: Coded, chosen: NDArray[np.int64]) -> Sums:
        """Add the effects of rows of known groups to sums of trees [draw, row], in grid steps."""
        if sums.dtype == np.int32 and int(np.abs(sums).max(initial=0)) >= MOST_STEPS:
            sums = sums.astype(np.int64)
        z = self._z(coded, slice(None))
        for k, places in enumerate(self._places(coded)):
            sums += self._of_rows(k, places, z, chosen)
        return sums

    def _of_rows(
        self, k: int, places: NDArray[np.int32], z: Floats | None, chosen: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Return the effects of rows of known groups of a column, int32 [draw, row], as chains round them."""
        start, size = self._starts[k], self._sizes[k]
        effects: NDArray[np.int32] = self._effects[chosen[:, None], start + places]
        if z is None:
            return effects
        along = np.zeros(effects.shape)
        for term, own in enumerate(z, 1):
            along += own * self._effects[chosen[:, None], start + term * size + places]
        return effects + np.rint(np.clip(along, -MOST_STEPS, MOST_STEPS)).astype(np.int32)

    def _z(self, coded: Coded, rows: slice | NDArray[np.int64]) -> Floats | None:
        """Return what slopes are multiplied by at some rows, float64 [slope, row]; None without slopes."""
        if self.groupings.slopes is None:
            return None
        assert coded.values is not None, "rows of a model with slopes of groups keep their values"
        return self.groupings.slopes.of(coded.values[:, rows])

    def new_variance(self, coded: Coded, chosen: NDArray[np.int64]) -> Floats | None:
        """Return the variance of the effects of rows of new groups, float64 [draw, row]; None for none."""
        places = self._places(coded)
        if np.all(places >= 0):
            return None
        variance = np.zeros((len(chosen), coded.num_rows))
        for k, own in enumerate(places):
            new = np.flatnonzero(own < 0)
            z = self._z(coded, new)
            if z is None:
                variance[:, new] += self.sds[k, chosen, None] ** 2
                continue
            terms = np.concatenate([np.ones((1, len(new))), z])
            for j in range(self._terms):  # term by term: a row's figure doesn't depend on the other rows
                part = np.zeros((len(chosen), len(new)))
                for i in range(j, self._terms):
                    part += self._factor[k, chosen, i, j, None] * terms[i]
                variance[:, new] += part**2
        return variance

    @staticmethod
    def _places(coded: Coded) -> NDArray[np.int32]:
        assert coded.groups is not None, "rows of a model with groups keep them"
        return coded.groups


def _ends(drawn: Floats, tails: tuple[float, float]) -> dict[str, float]:
    lower, upper = np.quantile(drawn, tails).tolist()
    return {"lower": lower, "upper": upper}


def _factors(sds: Floats, partial: Floats) -> Floats:
    """Compute Cholesky factors of covariances, float64 [column, draw, term, term].

    `sds` are [column, term, draw], `partial` correlations [column, number, draw], row by row of the factor.
    """
    columns, terms, draws = sds.shape
    factors, at = np.zeros((columns, draws, terms, terms)), 0
    for i in range(terms):
        left = np.ones((columns, draws))
        for j in range(i):
            factors[:, :, i, j] = sds[:, i] * partial[:, at] * np.sqrt(left)
            left *= 1 - partial[:, at] ** 2
            at += 1
        factors[:, :, i, i] = sds[:, i] * np.sqrt(left)
    return factors
