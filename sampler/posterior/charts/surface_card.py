"""Sections of the card of a model about its surface over two coordinates."""

from __future__ import annotations

import numpy as np

from sampler.posterior.parts.spatial import SurfaceDraws
from sampler.posterior.posterior import Posterior
from sampler.posterior.results.card_document import CardTable, Section

FIGURES = ("Standard deviation", "Range of its correlation")


def sections(posterior: Posterior) -> list[Section]:
    """Tabulate its standard deviation and range with intervals; no section of a model without one."""
    part = posterior.law.part(SurfaceDraws)
    if part is None:
        return []
    one, other = part.surface.columns
    drawn = part.figures * np.array([1.0, part.surface.unit])
    rows = [
        (name, *(f"{value:.3g}" for value in (own.mean(), *np.quantile(own, (0.05, 0.95)))))
        for name, own in zip(FIGURES, drawn.T, strict=True)
    ]
    sentence = f"A smooth surface over {one} and {other} stands beside the trees; its range is in their unit."
    return [Section("Surface", [sentence], [CardTable(("Figure", "Mean", "5%", "95%"), rows)])]
