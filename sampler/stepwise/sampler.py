"""A sum of trees whose chain people step themselves, as a part of samplers of their own."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.bart.chain import Chain
from sampler.chains import needed_kernels
from sampler.data.level_sets import NAME
from sampler.data.scalars import counted, days_to_text
from sampler.data.target import read_weights
from sampler.errors import DataError, PackedError, SettingsError
from sampler.families import FAMILIES
from sampler.kernels.jit import warm
from sampler.methods import METHODS
from sampler.noise import NOISES
from sampler.posterior.posterior import Posterior
from sampler.posterior.results.trees import TreeTable
from sampler.preparation import prepare, prepare_again
from sampler.prepared_fit import PreparedFit
from sampler.storage.draw_codec import pack
from sampler.storage.draws import Draws
from sampler.storage.model_header import Header

MAGIC = b"BSS1"
LENGTHS = struct.Struct("<4sIIII")  # magic, checksum, bytes of the header, rows, whether there are weights
FOREVER = 1 << 62  # iterations of burn-in: no draw is kept unless it is asked for


class Sampler:
    """One chain of a sum of trees for numbers: look at its state, change the outcome, go on.

    It is what `fit` runs several of. Where a sum of trees is a part of a larger model, step it between the
    draws of the other parts, with `set_outcome` to what is left for the trees to explain
    (docs/own-models.md has whole models)::

        trees = Sampler(X, y - other)
        for _ in range(1000):
            trees.step()
            other = draw_other(y - trees.sums, trees.sigma)
            trees.set_outcome(y - other)

    Parameters
    ----------
    X, y, weights
        Rows, outcomes and weights, as for `fit`. The prior is scaled by this outcome and stays as it is.
    chain
        Number of the chain: chains of one seed have different random numbers.
    settings
        Settings of `fit`, such as ``num_trees``, ``prior``, ``moves``, ``seed``, ``groups``; ``transform``
        and ``linear`` are off unless given, and the numbers of chains and draws have no meaning.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For an invalid setting, and for models of other outcomes than numbers, or of censored ones.

    """

    def __init__(self, X: Any, y: Any, weights: Any = None, *, chain: int = 0, **settings: Any) -> None:
        for name in ("num_chains", "num_burnin", "num_draws", "thin"):
            if name in settings:
                raise SettingsError(
                    f"{name} has no meaning for a sampler that is stepped: call step(n)",
                    field=name,
                    code="not_applicable",
                )
        plain: dict[str, Any] = {"noise": "constant", "transform": "none", "linear": False}
        given = plain | {"seed": 0, "num_chains": 1} | settings
        self._begin(prepare(X, y, weights=weights, **given))
        self._chain = Chain.start(self._problem.training, chain)

    def _begin(self, problem: PreparedFit) -> None:
        training = problem.training
        settings = training.settings
        wrong = [
            ("method", settings.method, not METHODS[settings.method].engine.forests),
            ("family", settings.family, FAMILIES[settings.family].target != "numbers"),
            ("transform", settings.transform, settings.transform != "none"),
            ("start", settings.start, settings.start == "annealed"),
        ]
        for name, value, refused in wrong:
            if refused:
                raise SettingsError(
                    f"a sampler that is stepped has no {name} {value!r}", field=name, code="not_applicable"
                )
        if training.limits is not None:
            raise SettingsError(
                "a sampler that is stepped takes no censored outcomes: draw them yourself between steps, "
                "and give them to set_outcome",
                field="event",
                code="not_applicable",
            )
        training = replace(training, settings=replace(settings, num_burnin=FOREVER))
        self._problem = replace(problem, training=training)
        self._header = Header.from_bytes(problem.header())
        warm(needed_kernels(training))

    @classmethod
    def resume(cls, state: bytes, X: Any) -> Sampler:
        """Restore the sampler that `state` was taken of, with its present outcome and weights, bit for bit.

        Parameters
        ----------
        state
            Bytes of `state()`.
        X
            The rows that the sampler was made with, in the same order.

        Returns
        -------
        Sampler
            It steps as the first one would have.

        Raises
        ------
        PackedError
            For bytes that are damaged or no sampler's.
        DataError
            For other rows.

        """
        if len(state) < LENGTHS.size or state[:4] != MAGIC:
            raise PackedError("this is not the state of a sampler")
        _, check, header_bytes, num_rows, weighted = LENGTHS.unpack_from(state)
        body = state[LENGTHS.size :]
        if zlib.crc32(body) != check or len(body) < header_bytes + 8 * num_rows * (1 + weighted):
            raise PackedError("the state of the sampler is damaged")
        numbers = np.frombuffer(body, "<f8", num_rows * (1 + weighted), header_bytes).reshape(-1, num_rows)
        checkpoint = body[header_bytes + numbers.nbytes :]
        self = cls.__new__(cls)
        header = Header.from_bytes(body[:header_bytes])
        self._begin(prepare_again(header, X, numbers[0].copy(), numbers[1].copy() if weighted else None))
        try:
            self._chain = Chain.resume(self._problem.training, checkpoint)
        except PackedError as error:
            raise DataError(f"the sampler can't go on ({error}): give its rows, in the same order") from error
        return self

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self._chain.iteration

    @property
    def sigma(self) -> float:
        """Noise standard deviation of the present state, of a row of weight 1, in units of the outcome.

        Where the noise differs by row, it is its geometric mean over reference rows, as of a posterior.
        """
        if NOISES[self._chain.training.settings.noise].forest:
            drawn = self.posterior().sigma
            assert drawn is not None  # models of classes and counts are refused
            return float(drawn[0, 0])
        return self._chain.sigma

    @property
    def sums(self) -> Floats:
        """Values of f at the rows, float64 [row]: of the trees, and the parts beside them."""
        training = self._chain.training
        steps = (training.grid_y - self._chain.residual()).astype(np.float64) + self._chain.noise_mean
        return np.asarray(training.constants.offset + training.constants.step * steps)

    @property
    def leaf_counts(self) -> NDArray[np.int32]:
        """Leaves of each tree, int32 [tree]."""
        return self._chain.leaf_counts[: self._problem.training.settings.num_trees]

    def step(self, iterations: int = 1) -> None:
        """Do iterations: each updates every tree, then the parts beside them and sigma.

        Raises
        ------
        SettingsError
            For a number that is not a whole number from 0 up.
        SamplerError
            Where outcomes or trees lie thousands of times farther out than the first outcome.

        """
        if not isinstance(iterations, int | np.integer) or isinstance(iterations, bool) or iterations < 0:
            raise SettingsError(
                f"iterations must be a whole number from 0 up, not {iterations!r}",
                field="iterations",
                code="out_of_range",
            )
        self._chain.run(int(iterations))

    def set_outcome(self, y: Any) -> None:
        """Go on with other outcomes of the same rows; trees, sigma and the prior stay as they are.

        Parameters
        ----------
        y
            Outcomes, float64 [row], in the order of the rows.

        Raises
        ------
        DataError
            For another number of outcomes, and for such as are no numbers, missing or infinite.
        SettingsError
            For outcomes far beyond the first ones: 32 times their range.

        """
        training = self._chain.training
        try:
            outcome = np.array(y, np.float64)
        except (TypeError, ValueError):
            raise DataError("y: outcomes must be numbers, one for each row") from None
        if outcome.shape != training.y.shape:
            rows = counted(len(training.y), "row")
            raise DataError(f"y has the shape {outcome.shape}, and the sampler has {rows}")
        if not np.all(np.isfinite(outcome)):
            row = int(np.argmin(np.isfinite(outcome))) + 1
            raise DataError(f"y: row {row} is missing or infinite")
        self._chain.set_outcome(replace(training, y=outcome))

    def set_weights(self, weights: Any) -> None:
        """Go on with other weights of the same rows, such as precisions that are drawn between the steps.

        Parameters
        ----------
        weights
            Positive weights, float64 [row]: row i has variance sigma^2 / weight.

        Raises
        ------
        DataError
            For another number of weights, and for such as are missing or not positive.
        SettingsError
            For a sampler that was made without weights (give it ones), or whose noise differs by row.

        """
        training = self._chain.training
        if training.weights is None or NOISES[training.settings.noise].weighs_rows:
            raise SettingsError(
                "weights can change where the sampler was made with weights (weights=np.ones(len(y)) if it "
                'begins without) and noise is "constant"',
                field="weights",
                code="not_applicable",
            )
        numbers = read_weights(weights, len(training.y))
        self._chain.set_weights(replace(training, weights=numbers))

    def draw(self) -> Draws:
        """Copy the present state as one draw, for `posterior`."""
        return self._chain.present()

    def posterior(self, draws: Sequence[Draws] | None = None) -> Posterior:
        """Make a posterior of draws that were copied with `draw`, as one chain; None takes the present state.

        It predicts, explains and is saved as one of `fit`.
        """
        copied = [self.draw()] if draws is None else list(draws)
        return Posterior.from_blocks(self._header.to_bytes(), [[pack(draw) for draw in copied]])

    def predict(self, X: Any) -> Floats:
        """Compute f of the present state at rows, float64 [row]; raise DataError for rows that don't fit."""
        return np.asarray(self.posterior().sample(X)[0, 0])

    def trees(self) -> TreeTable:
        """Return the trees of the present state, node by node."""
        draws, header = self.draw(), self._header
        step, schema = float(header.constants["step"]), header.schema
        is_leaf = draws.feature < 0
        depth, waiting = np.zeros(draws.num_nodes, np.int64), list[int]()
        for node, leaf in enumerate(is_leaf.tolist()):
            depth[node] = waiting.pop() if waiting else 0
            if not leaf:
                waiting += [int(depth[node]) + 1] * 2
        names: list[str | None] = []
        places: list[float | str | tuple[str | None, ...] | None] = []
        for feature, cut in zip(draws.feature.tolist(), draws.cut.tolist(), strict=True):
            if feature < 0:
                names.append(None)
                places.append(None)
                continue
            if feature >= len(schema.coded):
                name, levels = header.parts[NAME].rule(feature, schema)
                names.append(name)
                places.append(levels)
                continue
            column, level = schema.coded[feature]
            described = schema.columns[column]
            names.append(described.name)
            cuts = header.grid.cuts[feature]
            value = float(cuts[cut]) if cut < len(cuts) else float("inf")
            if described.kind == "category":
                places.append(level)
            else:
                dated = described.kind == "date" and np.isfinite(value)
                places.append(days_to_text(value) if dated else value)
        return TreeTable(
            tree=np.repeat(np.arange(draws.num_trees), np.diff(draws.tree_start)),
            depth=depth,
            feature=names,
            at=places,
            missing_left=draws.missing_left.astype(bool),
            value=np.where(is_leaf, step * draws.leaf, np.nan),
        )

    def state(self) -> bytes:
        """Pack the state between steps, with the present outcome and weights, for `resume`."""
        training = self._chain.training
        header = self._header.to_bytes()
        rows = [training.y] if training.weights is None else [training.y, training.weights]
        body = header + b"".join(values.astype("<f8").tobytes() for values in rows) + self._chain.checkpoint()
        return LENGTHS.pack(MAGIC, zlib.crc32(body), len(header), len(training.y), len(rows) - 1) + body

    def __repr__(self) -> str:
        trees = counted(self._problem.training.settings.num_trees, "tree")
        rows, done = counted(len(self.sums), "row"), counted(self.iteration, "iteration")
        return f"<Sampler of {trees} at {rows}, {done} done>"
