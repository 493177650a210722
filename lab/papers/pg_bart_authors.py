"""Lakshminarayanan, Roy and Teh (2015): their code beside ours, one tree, on their data sets."""

from __future__ import annotations

import os
import pickle
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab import hypercube
from lab.papers.judges import Seen
from lab.papers.study import AuthorsCode, Claim, Figures, Parts, Study

CODE = (
    "clone github.com/balajiln/pgbart (MIT license) into a folder of yours and name it; it is Python 2, so "
    "name an interpreter of that version with NumPy and SciPy (1.16 and 1.2 are the last ones)"
)
DIMENSION, SHORT, LONG = 4, 100, 2_000  # iterations
LONG_RUNS = 3  # data sets of them
MOVES = ("pg", "cgm")
WITHIN = 0.15  # of each other, medians over data sets
FIGURES = ("mse", "leaves", "sigma")
LIKELIHOOD, LEAVES, ERROR, PRECISION = 0, 4, 7, 8  # columns of their statistics


def theirs(code: AuthorsCode, seed: int, moves: str, iterations: int) -> dict[str, Any]:
    """Run their code on a data set that it simulates itself; return what that process stored."""
    given = {
        "dataset": f"toy-hypercube-{DIMENSION}",
        "mcmc_type": moves,
        "m_bart": 1,
        "alpha_split": 0.95,
        "beta_split": hypercube.BETA[DIMENSION],
        "k_bart": 2.0,
        "n_iterations": iterations,
        "n_run_avg": iterations,
        "init_id": seed,
        "save": 1,
        "verbose": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        named = (f"--{name}={value}" for name, value in (given | {"op_dir": folder}).items())
        subprocess.run(
            [str(code.python), "bart.py", *named],
            cwd=code.folder / "src",
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
            check=True,
            capture_output=True,
        )
        (file,) = (each for each in Path(folder).glob("*.p") if "tree_predictions" not in each.name)
        with file.open("rb") as stored:
            found: dict[str, Any] = pickle.load(stored, encoding="latin1")
    return found


def path_of_theirs(stored: dict[str, Any]) -> dict[str, list[float]]:
    """Return their log-likelihood, training MSE, leaves and sigma by iteration."""
    stats = np.asarray(stored["mcmc_stats_bart"])
    return {
        "likelihood": stats[:, LIKELIHOOD].tolist(),
        "mse": stats[:, ERROR].tolist(),
        "leaves": stats[:, LEAVES].tolist(),
        "sigma": (1 / np.sqrt(stats[:, PRECISION])).tolist(),
    }


def path_of_ours(X: Any, y: Any, seed: int, moves: str, iterations: int) -> dict[str, list[float]]:
    """Run our chain on the same rows; return the same."""
    _, chain = hypercube.chain_of(X, y, DIMENSION, seed, moves=moves)
    path: dict[str, list[float]] = {name: [] for name in ("likelihood", *FIGURES)}
    for _ in range(iterations):
        chain.run(1)
        likelihood, leaves, _ = hypercube.look(chain)
        error = float(np.mean((chain.residual() * chain.training.constants.step) ** 2))
        for name, value in zip(path, (float(likelihood), error, float(leaves), chain.sigma), strict=True):
            path[name].append(value)
        chain.take()
    return path


def both(code: AuthorsCode | None, seed: int, moves: str, iterations: int) -> dict[str, list[float]]:
    """Return the last state's figures, and of the second half ESS and the mean MSE, of both codes."""
    assert code is not None, "the study is run with the authors' code"
    stored = theirs(code, seed, moves, iterations)
    X, y = stored["data"]["x_train"], stored["data"]["y_train"]
    paths = path_of_theirs(stored), path_of_ours(X, y, seed, moves, iterations)
    half = iterations // 2
    return {
        who: [
            *(path[name][-1] for name in FIGURES),
            hypercube.coda_ess(path["likelihood"][half:]),
            float(np.mean(path["mse"][half:])),
        ]
        for who, path in zip(("theirs", "ours"), paths, strict=True)
    }


def _run(parts: Parts, count: int) -> Figures:
    found: Figures = {}
    for name, iterations, runs in (("short", SHORT, count), ("long", LONG, min(count, LONG_RUNS))):
        for moves in MOVES:
            own = [
                parts(f"{name} {moves} {seed}", partial(both, parts.code, seed, moves, iterations))
                for seed in range(1, runs + 1)
            ]
            for who in ("theirs", "ours"):
                found[f"{name} {moves} {who}"] = [each[who] for each in own]
    return found


def _medians(key: str, figures: Figures) -> dict[str, float]:
    every = np.median(np.array(figures[key]), axis=0)
    return dict(zip((*FIGURES, "ess", "mean"), every.tolist(), strict=True))


def _alike(name: str, figures: Figures) -> Seen:
    place = FIGURES.index(name)
    runs = [np.array(figures[f"short pg {who}"])[:, place] for who in ("ours", "theirs")]
    mine, yours = map(np.median, runs)
    apart = runs[0] - runs[1]
    errors = abs(apart.mean()) / (apart.std(ddof=1) / np.sqrt(len(apart)))
    unless = (
        f"means over the data sets are {runs[0].mean():.3g} and {runs[1].mean():.3g}, {errors:.1f} standard "
        "errors of their difference apart"
    )
    pairs = [(abs(np.log(mine / yours)), np.log1p(WITHIN))]
    return Seen(f"{mine:.3g}; their code {yours:.3g}", pairs, unless=unless)


def _faster(who: str, figures: Figures) -> Seen:
    pg, cgm = (figures[f"short {moves} {who}"] for moves in MOVES)
    lower = sum(one[0] < other[0] for one, other in zip(pg, cgm, strict=True))
    errors = [_medians(f"short {moves} {who}", figures)["mse"] for moves in MOVES]
    ours = f"training MSE {errors[0]:.3g}, local {errors[1]:.3g}; lower on {lower} of {len(pg)}"
    unless = "medians are so, but it is not on most data sets"
    return Seen(ours, [(errors[0], errors[1]), (len(pg) / 2, lower)], unless=unless)


def _stuck(who: str, figures: Figures) -> Seen:
    def every(place: int, digits: int) -> str:
        runs = (figures[f"long {moves} {who}"] for moves in MOVES)
        pg, cgm = (", ".join(f"{run[place]:.{digits}g}" for run in each) for each in runs)
        return f"{pg}; local {cgm}"

    pg, cgm = (_medians(f"long {moves} {who}", figures) for moves in MOVES)
    ours = f"ESS {every(3, 3)}; training MSE {every(4, 2)}"
    return Seen(ours, [(cgm["ess"], pg["ess"]), (cgm["mean"], pg["mean"])])


STUDIES = (
    Study(
        "pg-bart-authors",
        "pg-bart",
        "The authors' code beside ours on Hypercube-4",
        (
            *(
                Claim(
                    f"median {text} of particle Gibbs after {SHORT} iterations: within 15% of their code's",
                    "not in the paper",
                    partial(_alike, name),
                )
                for name, text in (("mse", "training MSE"), ("leaves", "leaves"), ("sigma", "sigma"))
            ),
            Claim(
                f"their particle Gibbs is nearer after {SHORT} iterations than local moves (CGM)",
                "it needs fewer iterations",
                partial(_faster, "theirs"),
            ),
            Claim("and so is ours", "it needs fewer iterations", partial(_faster, "ours")),
            Claim(
                "the ESS of their particle Gibbs is the larger, and its trees the poorer ones",
                "ESS 687, local 14; no errors",
                partial(_stuck, "theirs"),
            ),
            Claim("and so it is with ours", "ESS 687, local 14; no errors", partial(_stuck, "ours")),
        ),
        "Their code simulates the data sets, in a process of its own (its seconds aren't counted); our chain "
        f"runs on the same rows: one tree, alpha .95, beta .4, k 2, ten particles. {LONG_RUNS} of the data "
        f"sets go on to {LONG:,} iterations, the second half of which has the ESS. "
        f"`python -m lab papers pg-bart-authors --code FOLDER --python FILE`: {CODE}.",
        _run,
        count=24,
        of=0,
        long=True,
        code=CODE,
    ),
)
