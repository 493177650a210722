"""Entries of `prior` for every prior of trees: tests ask the same of each."""

from sampler.definitions.tree_laws import TREE_LAWS

LAWS = {
    "leaves": {"num_leaves": 4.0},
    "depth": {},
    "pinball": {"num_leaves": 2.6, "evenness": 0.4},
    "balanced": {"tries": 2},
}
LAWS = {name: {"trees": name, **entries} for name, entries in LAWS.items()}
assert LAWS.keys() == TREE_LAWS.keys(), "a prior of trees is not tested"
