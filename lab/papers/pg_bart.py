"""Lakshminarayanan, Roy and Teh (2015): particle Gibbs beside local moves, for one tree and for sums."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab import hypercube, particle_sums
from lab.papers.cgm10_fits import DARK, RED
from lab.papers.judges import Order, Seen
from lab.papers.study import Claim, Figures, Parts, Study

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path("build/pg-bart")
_STAND_IN = "simulated stand-ins for the paper's tables, whose training sets differ up to sixfold"
MOVES = ("cgm", "growprune", "pg")
SHADES = {"cgm": "#566169", "growprune": RED, "pg": DARK}


# tables 1 and 2


def _run_hypercube(parts: Parts, count: int) -> Figures:
    figures: Figures = {}
    for dimension in hypercube.BETA:
        for moves in MOVES:
            runs = [
                parts(
                    f"D = {dimension}, {moves}, {seed}",
                    partial(hypercube.one, dimension, seed, {"moves": moves}),
                )
                for seed in range(1, count + 1)
            ]
            figures[f"{dimension} {moves}"] = np.median(runs, axis=0)
    return figures


def _ess(dimension: int, figures: Figures) -> Seen:
    values = {moves: figures[f"{dimension} {moves}"][0] for moves in MOVES}
    ours = ", ".join(f"{value:.4g}" for value in values.values())
    return Seen(ours, values, why=_stuck(dimension, figures))


def _stuck(dimension: int, figures: Figures) -> str:
    """Say what the chains' ends are like: a stuck chain has a large ESS of the likelihood."""
    likelihood = {moves: figures[f"{dimension} {moves}"][2] for moves in MOVES}
    return "final log-likelihoods " + ", ".join(f"{value:.0f}" for value in likelihood.values())


def _rate(dimension: int, figures: Figures) -> Seen:
    rates = {m: figures[f"{dimension} {m}"][0] * figures[f"{dimension} {m}"][1] / 1000 for m in MOVES}
    ours = ", ".join(f"{value:,.4g}" for value in rates.values())
    return Seen(ours, rates, unless="a particle update costs two to three local ones here")


# figures 3 to 5


def _traces(dimension: int, moves: str, seed: int = 1) -> Figures:
    """Return log-likelihood, leaves, and errors at training and test rows, every 20 of 2,000 iterations."""
    X, y, X_new, y_new = hypercube.hypercube(dimension, seed)
    problem, chain = hypercube.chain_of(X, y, dimension, seed, num_burnin=1000, moves=moves)
    codes = np.stack([problem.grid.encode(j, X_new[:, j]) for j in range(dimension)])
    path = []
    for _ in range(100):
        chain.run(20)
        likelihood, leaves, _ = hypercube.look(chain)
        old = np.mean((chain.residual() * chain.training.constants.step) ** 2)
        new = np.mean((hypercube.predicted(chain, codes) - y_new) ** 2)
        path.append([float(likelihood), int(leaves), float(old), float(new)])
    chain.take()
    return dict(zip(("likelihood", "leaves", "old", "new"), zip(*path, strict=True), strict=True))


def _run_traces(dimension: int, parts: Parts, count: int) -> Figures:
    paths = {
        moves: [
            parts(f"{moves}, {seed}", partial(_traces, dimension, moves, seed))
            for seed in range(1, count + 1)
        ]
        for moves in MOVES
    }
    ends = {
        moves: {name: float(np.median([np.mean(run[name][50:]) for run in runs])) for name in runs[0]}
        for moves, runs in paths.items()
    }
    return {"ends": ends, "first": {moves: runs[0] for moves, runs in paths.items()}}


def _ends(name: str, figures: Figures, digits: int = 2) -> str:
    return ", ".join(f"{moves} {each[name]:.{digits}g}" for moves, each in figures["ends"].items())


def _best_test(figures: Figures) -> Seen:
    ends = {moves: each["new"] for moves, each in figures["ends"].items()}
    unless = "ten particles seldom replace a tree once the noise is small: the chain is stuck"
    return Seen(_ends("new", figures), ends, unless=unless)


def _leaves(dimension: int, figures: Figures) -> Seen:
    truth = 2**dimension
    off = {moves: abs(each["leaves"] - truth) for moves, each in figures["ends"].items()}
    ours = _ends("leaves", figures, 3) + f"; the truth {truth}"
    others = min(off["cgm"], off["growprune"])
    unless = "nearest, but it is stuck in trees that are too small" if off["pg"] < others else ""
    return Seen(ours, [(off["pg"], others), (off["pg"] / truth, 0.1)], unless=unless)


def _too_many(dimension: int, figures: Figures) -> Seen:
    leaves = figures["ends"]["growprune"]["leaves"]
    ours = f"{leaves:.0f} of {2**dimension}"
    return Seen(ours, [(1.2 * 2**dimension, leaves)], unless="median of the data sets")


def _fits_training(figures: Figures) -> Seen:
    return Seen(_ends("old", figures), {moves: each["old"] for moves, each in figures["ends"].items()})


def _draw_traces(figures: Figures, figure: Any) -> None:
    titles = {"likelihood": "log-likelihood", "leaves": "leaves", "old": "training MSE", "new": "test MSE"}
    every = figure.subplots(1, 4)
    for axes, (name, title) in zip(every, titles.items(), strict=True):
        for moves, path in figures["first"].items():
            axes.plot(np.arange(1, 101) * 20, path[name], color=SHADES[moves], lw=0.8, label=moves)
        if name in {"old", "new"}:
            axes.set_yscale("log")
        axes.set_title(title)
        axes.set_xlabel("iteration")
    every[0].legend(frameon=False, fontsize=7)


def _trace_study(number: int, dimension: int, see: str, claims: tuple[Claim, ...]) -> Study:
    return Study(
        f"pg-bart-fig{number}",
        "pg-bart",
        f"Figure {number}: traces on Hypercube-{dimension}",
        claims,
        "One tree, 2,000 iterations; medians over data sets of means of the second half.",
        partial(_run_traces, dimension),
        count=5,
        of=1,
        draw=_draw_traces,
        see=see,
        size=(6.6, 2.1),
    )


# tables 3 to 5


def _simulated(table: str, seed: int, moves: str) -> list[float]:
    return particle_sums.one(particle_sums.simulated(table, seed), seed, moves, 2000)


def _read(table: str, seed: int, moves: str) -> list[float]:
    return particle_sums.one(particle_sums.read_rows(FOLDER, table, seed), seed, moves, 2000)


def _run_sums(of: Callable[..., list[float]], parts: Parts, count: int) -> Figures:
    figures: Figures = {}
    for table, (file, _) in particle_sums.FILES.items():
        if of is _read and not (FOLDER / file).exists():
            continue
        for moves in MOVES:
            runs = [
                parts(f"{table}, {moves}, {seed}", partial(of, table, seed, moves))
                for seed in range(1, count + 1)
            ]
            figures[f"{table} {moves}"] = np.mean(runs, axis=0)
    return figures


def _sum_ess(table: str, which: int, figures: Figures, why: str = _STAND_IN) -> Seen | str:
    if f"{table} pg" not in figures:
        return f"needs {particle_sums.FILES[table][0]} in {FOLDER}, which no registry has"
    values = {moves: figures[f"{table} {moves}"][which] for moves in MOVES}
    ours = ", ".join(f"{value:,.3g}" for value in values.values())
    return Seen(ours, values, unless=(why, "our local moves cost far less")[which])


def _alike(which: int, figures: Figures) -> Seen | str:
    if not figures:
        return f"needs the tables in {FOLDER}"
    by_table = {
        table: [figures[f"{table} {moves}"][which] for moves in MOVES]
        for table in particle_sums.FILES
        if f"{table} pg" in figures
    }
    ours = "; ".join(
        f"{table} {', '.join(f'{each:.3g}' for each in values)}" for table, values in by_table.items()
    )
    ratios = [max(values) / min(values) for values in by_table.values()]
    unless = "after 2,000 iterations they differ here, which is no end"
    return Seen(ours, [(ratio, 1.15) for ratio in ratios], unless=unless)


def _by_moves(values: tuple[float, ...]) -> dict[str, float]:
    """Return the paper's numbers of GrowPrune, CGM and PG by our moves, in our order."""
    grow, cgm, particles = values
    return {"cgm": cgm, "growprune": grow, "pg": particles}


def _named(values: tuple[float, ...]) -> dict[str, float]:
    """Return numbers of CGM, GrowPrune and PG by our moves."""
    return dict(zip(MOVES, values, strict=True))


def _listed(values: tuple[float, ...]) -> str:
    return ", ".join(f"{each:g}" for each in values)


def _sum_claims(why: str) -> tuple[Claim, ...]:
    """Return the claims of tables 4 and 5; `why` says the reason where effective samples differ."""
    names = ("ESS of CGM, GrowPrune, PG", "1,000 times ESS a second")
    rows = [(k, t, _by_moves(both[k])) for k in (0, 1) for t, both in particle_sums.PAPER.items()]
    return (
        *(
            Claim(
                f"{names[k]}, {t}",
                _listed(tuple(values.values())),
                partial(_sum_ess, t, k, why=why),
                Order.of(values),
            )
            for k, t, values in rows
        ),
        Claim("all three have very similar errors (RMSE / sd(y))", "very similar", partial(_alike, 4)),
        Claim("leaves a tree are few and similar", "very similar", partial(_alike, 3)),
    )


PG_LEAST = Order((("pg",), ("cgm", "growprune")), rising=True)
STUDIES = (
    _trace_study(
        3,
        4,
        "The particle chain (dark) settles at once, in a tree that explains less: its likelihood is lower "
        "and its errors are higher than those of local moves.",
        (
            Claim("PG converges much faster: least test error", "PG", _best_test, PG_LEAST),
            Claim("PG has the right number of leaves", "PG", partial(_leaves, 4)),
            Claim("GrowPrune overestimates the leaves", "shown", partial(_too_many, 4)),
            Claim(
                "GrowPrune has the lowest training error",
                "shown",
                _fits_training,
                Order((("growprune",), ("cgm", "pg")), rising=True),
            ),
        ),
    ),
    _trace_study(
        4,
        2,
        "With four leaves all three samplers end near each other.",
        (Claim("GrowPrune overestimates the leaves", "shown", partial(_too_many, 2)),),
    ),
    _trace_study(
        5,
        3,
        "With eight leaves local moves have the lower errors at new rows in the end.",
        (
            Claim("PG has the least test error", "shown", _best_test, PG_LEAST),
            Claim("GrowPrune overestimates the leaves", "shown", partial(_too_many, 3)),
        ),
    ),
    Study(
        "pg-bart-table1",
        "pg-bart",
        "Tables 1 and 2: effective samples on Hypercube-D",
        (
            *(
                Claim(f"{name}, D = {d}", _listed(both[k]), partial(look, d), Order.of(_named(both[k])))
                for k, (name, look) in enumerate(
                    (("ESS of CGM, GrowPrune, PG", _ess), ("ESS a second", _rate))
                )
                for d, both in hypercube.PAPER.items()
            ),
        ),
        "2,000 iterations of one tree, the first half discarded; medians. The order is "
        "judged; seconds are of other machines.",
        _run_hypercube,
        count=3,
        of=1,
    ),
    Study(
        "pg-bart-tables3to5",
        "pg-bart",
        "Tables 3 to 5: sums of 200 trees on tables of the real ones' sizes",
        _sum_claims(_STAND_IN),
        "Simulated tables of table 3's sizes (2,000 rows of 6, 90 and 384 columns); means over training "
        "sets. The paper's own tables are in no registry.",
        partial(_run_sums, _simulated),
        count=3,
        of=3,
        unit="training set",
    ),
    Study(
        "pg-bart-real",
        "pg-bart",
        "Tables 4 and 5 on the paper's own tables",
        _sum_claims("the three training sets differ, and 2,000 iterations are no end"),
        "Read from build/pg-bart, as `lab/particle_sums.py` says: 2,000 random training rows, means "
        "over training sets; the houses without their place, which leaves the paper's six columns.",
        partial(_run_sums, _read),
        count=3,
        of=3,
        unit="training set",
        long=True,
    ),
)
