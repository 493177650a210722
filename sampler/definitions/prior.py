"""Definitions of the entries of `prior`: hyperparameters and absolute constants."""

from __future__ import annotations

import math

from sampler.definitions.setting import FormField, Setting
from sampler.definitions.tree_laws import LAW_SETTINGS

MOST = 1e100  # largest scale, and the inverse of the smallest, so that sums of squares stay finite
POSITIVE = (1 / MOST, MOST)
ABSOLUTE = ("offset", "leaf_sd", "lambda", "sigma", "sigma_start", "step")  # of sums of trees, in units of y
SCHEMES = ("quantile", "uniform", "mixed")  # schemes of cut points, see `sampler.data.binning.cuts_between`

PRIOR: dict[str, Setting] = {
    "k": Setting(
        "number",
        "prior",
        "Larger: f shrinks more to its middle. With 2 the prior spans the data. Drawn for numbers, classes.",
        limits=POSITIVE,
        ends="()",
        form=FormField("k", "Prior", "2; drawn for numbers, classes"),
    ),
    "alpha": Setting(
        "number",
        "prior",
        "The probability that a tree has a first split.",
        limits=(0, 1),
        ends="()",
        form=FormField("alpha", "Prior", "0.95"),
    ),
    "beta": Setting(
        "number",
        "prior",
        "Larger: deeper nodes split less often.",
        limits=(0, math.inf),
        ends="[)",
        form=FormField("beta", "Prior", "2; 1 of a single tree"),
    ),
    **LAW_SETTINGS,
    "nu": Setting(
        "number",
        "prior",
        "Degrees of freedom of sigma's prior: larger is more certain.",
        limits=(0, math.inf),
        ends="()",
        form=FormField("nu", "Prior", "3"),
    ),
    "q": Setting(
        "number",
        "prior",
        "The probability that sigma is below its rough estimate.",
        limits=(0, 1),
        ends="()",
        form=FormField("q", "Prior", "0.9; 0.95 of a single tree"),
    ),
    "sigma_estimate": Setting(
        "word",
        "prior",
        "The residual sd of a linear model, or the sd of the outcome.",
        choices=("linear", "naive"),
        form=FormField(
            "Rough estimate of sigma", "Prior", "linear", choices=(("naive", "naive: the outcome's sd"),)
        ),
    ),
    "cuts": Setting(
        "cuts",
        "prior",
        "Where numbers may be split: at quantiles, evenly over the range, or both.",
        form=FormField(
            "Cut points",
            "Prior",
            "quantile; mixed for two classes",
            choices=tuple((name, name) for name in SCHEMES),
        ),
        choices=SCHEMES,
    ),
    "k_df": Setting(
        "number",
        "prior",
        "If given, k is drawn too: k_scale times a chi variable.",
        limits=(0, 1e6),
        ends="()",
        form=FormField(
            "Degrees of freedom of k",
            "Hyperpriors",
            "3 for numbers, 1 for classes, or fixed",
            "If given, k is drawn too: its scale times a chi variable.",
        ),
    ),
    "k_scale": Setting(
        "number",
        "prior",
        "Only with degrees of freedom of k.",
        limits=(0, math.inf),
        ends="()",
        form=FormField("Scale of k", "Hyperpriors", "5 for numbers, 1 for classes, or k / root of these"),
    ),
    "sparse": Setting(
        "yes",
        "prior",
        "Sparse (DART): drawn, so that irrelevant columns are rarely used.",
        form=FormField(
            "Columns' shares",
            "Hyperpriors",
            "all equally likely; drawn with monotone features",
            choices=(("true", "sparse"), ("false", "all equally likely")),
        ),
    ),
    "sparse_a": Setting(
        "number",
        "prior",
        "Smaller: fewer columns. Only when sparse.",
        limits=(0, 1e6),
        ends="()",
        form=FormField("a of the shares", "Hyperpriors", "0.5"),
    ),
    "sparse_b": Setting(
        "number",
        "prior",
        "Larger: fewer columns. Only when sparse.",
        limits=(0, 1e6),
        ends="()",
        form=FormField("b of the shares", "Hyperpriors", "1"),
    ),
    "sparse_rho": Setting(
        "number",
        "prior",
        "Only when sparse.",
        limits=(0, 1e9),
        ends="()",
        form=FormField("rho of the shares", "Hyperpriors", "the number of columns"),
    ),
    "sparse_theta": Setting(
        "number",
        "prior",
        "Instead of a, b and rho. Only when sparse.",
        limits=(0, 1e9),
        ends="()",
        form=FormField("Known theta of the shares", "Hyperpriors", "drawn"),
    ),
    "num_trees": Setting(
        "word",
        "prior",
        "The prior of the number of trees, which is then drawn, up to num_trees.",
        choices=("poisson", "geometric", "uniform"),
        form=FormField(
            "Number of trees",
            "Hyperpriors",
            "fixed",
            choices=tuple((name, f"drawn, {name}") for name in ("poisson", "geometric", "uniform")),
        ),
    ),
    "num_trees_mean": Setting(
        "number",
        "prior",
        "The mean of that prior, but for the bound num_trees. Only if poisson or geometric.",
        limits=(0, 1e6),
        ends="()",
        form=FormField("Mean number of trees", "Hyperpriors", "half of the trees"),
    ),
    "offset": Setting(
        "number",
        "prior",
        "The value to which f shrinks.",
        limits=(-math.inf, math.inf),
        ends="()",
        form=FormField("Middle of f", "Prior in absolute figures", "of the outcomes' range"),
    ),
    "leaf_sd": Setting(
        "number",
        "prior",
        "Prior sd of every leaf value.",
        limits=POSITIVE,
        ends="()",
        form=FormField("Sd of a leaf", "Prior in absolute figures", "from k"),
    ),
    "lambda": Setting(
        "number",
        "prior",
        "The scale of sigma's prior.",
        limits=(1 / MOST**2, MOST**2),
        ends="()",
        form=FormField("lambda of sigma", "Prior in absolute figures", "from nu and q"),
    ),
    "sigma": Setting(
        "number",
        "prior",
        "The noise sd, if known; not with lambda.",
        limits=POSITIVE,
        ends="()",
        form=FormField("Known sigma", "Prior in absolute figures", "learnt"),
    ),
    "sigma_start": Setting(
        "number",
        "prior",
        "Start of each chain.",
        limits=POSITIVE,
        ends="()",
        form=FormField("First sigma", "Prior in absolute figures", "the estimate"),
    ),
    "step": Setting(
        "number",
        "prior",
        "A power of two is exact.",
        limits=POSITIVE,
        ends="()",
        form=FormField("Step of the grid", "Prior in absolute figures", "2 to the -20 of the range"),
    ),
    "point": Setting(
        "number",
        "prior",
        "For a hurdle: the value that many outcomes have exactly.",
        limits=(-MOST, MOST),
        form=FormField("Value of a hurdle", "Prior in absolute figures", "the lowest or highest, if many"),
    ),
    "mean": Setting(
        "number",
        "prior",
        "For a single tree.",
        limits=(-math.inf, math.inf),
        ends="()",
        form=FormField("Mean of leaves", "Prior in absolute figures", "of the outcomes"),
    ),
    "precision": Setting(
        "number",
        "prior",
        "For a single tree, relative to the noise.",
        limits=(0, math.inf),
        ends="()",
        form=FormField("Precision of leaves", "Prior in absolute figures", "from the data"),
    ),
    "concentration": Setting(
        "number",
        "prior",
        "For the class shares in the leaves of a single tree.",
        limits=(0, math.inf),
        ends="()",
        form=FormField("Concentration", "Prior in absolute figures", "1"),
    ),
    "sigma_shape": Setting(
        "number",
        "prior",
        "Shape of the inverse gamma prior of sigma, for soft trees.",
        limits=(0, math.inf),
        ends="()",
    ),
    "sigma_scale": Setting(
        "number",
        "prior",
        "Scale of the inverse gamma prior of sigma, for soft trees.",
        limits=(0, math.inf),
        ends="()",
    ),
    "sharpness": Setting(
        "number",
        "prior",
        "Width of every soft split, in units of the scaled columns.",
        limits=(0, 10),
        ends="()",
    ),
    "sharpness_start": Setting(
        "number", "prior", "Width of the soft splits when warm-up starts.", limits=(0, 10), ends="()"
    ),
}
