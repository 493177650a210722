"""Digests of short fits of every method and move set.

`python -m tests.support.fit_digests [CASE ...]` rewrites them; without cases, all of them.
Rewrite a digest only after an intended change of its draws or its file.

Kernels of soft splits take sums in the order that suits the width of the processor's vectors, so their cases
have digests for each width. Where vectors are wide, NUMBA_CPU_NAME=haswell with
NUMBA_CPU_FEATURES=+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+popcnt,+sse4.2 writes those of the narrower ones.
"""

import hashlib
import json
import os
import platform
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from sampler import DataWarning, Posterior, fit, fit_many, load, load_many
from sampler.many.posteriors import ManyPosteriors
from sampler.methods import METHODS
from tests.support.pickling_executor import PicklingExecutor

FILE = Path(__file__).parents[1] / "data" / "formats" / "fit_digests.json"
SOFT = {"rjhmc-df", "rjhmc-dfi", "dcc-tree"}
ROWS = 60
NEW_ROWS = 7

_DEFAULT = {
    "noise": "constant",
    "linear": False,
    "num_trees": 5,
    "num_chains": 2,
    "num_burnin": 6,
    "num_draws": 5,
    "thin": 2,
    "seed": 11,
}
_SHORT = _DEFAULT | {"prior": {"k": 2.0}}
_PARTICLES = _DEFAULT | {"moves": "pg"}
_LONGER = _SHORT | {"num_draws": 50, "thin": 1}  # by which outcomes are simulated at a moderate cost
_TREE = {"num_chains": 2, "num_burnin": 40, "num_draws": 5, "thin": 4, "seed": 11}
_SOFT = {"num_chains": 1, "num_burnin": 8, "num_draws": 4, "thin": 1, "seed": 11}
_FILTER = {"method": "smc", "num_chains": 2, "num_draws": 12, "seed": 11}
_SEARCH = {
    "method": "dcc-tree", "num_chains": 1, "num_draws": 20, "num_burnin": 5, "seed": 11,
    "search": {"iterations": 1, "first": 2, "most": 2, "chains": 1, "draws": 20, "samples": 2},
}  # fmt: skip

_TREATED = {"treatment": [float(row * 7 % 10 < 4) for row in range(ROWS)]}
_ARMS = {"treatment": ["bcd"[row * 7 % 10 % 3] for row in range(ROWS)]}
_DOSES = {"treatment": [float(row * 7 % 10 // 2) for row in range(ROWS)]}
_EXPOSURES = [1.0 + row % 3 for row in range(ROWS)]
_LEVELS = ["low", "mid", "top"]
_MONOTONE = {"monotone": {"first": "increasing", "last": "decreasing"}}
_BY_SITE = {"groups": "site", "slopes": "last"}
_SUBGROUPS = [
    "kind",
    {"name": "low", "where": [{"column": "last", "below": 0.6}, {"column": "first", "missing": False}]},
]

# outcome ("number", "grouped" ones, of many "sites", "spike", "count", "time", "two" or "three" classes, a
# "pair" of numbers, "mixed": a number and two classes), whether rows have weights, arguments of `fit`
CASES: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "bart": ("number", False, _SHORT),
    "bart-default-prior": ("number", False, _DEFAULT),
    "bart-cgm": ("number", False, _SHORT | {"moves": "cgm"}),
    "bart-growprune": ("number", False, _SHORT | {"moves": "growprune"}),
    "bart-growprunechange": ("number", False, _SHORT | {"moves": "growprunechange"}),
    "bart-restructure": (
        "number",
        False,
        _SHORT | {"moves": {"grow": 0.4, "prune": 0.4, "restructure": 0.2, "rule": 0.2}},
    ),
    "bart-pg": ("number", False, _SHORT | {"moves": "pg"}),
    "bart-pg-mixed": ("number", False, _SHORT | {"moves": {"grow": 0.3, "prune": 0.3, "pg": 0.4}}),
    **{
        f"bart-trees-{trees}": ("number", weighted, _PARTICLES | {"prior": {"k": 2.0, "trees": trees}})
        for trees, weighted in (("leaves", False), ("pinball", True), ("balanced", False))
    },
    "classes-trees-leaves": (
        "three",
        False,
        _PARTICLES | {"family": "categorical", "prior": {"k": 2.0, "trees": "leaves"}},
    ),
    "bart-smc-start": ("number", False, _SHORT | {"start": "smc"}),
    "bart-annealed": ("number", False, _SHORT | {"start": "annealed"}),
    "bart-weights": ("number", True, _SHORT),
    "bart-weights-cgm": ("number", True, _SHORT | {"moves": "cgm"}),
    "bart-prior-only": ("number", False, _SHORT | {"prior_only": True}),
    "bart-uniform-cuts": ("number", False, _SHORT | {"prior": {"cuts": "uniform", "k": 2.0}}),
    "bart-k-df": ("number", False, _SHORT | {"prior": {"k_df": 1.25}}),
    "bart-sparse": ("number", False, _SHORT | {"prior": {"sparse": True, "k": 2.0}}),
    "bart-number-of-trees": (
        "number",
        False,
        _SHORT | {"prior": {"k": 2.0, "num_trees": "poisson", "num_trees_mean": 3.0}},
    ),
    "bart-sparse-theta": (
        "number",
        False,
        _SHORT | {"prior": {"sparse": True, "sparse_theta": 2.0, "k_df": 2}},
    ),
    "probit": ("two", False, _SHORT | {"family": "probit"}),
    "probit-cgm": ("two", False, _SHORT | {"family": "probit", "moves": "cgm"}),
    "probit-pg": ("two", False, _SHORT | {"family": "probit", "moves": "pg"}),
    "times": ("time", False, _SHORT),
    "noise-forest": ("number", False, _SHORT | {"noise": "forest"}),
    "noise-t-forest": ("number", True, _SHORT | {"noise": "t-forest"}),
    "noise-mixture": ("number", False, _SHORT | {"noise": "mixture"}),
    "hurdle": ("spike", False, _DEFAULT | {"family": "hurdle", "noise": "t-forest", "linear": True}),
    "hurdle-plain": ("spike", False, _LONGER | {"family": "hurdle"}),
    "groups": ("grouped", False, _SHORT | {"groups": "site"}),
    "group-slopes": ("grouped", False, _SHORT | {"groups": "site", "slopes": "last", "linear": True}),
    "ordered-groups": (
        "grouped three",
        False,
        _SHORT | {"family": "ordinal", "levels": _LEVELS} | _BY_SITE,
    ),
    "classes": ("three", False, _SHORT | {"family": "categorical", "linear": False}),
    "classes-with-lines": ("three", False, _SHORT | {"family": "categorical", "linear": True}),
    "classes-with-drawn-k": ("three", False, _DEFAULT | {"family": "categorical", "linear": True}),
    "ordered": ("three", False, _SHORT | {"family": "ordinal", "levels": _LEVELS}),
    "treatment": ("number", True, _SHORT | _TREATED),
    "treatment-default-prior": ("number", False, _DEFAULT | _TREATED | {"linear": True}),
    "treatment-ps-bart": ("number", False, _SHORT | _TREATED | {"effects": "ps-bart"}),
    "treatment-plain": ("number", False, _SHORT | _TREATED | {"effects": "plain"}),
    "treatment-at-random": (
        "number",
        False,
        _LONGER | _TREATED | {"assignment": "random", "noise": "mixture"},
    ),
    "treatment-transform": ("number", False, _SHORT | _TREATED | {"transform": "yeo-johnson"}),
    "treatment-classes": ("two", False, _SHORT | _TREATED | {"family": "probit"}),
    "treatment-groups": ("grouped", False, _SHORT | _TREATED | _BY_SITE),
    "treatment-counts": ("count", False, _SHORT | _TREATED | {"family": "poisson", "exposure": _EXPOSURES}),
    "arms": ("number", False, _SHORT | _ARMS | {"noise": "forest"}),
    "arms-classes": ("two", False, _SHORT | _ARMS | {"family": "probit"}),
    "arms-counts": ("count", False, _LONGER | _ARMS | {"family": "negative-binomial"}),
    "dose": ("number", False, _SHORT | _DOSES),
    "dose-plain": ("number", False, _SHORT | _DOSES | {"effects": "plain"}),
    "spatial": ("number", True, _SHORT | {"parts": {"spatial": ["first", "last"]}, "noise": "forest"}),
    "level-sets": ("grouped", False, _SHORT | {"categories": "sets", "noise": "forest"}),
    "several": ("pair", False, _SHORT | {"linear": True}),
    "several-weights": ("pair", True, _SHORT),
    "several-groups": ("grouped pair", False, _SHORT | {"groups": "site"}),
    "several-noise": ("pair", False, _SHORT | {"noise": "forest"}),
    "several-own-columns": (
        "pair",
        False,
        _SHORT | _MONOTONE | {"features": {"number": ["first", "kind"], "other": ["last"]}},
    ),
    "several-mixed": ("mixed", False, _DEFAULT | {"family": "auto"} | _MONOTONE),
    "monotone": ("number", True, _SHORT | _MONOTONE),
    "monotone-noise": ("number", False, _SHORT | _MONOTONE | {"noise": "t-forest"}),
    "monotone-groups": ("grouped", False, _SHORT | _MONOTONE | {"groups": "site"}),
    "monotone-probit": ("two", False, _SHORT | _MONOTONE | {"family": "probit"}),
    "monotone-ordered": ("three", False, _SHORT | _MONOTONE | {"family": "ordinal", "levels": _LEVELS}),
    "subgroups": ("number", False, _SHORT | {"calibrate": "folds", "subgroups": _SUBGROUPS}),
    "subgroups-of-classes": (
        "three",
        False,
        _SHORT | {"family": "categorical", "calibrate": "folds", "subgroups": ["by_class"]},
    ),
    "set": ("grouped", False, _SHORT | {"by": "site"}),
    "new-groups": (
        "sites",
        False,
        _SHORT | {"calibrate": "folds", "new_rows": {"groups": "site"}},
    ),
    "counts": ("count", False, _SHORT | {"family": "poisson"}),
    "counts-dispersed": ("count", False, _SHORT | {"family": "zero-inflated-negative-binomial"}),
    "bcart": ("number", False, _TREE | {"method": "bcart"}),
    "bcart-weights": ("number", True, _TREE | {"method": "bcart"}),
    "bcart-growprune": ("number", False, _TREE | {"method": "bcart", "moves": "growprune"}),
    "bcart-classes": ("three", False, _TREE | {"method": "bcart", "family": "categorical"}),
    "bcart-mean-variance": ("number", False, _TREE | {"method": "bcart-mean-variance"}),
    "bcart-wu": ("number", False, _TREE | {"method": "bcart-wu"}),
    "bcart-wu-classes": ("three", False, _TREE | {"method": "bcart-wu", "family": "categorical"}),
    "smc": ("number", False, _FILTER),
    "smc-prior": ("number", False, _FILTER | {"moves": "prior"}),
    "smc-classes": ("three", False, _FILTER | {"family": "categorical"}),
    "rjhmc-df": ("number", False, _SOFT | {"method": "rjhmc-df"}),
    "rjhmc-df-classes": ("three", False, _SOFT | {"method": "rjhmc-df", "family": "categorical"}),
    "rjhmc-dfi": ("number", False, _SOFT | {"method": "rjhmc-dfi"}),
    "dcc-tree": ("number", False, _SEARCH),
}

# Those whose chains can go on: sets of models and calibrated models keep no states.
GOING_ON = [
    name
    for name, (_, _, settings) in CASES.items()
    if not METHODS[settings.get("method", "bart")].engine.at_once and not {"by", "calibrate"} & {*settings}
]


def data(outcome: str) -> tuple[dict[str, list[Any]], Any, list[float]]:
    """Make columns with missing values and categories, outcomes (several by name), and weights."""
    rng = np.random.default_rng(7)
    x = rng.uniform(size=(ROWS, 2)).round(3)
    kind = rng.choice(["a", "b", "c"], ROWS)
    level = 3 * x[:, 0] - 2 * (x[:, 1] > 0.6) + 1.5 * (kind == "b")
    number = (level + rng.normal(0, 0.5, ROWS)).round(3)
    first: list[Any] = x[:, 0].tolist()
    first[4] = first[19] = first[33] = None
    second: list[Any] = kind.tolist()
    second[8] = None
    columns = {"first": first, "kind": second, "last": x[:, 1].tolist()}
    classes = {"two": ["no", "yes"], "three": _LEVELS, "grouped three": _LEVELS}
    y: Any = number.tolist()
    if outcome in ("pair", "grouped pair", "mixed"):
        second_error = rng.normal(0, 20, ROWS).round(1)
        other: list[Any] = (30 * (number - level) + second_error).tolist()
        if outcome == "mixed":
            other = ["no" if value < 0 else "yes" for value in other]
        other[2] = y[5] = None
        y = {"number": y, "other": other}
    if outcome == "count":
        y = np.floor(np.exp(np.clip(number, -2, 3))).tolist()
    if outcome.startswith("grouped") or outcome == "sites":
        columns["site"] = [row % (12 if outcome == "sites" else 4) for row in range(ROWS)]
    if outcome == "spike":
        y = np.maximum(number, 1.0).tolist()
    if outcome == "time":
        y = np.exp(number).tolist()
    if outcome in classes:
        names = classes[outcome]
        cuts = np.quantile(number, np.arange(1, len(names)) / len(names))
        y = [names[place] for place in np.searchsorted(cuts, number)]
    return columns, y, rng.uniform(0.5, 2, ROWS).round(2).tolist()


def fitted(case: str, folder: Path | None = None, **changes: Any) -> Any:
    """Fit a case: a posterior, one of several outcomes, or a set of models, which are kept in the folder.

    `changes` are of its settings.
    """
    outcome, weighted, settings = CASES[case]
    settings = settings | changes
    X, y, weights = data(outcome)
    events = {"event": np.arange(ROWS) % 3 > 0} if outcome == "time" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        if "by" in settings:
            there = {"folder": folder, "executor": PicklingExecutor(), "progress": False}
            return fit_many(X | {"y": y}, target="y", **settings, **there)
        return fit(X, y, weights if weighted else None, progress=False, **settings, **events)


def loaded(case: str, posterior: Any, folder: Path) -> Any:
    """Return what a case's files hold: they are written to the folder."""
    if isinstance(posterior, ManyPosteriors):
        fitted(case, folder / case)
        return load_many(folder / case)
    posterior.save(folder / f"{case}.bart")
    return load(folder / f"{case}.bart")


def digests(case: str, folder: Path) -> dict[str, str]:
    """Return digests of a case: of its bytes, its saved file, and its predictions once loaded."""
    posterior = fitted(case)
    again = loaded(case, posterior, folder)
    new = {name: values[:NEW_ROWS] for name, values in data(CASES[case][0])[0].items()}
    if isinstance(posterior, ManyPosteriors):
        content, stored = (
            b"".join(each[group].to_bytes() for group in sorted(each)) for each in (posterior, again)
        )
        sample = again.predict(new).mean
    else:
        content, stored = posterior.to_bytes(), (folder / f"{case}.bart").read_bytes()
        sample = again.sample(new) if isinstance(again, Posterior) else again.sample_predictive(new)
    return {
        "bytes": _digest(content),
        "file": _digest(stored),
        "sample": _digest(np.ascontiguousarray(sample, dtype=np.float64).tobytes()),
    }


def cases_of_this_width() -> str:
    """Return the part of the record that holds cases whose last digits depend on the width of vectors."""
    wide = llvm.get_host_cpu_features().get("avx512f", False) and "NUMBA_CPU_NAME" not in os.environ
    return "wide" if wide else "cases"


def expected(case: str, record: dict[str, Any]) -> list[dict[str, str]]:
    """Return the recorded digests of a case: one, or one for each width of vectors."""
    return [record[part][case] for part in ("cases", "wide") if case in record[part]]


def machine() -> dict[str, str]:
    """Return the kind of processor and the libraries that determine the last digits of floats."""
    avx2 = llvm.get_host_cpu_features().get("avx2", False)
    return {"processor": f"{platform.machine()}{' with AVX2' if avx2 else ''}"} | {
        name: version(name) for name in ("numba", "numpy", "scipy", "nutpie")
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def main(cases: list[str], folder: Path) -> None:
    """Write the digests of the given cases, or of all."""
    new: dict[str, Any] = {"cases": {}, "wide": {}}
    record = json.loads(FILE.read_text()) if FILE.exists() and cases else new
    if record.get("machine", machine()) != machine():
        raise SystemExit("these digests are another machine's: renew all of them, without naming cases")
    record["machine"] = machine()
    for case in cases or CASES:
        of_width = CASES[case][2].get("method") in SOFT
        record[cases_of_this_width() if of_width else "cases"][case] = digests(case, folder)
    FILE.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1:], Path(temporary))
