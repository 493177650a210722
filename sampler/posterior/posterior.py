"""The posterior of a fit: its draws, everything computed from them, and model files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampler.data.encode import Coded
from sampler.data.scalars import counted
from sampler.errors import SettingsError
from sampler.methods import METHODS, Method
from sampler.posterior.assessable_posterior import AssessablePosterior
from sampler.posterior.display.arviz import to_arviz
from sampler.posterior.display.model_card import model_card
from sampler.posterior.display.plots import Plots
from sampler.posterior.display.tabular import (
    posterior_card,
)
from sampler.posterior.explainable_posterior import ExplainablePosterior
from sampler.posterior.survival_curves import SurvivalCurves, survival_curves
from sampler.storage.draw_codec import pack, unpack
from sampler.storage.draws import concatenate
from sampler.storage.model_file import read_parts, write_model
from sampler.storage.model_header import Header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sampler.posterior.display.card_document import ModelCard
    from sampler.prepared_fit import PreparedFit


# Members for services and other modules, which completion of a notebook leaves out.
INTERNAL = frozenset({
    "bound_errors", "bound_work", "calibrated_by", "conformal_table", "draw_weights", "drawn",
    "draws_by_figure", "forests_to_explain", "from_blocks", "grid", "header", "law", "match", "nbytes",
    "noise_differs", "origin", "outcomes_by_draw", "own_work", "probabilities_by_draw", "reference",
    "sample_learnt", "spaced_draws", "usual_interval", "usual_loss",
})  # fmt: skip


class Posterior(ExplainablePosterior, AssessablePosterior):
    """Draws of all chains, with the schema of their data.

    Its draws and predictions are methods of `PosteriorDraws`, explanations of `ExplainablePosterior`,
    diagnostics and scores of `AssessablePosterior`; what is here makes, extends, shows and
    stores a posterior.

    Attributes
    ----------
    origin
        Data and states from which `extend` continues; None where there are none.

    """

    origin: Origin | None = None

    @classmethod
    def from_blocks(
        cls,
        header: bytes,
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]] | None = None,
    ) -> Posterior:
        """Decode a posterior from a fit's header and each chain's packed blocks.

        Parameters
        ----------
        header
            Header, as `PreparedFit.header` encodes it.
        blocks
            Packed draws, by chain.
        statistics
            Counters of the moves, by chain; None where unknown.

        Returns
        -------
        Posterior
            A posterior of the class for its method, family and noise.

        Raises
        ------
        PackedError
            For bytes that can't be read.
        NotFittedError
            When no chain has a draw.

        """
        chains = [concatenate([unpack(block) for block in chain]) for chain in blocks if chain]
        chains = [draws for draws in chains if draws.num_draws]
        read = Header.from_bytes(header)
        kind: type[Posterior] = _method_of(read).posterior_of(read.settings)
        return kind(read, chains, blocks, statistics or [])

    def survival(
        self,
        X: Any,
        times: Sequence[float] | None = None,
        level: float = 0.9,
        num_draws: int | None = None,
        *,
        ignore_extra: bool = False,
    ) -> SurvivalCurves:
        """Compute survival curves: the probability that a row's outcome exceeds each of some times.

        Parameters
        ----------
        X, num_draws, ignore_extra
            Rows and draws, as for `predict`.
        times
            Up to 1,000 increasing times (or values, of a model with limits); None takes 50 that divide the
            range of the training outcomes evenly.
        level
            Probability of the credible intervals.

        Returns
        -------
        SurvivalCurves
            ``times``, and at these ``survival`` with ``lower`` and ``upper``, float64 [row, time]; for each
            row the ``median`` and the ``restricted_mean`` (up to the last of the times), with intervals.

        Raises
        ------
        DataError
            For rows that don't fit the model.
        SettingsError
            For a model fitted without event, lower and upper, and invalid times, level or number of draws.

        """
        coded = X if isinstance(X, Coded) else self.encode(X, ignore_extra=ignore_extra)
        return survival_curves(self, coded, times, level, num_draws)

    def extend(
        self, num_draws: int, X: Any = None, y: Any = None, weights: Any = None, *, progress: bool = True
    ) -> Posterior:
        """Continue the chains for more draws and return a new posterior.

        The result equals, bit for bit, that of one longer fit with the same `num_burnin`. The chains continue
        from their last states, which `save` keeps too. It does not keep the training rows, so a loaded
        posterior needs them again: `load(path).extend(500, X, y)`.

        Parameters
        ----------
        num_draws
            Number of further draws per chain.
        X, y, weights
            Rows given to `fit`, in the same order; needed after `load` only.
        progress
            Whether to show a progress bar.

        Raises
        ------
        SettingsError
            When there are no rows or no states to continue from, or `num_draws` is out of range.
        DataError
            When the rows are not those of the fit.

        """
        if self.origin is None:
            raise SettingsError(
                "this model has no states of its chains (a service's file never has): fit again "
                "with more draws",
                field=None,
                code="unavailable",
            )
        rows = None if X is None and y is None else (X, y, weights)
        method = _method_of(self._header)
        extended: Posterior = method.extend(self, self.origin, num_draws, rows, progress=progress)
        return extended

    def discard(self, num_draws: int) -> Posterior:
        """Return the posterior without the first draws of each chain, as if its burn-in had been longer.

        Parameters
        ----------
        num_draws
            Number of draws per chain to leave out, less than there are.

        Returns
        -------
        Posterior
            Without a calibration, which is that of other draws; `extend` continues its chains.

        Raises
        ------
        SettingsError
            When `num_draws` is out of range, or the method makes all draws at once.

        """
        if _method_of(self._header).engine.at_once:
            method = str(self.settings["method"])
            raise SettingsError(
                f"method {method} makes all its draws at once: none comes before others",
                field="method",
                code="not_applicable",
            )
        if num_draws not in range(self.num_draws):
            raise SettingsError(
                f"num_draws must be a whole number from 0 to {self.num_draws - 1}, since one draw has to be "
                f"left, not {num_draws!r}",
                field="num_draws",
                code="out_of_range",
            )
        if num_draws == 0:
            return self
        discarded = int(self.settings.get("discarded", 0)) + num_draws
        lengths = {"num_draws": self.num_draws - num_draws, "discarded": discarded}
        header = replace(self._header, settings=self.settings | lengths, calibration=None)
        blocks = [[pack(draws[num_draws:])] for draws in self.chains()]
        posterior = Posterior.from_blocks(header.to_bytes(), blocks, self._statistics)
        posterior.origin = self.origin
        return posterior

    def model_card(
        self,
        X: Any = None,
        y: Any = None,
        weights: Any = None,
        *,
        scores: Mapping[str, Any] | None = None,
        importance: Mapping[str, Any] | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> ModelCard:
        """Describe the model on one page: data, settings, verdicts, scores, importance, effects and limits.

        Parameters
        ----------
        X, y, weights
            Rows that the model was not fitted to, with their outcomes, for scores and importance; None for a
            card without them.
        scores, importance
            Scores and importance known already, as `score` and `importance(..).to_json()` return them, in
            place of rows.
        facts
            Further facts for the first section, by name.

        Returns
        -------
        ModelCard
            `to_markdown()` and `to_html()` write it; notebooks show it.

        Raises
        ------
        DataError
            For rows that don't fit the model.

        """
        if X is not None:
            scores = self.score(X, y, weights)
            importance = self.importance(X, y, weights).to_json()
        return model_card(self, self._header, scores, importance, facts or {})

    @property
    def plot(self) -> Plots:
        """Charts with matplotlib, which is optional: `posterior.plot.traces()` and so on."""
        return Plots(self)

    def to_arviz(self) -> Any:
        """Convert sigma, and f at the reference rows, to ArviZ's data tree; needs the package arviz-base."""
        return to_arviz(self)

    def to_bytes(self) -> bytes:
        """Encode the posterior as a model file."""
        checkpoints = self.origin.checkpoints if self.origin else []
        return write_model(self._header.to_bytes(), self._blocks, self._statistics, checkpoints)

    @classmethod
    def from_bytes(cls, data: bytes) -> Posterior:
        """Decode a model file; raise PackedError."""
        header, blocks, statistics, checkpoints = read_parts(data)
        posterior = cls.from_blocks(header, blocks, statistics)
        posterior.origin = Origin(None, checkpoints) if checkpoints else None
        return posterior

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically."""
        target = Path(path)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(self.to_bytes())
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the posterior as its model file, without the training rows."""
        return Posterior.from_bytes, (self.to_bytes(),)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]

    def _repr_html_(self) -> str:
        return posterior_card(self)

    def __repr__(self) -> str:
        columns = ", ".join(column.name for column in self.schema.columns)
        return (
            f"<Posterior of {self.schema.target.name} given {columns}: "
            f"{counted(self.num_chains, 'chain')} of {counted(self.num_draws, 'draw')} of "
            f"{counted(self.leaf_counts.shape[2], 'tree')}>"
        )


def _method_of(header: Header) -> Method:
    return METHODS.get(str(header.settings.get("method", "bart")), METHODS["bart"])


@dataclass(frozen=True)
class Origin:
    """State from which a posterior's chains continue: their data (None once loaded) and last states."""

    problem: PreparedFit | None
    checkpoints: list[bytes]
