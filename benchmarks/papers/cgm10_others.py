"""Intervals far from the data, and parts of Chipman, George and McCulloch (2010) without a study here yet."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.papers.cgm10_fits import paper_fit
from benchmarks.papers.study import Answer, Claim, Figures, Parts, Study, judged


def _absent(name: str, item: str, *claims: tuple[str, str, str]) -> Study:
    return Study(f"cgm10-{name}", "cgm10", item, tuple(Claim(t, p, why=why) for t, p, why in claims))


# where the rows of the study of distances are, and where widths are looked at
BESIDE, GAP, EDGE, BEYOND = (0.1, 0.25, 0.75, 0.9), (0.45, 0.5, 0.55), (1.1,), (2.0,)


def _widths(seed: int) -> list[float]:
    """Return mean widths of 90% intervals of f beside the data, in a gap of a third, beyond the edge, far."""
    rng = np.random.default_rng([11, seed])
    x = rng.uniform(0, 2 / 3, 200)
    x[x > 1 / 3] += 1 / 3
    y = np.sin(2 * np.pi * x) + 0.2 * rng.normal(size=200)
    posterior = paper_fit(x[:, None], y, seed, num_draws=2000)
    found = []
    for points in (BESIDE, GAP, EDGE, BEYOND):
        low, high = np.quantile(posterior.sample(np.array(points)[:, None])[0], [0.05, 0.95], axis=0)
        found.append(float(np.mean(high - low)))
    return found


def _run_distance(parts: Parts, count: int) -> Figures:
    runs = [parts(f"widths {seed}", partial(_widths, seed)) for seed in range(1, count + 1)]
    return {"widths": np.mean(runs, axis=0)}


def _in_gap(figures: Figures) -> Answer:
    beside, gap, _, _ = figures["widths"]
    return judged(f"mean width {gap:.2f} in the gap, {beside:.2f} beside rows", gap > beside)


def _beyond(figures: Figures) -> Answer:
    beside, _, edge, far = figures["widths"]
    ours = f"mean width {edge:.2f} at .1 beyond the edge, {far:.2f} at 1.0, {beside:.2f} beside rows"
    why = "of any sum of trees: beyond the last rule nothing changes; such rows are flagged `outside_range`"
    return judged(ours, far > 1.05 * edge, why)


STUDIES = (
    Study(
        "cgm10-distance",
        "cgm10",
        "Section 3.2: intervals far from the data",
        (
            Claim("intervals widen in a gap between rows", "stated", _in_gap),
            Claim("and with the distance beyond the edge", "stated: far from the data", _beyond),
        ),
        "200 rows of one column of [0, 1] without its middle third, a sine with noise of .2, the default.",
        _run_distance,
        count=5,
        small=2,
    ),
    _absent(
        "section3",
        "Sections 3 and 7: statements",
        (
            "mixing is not an issue: one long chain does",
            "stated",
            "looked into, and contradicted on tables with little noise, in [mixing](mixing.md)",
        ),
        (
            "linear terms and random effects beside the trees (28)",
            "stated",
            "in the library (`linear`, `groups`, `slopes`) and [verified](verification.md); no number there",
        ),
        (
            "several outcomes at once (29)",
            "stated",
            "in the library ([mathematics](maths.md#several-outcomes)); no number there",
        ),
        ("a spatial component (SBART)", "stated", "none here"),
    ),
)
