"""Each kernel that Python calls has one place where what reaches it is known to fit its arrays."""

import ast
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sampler.errors import PackedError
from sampler.posterior.core.ensemble import Ensemble
from sampler.posterior.weighting.mixture_noise import Mixture, are_components
from sampler.preparation.quick_regression import held_out_residuals
from tests.support.models.random_forests import random_draws

SAMPLER = Path(__file__).parents[3] / "sampler"
CHAINS = (
    "bart",
    "cart",
    "soft",
)  # whose arrays are made of a `Training`, or of a state checked as it is read
# Modules of kernels that get what comes from files and requests: their callers, and the door.
DOORS = {
    "kernels.boosting": (["preparation.quick_regression"], "`_binned`; a split is 0 until a gain is defined"),
    "kernels.packing": (["storage.sharp_codec"], "sizes of a block's head, of which the arrays are made"),
    "kernels.random": (["bart", "trees.soft"], "four words, of a seed or of a checked state"),
    "kernels.rows": (["training"], "codes of a `Training`, in a table of 256"),
    "kernels.shared.parts": (["bart"], "words that the threads of a chain make"),
    "kernels.shared.team": (["bart"], "words that the threads of a chain make"),
    "posterior.kernels.count_crps": (
        ["posterior.laws.count_law"],
        "`CountLaw`; cells reach beyond all draws",
    ),
    "posterior.kernels.count_quantiles": (["posterior.laws.count_law"], "`CountLaw`, of the chosen draws"),
    "posterior.kernels.depths": (["posterior.assessment.diagnostics"], "trees as `decode_trees` makes them"),
    "posterior.kernels.mixture": (
        ["posterior.core.intervals", "posterior.explanations.set_sums"],
        "a sigma for each of the chosen draws; places of a table are held within it",
    ),
    "posterior.kernels.moments": (
        ["posterior.core.intervals", "posterior.parts.slopes", "posterior.parts.spatial"],
        "sums of the chosen draws; `LinearTerms.from_json`, by whose terms slopes are read; as many waves as "
        "amplitudes",
    ),
    "posterior.kernels.normal_mixture": (
        ["posterior.weighting.mixture_noise"],
        "`are_components`; no z is missing",
    ),
    "posterior.kernels.shapley": (["posterior.explanations.shap_values"], "`Draws.check`, `chosen_of`"),
    "posterior.kernels.student": (["posterior.weighting.student_noise"], "`are_degrees`: places on the grid"),
    "posterior.kernels.tree_sums": (["posterior.core.ensemble"], "`Draws.check`, `chosen_of`, rows' codes"),
    "posterior.kernels.usage": (["posterior.explanations.inclusion"], "`Draws.check`"),
}


def entries(tree: ast.Module) -> set[str]:
    """Return the functions of a module that are kernels which Python calls."""
    marks = [
        (node.name, mark)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
    ]
    return {
        name
        for name, mark in marks
        if isinstance(mark, ast.Call) and "entry" in {each.arg for each in mark.keywords}
    }


def test_each_kernel_has_a_door():
    """Kernels of chains are called by their own package; the others by the modules that the table names."""
    modules = {
        ".".join(file.relative_to(SAMPLER).with_suffix("").parts): ast.parse(text)
        for file in SAMPLER.rglob("*.py")
        if "kernel" in (text := file.read_text())
    }
    called = {name: entries(tree) for name, tree in modules.items() if ".kernels." in f".{name}"}
    callers = defaultdict(set)
    for caller, tree in modules.items():
        if caller in called:
            continue
        for node in ast.walk(tree):
            module = (getattr(node, "module", None) or "").removeprefix("sampler.")
            for each in node.names if isinstance(node, ast.ImportFrom) else []:
                if each.name in called.get(module, ()):
                    callers[module].add(caller)
                elif called.get(f"{module}.{each.name}"):
                    callers[f"{module}.{each.name}"].add(caller)
    for module in {name for name, functions in called.items() if functions}:
        package = module.split(".")[0]
        allowed = [package, f"trees.{package}"] if package in CHAINS else DOORS[module][0]
        strange = [
            each for each in callers[module] if not any(f"{each}.".startswith(f"{of}.") for of in allowed)
        ]
        assert not strange, (module, strange)
    assert {*DOORS} <= {*called}


def test_draws_without_trees_or_with_others_columns_are_refused():
    """No ensemble is made of draws that kernels can't go down: sums of no trees were memory of before."""
    draws = random_draws(1)
    none = {name: getattr(draws, name)[:0] for name in ("feature", "cut", "missing_left", "leaf")}
    for wrong in (
        replace(draws, num_trees=0, tree_start=np.zeros(1, np.int64), **none),
        replace(draws, cut=draws.cut[:-1]),
        replace(draws, tree_start=draws.tree_start[:-1]),
        replace(draws, sigma=draws.sigma[:-1]),
        replace(draws, feature=np.where(draws.feature == 2, 5, draws.feature).astype(np.int32)),
    ):
        with pytest.raises(PackedError):
            Ensemble([wrong], 5)
    ensemble = Ensemble([draws], 5)
    with pytest.raises(ValueError, match="4 codes"):
        ensemble.sums(np.zeros((4, 20), np.uint8))
    for number in (-1, 3):
        with pytest.raises(IndexError):
            ensemble.sums(np.zeros((5, 20), np.uint8), np.array([0, number]))


def test_outcomes_without_a_gain_split_no_column_that_is_not_there():
    """Boosted trees of outcomes that are no numbers, whose gains are none, end no process."""
    codes = np.random.default_rng(1).integers(0, 5, (2, 30)).astype(np.uint8)
    assert np.isnan(held_out_residuals(codes, None, np.full(30, np.nan), np.ones(30))).all()


def test_mixtures_are_looked_up_within_their_table():
    """Components beyond all that has ratios are refused; a missing value has no probability."""
    parts = np.array([[[0.5], [0.5]], [[0.0], [1.0]], [[1.0], [2.0]]])
    assert are_components(parts)
    for place, value in ((1, 1e200), (1, np.nan), (2, 1e-320), (2, 1e200), (0, -0.5)):
        wrong = parts.copy()
        wrong[place, 0] = value
        assert not are_components(wrong)
    below = Mixture.of(parts).below(np.array([[np.nan], [-np.inf], [np.inf]]))
    assert np.isnan(below[0, 0])
    assert below[1:, 0].tolist() == pytest.approx([0, 1])
