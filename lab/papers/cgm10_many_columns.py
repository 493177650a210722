"""Section 5.2.2 of Chipman, George and McCulloch (2010): many columns without effect, and pure noise."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lab.papers.cgm10_fits import covered, draw_intervals, draw_sigma, fitted_f, part_of, sigma_of
from lab.papers.judges import Order, Seen
from lab.papers.study import Claim, Figures, Parts, Study

COLUMNS = (20, 100, 1000)
NOISE = (10, 100, 1000)


def _listed(figures: Figures, value: Any) -> tuple[list[float], str]:
    values = [float(value(each)) for each in figures.values()]
    return values, ", ".join(f"p = {p}: {each:.2f}" for p, each in zip(figures, values, strict=True))


def _run_7(parts: Parts, _count: int) -> Figures:
    fits = {str(p): parts(f"fit, p = {p}", partial(fitted_f, 1, p, naive=True)) for p in COLUMNS}
    paths = {str(p): parts(f"sigma, p = {p}", partial(sigma_of, 1, p, naive=True)) for p in (10, *COLUMNS)}
    return {"fits": fits, "sigma": paths, "linear": parts("sigma, line", partial(sigma_of, 1))}


def _old(figures: Figures) -> Seen:
    values, ours = _listed(figures["fits"], lambda fitted: covered(fitted, "old"))
    return Seen(ours, [(0.85, min(values))])


def _new(figures: Figures) -> Seen:
    values, ours = _listed(figures["fits"], lambda fitted: covered(fitted, "new"))
    return Seen(ours, [(0.8, min(values))])


def _slope(fitted: Figures) -> float:
    f, mean, _, _ = part_of(fitted, "new")
    return float(np.polyfit(f, mean, 1)[0])


def _width(fitted: Figures, part: str = "new") -> float:
    _, _, low, high = part_of(fitted, part)
    return float(np.mean(high - low))


def _shrunk(figures: Figures) -> Seen:
    values, ours = _listed(figures["fits"], _slope)
    return Seen(ours, dict(zip(figures["fits"], values, strict=True)))


def _wider(figures: Figures) -> Seen:
    values, ours = _listed(figures["fits"], _width)
    return Seen(ours, dict(zip(figures["fits"], values, strict=True)))


def _crosses(figures: Figures) -> Seen:
    paths = {p: figures["sigma"][str(p)] for p in COLUMNS}
    values, _ = _listed(paths, lambda path: np.count_nonzero(np.diff(np.array(path["path"]) > 1)))
    ours = ", ".join(f"p = {p}: {v:.0f}" for p, v in zip(paths, values, strict=True))
    lows = [path["quantiles"][0] for path in paths.values()]
    quantiles = ", ".join(f"{low:.2f}" for low in lows)
    return Seen(ours, [(3, each) for each in values], unless=f"5% quantiles of sigma are {quantiles}")


def _strays(figures: Figures) -> Seen:
    paths = {p: figures["sigma"][str(p)] for p in COLUMNS}
    values, ours = _listed(paths, lambda path: path["quantiles"][2])
    return Seen(ours, {str(p): value for p, value in zip(paths, values, strict=True)})


def _rises(figures: Figures) -> Seen:
    line, naive = figures["linear"]["quantiles"][1], figures["sigma"]["10"]["quantiles"][1]
    return Seen(
        f"medians {line:.2f} with the line's estimate, {naive:.2f} with the naive one", [(line, naive)]
    )


def _draw_7(figures: Figures, figure: Any) -> None:
    every = figure.subplots(3, 3)
    for row, (p, fitted) in zip(every, figures["fits"].items(), strict=True):
        draw_intervals(fitted, "old", row[0])
        draw_intervals(fitted, "new", row[1])
        draw_sigma(figures["sigma"][p], row[2])
        row[0].set_ylabel(f"p = {p}")
        row[2].axhline(1, color="black", lw=0.7)
        row[2].axhline(figures["sigma"][p]["naive"], color="black", lw=0.7, ls="--")
        row[2].set_ylim(0, 6)
    for axes, title in zip(every[0], ("training rows", "new rows", "sigma"), strict=True):
        axes.set_title(title)
    for axes in every[:2].ravel():
        axes.set_xlabel("")


def _run_noise(parts: Parts, _count: int) -> Figures:
    # the paper has the line's estimate where there are more rows than columns
    return {str(p): parts(f"p = {p}", partial(fitted_f, 1, p, signal=False, naive=p >= 100)) for p in NOISE}


def _far(fitted: Figures, part: str) -> float:
    """Return how far the farthest interval is from 0, in deviations of the noise."""
    _, _, low, high = part_of(fitted, part)
    return float(np.max(np.maximum(np.maximum(low, -high), 0)))


def _no_signal(figures: Figures) -> Seen:
    few = {p: figures[p] for p in ("10", "100")}
    values = [_far(fitted, part) for fitted in few.values() for part in ("old", "new")]
    share = np.mean([covered(fitted, part) for fitted in few.values() for part in ("old", "new")])
    ours = f"{share:.1%} of the intervals hold 0; the farthest is {max(values):.2f} from it"
    return Seen(ours, [(max(values), 0.5)], unless=f"of one data set; by p and rows {_each(values)}")


def _each(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _prior_takes_over(figures: Figures) -> Seen:
    many = figures["1000"]
    far = _far(many, "old")
    unless = f"at p = 100 it is {_far(figures['100'], 'old'):.2f}; one data set of each"
    return Seen(f"the farthest is {far:.2f} from 0", [(0.5, far)], unless=unless)


def _still_covers(figures: Figures) -> Seen:
    many = figures["1000"]
    wide, narrow = _width(many), _width(figures["10"])
    ours = f"{covered(many, 'new'):.0%} hold 0; mean width {wide:.2f} (p = 10: {narrow:.2f})"
    return Seen(
        ours,
        [(0.9, covered(many, "new")), (1.5 * narrow, wide)],
        unless="they are wider than with few columns by less than half; one data set of each",
    )


FALL = Order(tuple((str(p),) for p in COLUMNS))
RISE = Order(FALL.groups[::-1])
STUDIES = (
    Study(
        "cgm10-fig7",
        "cgm10",
        "Figure 7: 20, 100 and 1,000 columns",
        (
            Claim("90% intervals hold f at training rows", "remarkably good for every p", _old),
            Claim("90% intervals hold f at new rows", "at all reliable", _new),
            Claim(
                "estimates at new rows are shrunk more, the more columns (slope on f)", "shown", _shrunk, FALL
            ),
            Claim("intervals at new rows widen (mean width)", "shown", _wider, RISE),
            Claim(
                "sigma repeatedly crosses its true value (crossings, every twelfth draw)", "shown", _crosses
            ),
            Claim("with more columns it strays to larger values (95% quantile)", "shown", _strays, RISE),
            Claim("with the naive estimate sigma of figure 3 rises", "would rise", _rises),
        ),
        "As figure 3, with the naive estimate of sigma.",
        _run_7,
        draw=_draw_7,
        see="Downwards more columns: training rows stay on the line, new ones lean to the mean, and sigma "
        "strays up towards the naive estimate (dashed).",
        size=(6.4, 5.4),
    ),
    Study(
        "cgm10-noise",
        "cgm10",
        "Section 5.2.2: pure noise",
        (
            Claim("p = 10 and 100: all intervals cover 0 or are close to it", "all", _no_signal),
            Claim("p = 1,000: some intervals at training rows are far from 0", "some", _prior_takes_over),
            Claim("p = 1,000: at new rows they tend to cover 0, and are very large", "shown", _still_covers),
        ),
        "f = 0, n = 100; one data set for each p.",
        _run_noise,
    ),
)
