"""Draws of a linear part beside the trees (docs/maths.md#linear-part)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.data.encode import Coded
from sampler.data.linear_terms import LinearTerms, slope_names
from sampler.data.schema import Schema
from sampler.errors import PackedError
from sampler.posterior.kernels.moments import add_lines
from sampler.posterior.parts.part import LawPart
from sampler.posterior.protocol import Document
from sampler.storage.draws import Draws

LINE, TERM = 150, 5  # work of it, and of each of its terms; see `LawPart.work`
LARGEST = 1e150  # largest slope, in units of y: its square is still finite


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Slope(Document):
    """Slope of one term of a linear part, on the column's own scale."""

    of_class: Annotated[
        str | None,
        "Of classes, the class whose log odds it is of, relative to the mean of all classes.",
    ] = None
    feature: str
    level: Annotated[str | None, "The level that the term is for; null but for categories."]
    missing: Annotated[bool, "Whether the term is for missing values."]
    mean: float
    sd: float
    lower: float
    upper: float
    scale: Annotated[str, "Scale of the slope, in words: the target's, or its transform's."]


class LinearDistance(NamedTuple):
    """Distance of rows from background rows in the terms of a linear part.

    `columns` are the terms' coded columns; `slopes` float64 [draw, term]; `apart` float64 [term, row], the
    terms less their mean over the background rows; `base` float64 [draw], the linear part at that mean.
    """

    columns: tuple[int, ...]
    slopes: Floats
    apart: Floats
    base: Floats


class Slopes(LawPart):
    """Slopes of all draws, one chain after the other, and the terms that they belong to.

    They are scalars of the draws, unless `values` has them, float64 [draw, term].
    """

    def __init__(self, terms: LinearTerms, chains: Sequence[Draws], values: Floats | None = None) -> None:
        self.terms = terms
        self.work = LINE + TERM * len(terms.column)
        if values is not None:
            self.values = values
            return
        names = slope_names(len(terms.column))
        if not all(name in draws.scalars for draws in chains for name in names):
            raise PackedError("the draws don't have the slopes of the model's linear part")
        self.values = np.concatenate(
            [np.stack([draws.scalars[name] for name in names], axis=1) for draws in chains]
        )
        if not np.max(np.abs(self.values)) < LARGEST:
            raise PackedError("the draws of slopes are out of range")

    @cached_property
    def largest(self) -> float:
        """The largest possible linear part of a draw, in size: rows are held within the training range."""
        ends = np.array([self.terms.low, self.terms.high])
        reach = np.abs((ends - self.terms.mean) / self.terms.scale).max(axis=0)
        for k, other in enumerate(self.terms.times):
            reach[k] *= reach[other] if other >= 0 else 1.0
        return float((np.abs(self.values) @ reach).max())

    def add_to(self, f: Floats, coded: Coded, chosen: NDArray[np.int64]) -> None:
        """Add the linear part to draws of f [draw, row]; a row's sum doesn't depend on the other rows."""
        add_lines(f, np.ascontiguousarray(self.values[chosen]), self.terms_of(coded))

    def terms_of(self, coded: Coded) -> Floats:
        """Compute the terms of rows, float64 [term, row]."""
        assert coded.values is not None, "rows of a model with a linear part keep their values"
        return self.terms.of(coded.values)

    def apart(self, coded: Coded, background: Coded, chosen: NDArray[np.int64]) -> LinearDistance:
        """Compute how far rows are from the mean of background rows, term by term."""
        assert coded.values is not None, "rows of a model with a linear part keep their values"
        assert background.values is not None, "rows of a model with a linear part keep their values"
        slopes, mean = self.values[chosen], self.terms.of(background.values).mean(axis=1)
        apart = self.terms.of(coded.values) - mean[:, None]
        return LinearDistance(self.terms.column, slopes, apart, slopes @ mean)

    def summary(
        self,
        schema: Schema,
        chosen: NDArray[np.int64],
        level: float,
        scale: str,
        of_class: str | None = None,
    ) -> list[Slope]:
        """Summarise the slopes on the columns' own scale; `scale` says in words what f is."""
        scales, times = np.array(self.terms.scale), self.terms.times
        scales *= [scales[k] if k >= 0 else 1.0 for k in times] if times else 1.0
        slopes = self.values[chosen] / scales
        tails = (1 - level) / 2, (1 + level) / 2
        lower, upper = np.quantile(slopes, tails, axis=0)
        terms = []
        for k, (position, missing) in enumerate(zip(self.terms.column, self.terms.missing, strict=True)):
            column, name = schema.coded[position]
            feature = schema.columns[column].name
            if times and times[k] >= 0:
                feature += f" times {schema.columns[schema.coded[self.terms.column[times[k]]][0]].name}"
            terms.append(
                Slope(
                    of_class=of_class,
                    feature=feature,
                    level=name,
                    missing=missing,
                    mean=float(slopes[:, k].mean()),
                    sd=float(slopes[:, k].std(ddof=1)) if len(slopes) > 1 else 0.0,
                    lower=float(lower[k]),
                    upper=float(upper[k]),
                    scale=scale,
                )
            )
        return terms
