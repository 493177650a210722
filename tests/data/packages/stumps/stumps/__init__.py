"""A prior of trees of somebody else's: one split at most."""

from sampler.definitions.setting import FormField, Setting
from sampler.definitions.tree_laws import PriorOfTrees

STUMPS = PriorOfTrees(
    "one split at most",
    "stumps.kernel:DECIDE",
    {
        "split_chance": Setting(
            "number",
            "prior",
            "Probability of a split. Only with trees: stumps.",
            default=0.5,
            limits=(0, 1),
            form=FormField("Chance of a split", "Prior", "0.5"),
        )
    },
    "stumps.kernel:table",
)
