"""Definitions of a fit's settings: roles of columns, entries of the prior, the search, and the stop rules.

Checks, HTTP fields, form fields and the worker's specification follow from them. Settings of the model and
its chains are defined as fields of `sampler.settings.Settings`; column roles, entries of `prior`, `search`
and `stop`, and the holdout are defined in the tables below. `sampler.settings.EVERY` holds all of them.
"""

from __future__ import annotations

import math

from sampler.setting_definition import FormField, Setting

MOST = 1e100  # largest scale, and the inverse of the smallest, so that sums of squares stay finite
POSITIVE = (1 / MOST, MOST)
SCHEMES = ("quantile", "uniform", "mixed")  # of cut points, see `sampler.data.binning.cuts_between`
TIMES_DRAWS = 16  # default of stop.max_draws, in multiples of num_draws

ROLES: dict[str, Setting] = {
    "features": Setting("names", "roles", "Columns to use as features; null: all usable ones."),
    "columns": Setting(
        "kinds", "roles", "Kinds that override the inferred ones: number, boolean, category, date."
    ),
    "weights": Setting(
        "column", "roles", "A column of positive precision weights.", form=FormField("Weights")
    ),
    "exposure": Setting(
        "column",
        "roles",
        "A column of positive exposures of counts: a row's expected count is in proportion to its own. New "
        "rows have theirs in the column of this name; without it, 1.",
        sparing=True,
        form=FormField("Exposure"),
    ),
}
COLUMN_ROLES = tuple(name for name, role in ROLES.items() if role.kind == "column")

HOLDOUT = Setting(
    "number",
    "evaluation",
    "The fraction of rows held out from fitting and used for scores.",
    default=0.0,
    limits=(0, 0.9),
    form=FormField("Held out"),
)

MISSING_TARGET = Setting(
    "word",
    "evaluation",
    'What to do with rows without a target: "refuse" the fit, or "leave_out" the rows.',
    default="refuse",
    choices=("refuse", "leave_out"),
    sparing=True,
    rare=True,
    form=FormField("Rows without a target"),
)

PRIOR: dict[str, Setting] = {
    "k": Setting(
        "number",
        "prior",
        "Larger: f shrinks more to its middle. With 2 the prior spans the data.",
        limits=POSITIVE,
        ends="()",
        form=FormField("k", "Prior", "2"),
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
        form=FormField("Degrees of freedom of k", "Hyperpriors", "k is fixed"),
    ),
    "k_scale": Setting(
        "number",
        "prior",
        "Only with degrees of freedom of k.",
        limits=(0, math.inf),
        ends="()",
        form=FormField("Scale of k", "Hyperpriors", "k / root of k_df"),
    ),
    "sparse": Setting(
        "yes",
        "prior",
        "Sparse (DART): drawn, so that irrelevant columns are rarely used.",
        form=FormField("Columns' shares", "Hyperpriors", "all alike", choices=(("true", "sparse"),)),
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

SEARCH: dict[str, Setting] = {
    "iterations": Setting(
        "whole",
        "search",
        "Each draws from the most promising topology.",
        limits=(1, 100_000),
        form=FormField("Iterations", "Search over topologies", "100"),
    ),
    "first": Setting(
        "whole",
        "search",
        "Topologies considered before the first iteration.",
        limits=(1, 100_000),
        form=FormField("First proposals", "Search over topologies", "100"),
    ),
    "proposals": Setting(
        "whole",
        "search",
        "A topology proposed this often gets chains.",
        limits=(1, 10_000),
        form=FormField("Proposals needed", "Search over topologies", "2"),
    ),
    "most": Setting(
        "whole",
        "search",
        "Beyond, the least promising are dropped.",
        limits=(1, 10_000),
        form=FormField("Most topologies", "Search over topologies", "100"),
    ),
    "chains": Setting(
        "whole",
        "search",
        "Each from its own starting point.",
        limits=(1, 256),
        form=FormField("Chains per topology", "Search over topologies", "8"),
    ),
    "draws": Setting(
        "whole",
        "search",
        "Each time its topology is chosen; at least 20.",
        limits=(20, 10_000),
        form=FormField("Draws of a chain", "Search over topologies", "100"),
    ),
    "samples": Setting(
        "whole",
        "search",
        "For the evidence of the topology.",
        limits=(1, 1_000),
        form=FormField("Samples around a draw", "Search over topologies", "10"),
    ),
    "delta": Setting(
        "number",
        "search",
        "Weight of exploration in choosing a topology.",
        limits=(0, 1),
        form=FormField("delta", "Search over topologies", "0"),
    ),
    "kappa": Setting(
        "number",
        "search",
        "Larger: the spread of the evidence counts more.",
        limits=(0, 1e6),
        form=FormField("kappa", "Search over topologies", "0"),
    ),
    "optimism": Setting(
        "number",
        "search",
        "Larger: rarely chosen topologies come sooner.",
        limits=(0, 1e6),
        form=FormField("Optimism", "Search over topologies", "1"),
    ),
    "spatial": Setting(
        "whole",
        "search",
        "1: relative to their chain; 0: relative to their draw.",
        limits=(0, 1),
        form=FormField("Samples weigh", "Search over topologies", "1"),
    ),
}

# Rules of which a fit ends when all that are given hold, and its limits of time and draws.
STOP: dict[str, Setting] = {
    "verdict": Setting(
        "word",
        "stop",
        "This verdict or a better one.",
        choices=("converged", "approximate"),
        form=FormField(
            "Until the verdict is",
            "When to stop",
            "no such rule",
            choices=(("converged", "converged"), ("approximate", "approximate")),
        ),
    ),
    "max_rhat": Setting(
        "number",
        "stop",
        "Largest R-hat of f at 95% of the reference rows, and of sigma.",
        limits=(1, 10),
        ends="(]",
        form=FormField(
            "Until R-hat is at most",
            "When to stop",
            "no such rule",
            "For f at 95% of the reference rows, and for sigma; 1 means agreement.",
        ),
    ),
    "min_ess": Setting(
        "number",
        "stop",
        "Smallest bulk and tail ESS of f at 95% of the reference rows, and of sigma.",
        limits=(0, 1e9),
        ends="(]",
        form=FormField(
            "Until effective draws are at least",
            "When to stop",
            "no such rule",
            "The effective sample size of the kept draws.",
        ),
    ),
    "max_seconds": Setting(
        "number",
        "stop",
        "Seconds since a worker first claimed the fit. Then chains end where they are; the model "
        "consists of the draws that all of them have, and chains without draws are dropped.",
        limits=(0, 31_536_000),
        ends="(]",
        form=FormField(
            "At most, in seconds",
            "When to stop",
            "no limit",
            "The fit ends with its present draws; the only rule that depends on the machine.",
        ),
    ),
    "max_draws": Setting(
        "whole",
        "stop",
        f"Most kept draws per chain; {TIMES_DRAWS} times num_draws by default.",
        limits=(1, math.inf),
        form=FormField(
            "At most, in draws per chain",
            "When to stop",
            f"{TIMES_DRAWS} times those above",
            "A fit that doesn't meet its rules ends here.",
        ),
    ),
}
