"""The posterior of several outcomes: one posterior of each, and what their errors have in common."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.rows import missing_role, named_column
from sampler.data.scalars import counted
from sampler.data.schema import Column
from sampler.data.shared_columns import shared_columns
from sampler.data.table import Table, read
from sampler.data.target import read_weights
from sampler.definitions.several import correlation_name, forest_name, scalar_name
from sampler.errors import DataError, PackedError, SettingsError
from sampler.families import FAMILIES
from sampler.methods import method_of
from sampler.noise import SPREAD
from sampler.posterior.core.intervals import Request
from sampler.posterior.core.memory import held_bytes
from sampler.posterior.laws.noise_by_row import FOREST as NOISE
from sampler.posterior.posterior import Posterior
from sampler.posterior.results.answer import draw
from sampler.posterior.results.card_document import ModelCard
from sampler.posterior.several.class_law import laws_given, log_density
from sampler.posterior.several.joint_law import JointMixture, energy_scores
from sampler.posterior.several.outcome_reading import as_given, read_all, read_known
from sampler.posterior.several.results import SeveralPrediction, SeveralScores
from sampler.posterior.treated_posterior import Origin
from sampler.posterior.verdict.summary import Summary
from sampler.storage.draw_codec import pack, unpack
from sampler.storage.draws import LEAF, Draws, concatenate
from sampler.storage.model_file import read_parts, save_bytes, write_model
from sampler.storage.model_header import Header

CELLS = 1 << 22  # numbers held at once for a block of rows
FEW_DRAWS = 50  # that an answer given known outcomes should rest on at least
LEVELS = (0.5, 0.8, 0.9, 0.95)
T = TypeVar("T")


class SeveralPosterior:
    """Draws of the forests of several outcomes, and of the covariance of their errors.

    ``posterior["a"]`` is the posterior of one outcome, which predicts, explains and is scored as any other;
    what is here is about the outcomes together.

    Attributes
    ----------
    outcomes
        Names of the outcomes.
    header
        Header of the first outcome's model, which has those of the others.
    origin
        Data and states from which `extend` continues; None where there are none.

    """

    def __init__(
        self, header: Header, blocks: Sequence[Sequence[bytes]], statistics: Sequence[dict[str, Any]]
    ) -> None:
        self.header = header
        self.blocks = [list(chain) for chain in blocks]
        self.statistics = list(statistics)
        self.origin: Origin | None = None
        self._headers = [replace(header, others=()), *map(Header.from_bytes, header.others)]
        self.outcomes = tuple(each.schema.target.name for each in self._headers)
        families = [FAMILIES[each.settings["family"]].target for each in self._headers]
        self._of_class = families.index("two") if "two" in families else None
        self._parts: dict[str, Posterior] = {}

    @classmethod
    def from_blocks(
        cls,
        header: bytes,
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]] | None = None,
    ) -> SeveralPosterior:
        """Decode a posterior from a fit's header and each chain's packed blocks; raise PackedError."""
        return cls(Header.from_bytes(header), blocks, statistics or [])

    @classmethod
    def from_bytes(cls, data: bytes) -> SeveralPosterior:
        """Read the model file of several outcomes; raise PackedError."""
        header, blocks, statistics, checkpoints = read_parts(data)
        posterior = cls.from_blocks(header, blocks, statistics)
        if not posterior.header.others:
            raise PackedError("this is a model of one outcome: read its file with load")
        if not posterior.num_chains:
            raise PackedError("the model has no draws")
        posterior.origin = Origin(None, checkpoints) if checkpoints else None
        return posterior

    def drawn(self) -> list[Draws | None]:
        """Decode the draws of every chain that was started; None for one without draws."""
        return [concatenate([unpack(block) for block in chain]) if chain else None for chain in self.blocks]

    @cached_property
    def _draws(self) -> list[Draws]:
        return [draws for draws in self.drawn() if draws is not None and draws.num_draws]

    def __getitem__(self, outcome: str) -> Posterior:
        """Return the posterior of one outcome; raise SettingsError for another name."""
        if outcome not in self.outcomes:
            raise SettingsError(
                f"the outcomes are {', '.join(self.outcomes)}: there is no {outcome!r}",
                field="outcome",
                code="unknown",
            )
        if outcome not in self._parts:
            number = self.outcomes.index(outcome)
            header = self._headers[number]
            lengths = {name: self.settings[name] for name in ("num_draws", "num_chains", "discarded")
                       if name in self.settings}  # fmt: skip
            header = replace(header, settings=header.settings | lengths)
            blocks = [[pack(self._part(draws, number))] for draws in self._draws]
            part = Posterior.from_blocks(header.to_bytes(), blocks, self.statistics)
            part.several = self
            part.law.draws.of_others = {column.name for column in self.inputs}
            self._parts[outcome] = part
        return self._parts[outcome]

    @property
    def inputs(self) -> tuple[Column, ...]:
        """Columns of rows to predict: those of any outcome, the first one's first."""
        every = (column for header in self._headers for column in header.schema.inputs)
        found: dict[str, Column] = {}
        for column in every:
            found.setdefault(column.name, column)
        return tuple(found.values())

    def _coded(self, X: Any, *, ignore_extra: bool = False, beside: Collection[str] = ()) -> list[Coded]:
        """Encode rows for each outcome; raise DataError with what is wrong of any.

        `beside` are columns that are read elsewhere.
        """
        coded, problems = [], []
        for name in self.outcomes:
            try:
                coded.append(self[name].law.draws.encode(X, ignore_extra=ignore_extra, beside=beside))
            except DataError as error:
                problems += error.problems
        if problems:
            raise DataError(list(dict.fromkeys(problems)))
        return coded

    def _part(self, draws: Draws, number: int) -> Draws:
        """Return the draws of one outcome as those of a model of its own."""
        own = draws if number == 0 else draws.forests.get(forest_name(number))
        if own is None:
            raise PackedError("the draws don't have all of the model's outcomes")
        start = scalar_name(number, "")

        def of_own(every: Mapping[str, T]) -> dict[str, T]:
            mine = (name for name in every if (":" not in name if number == 0 else name.startswith(start)))
            return {name.removeprefix(start): every[name] for name in mine}

        scalars, forests = of_own(draws.scalars), of_own(draws.forests)
        if number > 0 and NOISE in draws.forests:  # all have it, in the numbering of the first one's columns
            forests[NOISE] = self._renumbered(draws.forests[NOISE], number)
            scalars |= {SPREAD: draws.scalars[SPREAD]} if SPREAD in draws.scalars else {}
        return replace(own, scalars=scalars, forests=forests)

    def _renumbered(self, noise: Draws, number: int) -> Draws:
        """Return trees of the noise, of the first outcome's columns, as they split on another's."""
        first, own = self._shared_columns[[0, number]]
        place = np.full(1 + max(noise.feature.max(initial=0), first.max(initial=0)), LEAF)
        place[first] = own
        splits = noise.feature >= 0
        feature = np.where(splits, place[noise.feature], LEAF).astype(np.int32)
        if np.any(splits & (feature == LEAF)):
            raise PackedError("the draws' noise splits on columns that the outcomes don't have in common")
        return replace(noise, feature=feature)

    @cached_property
    def _shared_columns(self) -> NDArray[np.int64]:
        """Places of the columns that all outcomes have alike, int64 [outcome, column]."""
        return shared_columns(self._headers)

    @property
    def nbytes(self) -> int:
        """Memory held by all outcomes, in bytes."""
        return held_bytes(self, *(self[name] for name in self.outcomes), self.correlations)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the fit; what each outcome chose by itself is in its own posterior's."""
        return self.header.settings

    @property
    def warnings(self) -> list[str]:
        """Warnings given while the data were prepared."""
        return self.header.warnings

    @property
    def num_chains(self) -> int:
        """Number of chains with draws."""
        return len(self._draws)

    @property
    def num_draws(self) -> int:
        """Number of draws used per chain."""
        return min(draws.num_draws for draws in self._draws)

    def summary(self) -> dict[str, Summary]:
        """Tell of each outcome whether the chains agree, see `Posterior.summary`."""
        return {name: self[name].summary() for name in self.outcomes}

    @cached_property
    def correlations(self) -> Floats:
        """Draws of the errors' correlations, float64 [chain, draw, outcome, outcome]."""
        size = len(self.outcomes)
        found = np.broadcast_to(np.eye(size), (self.num_chains, self.num_draws, size, size)).copy()
        for j in range(size):
            for k in range(j):
                name = correlation_name(k, j)
                if not all(name in draws.scalars for draws in self._draws):
                    raise PackedError("the draws don't have the correlations of the model's outcomes")
                found[:, :, j, k] = [draws.scalars[name][: self.num_draws] for draws in self._draws]
                found[:, :, k, j] = found[:, :, j, k]
        return found

    @property
    def covariances(self) -> Floats:
        """Draws of the errors' covariance in units of the outcomes, [chain, draw, outcome, outcome].

        Where noise differs by row it is that at typical rows: see `Posterior.sigma` of the first outcome.
        """
        sigma = np.stack([self._sigma(name) for name in self.outcomes], axis=2)
        return np.asarray(self.correlations * sigma[:, :, :, None] * sigma[:, :, None, :])

    def _sigma(self, name: str) -> Floats:
        sigma, first = self[name].sigma, self[self.outcomes[0]]
        if sigma is not None and first.noise_differs:  # that of the rows at which the first one's is typical
            return np.asarray(self[name].law.draws.sigma * first.sigma / first.law.draws.sigma)
        return np.ones((self.num_chains, self.num_draws)) if sigma is None else sigma

    @property
    def _class(self) -> list[int]:
        """Places of outcomes of two classes: one or none."""
        return [] if self._of_class is None else [self._of_class]

    @property
    def _targets(self) -> list[Column]:
        return [each.schema.target for each in self._headers]

    def predict(
        self,
        X: Any,
        level: float = 0.9,
        *,
        given: Any = None,
        num_draws: int | None = None,
        ignore_extra: bool = False,
    ) -> SeveralPrediction:
        """Predict all outcomes of each row of X together, or some of them given the others.

        Parameters
        ----------
        X
            Rows, as for `Posterior.predict`.
        level
            Probability of the intervals and regions.
        given
            Outcomes that are known: numbers or classes by name, ``{"b": [..]}``, or names of columns of X.
            Missing values are unknown in their rows.
        num_draws
            Use the first `num_draws` draws of each chain; None uses all.
        ignore_extra
            Whether columns that the model doesn't know are left out with a warning; else they are refused.

        Returns
        -------
        SeveralPrediction
            Means and intervals of each outcome, intervals that hold for all at once, and a joint region; of
            two classes the probability of the second.

        Raises
        ------
        DataError
            For rows or known outcomes that don't fit the model.
        SettingsError
            For an invalid level or number of draws, and outcomes that the model doesn't have.

        """
        level = Request.check_level(level)
        named = [*given] if isinstance(given, list | tuple) else []
        coded = self._coded(X, ignore_extra=ignore_extra, beside=named)
        rows, size = coded[0].num_rows, len(self.outcomes)
        known = read_known(self._targets, X, given, rows)
        seen = ~np.isnan(known)
        mean, lower, upper, low, high = (np.where(seen, known, 0.0) for _ in range(5))
        sd = np.zeros(known.shape)
        grids = [(self[name].law.offset, self[name].law.step) for name in self.outcomes]
        covariance, radius, effective = np.zeros((rows, size, size)), np.zeros(rows), np.zeros(rows)
        of_class = self._of_class
        for at, f, covariances in self._blocks(coded, num_draws):
            for pattern in np.unique(seen[at], axis=0):
                own = at[(seen[at] == pattern).all(axis=1)]
                law, chance = laws_given(f[:, np.searchsorted(at, own)], covariances, known[own], of_class)
                effective[own] = law.effective_draws()
                if chance is not None:
                    mean[own, of_class], sd[own, of_class] = chance.moments()
                    lower[own, of_class], upper[own, of_class] = chance.bounds(level)
                    high[own, of_class] = 1.0  # from 0 to 1: every class is there
                free = np.array([j for j in np.flatnonzero(~pattern) if j != of_class], np.int64)
                if not len(free):
                    continue
                place = np.ix_(own, free)
                mean[place], covariance[np.ix_(own, free, free)] = moments = law.moments()
                sd[place] = np.sqrt(np.diagonal(moments[1], axis1=1, axis2=2))
                lower[place], upper[place] = law.bounds(level, [grids[j] for j in free])
                reach, radius[own] = law.radii(level)
                wide = reach[:, None] * sd[place]
                low[place], high[place] = mean[place] - wide, mean[place] + wide
                if len(free) == 1:
                    low[place], high[place] = lower[place], upper[place]
        free = np.flatnonzero(~seen.any(axis=1))
        for j, name in enumerate(self.outcomes if len(free) else ()):  # the bits of its own posterior
            alone = self[name].predict(coded[j].part(free), level, num_draws=num_draws)
            mean[free, j], sd[free, j] = alone.mean, alone.sd
            lower[free, j], upper[free, j] = alone.intervals[0].lower, alone.intervals[0].upper
        warnings = list(dict.fromkeys(text for each in coded for text in each.warnings))
        few = int(np.sum(effective < min(FEW_DRAWS, f.shape[0]))) if rows else 0
        if few:
            warnings.append(
                f"{counted(few, 'row')}: the known outcomes are so unlike what most draws predict that the "
                f"answer rests on fewer than {FEW_DRAWS} draws: take it as rough"
            )
        return SeveralPrediction(
            self.outcomes, level, mean, sd, lower, upper, low, high, covariance, radius,
            effective, seen, warnings, coded[0].labels, tuple(each.levels for each in self._targets),
        )  # fmt: skip

    def _blocks(
        self, coded: Sequence[Any], num_draws: int | None
    ) -> Iterator[tuple[NDArray[np.int64], Floats, Floats]]:
        """Yield rows, f [draw of any chain, row, outcome] at them, and covariances of the draws.

        Of two classes f is the mean of the latent outcome. Rows of groups of which an outcome knows nothing
        come apart: the variances of their intercepts are in the covariances; and where noise differs by row,
        each comes alone.
        """
        parts = [self[name].law for name in self.outcomes]
        used = parts[0].draws.choose(num_draws)[1]
        size = len(parts)
        covariances = self.covariances[:, :used].reshape(-1, size, size)
        step = max(1, CELLS // (8 * len(covariances) * size))
        for start in range(0, coded[0].num_rows, step):
            at = np.arange(start, min(start + step, coded[0].num_rows))
            f = [
                law.level_of(own.part(at), law.draws.choose(used)[0])
                for law, own in zip(parts, coded, strict=True)
            ]
            f_of_all, known = np.stack(f, axis=2), np.zeros((len(at), 0))
            if not all(law.knows_all for law in parts):
                none, chosen = np.zeros((len(covariances), len(at))), parts[0].draws.choose(used)[0]
                more = [
                    law.with_new_groups(none, own.part(at), chosen) ** 2
                    for law, own in zip(parts, coded, strict=True)
                ]
                known = np.stack(more, axis=2)[0]
            if parts[0].noise_differs:
                for row, by in enumerate(self._noise_factors(coded[0].part(at), used)):
                    own = covariances * by[:, None, None]
                    if known.size:
                        own += np.stack([each[:, row] for each in more], axis=1)[:, :, None] * np.eye(size)
                    yield at[[row]], f_of_all[:, [row]], own
                continue
            for pattern in np.unique(known, axis=0):
                own_rows = np.flatnonzero((known == pattern).all(axis=1))
                if not pattern.any():
                    yield at[own_rows], f_of_all[:, own_rows], covariances
                    continue
                beyond = np.stack([each[:, own_rows[0]] for each in more], axis=1)
                yield at[own_rows], f_of_all[:, own_rows], covariances + beyond[:, :, None] * np.eye(size)

    def _noise_factors(self, coded: Coded, used: int) -> Floats:
        """Return by what the covariance at rows differs from `covariances` in each draw, [row, draw]."""
        law = self[self.outcomes[0]].law
        sd = law.own_noise_of(coded, law.draws.choose(used)[0])
        return np.asarray((sd / self._sigma(self.outcomes[0])[:, :used].reshape(-1, 1)).T ** 2)

    def sample_predictive(self, X: Any, num_draws: int | None = None, *, seed: int = 0) -> Floats:
        """Draw new outcomes of each row together, one of each from each posterior draw.

        Parameters
        ----------
        X, num_draws
            Rows and draws, as for `predict`.
        seed
            Seed of the draws: equal arguments give equal draws.

        Returns
        -------
        ndarray
            float64 [chain, draw, row, outcome], in units of the outcomes.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For an invalid number of draws.

        """
        coded = self._coded(X)
        rng, drawn, places = np.random.default_rng(seed), list[Floats](), list[NDArray[np.int64]]()
        for at, f, covariances in self._blocks(coded, num_draws):
            roots = np.linalg.cholesky(covariances)
            drawn.append(f + np.einsum("dab,drb->dra", roots, rng.standard_normal(f.shape)))
            places.append(at)
        y = self._observed(np.concatenate(drawn, axis=1)[:, np.argsort(np.concatenate(places))])
        return np.asarray(y.reshape(self.num_chains, -1, *y.shape[1:]))

    def _observed(self, drawn: Floats) -> Floats:
        """Return drawn outcomes [.., outcome] as they are observed: latent ones become 0 or 1."""
        drawn[..., self._class] = drawn[..., self._class] > 0
        return drawn

    def score(self, X: Any, Y: Any, weights: Any = None, *, separately: bool = True) -> SeveralScores:
        """Score the posterior on rows that it was not fitted to.

        Parameters
        ----------
        X, Y
            Rows and their outcomes, as for `fit`; outcomes may be missing, and rows without any don't count.
        weights
            Precision weights of the rows, the name of their column of X, or None for 1: errors of weight w
            have the covariance of each draw by w.
        separately
            Whether to score each outcome by itself too.

        Returns
        -------
        SeveralScores
            Joint log and energy scores, coverage of joint regions, and the scores of each outcome.

        Raises
        ------
        DataError
            For rows or outcomes that don't fit the model.

        """
        table, y, precisions = self._labelled(X, Y, weights)
        seen = ~np.isnan(y)
        counted_rows = np.flatnonzero(seen.any(axis=1))
        if len(y) != table.num_rows or not len(counted_rows):
            raise DataError(f"score: {table.num_rows} rows need outcomes, and {len(counted_rows)} have any")
        table, y, seen = table.part(counted_rows), y[counted_rows], seen[counted_rows]
        roots = np.sqrt(precisions[counted_rows])
        coded = self._coded(table)
        (joint, separate), energy = np.zeros((2, len(y))), np.full(len(y), np.nan)
        sds = np.array([y[there, j].std() if there.any() else 0.0 for j, there in enumerate(seen.T)])
        sds[~(sds > 0)] = 1.0
        for at, f, covariances in self._blocks(coded, None):
            joint[at] = self._log_densities(f, covariances, y[at], roots[at])
            for j in range(len(self.outcomes)):
                alone = np.where(np.arange(len(self.outcomes)) == j, y[at], np.nan)
                separate[at] += self._log_densities(f, covariances, alone, roots[at])
            drawn = JointMixture.of(f, covariances).simulate()[:, 0]
            if weights is not None:
                drawn = f + (drawn - f) / roots[at][:, None]
            drawn = self._observed(drawn)
            energy[at] = energy_scores(y[at] / sds, drawn / sds)
        whole = np.flatnonzero(seen.all(axis=1))
        gain = joint - separate
        return SeveralScores(
            rows=len(y),
            log_score=float(joint.mean()),
            separate_log_score=float(separate.mean()),
            gain=float(gain.mean()),
            gain_error=float(gain.std() / np.sqrt(len(gain))),
            energy_score=float(energy[whole].mean()) if len(whole) else None,
            coverage=self._coverage(table.part(whole), y[whole], roots[whole]) if len(whole) else [],
            outcomes={
                name: self[name].score(
                    table.part(mine),
                    as_given(self._targets[j], y[mine, j]),
                    None if weights is None else roots[mine] ** 2,
                )
                for j, name in enumerate(self.outcomes)
                if separately and len(mine := np.flatnonzero(seen[:, j]))
            },
        )

    def log_scores(self, X: Any, Y: Any, weights: Any = None) -> tuple[Floats, Floats]:
        """Return the outcomes of rows as they are scored, and the log density of those that each row has.

        The first is float64 [row, outcome], NaN where missing, of classes their index; the other float64
        [row], 0 in rows without any. Raises DataError for rows or outcomes that don't fit the model.
        """
        table, y, precisions = self._labelled(X, Y, weights)
        logs, roots = np.zeros(len(y)), np.sqrt(precisions)
        for at, f, covariances in self._blocks(self._coded(table), None):
            logs[at] = self._log_densities(f, covariances, y[at], roots[at])
        return y, logs

    def _labelled(self, X: Any, Y: Any, weights: Any) -> tuple[Table, Floats, Floats]:
        """Read rows, their outcomes [row, outcome] and precision weights [row]; raise DataError."""
        table, y = read(X), read_all(self._targets, Y)
        if weights is None and self.header.weighted:
            raise DataError([missing_role("weights", "weights")])
        if isinstance(weights, str):
            table, weights = table.without([weights]), named_column(table, "weights", weights)
        return table, y, np.ones(len(y)) if weights is None else read_weights(weights, len(y))

    def _log_densities(self, f: Floats, covariances: Floats, y: Floats, roots: Floats) -> Floats:
        """Return the log density of what each row has of y [row, outcome], given f [draw, row, outcome].

        Errors times `roots`, float64 [row], have the covariances, [draw, outcome, outcome].
        """
        seen = ~np.isnan(y)
        logs: Floats = np.log(roots) * seen.sum(axis=1)
        f, y = f * roots[:, None], y * roots[:, None]
        for pattern in np.unique(seen, axis=0):
            own, there = (seen == pattern).all(axis=1), np.flatnonzero(pattern)
            if len(there):
                logs[own] += _log_mean(log_density(f[:, own], covariances, y[own], self._of_class, there))
        return logs

    def _coverage(self, table: Any, y: Floats, roots: Floats) -> list[dict[str, float]]:
        """Return the shares of rows inside regions and intervals by level, of rows of weight 1."""
        if np.any(roots != 1):
            return []
        shares = []
        for level in LEVELS:
            predicted = self.predict(table, level)
            together, region = predicted.contains(y)
            apart = (y >= predicted.lower) & (y <= predicted.upper)
            separate = np.delete(apart, self._class, axis=1).all(axis=1)
            each = {"region": region, "simultaneous": together, "separate": separate}
            shares.append({"level": level} | {name: float(inside.mean()) for name, inside in each.items()})
        return shares

    def model_card(self, X: Any = None, Y: Any = None, weights: Any = None) -> ModelCard:
        """Describe the model on one page: what outcomes have in common, and each as `Posterior.model_card`.

        Parameters
        ----------
        X, Y, weights
            Rows that the model was not fitted to, as for `score`, for scores; None for a card without.

        Returns
        -------
        ModelCard
            `to_markdown()` and `to_html()` write it; notebooks show it.

        Raises
        ------
        DataError
            For rows that don't fit the model.

        """
        joint = None if X is None else self.score(X, Y, weights)
        scores = {} if joint is None else joint.outcomes
        card: ModelCard = draw("several_card:several_card", self, joint and vars(joint), scores, {}, {})
        return card

    def extend(
        self, num_draws: int, X: Any = None, Y: Any = None, weights: Any = None, *, progress: bool = True
    ) -> SeveralPosterior:
        """Continue the chains for more draws; see `Posterior.extend`.

        Parameters
        ----------
        num_draws
            Number of further draws per chain.
        X, Y, weights
            Rows, outcomes and weights given to `fit`, in the same order; needed after `load` only.
        progress
            Whether to show a progress bar.

        Returns
        -------
        SeveralPosterior
            A new posterior with the earlier and the further draws.

        Raises
        ------
        SettingsError
            When there are no rows or no states to continue from, or `num_draws` is out of range.
        DataError
            When the rows are not those of the fit.

        """
        if self.origin is None:
            raise SettingsError(
                "this model has no states of its chains: fit again with more draws",
                field=None,
                code="unavailable",
            )
        rows = None if X is None and Y is None else (X, Y, weights)
        extended: SeveralPosterior = method_of(self.settings).extend(
            self, self.origin, num_draws, rows, progress=progress
        )
        return extended

    def to_bytes(self) -> bytes:
        """Encode the posterior as a model file."""
        checkpoints = self.origin.checkpoints if self.origin else []
        return write_model(self.header.to_bytes(), self.blocks, self.statistics, checkpoints)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically."""
        save_bytes(path, self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the posterior as its model file, without the training rows."""
        return SeveralPosterior.from_bytes, (self.to_bytes(),)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say of what one outcome answers where to ask it."""
            fault = f"a posterior of several outcomes has no {name}"
            if hasattr(Posterior, name) and not name.startswith("_"):
                fault += f": ask one of them, as posterior[{self.outcomes[0]!r}].{name}"
            raise AttributeError(fault)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self.inputs)
        return (
            f"<Posterior of {', '.join(self.outcomes)} given {columns}: "
            f"{counted(self.num_chains, 'chain')} of {counted(self.num_draws, 'draw')}>"
        )


def _log_mean(logs: Floats) -> Floats:
    """Average densities over draws, [draw, row], given and returned as logarithms."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))
