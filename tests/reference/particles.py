"""Particle Gibbs over enumerated trees with two particles: every outcome with its exact probability.

A partial tree is the tuple of its decisions, breadth first: a rule with the leaves that its children must
have, or None for a leaf; DEAD if it is no tree of the prior. The retained tree's are known; the law of the
free particle is carried from stage to stage as a dict.
"""

import numpy as np

from tests.reference.enumerator import LEAF
from tests.reference.tree_laws import IMPOSSIBLE

DEAD = (IMPOSSIBLE,)


def decisions_of(toy, tree):
    """Return the decisions of a whole tree, breadth first."""
    queue, out = [tree], []
    while queue:
        node = queue.pop(0)
        out.append(None if node == LEAF else (node[0], *map(toy.must_have, node[1:])))
        queue += [] if node == LEAF else [node[1], node[2]]
    return tuple(out)


def queue_of(toy, decisions):
    """Return [(rows, depth, leaves it must have)] of the nodes still undecided after these decisions."""
    if decisions == DEAD:
        return []
    queue = [(toy.root, 0, 0)]
    for decision in decisions:
        rows, depth, _ = queue.pop(0)
        if decision is not None:
            left, right = toy.route(rows, decision[0])
            queue += [(left, depth + 1, decision[1]), (right, depth + 1, decision[2])]
    return queue


def tree_of(decisions):
    """Return the tree of a complete tuple of decisions."""
    children, count = {}, 1
    for at, rule in enumerate(decisions):
        if rule is not None:
            children[at] = count
            count += 2

    def build(at):
        return (decisions[at][0], build(children[at]), build(children[at] + 1)) if at in children else LEAF

    return build(0)


def steps(toy, decisions):
    """Return [(probability, decisions after it, log weight gained)] of one free step."""
    queue = queue_of(toy, decisions)
    if not queue:
        return [(1.0, decisions, 0.0)]
    rows, depth, leaves = queue[0]
    out = []
    for p, rule, given in toy.choices(rows, depth, leaves):
        if rule is None:
            out.append((p, (*decisions, None), 0.0))
            continue
        sides = toy.route(rows, rule) if rule != IMPOSSIBLE else ()
        lives = rule != IMPOSSIBLE and all(
            k < 2 or (toy.rules(side) and side.bit_count() >= k) for side, k in zip(sides, given, strict=True)
        )
        if lives:
            gain = sum(map(toy.ell, sides)) - toy.ell(rows)
            out.append((p, (*decisions, (rule, *given)), gain))
        else:
            out.append((p, DEAD, -np.inf))
    return out


def shares(first, second):
    """Return the two particles' normalised weights."""
    top = max(first, second)
    a, b = np.exp(first - top), np.exp(second - top)
    return a / (a + b), b / (a + b)


def outcomes(toy, tree, keep_retained=True):
    """Return {tree: probability} after one call of particle Gibbs with two particles.

    `keep_retained=False` is a mistake: the free particle never descends from the retained one.
    """
    retained = decisions_of(toy, tree)
    gains, rows_of = [], [toy.root]
    for decision in retained:
        rows = rows_of.pop(0)
        gains.append(0.0)
        if decision is not None:
            left, right = toy.route(rows, decision[0])
            gains[-1] = toy.ell(left) + toy.ell(right) - toy.ell(rows)
            rows_of += [left, right]
    law, done, stage = {((), None): 1.0}, {}, 0
    while law:
        after = {}
        for (decisions, gained), mass in law.items():
            if stage == 0:
                parents = [(1.0, ())]
            else:
                mine, free = shares(gains[stage - 1] if stage <= len(gains) else 0.0, gained)
                parents = [(mine, retained[:stage]), (free, decisions)]
                parents = parents if keep_retained else [(1.0, decisions)]
            for share, parent in parents:
                for p, new, gain in steps(toy, parent):
                    key = new, gain
                    after[key] = after.get(key, 0.0) + mass * share * p
        stage += 1
        law = {}
        for (decisions, gained), mass in after.items():
            if stage < len(retained) or queue_of(toy, decisions):
                law[decisions, gained] = law.get((decisions, gained), 0.0) + mass
                continue
            mine, free = shares(gains[stage - 1] if stage <= len(gains) else 0.0, gained)
            results = [(mine, tree)] if decisions == DEAD else [(mine, tree), (free, tree_of(decisions))]
            for share, result in results:
                done[result] = done.get(result, 0.0) + mass * share
    return done


def transition(toy, **mistake):
    """Return the transition matrix [tree, tree] of one call."""
    matrix = np.zeros((len(toy.trees), len(toy.trees)))
    for i, tree in enumerate(toy.trees):
        for result, probability in outcomes(toy, tree, **mistake).items():
            matrix[i, toy.index[result]] += probability
    return matrix
