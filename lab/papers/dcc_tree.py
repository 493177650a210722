"""Cochrane, Wills and Johnson, DCC-Tree: single trees on synthetic and real data.

The authors' rows are read from a copy of their repository `jodie-c/DCC-Tree` in build/DCC-Tree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lab import single_trees
from lab import tree_paper as paper
from lab.papers.study import NOT_RUN, Answer, Claim, Figures, Parts, Study, judged
from sampler import fit
from sampler.posterior.core.topology import shape_of
from sampler.storage.draws import LEAF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sampler import Posterior

# of the true partition, by the order of the two splits on the first column below the first of the second
CGM_TREES = ("(2(1.(1..))(1..))", "(2(1(1..).)(1..))")
_WHY_SELDOM = "both give the same partition and are alike a priori: a search that finds one seldom leaves it"
AUTHORS = Path("build/DCC-Tree")
NAMES = {"bcart": "CGM", "bcart-wu": "WU", "smc": "SMC", "rjhmc-df": "HMC-DF", "rjhmc-dfi": "HMC-DFI"}
NAMES |= {"dcc-tree": "DCC-Tree"}
TITLES = {"original": "Breast cancer (original)", "iris": "Iris", "wine": "Wine", "raisin": "Raisin"}


def _summary(runs: list[Figures]) -> Figures:
    """Return the mean and deviation over fits, at training and new rows and of single trees."""
    columns = {
        "train": [run["figures"][0] for run in runs],
        "mean": [run["figures"][1] for run in runs],
        "each": [run["each_tree"][1] for run in runs],
    }
    return {name: [np.mean(each), np.std(each, ddof=min(1, len(each) - 1))] for name, each in columns.items()}


def _excess(name: str, method: str, seed: int) -> Figures:
    samples = paper.one_sample(name, AUTHORS if AUTHORS.exists() else None)
    return asdict(single_trees.excess(paper.settings_of(method, name, "short"), samples, seed))


def _accuracy(name: str, method: str, seed: int, search: str = "short") -> Figures:
    data = paper.classes(name, AUTHORS if AUTHORS.exists() else None)
    rows = paper.paper_split(name, len(data.y))
    return asdict(single_trees.accuracy(paper.settings_of(method, name, search), data, rows, seed))


def _run_1(parts: Parts, count: int) -> Figures:
    return {
        name: {
            method: _summary(
                [parts(f"{name} {method} {s}", partial(_excess, name, method, s)) for s in range(count)]
            )
            for method in methods
        }
        for name, methods in paper.ERRORS.items()
    }


def _here() -> list[str]:
    return [name for name in TITLES if AUTHORS.exists() or name not in paper.NEED_FOLDER]


def _run_2(parts: Parts, count: int) -> Figures:
    return {
        name: {
            method: _summary(
                [parts(f"{name} {method} {s}", partial(_accuracy, name, method, s)) for s in range(count)]
            )
            for method in paper.ACCURACIES[name]
        }
        for name in _here()
    }


def _as_in_paper(method: str, figures: Figures) -> list[float]:
    """Return the mean and deviation at new rows: of the posterior mean for dcc-tree, else of single trees."""
    return figures[method]["mean" if method == "dcc-tree" else "each"]


def _error(name: str, method: str, figures: Figures) -> Answer:
    test, spread = _as_in_paper(method, figures[name])
    (train, _), (theirs, theirs_spread) = figures[name][method]["train"], _paper_excess(name, method)[1]
    ours = f"{train:.1f}, {test:.1f} ({spread:.2f})"
    near = abs(test - theirs) <= max(1, 2 * spread, 2 * theirs_spread)
    stuck = "one fit of ten had a chain that stayed in too small a tree" if spread > test else ""
    return judged(ours, near or test < theirs, stuck, better=not near)


def _paper_excess(name: str, method: str) -> list[tuple[float, float]]:
    """Return the paper's errors minus the noise of its rows, in thousandths, at training and new rows."""
    both = zip(paper.ERRORS[name][method], paper.FLOOR[name], strict=True)
    return [(1000 * (mean - floor), 1000 * spread) for (mean, spread), floor in both]


def _error_claim(name: str, method: str) -> Claim:
    (train, _), (test, spread) = _paper_excess(name, method)
    numbers = f"{train:.1f}, {test:.1f} ({spread:.2f})"
    return Claim(f"{name.upper()} data, {NAMES[method]}", numbers, partial(_error, name, method))


def _best(figures: Figures) -> Answer:
    tests = {name: {m: _as_in_paper(m, each)[0] for m in each} for name, each in figures.items()}
    holds = all(each["dcc-tree"] == min(each.values()) for each in tests.values())
    means = [min((each[m]["mean"][0], m) for m in each) for each in figures.values()]
    why = "posterior means of the others are better than their trees: " + ", ".join(
        f"{m} {v:.2f}" for v, m in means
    )
    ours = "; ".join(f"{name.upper()} {each['dcc-tree']:.2f}" for name, each in tests.items())
    return judged(ours, holds, why)


def _steadiest(figures: Figures) -> Answer:
    spreads = {name: {m: _as_in_paper(m, each)[1] for m in each} for name, each in figures.items()}
    holds = all(each["dcc-tree"] == min(each.values()) for each in spreads.values())
    least = {name: min(each, key=lambda method: each[method]) for name, each in spreads.items()}
    ours = "; ".join(f"{name.upper()} {each['dcc-tree']:.2f}" for name, each in spreads.items())
    why = "least are " + ", ".join(f"{least[n]} on {n.upper()}: {spreads[n][least[n]]:.2f}" for n in spreads)
    return judged(ours, holds, "" if holds else why)


def _overfits(figures: Figures) -> Answer:
    gaps = {
        f"{NAMES[m]} on {name.upper()}": figures[name][m]["each"][0] - figures[name][m]["train"][0]
        for name in figures
        for m in ("bcart", "bcart-wu")
    }
    ours = ", ".join(f"{name} {gap:.1f}" for name, gap in gaps.items())
    holds = min(gaps.values()) > 5
    why = "ours leave large trees on CGM, and the radical move on WU too; only bcart on WU overfits so much"
    return judged(ours, holds, "" if holds else why)


def _share(name: str, method: str, figures: Figures) -> Answer:
    if name not in figures:
        return Answer("", "not yet", "needs build/DCC-Tree")
    test, spread = figures[name][method]["mean"]
    theirs = paper.ACCURACIES[name][method][1][0]
    ours = f"{figures[name][method]['train'][0]:.3f}, {test:.3f} ({spread:.3f})"
    few = "two fits" if (name, method) == ("raisin", "dcc-tree") else ""
    return judged(ours, test > theirs - 0.03, few, better=test > theirs + 0.03)


def _share_claim(name: str, method: str) -> Claim:
    (train, _), (test, spread) = paper.ACCURACIES[name][method]
    numbers = f"{train:.3f}, {test:.3f} ({spread:.3f})"
    return Claim(f"{TITLES[name]}, {NAMES[method]}", numbers, partial(_share, name, method))


def _spelled(feature: NDArray[np.int32]) -> str:
    """Write a tree, features in pre-order, as its shape with the number of the column at each split."""
    columns = iter(feature[feature != LEAF].tolist())
    shape = shape_of(feature != LEAF)
    return "".join(f"({next(columns) + 1}" if each == "(" else each for each in shape)


def _trees(posterior: Posterior) -> list[Figures]:
    """Return the posterior's most probable trees, which say the columns that they split."""
    share: Counter[str] = Counter()
    draws = posterior.chains()
    weights = posterior.weights
    for k, chain in enumerate(draws):
        spans = pairwise(chain.tree_start.tolist())
        for draw, (start, end) in enumerate(spans):
            weight = 1 / (len(draws) * len(chain.sigma)) if weights is None else float(weights[k, draw])
            share[_spelled(chain.feature[start:end])] += weight
    return [{"tree": tree, "share": each} for tree, each in share.most_common(6) if each > 0]


def _rows(name: str) -> tuple[paper.Sample, paper.Sample]:
    return paper.one_sample(name, AUTHORS if AUTHORS.exists() else None)


def _topologies(name: str) -> list[Figures]:
    train, _ = _rows(name)
    return _trees(
        fit(train.X, train.y, seed=0, progress=False, **paper.settings_of("dcc-tree", name, "short"))
    )


def _run_fig1(parts: Parts, _count: int) -> Figures:
    return {name: parts(name, partial(_topologies, name)) for name in ("wu", "cgm")}


def _searched(name: str, seed: int) -> Figures:
    """Return the errors, verdict and trees of a fit with the paper's search."""
    samples = _rows(name)
    posterior = fit(
        samples[0].X,
        samples[0].y,
        seed=seed,
        progress=False,
        **paper.settings_of("dcc-tree", name, "paper"),
    )
    figures, each_tree = single_trees.excess_of(posterior, samples)
    verdict = posterior.summary().verdict
    return {"figures": figures, "each_tree": each_tree, "verdict": verdict, "trees": _trees(posterior)}


def _run_search(parts: Parts, count: int) -> Figures:
    fits = {name: partial(_searched, name) for name in ("cgm", "wu")}
    fits |= {name: partial(_accuracy, name, "dcc-tree", search="paper") for name in _here()}
    return {
        name: [parts(f"{name} {seed}", partial(one, seed=seed)) for seed in range(count)]
        for name, one in fits.items()
    }


def _listed(found: list[Figures]) -> str:
    return ", ".join(f"`{each['tree']}` {each['share']:.2g}" for each in found[:3])


def _true_wu(figures: Figures) -> Answer:
    leaves = [each["tree"].count(".") for each in figures["wu"]]
    return judged(_listed(figures["wu"]), leaves[0] == 3, "" if leaves[0] == 3 else "a larger tree is first")


def _one_cgm(figures: Figures) -> Answer:
    first = figures["cgm"][0]
    holds = first["share"] > 0.9 and first["tree"].count(".") == 5
    why = "" if holds else "several trees of the same partition share it; the search is shorter than theirs"
    return judged(_listed(figures["cgm"]), holds, why)


def _seldom_true(figures: Figures) -> Answer:
    share = dict.fromkeys(CGM_TREES, 0.0)
    share |= {each["tree"]: each["share"] for each in figures["cgm"] if each["tree"] in share}
    ours = ", ".join(f"`{tree}` {each:.2g}" for tree, each in share.items())
    return judged(ours, min(share.values()) < 0.05 < max(share.values()), _WHY_SELDOM)


def _searched_error(name: str, figures: Figures) -> Answer:
    if name not in figures:
        return Answer("", "not yet", NOT_RUN)
    runs = figures[name]
    train, test = np.mean([run["figures"] for run in runs], axis=0)
    spread = f" ({np.std([run['figures'][1] for run in runs], ddof=1):.2f})" if len(runs) > 1 else ""
    theirs, theirs_spread = _paper_excess(name, "dcc-tree")[1]
    verdicts = ", ".join(run["verdict"] for run in runs)
    near = test <= theirs + max(1, 2 * theirs_spread)
    return judged(f"{train:.1f}, {test:.1f}{spread}", near, f"verdict {verdicts}")


def _searched_share(name: str, figures: Figures) -> Answer:
    if name not in figures:
        return Answer("", "not yet", NOT_RUN)
    train, test = np.mean([run["figures"] for run in figures[name]], axis=0)
    verdicts = ", ".join(run["verdict"] for run in figures[name])
    theirs = paper.ACCURACIES[name]["dcc-tree"][1][0]
    return judged(f"{train:.3f}, {test:.3f}", test > theirs - 0.03, f"verdict {verdicts}")


def _searched_trees(name: str, figures: Figures) -> Answer:
    if name not in figures:
        return Answer("", "not yet", NOT_RUN)
    found = figures[name][0]["trees"]
    holds = found[0]["tree"].count(".") == 3 if name == "wu" else found[0]["share"] > 0.9
    return judged(_listed(found), holds, "" if holds else "other trees share it")


_SHORT = "The authors' rows; `dcc-tree` searches 40 iterations with 4 chains (theirs 500 with 16)."
STUDIES = (
    Study(
        "dcc-tree-table1",
        "dcc-tree",
        "Table 1: errors on the CGM and WU data",
        (
            *(_error_claim(name, method) for name, methods in paper.ERRORS.items() for method in methods),
            Claim("DCC-Tree has the least error at new rows, on both", "shown", _best),
            Claim("its deviation between runs is the least", "by nearly an order of 10", _steadiest),
            Claim("CGM and WU overfit (error at new rows minus that at training rows)", "shown", _overfits),
        ),
        "Mean squared errors minus the noise's, x 1000: training rows, then new rows with the deviation over "
        f"sampler seeds; of single trees, for DCC-Tree of the mean, as in the paper. {_SHORT}",
        _run_1,
        count=10,
        of=10,
        unit="sampler seed",
        long=True,
    ),
    Study(
        "dcc-tree-table2",
        "dcc-tree",
        "Table 2: accuracies on real data",
        tuple(_share_claim(name, method) for name in TITLES for method in paper.ACCURACIES[name]),
        f"Accuracy at training rows, then at held-out rows with the deviation over sampler seeds. {_SHORT} "
        "Reproduced is an accuracy within .03 of theirs.",
        _run_2,
        count=10,
        of=10,
        unit="sampler seed",
        long=True,
    ),
    Study(
        "dcc-tree-fig1",
        "dcc-tree",
        "Figure 1: posterior of the topologies",
        (
            Claim("WU data: the true trees of three leaves come first", "shown", _true_wu),
            Claim("CGM data: one tree of five leaves has a probability near 1", "near 1", _one_cgm),
            Claim(
                "CGM data: of two trees of the true partition one has a very low posterior",
                "shown",
                _seldom_true,
            ),
        ),
        "Trees in pre-order, a bracket and the column's number for a split, a point for a leaf. Rows "
        "simulated as the authors', or theirs where build/DCC-Tree is; `dcc-tree` searches 40 "
        "iterations with 4 chains (theirs 500 with 16).",
        _run_fig1,
    ),
    Study(
        "dcc-tree-search",
        "dcc-tree",
        "Tables 1 and 2 at the paper's search of 500 iterations and 16 chains",
        (
            *(
                Claim(
                    f"{name.upper()} data, errors",
                    _error_claim(name, "dcc-tree").paper,
                    partial(_searched_error, name),
                )
                for name in ("cgm", "wu")
            ),
            *(
                Claim(
                    f"{title}, accuracies",
                    _share_claim(name, "dcc-tree").paper,
                    partial(_searched_share, name),
                )
                for name, title in TITLES.items()
            ),
            Claim("CGM data: one tree has a probability near 1", "near 1", partial(_searched_trees, "cgm")),
            Claim("WU data: the first tree has three leaves", "shown", partial(_searched_trees, "wu")),
        ),
        "As tables 1 and 2 and figure 1, of one fit each; a fit takes minutes.",
        _run_search,
        of=10,
        unit="sampler seed",
        long=True,
    ),
)
