"""The compiled kernels, by the groups that `sampler.compile.warm` compiles or loads."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GROUPS", "MOVES", "Group", "Move"]


@dataclass(frozen=True)
class Group:
    """Modules of this package that compile together, after the groups that they need."""

    modules: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """A move of one tree that is called through its address: its group, and where its pointer kernel is."""

    group: str
    module: str
    name: str


# Large ones first where others don't wait for them: two processes share a cold start.
GROUPS = {
    "base": Group(("random", "leaves", "rows", "pairs", "rules", "trees", "state", "blocks")),
    "passes": Group(("fused",)),
    "bart": Group(("probit", "update", "sweep"), ("base", "passes")),
    "rule": Group(("histograms", "ruledraw", "rulestep"), ("base",)),
    "prediction": Group(("packing", "predicting", "mixture", "moments", "depths", "soft_predict")),
    "tree": Group(("cart_rows", "cart_tree", "cart_moves", "cart_restructure", "cart_sweep"), ("base",)),
    "change": Group(("change",), ("base",)),
    "reshape": Group(("reshape",), ("base", "passes", "change")),
    "particles": Group(("layout", "particles", "psweep"), ("base", "passes", "bart")),
    "soft": Group(("soft_math", "soft_density", "soft_hmc", "soft_nuts"), ("base",)),
    "restructure": Group(("restructure",), ("base", "change", "reshape")),
    "filter": Group(("cart_filter",), ("base", "tree")),
    "hyper": Group(("hyper",), ("base", "passes", "bart", "particles")),
    "weights": Group(("weighted",)),
}

# beside grow and prune, which every fit has
MOVES = {
    "rule": Move("rule", "rulestep", "DRAW_SPLIT_RULE_STEP"),
    "change_nog": Move("change", "change", "CHANGE_BOTTOM_STEP"),
    "change": Move("reshape", "reshape", "CHANGE_ANY_STEP"),
    "swap": Move("reshape", "reshape", "SWAP_RULES_STEP"),
    "restructure": Move("restructure", "restructure", "RESTRUCTURE_STEP"),
}
