"""Scores and convergence as dicts that are tables too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from sampler.posterior.protocol import Document
from sampler.posterior.results.answer import draw, to_pandas
from sampler.posterior.results.columns import percent
from sampler.posterior.results.diagnosis import Defined, Limits, ScalarGrowth


class Scores(dict[str, Any]):
    """Scores by name; `to_pandas` arranges them as a table, notebooks show one, and `repr` is in words."""

    def _repr_html_(self) -> str:
        html: str = draw("cards:scores_card", self)
        return html

    def __repr__(self) -> str:
        text: str = draw("cards:scores_text", self)
        return text

    def to_pandas(self) -> Any:
        """Return a data frame with the columns score, value, lower and upper (the ends for coverages)."""
        rows: list[tuple[str, float, float | None, float | None]] = []
        for name, value in self.items():
            if name == "pinball":
                rows += [(f"pinball_{percent(each['q'])}", each["loss"], None, None) for each in value]
            elif name == "coverage":
                rows += [
                    (f"coverage_{percent(each['level'])}", each["coverage"], each["lower"], each["upper"])
                    for each in value
                ]
            elif isinstance(value, Mapping) and "value" in value:
                rows.append((name, value["value"], value["lower"], value["upper"]))
            elif isinstance(value, int | float):
                rows.append((name, value, None, None))
        names = ("score", "value", "lower", "upper")
        parts = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        ends = {name: np.array(parts[name], np.float64) for name in names[1:]}
        return to_pandas({"score": parts["score"], **ends})


@dataclass(frozen=True, eq=False, repr=False)
class RowsGrowth(Document):
    """Diagnostics of f at some reference rows: medians over rows, and the 95% quantile of R-hat."""

    rows: int
    rhat: Defined = field(default_factory=list)
    rhat_p95: Defined = field(default_factory=list)
    ess_bulk: Defined = field(default_factory=list)
    ess_tail: Defined = field(default_factory=list)


@dataclass(frozen=True, eq=False, repr=False)
class Convergence(Document):
    """R-hat and effective sample size by number of draws."""

    chains: int
    draws: Annotated[list[int], "Numbers of kept draws per chain, up to 12 values from 8 draws on."]
    sigma: Annotated[ScalarGrowth | None, "Null for classes."]
    log_likelihood: Annotated[
        ScalarGrowth | None,
        "Of the reference rows' outcomes; null for models made before these were kept.",
    ]
    f: RowsGrowth
    limits: Annotated[dict[str, Limits], "Limits by verdict."]

    def __repr__(self) -> str:
        text: str = draw("cards:answer_text", self)
        return text

    def to_pandas(self) -> Any:
        """Return a data frame with one row per number of draws: ``f_rhat``, ``sigma_ess_bulk`` and so on."""
        return to_pandas(self.columns())

    def columns(self) -> dict[str, Any]:
        """Arrange it by name with one row per number of draws."""
        named: dict[str, Any] = {"draws": self["draws"]}
        for whose in ("f", "sigma", "log_likelihood"):
            figures = self.get(whose) or {}
            named |= {
                f"{whose}_{name}": np.array(values, np.float64)
                for name, values in figures.items()
                if isinstance(values, list)
            }
        return named
