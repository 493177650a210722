"""Compare every method with the figures of the DCC-Tree paper (Cochrane, Wills and Johnson), on its data.

`python -m lab single_trees [--seeds 10] [--methods bcart smc ..] [--data cgm wu iris wine cancer]
[--authors FOLDER] [--search default short paper] [--fits new one] [--only 0 1 ..] [--results FILE]`

Table 1 is for the synthetic CGM and WU data. Mean squared errors have a noise floor that differs between data
sets, so the excess is compared: the error minus that of the true function on the same rows. It is shown first
over new data sets with one sampler seed each, then over sampler seeds on one data set, where the sd is the
sampler's own, as in the paper. Table 2 has accuracies on real data, on the paper's split over sampler seeds
(as in the paper), then on new splits. `--authors`, a copy of the authors' repository `jodie-c/DCC-Tree`,
makes the one data set theirs and adds `--data original raisin`; without it the breast cancer data are
scikit-learn's "Diagnostic" set, not the paper's "Original" one.

"each tree" is the weighted mean of the figures of single draws, by which the paper judges rjhmc's trees; it
judges dcc-tree by the mean of the posterior, as the other columns judge all methods.

Hard splits have each method's defaults, soft ones the paper's prior; with `--search paper` dcc-tree also
searches as long as in the paper (500 iterations, 16 chains for each topology), with `--search short` less
than by default (40 iterations, 4 chains). Seconds are processor time of all threads of one fit; verdicts are
the numbers of fits that ended converged, approximate, not_converged.

With `--results` each fit is written as a line of that file when it ends, and a fit that has a line is not run
again: tables can be made in pieces (`--only` some seeds, `--fits` of one kind), and printed from the file
(`--fits none`).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab import command
from lab import tree_paper as paper
from sampler import fit
from sampler.kernels.jit import warm
from sampler.methods import METHODS
from sampler.posterior.verdict.reasons import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sampler.posterior.posterior import Posterior

    Floats = NDArray[np.float64]

ALL = ("bcart", "bcart-mean-variance", "bcart-wu", "smc", "rjhmc-df", "rjhmc-dfi", "dcc-tree", "bart")
# fits to new data, to one set, to the paper's split, to new splits; none: print existing results
KINDS = ("new", "one", "paper", "split", "none")


@dataclass(frozen=True)
class Run:
    """One fit: its figures at training and new rows, those of single draws, its cost, its verdict."""

    figures: tuple[float, float]
    each_tree: tuple[float, float]
    seconds: float
    verdict: str


class Results:
    """Fits by their parameters, in memory and as lines of a file."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._asked, self._file = arguments, arguments.results
        lines = self._file.read_text().splitlines() if self._file is not None and self._file.exists() else []
        self._found = {tuple(key): Run(**run) for key, run in map(json.loads, lines)}

    def runs(
        self, kind: str, name: str, method: str, fitted: Callable[[dict[str, Any], int], Run]
    ) -> list[Run]:
        """Return the fits of one cell, after running those that are requested and missing."""
        options = paper.settings_of(method, name, self._asked.search)
        search = self._asked.search if method == "dcc-tree" else ""
        whose = "authors" if kind == "one" and self._asked.authors is not None else kind
        results = []
        for seed in self._asked.only or range(self._asked.seeds):
            key = (whose, name, method, search, seed)
            if key not in self._found and kind in self._asked.fits:
                self._found[key] = fitted(options, seed)
                if self._file is not None:
                    with self._file.open("a") as file:
                        file.write(json.dumps([key, asdict(self._found[key])]) + "\n")
            if key in self._found:
                results.append(self._found[key])
        return results


def run(X: Floats, y: Any, seed: int, score: Callable[[Posterior], tuple[Any, Any]], **options: Any) -> Run:
    """Fit and score; return the figures of the posterior mean and of single trees."""
    began = time.process_time()
    posterior = fit(X, y, seed=seed, progress=False, **options)
    seconds = time.process_time() - began
    figures, each_tree = score(posterior)
    return Run(figures, each_tree, seconds, posterior.summary().verdict)


def mean_of_draws(posterior: Posterior, figures: Floats) -> float:
    """Compute the weighted mean of draws' figures [chain, draw]."""
    weights = posterior.weights
    return float(figures.mean() if weights is None else np.sum(figures * weights))


def excess_of(posterior: Posterior, samples: tuple[paper.Sample, paper.Sample]) -> tuple[Any, Any]:
    """Compute errors minus those of the true function, at training and new rows, and of single draws."""
    figures, each_tree = [], []
    for part in samples:
        floor = np.mean((part.f - part.y) ** 2)
        mean = posterior.predict(part.X, level=None).mean
        figures.append(1000 * float(np.mean((mean - part.y) ** 2) - floor))
        errors = np.mean((posterior.sample(part.X) - part.y) ** 2, axis=-1)
        each_tree.append(1000 * float(mean_of_draws(posterior, errors) - floor))
    return figures, each_tree


def excess(options: dict[str, Any], samples: tuple[paper.Sample, paper.Sample], seed: int) -> Run:
    """Compute the error minus that of the true function, at training and new rows, in thousandths."""
    return run(samples[0].X, samples[0].y, seed, partial(excess_of, samples=samples), **options)


def table_1(name: str, methods: list[str], results: Results, authors: Path | None) -> None:
    """Print the rows of one of the synthetic data sets."""

    def fresh(options: dict[str, Any], seed: int) -> Run:
        return excess(options, paper.new_samples(name, seed), seed)

    def fixed(options: dict[str, Any], seed: int) -> Run:
        return excess(options, paper.one_sample(name, authors), seed)

    print(f"\n{name.upper()} data, excess mean squared error x 1000, mean (sd) over fits")
    print(
        f"{'':20}{'new data: train':>17}{'test':>15}{'one set: train':>17}{'test':>15}{'each tree':>15}"
        f"{'paper: train':>15}{'test':>14}{'s':>8}  verdicts     fits"
    )
    for method in methods:
        new, one = results.runs("new", name, method, fresh), results.runs("one", name, method, fixed)
        cells = [_figure([each.figures[part] for each in runs]) for runs in (new, one) for part in (0, 1)]
        single = _figure([each.each_tree[1] for each in one])
        known = _paper_errors(name, method)
        print(
            f"{method:20}{cells[0]:>17}{cells[1]:>15}{cells[2]:>17}{cells[3]:>15}{single:>15}"
            f"{known[0]:>15}{known[1]:>14}{_cost([*new, *one])}  {len(new)} + {len(one)}",
            flush=True,
        )


def _paper_errors(name: str, method: str) -> tuple[str, str]:
    known = paper.ERRORS[name].get(method)
    if known is None:
        return "-", "-"
    train, test = (
        f"{1000 * (mean - floor):.1f} ({1000 * sd:.2f})"
        for (mean, sd), floor in zip(known, paper.FLOOR[name], strict=True)
    )
    return train, test


def _figure(values: list[float], digits: int = 2) -> str:
    if not values:
        return "-"
    spread = f"{np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "-"
    return f"{np.mean(values):.{digits}f} ({spread})"


def _cost(runs: list[Run]) -> str:
    verdicts = "/".join(str(sum(each.verdict == name for each in runs)) for name in VERDICTS)
    seconds = f"{np.mean([each.seconds for each in runs]):.1f}" if runs else "-"
    return f"{seconds:>8}  {verdicts:10}"


def table_2(name: str, methods: list[str], results: Results, authors: Path | None) -> None:
    """Print the rows of one of the real data sets."""
    data = paper.classes(name, authors)
    several = data.y.max() > 1
    train, test = paper.paper_split(name, len(data.y))
    print(f"\n{name.capitalize()} data, accuracy, mean (sd) over seeds; {len(test)} rows are held out")
    print(
        f"{'':20}{'its split: train':>17}{'test':>15}{'each tree':>15}{'new splits: test':>18}{'range':>14}"
        f"{'paper: train':>15}{'test':>15}{'s':>8}  verdicts     fits"
    )

    def same(options: dict[str, Any], seed: int) -> Run:
        return accuracy(options, data, (train, test), seed)

    def anew(options: dict[str, Any], seed: int) -> Run:
        return accuracy(options, data, paper.new_split(name, len(data.y), seed), seed)

    for method in methods:
        if method == "bart" and several:
            print(f"{method:20}takes two classes")
            continue
        if "categorical" not in METHODS[method].families and method != "bart":
            continue
        theirs, ours = results.runs("paper", name, method, same), results.runs("split", name, method, anew)
        cells = [_figure([each.figures[part] for each in theirs], 3) for part in (0, 1)]
        single = _figure([each.each_tree[1] for each in theirs], 3)
        tests = [each.figures[1] for each in ours]
        span = f"{min(tests):.3f}-{max(tests):.3f}" if tests else "-"
        known = _paper_accuracies(name, method)
        print(
            f"{method:20}{cells[0]:>17}{cells[1]:>15}{single:>15}{_figure(tests, 3):>18}{span:>14}"
            f"{known[0]:>15}{known[1]:>15}{_cost([*theirs, *ours])}  {len(theirs)} + {len(ours)}",
            flush=True,
        )


def accuracy(
    options: dict[str, Any], data: paper.Classes, parts: tuple[NDArray[Any], NDArray[Any]], seed: int
) -> Run:
    """Compute the share of rows whose most probable class is theirs, at training and held-out rows."""

    def score(posterior: Posterior) -> tuple[Any, Any]:
        figures, each_tree = [], []
        for rows in parts:
            X, y = data.X[rows], data.y[rows]
            mean, draws = posterior.predict(X, level=None).mean, posterior.sample(X)
            several = mean.ndim == 2
            predicted, drawn = (f.argmax(axis=-1) if several else f > 0.5 for f in (mean, draws))
            figures.append(float(np.mean(predicted == y)))
            each_tree.append(mean_of_draws(posterior, np.mean(drawn == y, axis=-1)))
        return figures, each_tree

    family = "probit" if options["method"] == "bart" else "categorical"
    return run(data.X[parts[0]], data.y[parts[0]], seed, score, family=family, **options)


def _paper_accuracies(name: str, method: str) -> tuple[str, str]:
    known = paper.ACCURACIES[name].get(method)
    if known is None:
        return "-", "-"
    train, test = (f"{mean:.3f} ({sd:.3f})" for mean, sd in known)
    return train, test


def main() -> None:
    """Print the tables."""
    parser = command(__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=list(ALL), choices=list(METHODS))
    parser.add_argument("--data", nargs="+", choices=[*paper.ERRORS, *paper.ACCURACIES])
    parser.add_argument("--authors", type=Path)
    parser.add_argument("--search", default="default", choices=("default", "short", "paper"))
    parser.add_argument("--fits", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--only", nargs="+", type=int)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    here = [name for name in paper.ACCURACIES if arguments.authors or name not in paper.NEED_FOLDER]
    if lacking := set(arguments.data or ()) - {*paper.ERRORS, *here}:
        parser.error(f"{', '.join(sorted(lacking))}: give --authors, a copy of jodie-c/DCC-Tree")
    warnings.simplefilter("ignore")
    results = Results(arguments)
    if arguments.fits != ["none"]:
        warm()
    for name in arguments.data or [*paper.ERRORS, *here]:
        table = table_1 if name in paper.ERRORS else table_2
        table(name, arguments.methods, results, arguments.authors)
