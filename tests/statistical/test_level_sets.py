"""Rules "x in A": every tree of a tiny table with a factor of four levels, against long chains."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from lab import categories
from sampler.data.level_sets import ways_to_part
from sampler.preparation import prepare
from tests.reference.enumerator import LEAF, Choice, Toy, normalised
from tests.support.chain_driver import STEP, decode, draws_of, mixes, tree_keys
from tests.support.reports.p_values import chi_square, holds

LEVELS = [0, 1, 2, 3, 0, 2]
NUMBERS = [0, 0, 1, 1, 1, 2]
Y = [0.4, -0.3, 0.2, 0.5, -0.35, 0.1]
CATEGORY, NUMBER = 0, 1
PARTITIONS = 7  # ways to part four levels


class SetToy(Toy):
    """A toy whose first column is of four levels; a rule is a column and the rows of the side of the first.

    Trees that send the same rows apart are one: which side is left doesn't matter.
    """

    def rules(self, rows):
        """Return the choices at a node, by rule."""
        if rows not in self._rules:
            members = self.members(rows)
            levels = sorted({LEVELS[i] for i in members})
            parts = [
                sum(1 << i for i in members if LEVELS[i] == levels[0] or LEVELS[i] in inside)
                for size in product([False, True], repeat=len(levels) - 1)
                if not all(size)
                for inside in [{level for level, there in zip(levels[1:], size, strict=True) if there}]
            ]
            assert len(parts) == 2 ** (len(levels) - 1) - 1
            cuts = sorted({NUMBERS[i] for i in members})
            cut = [sum(1 << i for i in members if NUMBERS[i] <= c) for c in range(cuts[0], cuts[-1])]
            # sets that part the levels there: all but those that have all of them on one side
            weights = [(PARTITIONS - (2 ** (4 - len(levels)) - 1)) / PARTITIONS, float(len(cut) > 0)]
            found = {}
            for column, choices in ((CATEGORY, parts), (NUMBER, cut)):
                for left in choices:
                    rule = column, self.first(left, rows)
                    found[rule] = found.get(rule, 0) + weights[column] / sum(weights) / len(choices)
            self._rules[rows] = {
                rule: Choice(rule, probability, rule[1], rows & ~rule[1])
                for rule, probability in found.items()
            }
        return self._rules[rows]

    def first(self, left, rows):
        """Return the side that has the first of the rows."""
        lowest = rows & -rows
        return left if left & lowest else rows & ~left

    def route(self, rows, rule):
        """Return the rows of a node that go left and right by a rule."""
        return rule[1], rows & ~rule[1]

    def from_engine(self, tree, codes, rows=None):
        """Return a tree of the engine as one of these."""
        rows = self.root if rows is None else rows
        if tree == LEAF:
            return LEAF
        (column, cut, _), left, right = tree
        of_left = sum(1 << i for i in self.members(rows) if codes[column, i] <= cut)
        a, b = (
            self.from_engine(part, codes, own) for part, own in ((left, of_left), (right, rows & ~of_left))
        )
        first = self.first(of_left, rows)
        return (NUMBER if column == 4 else CATEGORY, first), *((a, b) if first == of_left else (b, a))


@cache
def toy(*, likelihood=True):
    """Return the problem, with data or without."""
    return SetToy([LEVELS, NUMBERS], Y, likelihood=likelihood)


def counts_of(problem, moves, num_draws, thin):
    """Count the draws of each tree of a long chain, with a last cell for trees outside the support."""
    training = prepare(
        {"site": ["abcd"[level] for level in LEVELS], "x": NUMBERS},
        Y,
        categories="sets",
        num_trees=1,
        num_chains=1,
        num_burnin=1000,
        num_draws=num_draws,
        thin=thin,
        moves=moves,
        seed=11,
        prior_only=not problem.likelihood,
        noise="constant",
        transform="none",
        linear=False,
        prior={
            "alpha": problem.alpha,
            "beta": problem.beta,
            "leaf_sd": problem.leaf_variance**0.5,
            "sigma": problem.sigma2**0.5,
            "offset": 0.0,
            "step": STEP,
        },
    ).training
    assert len(training.codes) == 4 + 1 + PARTITIONS
    counts = np.zeros(len(problem.trees) + 1)
    draws = draws_of(training)
    for key, number in Counter(key for (key,) in tree_keys(draws)).items():
        counts[problem.index.get(problem.from_engine(decode(key), training.codes), -1)] += number
    return counts


@pytest.mark.parametrize("moves", mixes(), ids=str)
def test_frequencies_of_trees_are_those_of_brute_force(moves):
    problem = toy()
    counts = counts_of(problem, moves, 8_000, 30 if moves == "pg" else 150)
    holds(chi_square(counts, np.append(problem.posterior, 0.0)).p)


def test_the_prior_is_recovered_without_data():
    problem = toy(likelihood=False)
    assert np.isclose(np.exp(problem.log_prior).sum(), 1)
    counts = counts_of(problem, "default", 8_000, 100)
    holds(chi_square(counts, np.append(normalised(problem.log_prior), 0.0)).p)


def test_a_hypothetical_law_is_told_from_the_engines():
    """The check has the power to tell a prior that counts a category's sets as columns of their own."""
    problem = toy()
    other = SetToy([LEVELS, NUMBERS], Y)
    assert len(problem.trees) > 100  # which fills what follows
    for rows in {node for node, _ in [*problem._trees]}:
        choices = problem.rules(rows)
        of_sets = {rule: PARTITIONS if rule[0] == CATEGORY else 1 for rule in choices}
        total = sum(choice.probability * of_sets[rule] for rule, choice in choices.items())
        other._rules[rows] = {
            rule: replace(choice, probability=choice.probability * of_sets[rule] / total)
            for rule, choice in choices.items()
        }
    counts = counts_of(problem, "default", 8_000, 150)
    assert other.trees == problem.trees
    assert chi_square(counts, np.append(other.posterior, 0.0)).p < 1e-6


def test_drawn_sets_part_any_levels_as_often_as_uniform_ones():
    sides = np.concatenate([ways_to_part(levels)[:, :9] for levels in range(9, 60)])
    apart = (sides[:, :, None] != sides[:, None, :]).mean(axis=0)[np.triu_indices(9, 1)]
    assert np.abs(apart - 0.5).max() < 4 * 0.5 / len(sides) ** 0.5 + 1 / 127


@pytest.mark.long
def test_sets_learn_categories_of_many_levels_better_long():
    """With few levels and effects of single ones too they are no worse (docs/lab/categories.md)."""
    found = categories.compare(categories.SIMULATED[5:], 2, categories.SHORT)
    of_sets = {
        table: np.log(each["sets"]["rmse"] / each["indicators"]["rmse"]) for table, each in found.items()
    }
    assert np.mean([*of_sets.values()]) < np.log(0.97)
    assert max(of_sets.values()) < np.log(1.05)
    assert of_sets["slopes 40"] < np.log(0.95)


@pytest.mark.long
def test_sets_predict_real_tables_no_worse_long():
    """But where one category of many levels says nearly all (docs/lab/categories.md)."""
    found = categories.compare([*categories.TABLES], 2, categories.SHORT)
    ratios = [np.log(each["sets"]["pinball"] / each["indicators"]["pinball"]) for each in found.values()]
    assert np.mean(ratios) < np.log(1.02)
    assert max(ratios) < np.log(1.2)
