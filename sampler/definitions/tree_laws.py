"""Priors of the trees of a sum, by name: what draws a node's decision, and what more a fit is told of it.

Code is named rather than imported, as in `sampler.engines`. An installed package adds a prior by an entry
point of the group `bartserve.tree_laws` that names its `PriorOfTrees`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from sampler.definitions.setting import FormField, Setting
from sampler.errors import SettingsError, suggestion

OF_DEPTH = ("alpha", "beta")


@dataclass(frozen=True)
class PriorOfTrees:
    """A prior of trees that particle Gibbs draws from (docs/maths.md#other-tree-priors).

    Attributes
    ----------
    text
        What it says of trees, in a few words.
    kernel
        Pointer kernel that decides a node as the prior would, "module:name"
        (`sampler.bart.kernels.particles.laws`).
    settings
        Entries of `prior` that it has of its own, by name, with their defaults.
    table
        Function from these entries to figures that its kernel reads, float64 [.., ..], "module:name".
    by_depth
        Whether it has `alpha` and `beta`.
    density
        Whether local moves and the draw of columns' shares know its density: else trees are drawn by
        particles alone.

    """

    text: str
    kernel: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    table: str = ""
    by_depth: bool = False
    density: bool = False

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of all entries of `prior` that have a meaning with it."""
        return (*self.settings, *(OF_DEPTH if self.by_depth else ()))


NUM_LEAVES = Setting(
    "number",
    "prior",
    "Expected number of leaves of a tree. Only with trees: leaves or pinball.",
    default=2.5,
    limits=(1, 100),
    ends="()",
    form=FormField("Leaves of a tree", "Prior", "2.5, with trees by leaves"),
)
DEPTH = "depth"
_KERNELS, _TABLES = "sampler.bart.kernels.particles.laws", "sampler.bart.tree_laws"
TREE_LAWS: dict[str, PriorOfTrees] = {
    # Chipman, George and McCulloch 1998
    DEPTH: PriorOfTrees(
        "deeper nodes split less often",
        f"{_KERNELS}:BY_DEPTH",
        {},
        f"{_TABLES}:tries",
        by_depth=True,
        density=True,
    ),
    # Denison, Mallick and Smith 1998
    "leaves": PriorOfTrees(
        "a number of leaves, and all shapes alike",
        f"{_KERNELS}:BY_LEAVES",
        {"num_leaves": NUM_LEAVES},
        f"{_TABLES}:uniform_shapes",
    ),
    # Wu, Tjelmeland and West 2007
    "pinball": PriorOfTrees(
        "a number of leaves, passed down like pinballs",
        f"{_KERNELS}:BY_LEAVES",
        {
            "num_leaves": NUM_LEAVES,
            "evenness": Setting(
                "number",
                "prior",
                "Larger: nodes share their leaves more evenly. Only with trees: pinball.",
                default=1.0,
                limits=(0, 1e6),
                ends="()",
                form=FormField("Evenness of pinball trees", "Prior", "1: every share alike"),
            ),
        },
        f"{_TABLES}:pinballs",
    ),
    "balanced": PriorOfTrees(
        "of some rules drawn the one that halves the rows best",
        f"{_KERNELS}:BY_DEPTH",
        {
            "tries": Setting(
                "whole",
                "prior",
                "Rules drawn for a split, of which the one that halves its rows best is taken. Only with "
                "trees: balanced.",
                default=3,
                limits=(1, 100),
                form=FormField("Rules tried by balanced trees", "Prior", "3"),
            )
        },
        f"{_TABLES}:tries",
        by_depth=True,
    ),
}
TREE_LAWS |= {entry.name: entry.load() for entry in entry_points(group="bartserve.tree_laws")}
LAW_SETTINGS: dict[str, Setting] = {  # entries of `prior`
    "trees": Setting(
        "word",
        "prior",
        "Which trees are likely: by depth (alpha, beta); by their number of leaves, all shapes alike, or "
        "passed down like pinballs; or with balanced splits. All but depth need moves: pg.",
        choices=tuple(TREE_LAWS),
        form=FormField(
            "Trees",
            "Prior",
            "depth",
            choices=tuple((name, f"{name}: {law.text}") for name, law in TREE_LAWS.items() if name != DEPTH),
        ),
    ),
    **{name: entry for law in TREE_LAWS.values() for name, entry in law.settings.items()},
}


def find_law(trees: Mapping[str, Any]) -> PriorOfTrees:
    """Return the prior that such entries name, that by depth if none; raise SettingsError if unknown."""
    name = trees.get("trees", DEPTH)
    if name not in TREE_LAWS:
        message = f"no installed package has trees {name!r}{suggestion(str(name), TREE_LAWS)}"
        raise SettingsError(message, field="prior.trees", code="unknown")
    return TREE_LAWS[name]


def entries_of_law(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that tell of the prior of trees, with defaults; empty for that by depth."""
    law = find_law(entries)
    if law is TREE_LAWS[DEPTH]:
        return {}
    own = {name: entries.get(name, entry.default) for name, entry in law.settings.items()}
    return {"trees": entries["trees"], **own}


def check_law(given: Mapping[str, Any]) -> None:
    """Raise SettingsError for a given entry that has no meaning with the prior of trees."""
    law = find_law(given)
    for name in given.keys() & {*OF_DEPTH, *LAW_SETTINGS} - {"trees", *law.entries}:
        others = " or ".join(each for each, other in TREE_LAWS.items() if name in other.entries)
        message = f"prior {name} has a meaning only with trees: {others}"
        raise SettingsError(message, field=f"prior.{name}", code="not_applicable")
