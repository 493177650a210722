"""Groups of compiled kernels, as `sampler.kernels.jit.warm` compiles or loads them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GROUPS", "MOVES", "Group", "Move"]


@dataclass(frozen=True)
class Group:
    """Modules, below `sampler`, that compile together, after the groups that they need.

    Kernels that take a leaf model are compiled for `leaf_model`. A group of the same modules for another one
    needs the first group: they share numba's index files, which one process at a time may write.
    """

    modules: tuple[str, ...]
    needs: tuple[str, ...] = ()
    leaf_model: str = ""  # "module.Class" below `sampler`


@dataclass(frozen=True)
class Move:
    """A move of one tree that is called through its address: its group, and where its pointer kernel is."""

    group: str
    module: str
    name: str


NORMAL = "bart.kernels.leaf_models.normal.Normal"
LOG_LINEAR = "bart.kernels.leaf_models.log_linear.LogLinear"

# Large ones first where others don't wait for them: two processes share a cold start.
GROUPS = {
    "base": Group(
        (
            "kernels.random",
            "kernels.dot_product",
            "kernels.exponential",
            "kernels.logarithm",
            "bart.kernels.tree_prior",
            "kernels.rows",
            "kernels.shared.team",
            "kernels.shared.rows",
            "bart.kernels.pairs",
            "kernels.rules",
            "bart.kernels.tree_tables",
            "bart.kernels.leaf_models.residual_bound",
            "bart.kernels.leaf_models.shared_passes",
        )
    ),
    "leaf-blocks": Group(("kernels.leaf_blocks",), ("base",)),
    "passes": Group(("bart.kernels.leaf_models.residual_pass",)),
    "bart": Group(
        (
            "bart.kernels.tree_update",
            "bart.kernels.forest_sweep",
            "bart.kernels.sweep",
        ),
        ("base", "passes"),
        NORMAL,
    ),
    "forest-call": Group(("bart.kernels.steps.forest_call",), ("base", "passes", "bart"), NORMAL),
    "latent-outcomes": Group(
        (
            "bart.kernels.probit",
            "bart.kernels.row_latents.censored",
            "bart.kernels.row_latents.latent_outcomes",
        ),
        ("base",),
    ),
    "rule": Group(
        ("bart.kernels.histograms", "bart.kernels.rule_draw", "bart.kernels.rule_draw_step"),
        ("base",),
        NORMAL,
    ),
    "team": Group(
        ("kernels.shared.parts", "bart.kernels.leaf_models.shared_parts"), ("base", "passes", "rule"), NORMAL
    ),
    "linear": Group(("bart.kernels.steps.linear_part",), ("base",)),
    "tree-sums": Group(("posterior.kernels.tree_sums",)),
    "intervals": Group(("posterior.kernels.mixture", "posterior.kernels.moments")),
    "draws": Group(("kernels.packing", "posterior.kernels.depths")),
    "prediction": Group((), ("tree-sums", "intervals", "draws")),
    "boosting": Group(("kernels.boosting",)),
    "heavy-tails": Group(("posterior.kernels.student",)),
    "mixtures": Group(("posterior.kernels.normal_mixture",)),
    "count-quantiles": Group(("posterior.kernels.count_quantiles",)),
    "count-scores": Group(("posterior.kernels.count_crps",)),
    "soft-prediction": Group(("soft.kernels.predict",)),
    "shapley": Group(("posterior.kernels.shapley",)),
    "usage": Group(("posterior.kernels.usage",)),
    "tree": Group(
        (
            "cart.kernels.rows",
            "cart.kernels.tree",
            "cart.kernels.moves",
            "cart.kernels.restructure",
            "cart.kernels.sweep",
        ),
        ("base", "leaf-blocks"),
    ),
    "change": Group(("bart.kernels.change_bottom",), ("base",), NORMAL),
    "reshape": Group(
        ("bart.kernels.below_split", "bart.kernels.change_and_swap"), ("base", "passes", "change"), NORMAL
    ),
    "layout": Group(("bart.kernels.particles.layout",), ("base",)),
    "particles": Group(
        ("bart.kernels.particles.growth", "bart.kernels.particles.sweep", "bart.kernels.particles.laws"),
        ("base", "passes", "bart", "forest-call", "layout"),
        NORMAL,
    ),
    "soft": Group(
        ("soft.kernels.vector_math", "soft.kernels.density", "soft.kernels.hmc", "soft.kernels.nuts"),
        ("base",),
    ),
    "restructure": Group(("bart.kernels.restructure",), ("base", "leaf-blocks", "change", "reshape"), NORMAL),
    "filter": Group(("cart.kernels.particle_filter",), ("base", "leaf-blocks", "tree")),
    "hyper": Group(("bart.kernels.hyperpriors",), ("base", "layout")),
    "weights": Group(("bart.kernels.leaf_models.weighted_pass",)),
    "intercepts": Group(("bart.kernels.steps.intercepts",), ("base",)),
    "group-slopes": Group(("bart.kernels.steps.group_slopes",), ("base",)),
    "spatial": Group(("bart.kernels.steps.spatial",), ("base",)),
    "effect-scale": Group(("bart.kernels.steps.effect_scale",), ("base",)),
    "several-outcomes": Group(
        ("bart.kernels.steps.covariance", "bart.kernels.steps.one_outcome"),
        ("base", "passes", "bart", "forest-call"),
        NORMAL,
    ),
    "student": Group(("bart.kernels.steps.student",), ("base", "log-linear")),
    "noise-mixture": Group(("bart.kernels.steps.noise_mixture",), ("base", "log-linear")),
    "log-linear": Group(("bart.kernels.leaf_models.log_linear_pass",), ("base",), LOG_LINEAR),
    "log-linear-trees": Group(
        (
            "bart.kernels.leaf_models.parts_pass",
            "bart.kernels.tree_update",
            "bart.kernels.forest_sweep",
            "bart.kernels.steps.forest_call",
        ),
        ("base", "passes", "log-linear", "bart", "forest-call"),
        LOG_LINEAR,
    ),
    "log-linear-scale": Group(("bart.kernels.steps.leaf_scale",), ("base", "log-linear")),
    "class-lines": Group(("bart.kernels.steps.class_lines",), ("base", "log-linear")),
    "classes": Group(("bart.kernels.row_latents.classes",), ("base", "log-linear")),
    "monotone": Group(
        ("bart.kernels.steps.monotone",), ("base", "passes", "bart", "latent-outcomes"), NORMAL
    ),
    "number-of-trees": Group(("bart.kernels.steps.number_of_trees",), ("base", "passes", "bart"), NORMAL),
    "ordered": Group(("bart.kernels.row_latents.ordered",), ("base",)),
    "counts": Group(("bart.kernels.row_latents.counts",), ("base", "log-linear")),
    "log-linear-rule": Group(
        ("bart.kernels.leaf_models.parts_by_code", "bart.kernels.rule_draw", "bart.kernels.rule_draw_step"),
        ("base", "log-linear", "rule"),
        LOG_LINEAR,
    ),
    "log-linear-particles": Group(
        ("bart.kernels.particles.growth", "bart.kernels.particles.sweep"),
        ("base", "layout", "log-linear-trees", "particles"),
        LOG_LINEAR,
    ),
}

# beside grow and prune, which every fit has
MOVES = {
    "rule": Move("rule", "bart.kernels.rule_draw_step", "DRAW_SPLIT_RULE_STEP"),
    "change_nog": Move("change", "bart.kernels.change_bottom", "CHANGE_BOTTOM_STEP"),
    "change": Move("reshape", "bart.kernels.change_and_swap", "CHANGE_ANY_STEP"),
    "swap": Move("reshape", "bart.kernels.change_and_swap", "SWAP_RULES_STEP"),
    "restructure": Move("restructure", "bart.kernels.restructure", "RESTRUCTURE_STEP"),
}
