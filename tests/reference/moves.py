"""Metropolis-Hastings moves over enumerated trees: every proposal with its probability and closed-form ratio.

A move maps a tree to a list of `Step(probability, tree, log_ratio)`; the remaining probability rejects. The
ratios are closed forms as a sampler uses them; `brute_ratios` computes them from the definition. Keywords
switch published mistakes on, to show that the tests detect them.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.reference.enumerator import LEAF, log_sum, nodes, normalised, replaced

CGM = {"grow": 0.25, "prune": 0.25, "change": 0.40, "swap": 0.10}
GROWPRUNE = {"grow": 0.5, "prune": 0.5}
GROWPRUNECHANGE = {"grow": 0.28, "prune": 0.28, "change_nog": 0.44}
RULE_DRAW = {"grow": 0.3, "prune": 0.3, "rule": 0.4}


@dataclass(frozen=True)
class Step:
    """One proposal: its probability, the tree proposed, and the closed-form log acceptance ratio."""

    probability: float
    tree: tuple
    log_ratio: float


def growable(toy, tree):
    """Return G(T): leaves that have a valid rule."""
    return [n for n in nodes(toy, tree) if n.tree == LEAF and toy.rules(n.rows)]


def internal(toy, tree):
    """Return I(T): the splits."""
    return [n for n in nodes(toy, tree) if n.tree != LEAF]


def nog(toy, tree):
    """Return W(T): splits whose two children are leaves."""
    return [n for n in internal(toy, tree) if n.tree[1] == LEAF and n.tree[2] == LEAF]


def pairs(toy, tree):
    """Return P(T): (parent, turn to the child) where both are splits."""
    return [(n, turn) for n in internal(toy, tree) for turn in (0, 1) if n.tree[1 + turn] != LEAF]


def _stop(toy, rows, depth):
    """Return log(1 - p) of a leaf."""
    return np.log1p(-toy.p_split(rows, depth))


def _split_gain(toy, rows, depth, left, right):
    """Return log of p(split, two leaves) / p(leaf), likelihood included, rule left out."""
    p = toy.p_split(rows, depth)
    gain = toy.ell(left) + toy.ell(right) - toy.ell(rows) + np.log(p) - np.log1p(-p)
    return gain + _stop(toy, left, depth + 1) + _stop(toy, right, depth + 1)


def grow(toy, tree, probs, pick="growable"):
    """Split a growable leaf by a rule from the prior; `pick="all"` counts leaves wrongly."""
    leaves = growable(toy, tree)
    steps = []
    for node in leaves:
        for choice in toy.rules(node.rows).values():
            new = replaced(tree, node.turns, (choice.rule, LEAF, LEAF))
            ratio = _split_gain(toy, node.rows, node.depth, choice.left, choice.right)
            ratio += np.log(probs["prune"] / probs["grow"]) - np.log(len(nog(toy, new)))
            ratio += np.log(len(leaves) if pick == "growable" else _num_leaves(toy, tree))
            steps.append(Step(choice.probability / len(leaves), new, ratio))
    return steps


def prune(toy, tree, probs, pick="growable"):
    """Turn a split over two leaves into a leaf."""
    parents = nog(toy, tree)
    steps = []
    for node in parents:
        new = replaced(tree, node.turns, LEAF)
        left, right = toy.route(node.rows, node.tree[0])
        ratio = -_split_gain(toy, node.rows, node.depth, left, right)
        ratio += np.log(probs["grow"] / probs["prune"]) + np.log(len(parents))
        ratio -= np.log(len(growable(toy, new)) if pick == "growable" else _num_leaves(toy, new))
        steps.append(Step(1 / len(parents), new, ratio))
    return steps


def _num_leaves(toy, tree):
    return sum(n.tree == LEAF for n in nodes(toy, tree))


@cache
def _below(toy, tree, turns, strict):
    """Return (sum of A, sum of ell) below a node, itself included unless strict; None if invalid."""
    prior = likelihood = 0.0
    for node in nodes(toy, tree):
        if node.turns[: len(turns)] != turns or (strict and node.turns == turns):
            continue
        if node.tree == LEAF:
            if not node.rows:
                return None
            prior += _stop(toy, node.rows, node.depth)
            likelihood += toy.ell(node.rows)
            continue
        choice = toy.rules(node.rows).get(node.tree[0])
        if choice is None:
            return None
        prior += np.log(toy.p_split(node.rows, node.depth)) + np.log(choice.probability)
    return prior, likelihood


def change(toy, tree, probs, where=internal, prior_terms=True):
    """Give a split a new rule from the prior; `prior_terms=False` omits A of the descendants."""
    nodes = where(toy, tree)
    steps = []
    for node in nodes:
        old = _below(toy, tree, node.turns, strict=True)
        for choice in toy.rules(node.rows).values():
            new = replaced(tree, node.turns, (choice.rule, *node.tree[1:]))
            now = _below(toy, new, node.turns, strict=True)
            if now is None:
                continue
            ratio = now[1] - old[1] + (now[0] - old[0] if prior_terms else 0.0)
            steps.append(Step(choice.probability / len(nodes), new, ratio))
    return steps


def change_nog(toy, tree, probs, prior_terms=True):
    """Apply `change` in W(T) only."""
    return change(toy, tree, probs, nog, prior_terms)


def change_good(toy, tree, probs, counts=True):
    """Apply BayesTree's change: a column, then a rule of it that keeps every descendant valid.

    `counts=False` leaves out log g_new - log g_old, as its source does.
    """
    steps = []
    nodes = internal(toy, tree)
    for node in nodes:
        valid = {}
        for choice in toy.rules(node.rows).values():
            new = replaced(tree, node.turns, (choice.rule, *node.tree[1:]))
            now = _below(toy, new, node.turns, strict=False)
            if now is not None:
                valid.setdefault(choice.rule[0], []).append((new, now))
        old = _below(toy, tree, node.turns, strict=False)
        g_old = len(valid[node.tree[0][0]])
        for options in valid.values():
            for new, now in options:
                ratio = now[0] - old[0] + now[1] - old[1] + (np.log(len(options) / g_old) if counts else 0.0)
                steps.append(Step(1 / len(nodes) / len(valid) / len(options), new, ratio))
    return steps


def swap_one(toy, tree, node, turn, cancel_rules=False):
    """Return (the tree proposed, closed-form log ratio) of one pair; None if a rule becomes invalid."""
    rule, kids = node.tree[0], list(node.tree[1:])
    child, other = kids[turn], kids[1 - turn]
    kids[turn] = (rule, *child[1:])
    if other != LEAF and other[0] == child[0]:
        kids[1 - turn] = (rule, *other[1:])
    new = replaced(tree, node.turns, (child[0], *kids))
    now = _below(toy, new, node.turns, strict=False)
    if now is None:
        return None
    old = _below(toy, tree, node.turns, strict=False)
    return new, now[1] - old[1] + (0.0 if cancel_rules else now[0] - old[0])


def swap(toy, tree, probs, cancel_rules=False):
    """Exchange the rules of a parent and a child, or of both children if their rules are identical.

    `cancel_rules=True` forgets that the priors of the two rules do not cancel.
    """
    candidates = pairs(toy, tree)
    tried = [swap_one(toy, tree, node, turn, cancel_rules) for node, turn in candidates]
    return [Step(1 / len(candidates), *step) for step in tried if step]


def rule_weights(toy, node, column, forget=None):
    """Return [(rule, log weight)] of one column at a node of W(T), and the log of their sum.

    `forget` leaves a piece of the exact weight out: "s", "n_adj", or "gaps" (sum over occupied codes only).
    """
    rules = toy.column_rules(node.rows, column)
    if not rules:
        return [], -np.inf
    present = {int(toy.codes[column, i]) for i in toy.members(node.rows)}
    out = []
    for rule, probability in rules:
        if forget == "gaps" and rule[1] not in present and rule[1] != 254:
            continue
        left, right = toy.route(node.rows, rule)
        weight = toy.ell(left) + toy.ell(right)
        if forget != "s":
            weight += _stop(toy, left, node.depth + 1) + _stop(toy, right, node.depth + 1)
        if forget != "n_adj":
            weight += np.log(probability)
        out.append((rule, weight))
    return out, log_sum(np.array([w for _, w in out]))


def rule(toy, tree, probs, partner="any", forget=None):
    """Draw the exact rule in W(T): the present column against one partner, then a rule; always accept."""
    parents = nog(toy, tree)
    steps = []
    for node in parents:
        own = node.tree[0][0]
        partners = range(toy.num_columns) if partner == "any" else toy.columns(node.rows)
        for other in partners:
            columns = [own] if other == own else [own, other]
            lists, sums = zip(*(rule_weights(toy, node, j, forget) for j in columns), strict=True)
            shares = normalised(np.array(sums))
            for options, share in zip(lists, shares, strict=True):
                if not options:
                    continue
                inner = normalised(np.array([w for _, w in options]))
                for (new_rule, _), p in zip(options, inner, strict=True):
                    new = replaced(tree, node.turns, (new_rule, LEAF, LEAF))
                    steps.append(Step(share * p / len(parents) / len(partners), new, np.inf))
    return steps


@cache
def _clean_rules(toy, blocks):
    """Return rules valid at a node of row blocks that cut no block: [(rule, left, right)]."""
    rules = []
    for choice in toy.rules(sum(blocks)).values():  # disjoint sets of bits: the sum is their union
        left = tuple(b for b in blocks if not b & choice.right)
        right = tuple(b for b in blocks if not b & choice.left)
        if len(left) + len(right) == len(blocks):
            rules.append((choice.rule, left, right))
    return rules


@cache
def _builds(toy, blocks):
    """Return every tree over these leaves' rows that can be built from the root, with its probability."""
    if len(blocks) == 1:
        return [(LEAF, 1.0)]
    rules = _clean_rules(toy, blocks)
    return [
        ((rule, left_tree, right_tree), p * q / len(rules))
        for rule, left, right in rules
        for left_tree, p in _builds(toy, left)
        for right_tree, q in _builds(toy, right)
    ]


@cache
def _ways(toy, tree):
    """Return the log product of the numbers of available rules at all splits."""
    return sum(np.log(len(_clean_rules(toy, _blocks(toy, tree, n.turns)))) for n in internal(toy, tree))


def _blocks(toy, tree, turns=()):
    """Return the rows of each leaf below a node, in an order that doesn't depend on the tree."""
    return tuple(
        sorted(n.rows for n in nodes(toy, tree) if n.tree == LEAF and n.turns[: len(turns)] == turns)
    )


def restructure(toy, tree, probs, counts=True):
    """Return another tree with the same leaves' rows; `counts=False` omits the numbers of choices."""
    if tree == LEAF:
        return []
    old, ways = _below(toy, tree, (), strict=False)[0], _ways(toy, tree)
    steps = []
    for new, chance in _builds(toy, _blocks(toy, tree)):
        ratio = _below(toy, new, (), strict=False)[0] - old
        steps.append(Step(chance, new, ratio + (_ways(toy, new) - ways if counts else 0.0)))
    return steps


MOVES = {
    "grow": grow,
    "prune": prune,
    "change": change,
    "change_nog": change_nog,
    "change_good": change_good,
    "swap": swap,
    "rule": rule,
    "restructure": restructure,
}


def transition(toy, probs, options=None, force_grow=False):
    """Return the transition matrix [tree, tree] of a mix of moves.

    probs: move -> probability; options: move -> keywords (the traps); force_grow: on a stump always grow, the
    ratio left as if not (bartMachine).
    """
    options = options or {}
    matrix = np.zeros((len(toy.trees), len(toy.trees)))
    for i, tree in enumerate(toy.trees):
        forced = force_grow and tree == LEAF
        for name, mix in ({"grow": 1.0} if forced else probs).items():
            for step in MOVES[name](toy, tree, probs, **options.get(name, {})):
                accepted = mix * step.probability * min(1.0, np.exp(min(step.log_ratio, 0.0)))
                matrix[i, toy.index[step.tree]] += accepted
        matrix[i, i] += 1.0 - matrix[i].sum()
    return matrix


def brute_ratios(toy, probs, name, reverse):
    """Return [(closed form, by definition)] of every proposal of a move with this `reverse`.

    The definition: posterior ratio times q(back) / q(there), q summed over the ways to the same tree.
    """
    target = toy.log_prior + toy.log_likelihood

    def totals(move):
        table = {}
        for tree in toy.trees:
            for step in MOVES[move](toy, tree, probs):
                key = tree, step.tree
                table[key] = table.get(key, 0.0) + probs[move] * step.probability
        return table

    there, back = totals(name), totals(reverse)
    out = []
    for tree in toy.trees:
        for step in MOVES[name](toy, tree, probs):
            gain = target[toy.index[step.tree]] - target[toy.index[tree]]
            q = np.log(back[step.tree, tree]) - np.log(there[tree, step.tree])
            out.append((step.log_ratio, gain + q))
    return np.array(out)


def stationary(matrix):
    """Return the stationary law of a transition matrix."""
    n = len(matrix)
    system = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]


def distance(p, q):
    """Return the total variation distance."""
    return 0.5 * np.abs(p - q).sum()


# Published mistakes: move set, the mistake of each move, whether growth is forced, a toy that shows it.
TRAPS = {
    "grow forced on a stump": (GROWPRUNE, None, True, "scheme A"),
    "forced grow, change by likelihood only": (
        GROWPRUNECHANGE,
        {"change_nog": {"prior_terms": False}},
        True,
        "scheme A",
    ),
    "change below inner nodes by likelihood only": (
        CGM,
        {"change": {"prior_terms": False}},
        False,
        "golden",
    ),
    "growable leaves picked, all leaves counted": (
        GROWPRUNE,
        {"grow": {"pick": "all"}, "prune": {"pick": "all"}},
        False,
        "golden",
    ),
    "good rules without their counts": (
        {"grow": 0.25, "prune": 0.25, "change_good": 0.5},
        {"change_good": {"counts": False}},
        False,
        "scheme A",
    ),
    "swap with rule priors cancelled": (CGM, {"swap": {"cancel_rules": True}}, False, "golden"),
    "rule draw without s": (RULE_DRAW, {"rule": {"forget": "s"}}, False, "gapped"),
    "rule draw without 1/n_adj": (RULE_DRAW, {"rule": {"forget": "n_adj"}}, False, "gapped"),
    "rule draw over occupied codes": (RULE_DRAW, {"rule": {"forget": "gaps"}}, False, "gapped"),
    "restructure without the numbers of ways": (
        {"grow": 0.25, "prune": 0.25, "restructure": 0.5},
        {"restructure": {"counts": False}},
        False,
        "gapped",
    ),
    "rule draw without s, missing values": (RULE_DRAW, {"rule": {"forget": "s"}}, False, "missing"),
}
