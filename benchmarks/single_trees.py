"""Every method on the data of the DCC-Tree paper (Cochrane et al.), beside the paper's own figures.

`python benchmarks/single_trees.py [--seeds 10] [--methods bcart smc ..] [--data cgm wu iris wine cancer]
[--search default short paper] [--fits new one] [--only 0 1 ..] [--results FILE]`

Table 1: the synthetic CGM and WU data. The paper's figures are the mean squared error to outcomes, whose
noise floor is another on every data set, so what is compared is the excess: the error less that of the true
function on the same rows. First over new data sets, one sampler seed each; then over sampler seeds on one
data set, where the sd is the sampler's own, which is what the paper's is. Table 2: accuracies on
scikit-learn's Iris, Wine, and breast cancer data (the last is the "Diagnostic" set of 569 rows and 30
features, not the "Original" one of the paper, and Raisin isn't there), splits 70/30 (Wine 80/20), anew for
every seed. Everything at each method's defaults, but that soft splits have the paper's prior of topologies
and final sharpness; with `--search paper` dcc-tree searches as long as the paper's too (500 iterations, 16
chains for each topology), with `--search short` less than by default (40 iterations, 4 chains). Seconds are
of one fit, processor time of all its threads; the verdicts are how many of the fits ended converged,
approximate, not_converged.

With `--results` each fit is a line of that file as soon as it ended, and a fit that has a line is not run
again: tables can be made in pieces (`--only` some seeds, `--fits` of one kind), and printed from the file
(`--fits none`). The paper's accuracies are of one split, ours of as many as seeds, so the table tells what
one split of this size is good for: the range over ours, and how many of ours are at or below the paper's.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from sampler import fit
from sampler.compile import warm
from sampler.methods import METHODS
from sampler.summary import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALL = ("bcart", "bcart-mean-variance", "bcart-wu", "smc", "rjhmc-df", "rjhmc-dfi", "dcc-tree", "bart")
KINDS = ("new", "one", "split", "none")  # fits to new data, to one set, to splits; none: print what there is
# the paper's alpha, beta and final sharpness of soft splits; of HMC on WU none was found: those on CGM
SOFT = {
    "rjhmc-df": {
        "cgm": (0.45, 2.5, 0.001),
        "wu": (0.45, 2.5, 0.025),
        "iris": (0.45, 1.0, 0.01),
        "wine": (0.45, 2.0, 0.025),
        "cancer": (0.45, 2.5, 0.025),
    },
    "rjhmc-dfi": {
        "cgm": (0.45, 2.5, 0.001),
        "wu": (0.45, 2.5, 0.025),
        "iris": (0.70, 1.0, 0.01),
        "wine": (0.70, 1.5, 0.025),
        "cancer": (0.95, 2.0, 0.025),
    },
    "dcc-tree": {
        "cgm": (0.95, 1.0, 0.001),
        "wu": (0.95, 1.0, 0.025),
        "iris": (0.95, 1.0, 0.01),
        "wine": (0.95, 1.0, 0.025),
        "cancer": (0.95, 1.0, 0.025),
    },
}
PAPER_SEARCH = {"iterations": 500, "first": 100, "proposals": 5, "most": 100, "chains": 16, "draws": 100}
SHORT_SEARCH = {"iterations": 40, "chains": 4}
PAPER_WARM_UP = {"wu": 2000, "cgm": 5000}  # of others 1000
# (train, test) mean squared error of the paper, with its sd over ten runs on one data set
PAPER_ERRORS = {
    "cgm": {
        "bcart": ((0.043, 1.9e-4), (0.064, 0.014)),
        "bcart-wu": ((0.042, 5.8e-5), (0.062, 0.001)),
        "rjhmc-df": ((0.043, 2.0e-4), (0.041, 4.6e-4)),
        "rjhmc-dfi": ((0.043, 1.9e-4), (0.041, 4.5e-4)),
        "dcc-tree": ((0.043, 5.2e-5), (0.040, 1.4e-4)),
    },
    "wu": {
        "bcart": ((0.059, 2.3e-4), (0.112, 0.034)),
        "bcart-wu": ((0.054, 1.4e-3), (0.073, 0.038)),
        "rjhmc-df": ((0.060, 7.4e-4), (0.059, 2.1e-3)),
        "rjhmc-dfi": ((0.060, 4.4e-4), (0.060, 2.5e-3)),
        "dcc-tree": ((0.058, 3.3e-5), (0.059, 5.3e-4)),
    },
}
# of the true function on the authors' stored rows, train and test
PAPER_FLOOR = {"cgm": (0.0436, 0.0398), "wu": (0.0598, 0.0562)}
# (train, test) accuracy of the paper, each with its sd over ten runs
PAPER_ACCURACIES = {
    "iris": {
        "bcart": ((0.985, 0.007), (0.908, 0.022)),
        "smc": ((0.981, 0.004), (0.909, 0.022)),
        "rjhmc-df": ((0.977, 0.010), (0.906, 0.026)),
        "rjhmc-dfi": ((0.975, 0.009), (0.917, 0.023)),
        "dcc-tree": ((0.981, 0.0), (0.911, 0.0)),
    },
    "wine": {
        "bcart": ((0.957, 0.016), (0.916, 0.046)),
        "smc": ((0.985, 0.011), (0.978, 0.022)),
        "rjhmc-df": ((0.949, 0.021), (0.950, 0.039)),
        "rjhmc-dfi": ((0.952, 0.016), (0.948, 0.022)),
        "dcc-tree": ((0.958, 0.010), (0.958, 0.020)),
    },
    "cancer": {
        "bcart": ((0.983, 0.004), (0.939, 0.014)),
        "bcart-wu": ((0.978, 0.005), (0.922, 0.017)),
        "smc": ((0.987, 0.004), (0.924, 0.010)),
        "rjhmc-df": ((0.973, 0.005), (0.940, 0.010)),
        "rjhmc-dfi": ((0.981, 0.003), (0.952, 0.007)),
        "dcc-tree": ((0.982, 0.001), (0.952, 0.004)),
    },
}


@dataclass(frozen=True)
class Sample:
    """Rows of a synthetic problem: features, outcomes, and the true function."""

    X: Floats
    y: Floats
    f: Floats


def cgm(rng: np.random.Generator) -> Sample:
    """800 rows on a 10 x 10 grid, five leaves, noise of sd .2."""
    X = rng.integers(1, 11, (800, 2)).astype(float)
    a, b = X.T
    low = np.where(a <= 3, 1.0, np.where(a <= 7, 5.0, 8.0))
    f = np.where(b <= 4, low, np.where(a <= 5, 8.0, 2.0))
    return Sample(X, f + 0.2 * rng.normal(size=800), f)


def wu(rng: np.random.Generator) -> Sample:
    """300 rows, three leaves that two trees give alike, noise of sd .25."""
    low, high = (0.1, 0.4), (0.6, 0.9)
    first = np.column_stack(
        [
            rng.uniform(*low, 200),
            np.concatenate([rng.uniform(*low, 100), rng.uniform(*high, 100)]),
            rng.uniform(*high, 200),
        ]
    )
    last = np.column_stack([rng.uniform(*high, 100), rng.uniform(0.1, 0.9, 100), rng.uniform(*low, 100)])
    f = np.repeat([1.0, 3.0, 5.0], 100)
    return Sample(np.concatenate([first, last]), f + 0.25 * rng.normal(size=300), f)


@dataclass(frozen=True)
class Run:
    """One fit: its figures at training and at new rows, the processor seconds it took, its verdict."""

    figures: tuple[float, float]
    seconds: float
    verdict: str


class Results:
    """Fits by what was asked, in memory and, one a line, in a file."""

    def __init__(self, file: Path | None, asked: argparse.Namespace) -> None:
        self._file, self._asked = file, asked
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self._found = {tuple(key): Run(**run) for key, run in map(json.loads, lines)}

    def runs(
        self, kind: str, name: str, method: str, fitted: Callable[[dict[str, Any], int], Run]
    ) -> list[Run]:
        """The fits of one cell, those that are asked for run now unless they are there."""
        options = asked(method, name, self._asked.search)
        search = self._asked.search if method == "dcc-tree" else ""
        found = []
        for seed in self._asked.only or range(self._asked.seeds):
            key = (kind, name, method, search, seed)
            if key not in self._found and kind in self._asked.fits:
                self._found[key] = fitted(options, seed)
                if self._file is not None:
                    with self._file.open("a") as file:
                        file.write(json.dumps([key, asdict(self._found[key])]) + "\n")
            if key in self._found:
                found.append(self._found[key])
        return found


def asked(method: str, name: str, search: str = "default") -> dict[str, Any]:
    """What a method is asked to do on a data set, beside its defaults."""
    if method not in SOFT:
        return {"method": method}
    alpha, beta, sharpness = SOFT[method][name]
    found = {"method": method, "prior": {"alpha": alpha, "beta": beta, "sharpness": sharpness}}
    if search == "short" and method == "dcc-tree":
        return found | {"search": SHORT_SEARCH}
    if search == "paper" and method == "dcc-tree":
        return found | {"search": PAPER_SEARCH, "num_burnin": PAPER_WARM_UP.get(name, 1000)}
    return found


def fitted(X: Floats, y: Any, seed: int, **asked: Any) -> tuple[Any, float]:
    """A posterior with the method's defaults, and the processor seconds it took."""
    began = time.process_time()
    posterior = fit(X, y, seed=seed, progress=False, **asked)
    return posterior, time.process_time() - began


def excess(options: dict[str, Any], train: Sample, test: Sample, seed: int) -> Run:
    """Error less that of the true function, at training and at new rows, in thousandths."""
    posterior, took = fitted(train.X, train.y, seed, **options)
    on_train, on_test = (
        1000
        * float(np.mean((posterior.predict(part.X, level=None).mean - part.y) ** 2 - (part.f - part.y) ** 2))
        for part in (train, test)
    )
    return Run((on_train, on_test), took, posterior.summary().verdict)


def table_1(name: str, methods: list[str], results: Results) -> None:
    """One of the synthetic data sets."""
    make: Callable[[np.random.Generator], Sample] = {"cgm": cgm, "wu": wu}[name]

    def fresh(options: dict[str, Any], seed: int) -> Run:
        rng = np.random.default_rng([7, seed])
        return excess(options, make(rng), make(rng), seed)

    def fixed(options: dict[str, Any], seed: int) -> Run:
        rng = np.random.default_rng(99)
        return excess(options, make(rng), make(rng), seed)

    print(f"\n{name.upper()} data, excess mean squared error x 1000, mean (sd) over fits")
    print(
        f"{'':12}{'new data: train':>17}{'test':>15}{'one set: train':>17}{'test':>15}"
        f"{'paper: train':>15}{'test':>14}{'s':>8}  verdicts     fits"
    )
    for method in methods:
        kinds = [results.runs("new", name, method, fresh), results.runs("one", name, method, fixed)]
        shown = [_figure([run.figures[part] for run in runs]) for runs in kinds for part in (0, 1)]
        known = _paper_errors(name, method)
        print(
            f"{method:12}{shown[0]:>17}{shown[1]:>15}{shown[2]:>17}{shown[3]:>15}"
            f"{known[0]:>15}{known[1]:>14}{_cost([*kinds[0], *kinds[1]])}  {len(kinds[0])} + {len(kinds[1])}",
            flush=True,
        )
    for method in PAPER_ERRORS[name]:
        if method not in methods:
            known = _paper_errors(name, method)
            print(f"{method:12}{'':64}{known[0]:>15}{known[1]:>14}")


def _paper_errors(name: str, method: str) -> tuple[str, str]:
    known = PAPER_ERRORS[name].get(method)
    if known is None:
        return "-", "-"
    train, test = (
        f"{1000 * (mean - floor):.1f} ({1000 * sd:.2f})"
        for (mean, sd), floor in zip(known, PAPER_FLOOR[name], strict=True)
    )
    return train, test


def _figure(values: list[float], digits: int = 2) -> str:
    if not values:
        return "-"
    spread = f"{np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "-"
    return f"{np.mean(values):.{digits}f} ({spread})"


def _cost(runs: list[Run]) -> str:
    verdicts = "/".join(str(sum(run.verdict == name for run in runs)) for name in VERDICTS)
    seconds = f"{np.mean([run.seconds for run in runs]):.1f}" if runs else "-"
    return f"{seconds:>8}  {verdicts:10}"


def table_2(name: str, methods: list[str], results: Results) -> None:
    """One of the real data sets."""
    load, share = {
        "iris": (load_iris, 0.3), "wine": (load_wine, 0.2), "cancer": (load_breast_cancer, 0.3),
    }[name]  # fmt: skip
    data = load()
    held = round(share * len(data.target))
    print(f"\n{name.capitalize()} data, accuracy, mean (sd) over splits and seeds; {held} rows are held out")
    print(
        f"{'':12}{'train':>15}{'test':>15}{'range':>14}{'paper: train':>15}{'test':>15}{'at most that':>14}"
        f"{'s':>8}  verdicts"
    )
    several = len(data.target_names) > 2
    for method in methods:
        if method == "bart" and several:
            print(f"{method:12}takes two classes")
            continue
        if "categorical" not in METHODS[method].families and method != "bart":
            continue
        runs = results.runs("split", name, method, lambda options, seed: accuracy(options, data, share, seed))
        shown = [_figure([run.figures[part] for run in runs], 3) for part in (0, 1)]
        known = _paper_accuracies(name, method)
        tests = [run.figures[1] for run in runs]
        span = f"{min(tests):.3f}-{max(tests):.3f}" if tests else "-"
        theirs = PAPER_ACCURACIES[name].get(method)
        # half a row's share above the paper's mean is the same count of rows right
        at_most = sum(test <= theirs[1][0] + 0.5 / held for test in tests) if theirs else None
        print(
            f"{method:12}{shown[0]:>15}{shown[1]:>15}{span:>14}{known[0]:>15}{known[1]:>15}"
            f"{'-' if at_most is None else f'{at_most} of {len(tests)}':>14}{_cost(runs)}",
            flush=True,
        )
    for method in PAPER_ACCURACIES[name]:
        if method not in methods:
            known = _paper_accuracies(name, method)
            print(f"{method:12}{'':44}{known[0]:>15}{known[1]:>15}")


def accuracy(options: dict[str, Any], data: Any, share: float, seed: int) -> Run:
    """The share of rows whose most probable class is theirs, at training and at held-out rows."""
    order = np.random.default_rng([11, seed]).permutation(len(data.target))
    held = round(share * len(order))
    parts = order[held:], order[:held]
    X, y = data.data[parts[0]], data.target[parts[0]]
    family = "probit" if options["method"] == "bart" else "categorical"
    posterior, took = fitted(X, y, seed, family=family, **options)
    on_train, on_test = (_share_right(posterior, data.data[rows], data.target[rows]) for rows in parts)
    return Run((on_train, on_test), took, posterior.summary().verdict)


def _share_right(posterior: Any, X: Floats, y: Any) -> float:
    mean = posterior.predict(X, level=None).mean
    said = mean.argmax(axis=1) if mean.ndim == 2 else (mean > 0.5).astype(int)
    return float(np.mean(said == y))


def _paper_accuracies(name: str, method: str) -> tuple[str, str]:
    known = PAPER_ACCURACIES[name].get(method)
    if known is None:
        return "-", "-"
    train, test = (f"{mean:.3f} ({sd:.3f})" for mean, sd in known)
    return train, test


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=list(ALL), choices=list(METHODS))
    parser.add_argument("--data", nargs="+", default=[*PAPER_ERRORS, *PAPER_ACCURACIES])
    parser.add_argument("--search", default="default", choices=("default", "short", "paper"))
    parser.add_argument("--fits", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--only", nargs="+", type=int)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = Results(given.results, given)
    if given.fits != ["none"]:
        warm()
    for name in given.data:
        table = table_1 if name in PAPER_ERRORS else table_2
        table(name, given.methods, results)


if __name__ == "__main__":
    main()
