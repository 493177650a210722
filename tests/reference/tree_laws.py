"""Priors of trees other than by depth, over enumerated trees, from their definitions alone."""

import math
from collections import defaultdict
from dataclasses import dataclass, field, fields

import numpy as np
from scipy.special import beta

from tests.reference.enumerator import LEAF, Toy, count_leaves

IMPOSSIBLE = "impossible"  # the decision of a particle that is no tree of the prior
LEAVES = ("leaves", "pinball")


@dataclass(eq=False)
class LawToy(Toy):
    """A problem whose trees have another prior, given that rows allow the tree."""

    law: dict = field(default_factory=dict)  # entries of `prior`

    def number_of_leaves(self, rows):
        """Return {leaves: probability} of the root; as many as there are rows, at most."""
        mean = self.law["num_leaves"]
        if not self.rules(rows):
            return {1: 1.0}
        counts = range(1, rows.bit_count() + 1)
        if self.law["trees"] == "leaves":
            return {k: poisson(k, mean) / (1 - poisson(0, mean)) for k in counts}
        return {k: poisson(k - 1, mean - 1) for k in counts}

    def share(self, left, leaves):
        """Return the probability that so many of a node's leaves are on the left."""
        if self.law.get("mistaken"):
            return 1 / (leaves - 1)
        if self.law["trees"] == "leaves":  # shapes with as many on the left, of all shapes
            return catalan(left) * catalan(leaves - left) / catalan(leaves)
        evenness = self.law["evenness"]
        return math.comb(leaves - 2, left - 1) * beta(
            left - 1 + evenness, leaves - left - 1 + evenness
        ) / beta(evenness, evenness)  # fmt: skip

    def best_of(self, rows):
        """Return [(probability, rule)] of the first rule of some that halves the rows best."""
        rules = list(self.rules(rows).values())
        p = np.array([each.probability for each in rules])
        uneven = np.array([abs(2 * each.left.bit_count() - rows.bit_count()) for each in rules])
        worse, as_bad = (uneven > uneven[:, None]) @ p, (uneven >= uneven[:, None]) @ p
        tries = self.law["tries"]
        chosen = sum(p * worse**before * as_bad ** (tries - 1 - before) for before in range(tries))
        return [(each, rule.rule) for each, rule in zip(chosen, rules, strict=True)]

    def choices(self, rows, depth, leaves):
        """Return [(probability, rule, leaves that its children must have)]; the root has any number."""
        if self.law["trees"] == "balanced":
            p = self.p_split(rows, depth)
            return [(1.0 - p, None, ()), *((p * each, rule, (0, 0)) for each, rule in self.best_of(rows))]
        numbers = {leaves: 1.0} if leaves else self.number_of_leaves(rows)
        rules = self.rules(rows).values()
        out = [(p, None, ()) for k, p in numbers.items() if k == 1]
        out += [
            (p * self.share(left, k) * each.probability, each.rule, (left, k - left))
            for k, p in numbers.items()
            for left in range(1, k)
            for each in rules
        ]
        return [*out, (1.0 - math.fsum(p for p, *_ in out), IMPOSSIBLE, ())]

    def must_have(self, tree):
        """Return the leaves of a tree where the prior is about these."""
        return count_leaves(tree) if self.law["trees"] in LEAVES else 0

    def below(self, rows, depth, leaves):
        """Return {tree: probability} below a node; what is missing from 1 can't be."""
        found = defaultdict(float)
        for p, rule, given in self.choices(rows, depth, leaves):
            if rule is None:
                found[LEAF] += p
            elif rule != IMPOSSIBLE:
                sides = [
                    self.below(side, depth + 1, each)
                    for side, each in zip(self.route(rows, rule), given, strict=True)
                ]
                for a, left in sides[0].items():
                    for b, right in sides[1].items():
                        found[rule, a, b] += p * left * right
        return found

    def grown(self, rows, depth):
        """Return [(tree, log prior)] of the trees that rows allow."""
        found = self.below(rows, depth, 0)
        total = math.fsum(found.values())
        return [(tree, math.log(p / total)) for tree, p in found.items() if p > 0]


def under(toy, law):
    """Return the problem with another prior of trees; itself with that by depth."""
    if law["trees"] == "depth":
        return toy
    constants = {each.name: getattr(toy, each.name) for each in fields(Toy) if not each.name.startswith("_")}
    return LawToy(**constants, law=law)


def poisson(count, mean):
    """Return a Poisson probability."""
    return math.exp(-mean) * mean**count / math.factorial(count)


def catalan(leaves):
    """Return the number of shapes of trees with so many leaves."""
    return math.comb(2 * leaves - 2, leaves - 1) // leaves
