"""Draws of all chains as they are stored, and what their model's header says of them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded, encode
from sampler.data.rows import absent_roles, missing_role, read_roles
from sampler.data.table import is_array, read_rows
from sampler.data.treatment.design import ROLE
from sampler.definitions.data import COLUMN_ROLES, LIMITS
from sampler.errors import DataError, NotFittedError, PackedError, SettingsError
from sampler.noise import COMPONENTS, DEGREES, NOISES, SPREAD, Noise, component_names
from sampler.posterior.weighting.mixture_noise import Mixture, are_components
from sampler.posterior.weighting.noise_law import Shape
from sampler.posterior.weighting.student_noise import Student, are_degrees, sd_of
from sampler.storage.draw_codec import unpack
from sampler.storage.draws import NUM_TREES, Draws, concatenate
from sampler.storage.model_header import OUTCOME, Header
from sampler.subgroups.declaration import Subgroup
from sampler.subgroups.membership import bits_of, columns_of


class StoredDraws:
    """Draws of all chains, with the header of their model.

    Chains without draws are left out; the others are used up to the length of the shortest.

    Attributes
    ----------
    header
        Schema, settings and constants of the fit.
    blocks
        Packed draws, by chain.
    statistics
        Counters of the moves, by chain; empty where unknown.
    num_chains
        Number of chains with draws.
    num_draws
        Number of draws used per chain.
    family
        Family of the outcomes, one of `sampler.families.FAMILIES`.
    sigma
        Noise sd of each draw, float64 [chain, draw]: of what the trees learn, for a row of weight 1.
    degrees
        Degrees of freedom of the noise, float64 [chain, draw]; None for noise that is not t.
    shape
        Shape of the noise; None for normal noise.
    tree_numbers
        Number of trees, float64 [chain, draw]; None where it isn't drawn.
    noise_spread
        Prior standard deviation of log s(x), s the noise's, float64 [chain, draw]; None where the noise
        doesn't differ by row, and for fits of versions that did not draw it.

    """

    def __init__(
        self,
        header: Header,
        chains: Sequence[Draws],
        blocks: Sequence[Sequence[bytes]],
        statistics: Sequence[dict[str, Any]],
    ) -> None:
        if not chains:
            raise NotFittedError("there is no draw yet: let the chains run past their burn-in first")
        if len({draws.layout for draws in chains}) > 1:
            raise PackedError("the chains differ in their number of trees, their forests or their scalars")
        if not all(np.all(np.isfinite(draws.sigma) & (draws.sigma > 0)) for draws in chains):
            raise PackedError("the draws of sigma are not all positive numbers")
        self.header = header
        self.blocks = [list(chain) for chain in blocks]
        self.statistics = list(statistics)
        self.of_others: Collection[str] = ()  # columns of further outcomes, which rows may have
        self._starts = np.cumsum([0, *(draws.num_draws for draws in chains)])[:-1]
        self.num_chains = len(chains)
        self.num_draws = min(draws.num_draws for draws in chains)
        self.family = str(header.settings.get("family", "gaussian"))
        self.sigma = np.array([draws.sigma[: self.num_draws] for draws in chains])
        self.degrees = self._read_degrees(chains)
        if self.degrees is not None:  # sigma is drawn as the scale of t
            self.sigma = self.sigma * sd_of(self.degrees)
        self.shape: Shape | None = None if self.degrees is None else Student(self.degrees)
        if self._kind.mixture:
            self.shape = self._read_mixture(chains)
        self.noise_spread: Floats | None = None
        if all(SPREAD in draws.scalars for draws in chains):
            self.noise_spread = np.array([draws.scalars[SPREAD][: self.num_draws] for draws in chains])
        self.tree_numbers: Floats | None = None
        if all(NUM_TREES in draws.scalars for draws in chains):
            self.tree_numbers = np.array([draws.scalars[NUM_TREES][: self.num_draws] for draws in chains])
            if not np.all(np.isin(self.tree_numbers, np.arange(chains[0].num_trees + 1))):
                raise PackedError("the draws' numbers of trees are out of range")

    @property
    def _kind(self) -> Noise:
        """Kind of the noise; an unknown one is normal."""
        return NOISES.get(str(self.header.settings.get("noise", "constant")), NOISES["constant"])

    def _read_mixture(self, chains: Sequence[Draws]) -> Mixture:
        if not all({*component_names()} <= {*draws.scalars} for draws in chains):
            raise PackedError("the draws don't have the components of the model's noise")
        parts = np.array(
            [[draws.scalars[name][: self.num_draws] for draws in chains] for name in component_names()]
        ).reshape(3, COMPONENTS, self.num_chains, self.num_draws)
        if not are_components(parts):
            raise PackedError("the draws' components of the noise are no mixture of normals")
        return Mixture.of(parts)

    def _read_degrees(self, chains: Sequence[Draws]) -> Floats | None:
        if not self._kind.heavy_tails:
            return None
        if not all(DEGREES in draws.scalars for draws in chains):
            raise PackedError("the draws don't have the degrees of freedom of the model's noise")
        degrees = np.array([draws.scalars[DEGREES][: self.num_draws] for draws in chains])
        if not are_degrees(degrees):
            raise PackedError("the draws' degrees of freedom are not among those that noise may have")
        return degrees

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; None for numbers and counts."""
        return self.header.schema.target.levels or None

    @property
    def reference(self) -> Coded:
        """Up to 200 training rows, evenly spaced, at which the chains are compared."""
        header = self.header
        known = ChainMap(*(facts.at_reference() for facts in header.parts.values()))
        return Coded(header.reference, [], values=header.reference_values, **known)

    @property
    def reference_outcomes(self) -> tuple[Coded, NDArray[np.float64], NDArray[np.float64] | None] | None:
        """Reference rows, with their outcomes (between limits, if there are such) and weights, float64 [row].

        None of models made before outcomes were kept.
        """
        kept = dict(self.header.reference_outcomes)
        if not kept or self._roles_not_kept:
            return None
        y, weights, coded = kept.pop(OUTCOME), kept.pop("weights", None), self.reference
        limits = [kept.pop(name) for name in LIMITS if name in kept]
        by_role = coded.by_role | kept
        return replace(coded, by_role=by_role, limits=np.array(limits) if limits else None), y, weights

    @property
    def _roles_not_kept(self) -> list[str]:
        """Roles that the rows of the fit had, of which the file says nothing: it is of an old version."""
        return [role for role in self.header.beside if role not in {ROLE, *self.header.reference_outcomes}]

    def default_rows(self) -> Coded:
        """Return the reference rows with all that the columns with a role said of them.

        Raises SettingsError for a model that was stored before this was kept.
        """
        header, reference = self.header, self.reference
        for role in self._roles_not_kept:
            raise SettingsError(
                f"the model's file is of a version that did not keep the {COLUMN_ROLES[role].noun} of its "
                f"rows: give rows with the column {header.beside[role]}, or fit again",
                field=None,
                code="unavailable",
            )
        known = {role: header.reference_outcomes[role] for role in header.beside if role != ROLE}
        return replace(reference, by_role=reference.by_role | known)

    def encode(
        self,
        X: Any,
        *,
        ignore_extra: bool = False,
        subgroups: Sequence[Subgroup] | None = None,
        beside: Collection[str] = (),
    ) -> Coded:
        """Encode the rows of a table by column name, with those that have a role; see `Posterior.encode`.

        `subgroups` are those to note of each row, by default the model's; `beside` are further columns that
        are read elsewhere.
        """
        header = self.header
        if header.panel is not None:
            X = header.panel.of_rows(read_rows(X))
        if subgroups is None:
            subgroups = header.subgroups
        by = columns_of(subgroups) if subgroups else ()
        known = [] if header.calibration is None else header.calibration.new_rows.columns
        if by and type(X) is not dict and not is_array(X):
            X = read_rows(X).reading_once(by)
        coded = encode(
            X,
            header.schema,
            header.grid,
            keep_values=header.needs_values,
            ignore_extra=ignore_extra,
            beside={*header.beside.values(), *beside, *by, *known, *self.of_others} - {*header.schema.kinds},
        )
        if not header.beside and not subgroups:
            return coded
        table = read_rows(X)
        if by and {*by} <= {*table.names}:
            coded = replace(coded, subgroups=bits_of(subgroups, table))
        if not header.beside:
            return coded
        columns = {role: table.column(name) for role, name in header.beside.items() if name in table.names}
        warnings = [*coded.warnings, *absent_roles(header.beside, table.names)]
        by_role = read_roles(columns, table.num_rows, header.arms)
        if ROLE in by_role and header.effects is not None and header.effects.dose is not None:
            warnings += header.effects.dose.warnings(header.beside[ROLE], by_role[ROLE])
        return replace(coded, warnings=warnings, by_role=by_role)

    def coded(self, X: Any) -> Coded:
        """Return rows that are encoded already as they are, and others encoded."""
        return X if isinstance(X, Coded) else self.encode(X)

    def coded_to_average(self, X: Any) -> Coded:
        """Encode rows over which an answer is averaged; None takes `default_rows`.

        Raises DataError as `encode`, and for rows without a column beside the features that the model has.
        """
        if X is None:
            return self.default_rows()
        coded = self.coded(X)
        named = self.header.beside.items()
        absent = [missing_role(role, name) for role, name in named if role not in coded.by_role]
        if absent:
            raise DataError(absent)
        return coded

    def chains(self) -> list[Draws]:
        """Decode the draws of each chain that has any; chains may differ in length."""
        return [draws for draws in self.drawn() if draws is not None and draws.num_draws]

    def drawn(self) -> list[Draws | None]:
        """Decode the draws of every chain that was started; None for one without draws."""
        return [concatenate([unpack(block) for block in chain]) if chain else None for chain in self.blocks]

    def choose(self, num_draws: int | None) -> tuple[NDArray[np.int64], int]:
        """Choose the first draws of each chain (None: all) by their numbers; return also how many of each.

        Raises
        ------
        SettingsError
            For a number that is out of range.

        """
        used = self.num_draws if num_draws is None else num_draws
        whole = isinstance(used, int | np.integer) and not isinstance(used, bool)
        if not whole or not 1 <= used <= self.num_draws:
            raise SettingsError(
                f"num_draws must be from 1 to {self.num_draws}, not {num_draws!r}",
                field="num_draws",
                code="out_of_range",
            )
        return (self._starts[:, None] + np.arange(used)).reshape(-1), int(used)

    def places(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find chain and number of the chosen draws."""
        chain = np.searchsorted(self._starts, chosen, side="right") - 1
        return chain, chosen - self._starts[chain]
