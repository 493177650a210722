"""Words that laws and what is above them share: losses, games, documents, distributions of outcomes."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, ClassVar, Literal, Protocol

from sampler.array_types import Floats

Loss = Literal["rmse", "log_loss"]
ExactSums = Literal["normal", "poisson"]
GameKind = Literal["interventional", "path-dependent"]


class OutcomeLaw(Protocol):
    """Posterior predictive distribution of the outcomes of rows.

    `has_masses` tells whether single values have a probability.
    """

    has_masses: ClassVar[bool]

    def log_density(self, y: Floats) -> Floats:
        """Compute the log density, or log probability, of an outcome of each row."""

    def below(self, y: Floats, shares: Floats | None = None) -> Floats:
        """Compute the probability of at most y at each row; randomised where outcomes are whole numbers.

        `shares` [row] are uniform draws to randomise by; None: the same at every call.
        """

    def crps(self, y: Floats) -> Floats:
        """Compute the continuous ranked probability score of each row's outcome, in its units."""

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Compute the ends of each row's equal-tailed interval."""

    def quantile(self, q: float) -> Floats:
        """Compute each row's q-quantile."""

    def held(self, level: float) -> Floats:
        """Compute the probability of each row's interval: the level, or more where values have one."""


class Document(dict[str, Any]):
    """A dataclass of plain values that is the dict of them too, by name, and with it their JSON.

    A field that is its default, such as None, has no entry.
    """

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            usual = each.default if each.default_factory is MISSING else each.default_factory()
            if usual is MISSING or value != usual:
                self[each.name] = value

    __repr__ = dict.__repr__
