"""Every supported tree of a tiny coded problem, with its exact prior, evidence and posterior.

A tree is a nested tuple: ``()`` is a leaf and ``(rule, left, right)`` a split, where
``rule = (column, cut, missing_left)``. A present row goes left iff ``code <= cut``, a missing one (code 255)
iff ``missing_left``; the rule "present | missing" is ``cut = 254, missing_left = 0``. Rows are the bits of an
int.

Three schemes of candidate cuts (the sampler's is ``"C"``; the others are there for published golden values):

- ``"A"``: between consecutive distinct values at the node, uniform;
- ``"B"``: the same cuts, each with the length of its gap;
- ``"C"``: every code from the node's least to its greatest but one, absent codes included, uniform.

With ``sides="stored"`` every rule keeps a side, a fair coin where no row at the node is missing; with
``"collapsed"`` the two are one rule there (side 0), which is exact as long as no move re-routes rows above an
existing rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product

import numpy as np

MISSING = 255
PRESENT_OR_MISSING = 254
LEAF = ()


@dataclass(frozen=True)
class Choice:
    """One valid rule at a node: its prior probability there and the rows it sends to either side."""

    rule: tuple[int, int, int]
    probability: float
    left: int
    right: int


@dataclass(eq=False)
class Toy:
    """A problem small enough to enumerate: codes [p, n], y [n], and every constant of the model."""

    codes: np.ndarray
    y: np.ndarray
    alpha: float = 0.95
    beta: float = 1.0
    sigma2: float = 0.05
    leaf_variance: float = 0.0625
    weights: np.ndarray | None = None
    scheme: str = "C"
    sides: str = "collapsed"
    likelihood: bool = True
    _rules: dict = field(default_factory=dict, repr=False)
    _ell: dict = field(default_factory=dict, repr=False)
    _trees: dict = field(default_factory=dict, repr=False)
    _nodes: dict = field(default_factory=dict, repr=False)

    def __post_init__(self):
        self.codes = np.asarray(self.codes, np.uint8)
        self.y = np.asarray(self.y, float)
        self.num_columns, self.num_rows = self.codes.shape
        self.root = (1 << self.num_rows) - 1

    def members(self, rows):
        """Return the row numbers of a bit set."""
        return [i for i in range(self.num_rows) if rows >> i & 1]

    def route(self, rows, rule):
        """Return the rows of a node that go left and right by a rule."""
        column, cut, missing_left = rule
        left = 0
        for i in self.members(rows):
            code = self.codes[column, i]
            if missing_left if code == MISSING else code <= cut:
                left |= 1 << i
        return left, rows & ~left

    def column_rules(self, rows, column):
        """Return [(rule, probability given the column)] of one column's valid rules at a node."""
        codes = [int(self.codes[column, i]) for i in self.members(rows)]
        present = sorted({c for c in codes if c != MISSING})
        if not present:
            return []
        missing = MISSING in codes
        if self.scheme == "C":
            cuts = dict.fromkeys(range(present[0], present[-1]), 1.0)
        else:
            cuts = {a: float(b - a) if self.scheme == "B" else 1.0 for a, b in pairwise(present)}
        both = missing or self.sides == "stored"
        weighted = [((column, c, side), w) for c, w in cuts.items() for side in ((0, 1) if both else (0,))]
        if missing:
            weighted.append(((column, PRESENT_OR_MISSING, 0), 1.0))
        total = sum(w for _, w in weighted)
        return [(rule, w / total) for rule, w in weighted]

    def rules(self, rows):
        """Return the choices at a node, by rule; empty if and only if it cannot be split."""
        if rows not in self._rules:
            columns = [self.column_rules(rows, j) for j in range(self.num_columns)]
            columns = [c for c in columns if c]
            self._rules[rows] = {
                rule: Choice(rule, p / len(columns), *self.route(rows, rule))
                for c in columns
                for rule, p in c
            }
        return self._rules[rows]

    def columns(self, rows):
        """Return V(node): the columns that have a valid rule there."""
        return sorted({rule[0] for rule in self.rules(rows)})

    def p_split(self, rows, depth):
        """Return the generative prior's probability of a split: 0 where no rule is valid."""
        return self.alpha * (1.0 + depth) ** -self.beta if self.rules(rows) else 0.0

    def choices(self, rows, depth, _leaves):
        """Return [(probability, rule or None, leaves that its children must have)] of a node's decisions."""
        p = self.p_split(rows, depth)
        split = [(p * each.probability, rule, (0, 0)) for rule, each in self.rules(rows).items()]
        return [(1.0 - p, None, ()), *split]

    def must_have(self, _tree):
        """Return how many leaves a node must have that is known to have this tree; 0: any number."""
        return 0

    def ell(self, rows):
        """Return the leaf's marginal log-likelihood, up to terms that sum to a constant over a tree."""
        if not self.likelihood:
            return 0.0
        if rows not in self._ell:
            i = self.members(rows)
            w = np.ones(len(i)) if self.weights is None else np.asarray(self.weights, float)[i]
            total, s = w.sum(), (w * self.y[i]).sum()
            denominator = self.sigma2 + total * self.leaf_variance
            self._ell[rows] = 0.5 * np.log(self.sigma2 / denominator) + self.leaf_variance * s * s / (
                2 * self.sigma2 * denominator
            )
        return self._ell[rows]

    def grown(self, rows, depth):
        """Return [(tree, log prior)] of every supported subtree at a node."""
        key = rows, depth
        if key not in self._trees:
            p = self.p_split(rows, depth)
            out = [(LEAF, np.log1p(-p))]
            for choice in self.rules(rows).values():
                start = np.log(p) + np.log(choice.probability)
                both = product(self.grown(choice.left, depth + 1), self.grown(choice.right, depth + 1))
                out += [((choice.rule, a, b), start + la + lb) for (a, la), (b, lb) in both]
            self._trees[key] = out
        return self._trees[key]

    @cached_property
    def trees(self):
        """Every supported tree."""
        return [tree for tree, _ in self.grown(self.root, 0)]

    @cached_property
    def index(self):
        """Tree -> its place in `trees`."""
        return {tree: i for i, tree in enumerate(self.trees)}

    @cached_property
    def log_prior(self):
        """log p(T), in the order of `trees`."""
        return np.array([lp for _, lp in self.grown(self.root, 0)])

    @cached_property
    def log_likelihood(self):
        """Sum of `ell` over the leaves, in the order of `trees`."""
        return np.array([sum(self.ell(rows) for rows in leaves(self, tree)) for tree in self.trees])

    @cached_property
    def posterior(self):
        """p(T | y), in the order of `trees`, for a forest of this one tree."""
        return normalised(self.log_prior + self.log_likelihood)

    @cached_property
    def log_evidence(self):
        """log sum over T of p(T) p(y | T), one tree."""
        w = np.ones(self.num_rows) if self.weights is None else np.asarray(self.weights, float)
        constant = -0.5 * (self.num_rows * np.log(2 * np.pi * self.sigma2) - np.log(w).sum())
        constant -= (w * self.y**2).sum() / (2 * self.sigma2)
        return constant + log_sum(self.log_prior + self.log_likelihood)

    def scope(self, tree):
        """Return log p(T) of any tree, supported (finite) or not (-inf)."""
        total = 0.0
        for node in nodes(self, tree):
            p = self.p_split(node.rows, node.depth)
            if node.tree == LEAF:
                total += np.log1p(-p)
                continue
            choice = self.rules(node.rows).get(node.tree[0])
            if choice is None:
                return -np.inf
            total += np.log(p) + np.log(choice.probability)
        return total

    def canonical(self, tree, rows=None):
        """Return the tree with side 0 for rules that meet no missing row (for collapsed sides)."""
        rows = self.root if rows is None else rows
        if tree == LEAF:
            return LEAF
        (column, cut, side), left, right = tree
        if self.sides == "collapsed" and not any(
            self.codes[column, i] == MISSING for i in self.members(rows)
        ):
            side = 0
        go_left, go_right = self.route(rows, (column, cut, side))
        return (column, cut, side), self.canonical(left, go_left), self.canonical(right, go_right)


@dataclass(frozen=True)
class Node:
    """A node of one tree: the turns that lead to it (0 left, 1 right), its rows, and its subtree."""

    turns: tuple[int, ...]
    rows: int
    tree: tuple

    @property
    def depth(self):
        return len(self.turns)


def nodes(toy, tree) -> list[Node]:
    """Return the nodes of a tree in pre-order; rows are routed whether or not the rules are valid."""
    if tree not in toy._nodes:
        toy._nodes[tree] = list(_walk(toy, tree))
    return toy._nodes[tree]


def _walk(toy, tree) -> Iterator[Node]:
    stack = [Node((), toy.root, tree)]
    while stack:
        node = stack.pop()
        yield node
        if node.tree != LEAF:
            rule, left, right = node.tree
            go_left, go_right = toy.route(node.rows, rule)
            stack.append(Node((*node.turns, 1), go_right, right))
            stack.append(Node((*node.turns, 0), go_left, left))


def leaves(toy, tree):
    """Return the row sets of the leaves, in pre-order."""
    return [node.rows for node in nodes(toy, tree) if node.tree == LEAF]


def count_leaves(tree):
    """Return the number of leaves of a tree."""
    return 1 if tree == LEAF else count_leaves(tree[1]) + count_leaves(tree[2])


def replaced(tree, turns, subtree):
    """Return the tree with the node at `turns` replaced."""
    if not turns:
        return subtree
    rule, left, right = tree
    if turns[0]:
        return rule, left, replaced(right, turns[1:], subtree)
    return rule, replaced(left, turns[1:], subtree), right


def log_sum(x):
    """Return log(sum(exp(x)))."""
    top = np.max(x)
    return top + np.log(np.exp(x - top).sum())


def normalised(log_weights):
    """Return exp(x) divided by its sum."""
    w = np.exp(log_weights - np.max(log_weights))
    return w / w.sum()


def leaf_law(toy, probabilities):
    """Return P(1, 2, .. leaves) under a law over `toy.trees`."""
    sizes = np.array([count_leaves(tree) for tree in toy.trees])
    return np.array([probabilities[sizes == k].sum() for k in range(1, sizes.max() + 1)])


def membership(toy, tree):
    """Return Z Z' of one tree: 1 where two rows share a leaf."""
    leaf = np.zeros(toy.num_rows, int)
    for k, rows in enumerate(leaves(toy, tree)):
        leaf[toy.members(rows)] = k
    return (leaf[:, None] == leaf).astype(float)


class Forest:
    """The exact posterior of m trees at fixed sigma, over tuples of the row partitions that trees make."""

    def __init__(self, toy, num_trees):
        self.toy, self.num_trees = toy, num_trees
        grams = [membership(toy, tree) for tree in toy.trees]
        keys, self.partition = {}, np.empty(len(grams), int)
        for i, gram in enumerate(grams):
            self.partition[i] = keys.setdefault(gram.tobytes(), len(keys))
        self.grams = np.array([np.frombuffer(k).reshape(grams[0].shape) for k in keys])
        prior = np.exp(toy.log_prior)
        self.partition_prior = np.bincount(self.partition, prior)
        self.tuples = np.array(list(product(range(len(keys)), repeat=num_trees)))
        self.log_prior = np.log(self.partition_prior)[self.tuples].sum(1)
        self.kernel = toy.leaf_variance * self.grams[self.tuples].sum(1)

    def log_likelihood(self, sigma2=None, rows=None):
        """log N(y; 0, sigma2 / w + K) of every tuple of partitions."""
        toy = self.toy
        sigma2 = toy.sigma2 if sigma2 is None else sigma2
        w = np.ones(toy.num_rows) if toy.weights is None else np.asarray(toy.weights, float)
        covariance = self.kernel + np.diag(sigma2 / w)
        solved = np.linalg.solve(
            covariance, np.broadcast_to(toy.y[:, None], (len(covariance), toy.num_rows, 1))
        )
        quadratic = (toy.y[None, :] * solved[..., 0]).sum(1)
        return -0.5 * (toy.num_rows * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + quadratic)

    def posterior(self, sigma2=None):
        """p(tuple of partitions | y)."""
        return normalised(self.log_prior + self.log_likelihood(sigma2))

    def log_evidence(self, sigma2=None):
        """log p(y), trees and leaf values summed out."""
        return log_sum(self.log_prior + self.log_likelihood(sigma2))

    def mean(self, sigma2=None):
        """E[f at the rows | y]."""
        toy = self.toy
        sigma2 = toy.sigma2 if sigma2 is None else sigma2
        w = np.ones(toy.num_rows) if toy.weights is None else np.asarray(toy.weights, float)
        y = np.broadcast_to(toy.y[:, None], (len(self.kernel), toy.num_rows, 1))
        means = (self.kernel @ np.linalg.solve(self.kernel + np.diag(sigma2 / w), y))[..., 0]
        return self.posterior(sigma2) @ means

    def total_leaves(self, sigma2=None):
        """Return P(total leaves = m, m + 1, ...)."""
        sizes = np.array([len({row.tobytes() for row in g}) for g in self.grams])[self.tuples].sum(1)
        law = np.bincount(sizes, self.posterior(sigma2))
        return law[self.num_trees :]

    def sigma_law(self, nu, lambda_, grid):
        """Return the posterior density of log sigma2 on an even grid, sigma2 ~ nu lambda / chi2(nu)."""
        log_prior = -0.5 * nu * np.log(grid) - nu * lambda_ / (2 * grid)
        return normalised(log_prior + np.array([self.log_evidence(s) for s in grid]))
