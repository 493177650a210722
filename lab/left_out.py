# ruff: noqa: SLF001  # the trees of a chain are looked at
"""Estimate the benefit of moves and starts that were left out, from the states of a default chain.

    python -m lab left_out [--data friedman-1000 friedman-10000 diabetes auto_mpg boston computers]
                           [--states 20] [--sweeps 60]

informed: a grow whose cut is drawn by the evidence of every cut of a column, with the weights of the exact
rule draw, is accepted by the mean of the plain grow's ratios over the cuts instead of each cut's own ratio.
Printed is the expected acceptance of both, over leaves, columns and cuts as a plain grow draws them. An
informed grow needs a histogram of the leaf's rows, and costs about three plain updates. inner: the share of
splits that the rule draw can't reach (those above other splits), and the probability that a rule drawn there
by two histograms (rows routed left, rows routed right) differs from the current one, if it were never
rejected. The rule draw's own probability is printed too. twig: attaching two splits at once (Kim and
Rockova), whose second cut is drawn by the evidence of every cut: the expected acceptance, and the part of it
where the first split alone would be accepted in less than one case of fifty, so that plain grows don't get
there. from root: trees regrown in turn from their partial
residuals, with every split drawn by the evidence of all rules (He and Hahn 2021): sigma after a number of
sweeps and their seconds, and the default chain's sigma after iterations from stumps that take as long. It is
a useful warm start if its sigma falls sooner.
"""

import time

import numba
import numpy as np

from lab import command, mixing
from lab.cgm10 import PLAIN
from sampler.bart.chain import Chain
from sampler.bart.kernels.leaf_models.normal import TAU2
from sampler.bart.kernels.state import ABOVE, DEPTH, VALUE
from sampler.kernels.arrays import CUT, FEATURE, LEFT, RIGHT
from sampler.preparation import prepare

BURNIN, APART = 1000, 50  # iterations before the first state examined, and between states
TREES = mixing.TREES


@numba.njit
def evidence(count, total, sigma2, tau2):
    """Compute the log marginal likelihood of a leaf's partial residuals, up to terms that no rule changes."""
    spread = sigma2 + count * tau2
    return 0.5 * (np.log(sigma2 / spread) + tau2 * total * total / (sigma2 * spread))


class State:
    """Trees of a chain, with every row's code, leaf and residual."""

    def __init__(self, chain, codes):
        constants = chain.training.constants
        self.codes, self.step = codes, constants.step
        self.forest, self.residual = chain._forests[0], chain.residual() * constants.step
        self.sigma2 = chain.sigma**2
        self.tau2 = chain._models[0].variance[TAU2] * constants.step**2
        self.alpha, self.beta = constants.alpha, constants.beta

    def tree(self, number):
        """Return splits, leaves, each row's leaf, and the partial residual."""
        leaves = int(self.forest.num_leaves[number])
        slots = self.forest.slots[number][: len(self.residual)]
        leaf = self.forest.leaf[number, :leaves]
        return (
            self.forest.node[number, : leaves - 1],
            leaf,
            slots,
            self.residual + leaf[slots, VALUE] * self.step,
        )

    def gains(self, column, values):
        """Compute the log evidence of both parts minus that of the whole, for each cut of a column's rows."""
        count, total = np.bincount(column, minlength=256), np.bincount(column, values, 256)
        low, high = column.min(), column.max()
        left, sums = np.cumsum(count)[low:high], np.cumsum(total)[low:high]
        n, whole = count.sum(), total.sum()
        parts = evidence(left, sums, self.sigma2, self.tau2) + evidence(
            n - left, whole - sums, self.sigma2, self.tau2
        )
        return parts - evidence(n, whole, self.sigma2, self.tau2)


def bottom(split):
    return split[LEFT] < 0 and split[RIGHT] < 0


def grows(state, rng):
    """Compute the expected acceptance of plain and informed grows, for one leaf and column of each tree."""
    for number in range(TREES):
        splits, leaf, slots, partial = state.tree(number)
        slot, column = rng.integers(len(leaf)), state.codes[rng.integers(len(state.codes))]
        rows = slots == slot
        if np.ptp(column[rows]) == 0:
            continue
        depth, above = int(leaf[slot, DEPTH]), leaf[slot, ABOVE]
        bottoms = sum(map(bottom, splits)) + 1 - (above >= 0 and bottom(splits[above]))
        split, stay = (state.alpha * (k + depth) ** -state.beta for k in (1, 2))
        choices = split / (1 - split) * (1 - stay) ** 2 * len(leaf) / bottoms
        ratios = choices * np.exp(state.gains(column[rows], partial[rows]))
        yield np.minimum(1, ratios).mean(), min(1, ratios.mean())


def splits_below(splits, at):
    """Return the number of splits of the subtree at a child, split or leaf."""
    return 0 if at < 0 else 1 + sum(splits_below(splits, splits[at, side]) for side in (LEFT, RIGHT))


def twigs(state, rng):
    """Compute the acceptance of the first of two splits and of both, for one leaf and rule of each tree."""
    for number in range(TREES):
        splits, leaf, slots, partial = state.tree(number)
        slot, first, second = rng.integers(len(leaf)), *state.codes[rng.integers(len(state.codes), size=2)]
        rows = np.flatnonzero(slots == slot)
        low, high = first[rows].min(), first[rows].max()
        if low == high:
            continue
        cut = rng.integers(low, high)
        sides = rows[first[rows] <= cut], rows[first[rows] > cut]
        inner = sides[rng.integers(2)]
        whole, *parts = (
            evidence(len(part), partial[part].sum(), state.sigma2, state.tau2) for part in (rows, *sides)
        )
        one = sum(parts) - whole
        depth, above = int(leaf[slot, DEPTH]), leaf[slot, ABOVE]
        split, below, last = (state.alpha * (k + depth) ** -state.beta for k in (1, 2, 3))
        bottoms = sum(map(bottom, splits)) + 1 - (above >= 0 and bottom(splits[above]))
        alone = np.exp(one) * split / (1 - split) * (1 - below) ** 2 * len(leaf) / bottoms
        both = 0.0
        if np.ptp(second[inner]):
            counts = [splits_below(splits, at) for at in range(len(splits))]
            over = [at for at in range(len(splits)) if slot in reach(splits, at, state.codes[:, rows[:1]])]
            candidates = 1 + sum(count == 2 and at not in over for at, count in enumerate(counts))
            gain = np.exp(one + state.gains(second[inner], partial[inner])).mean()
            choices = split / (1 - split) * below * (1 - below) * (1 - last) ** 2 * 2 * len(leaf) / candidates
            both = min(1.0, choices * gain)
        yield min(1.0, alone), both


def reach(splits, at, codes):
    """Return the leaf that each row reaches below a child, split or leaf."""
    if at < 0:
        return np.full(codes.shape[1], ~at)
    left, right = (reach(splits, splits[at, side], codes) for side in (LEFT, RIGHT))
    return np.where(codes[splits[at, FEATURE]] <= splits[at, CUT], left, right)


def inner_weights(state, splits, at, column, rows, partial):
    """Compute the log evidence of each cut of a column at an inner split; -inf for empty leaves."""
    codes, below = column[rows], state.codes[:, rows]
    cuts = np.arange(codes.min(), codes.max())
    total = np.zeros(len(cuts))
    for side in (LEFT, RIGHT):
        ends = reach(splits, splits[at, side], below)
        for slot in np.unique(ends):
            here = ends == slot
            count = np.cumsum(np.bincount(codes[here], minlength=256))
            sums = np.cumsum(np.bincount(codes[here], partial[rows][here], 256))
            n, s = (x[cuts] if side == LEFT else x[-1] - x[cuts] for x in (count, sums))
            total += np.where(n > 0, evidence(n, s, state.sigma2, state.tau2), -np.inf)
    return cuts, total


def inner_changes(state, rng):
    """Compute, for each split above others, the probability that a rule drawn by its evidence differs."""
    for number in range(TREES):
        splits, _, slots, partial = state.tree(number)
        for at in range(len(splits)):
            if bottom(splits[at]):
                continue
            rows = np.isin(slots, np.unique(reach(splits, at, state.codes)))
            own, other = splits[at, FEATURE], rng.integers(len(state.codes))
            cuts, terms = inner_weights(state, splits, at, state.codes[own], rows, partial)
            now = terms[cuts == splits[at, CUT]]
            if len(now) == 0:
                continue
            top = terms.max()
            mine, others = np.exp(terms - top).mean(), 0.0
            if other != own and np.ptp(state.codes[other][rows]):
                more = inner_weights(state, splits, at, state.codes[other], rows, partial)[1]
                others = np.exp(np.minimum(more - top, 700)).mean()
            yield 1 - np.exp(now[0] - top) / len(terms) / (mine + others)


@numba.njit
def regrow(codes, partial, rows, depth, law, out):
    """Draw a node's splits from the evidence of all rules and of none, and its leaves' values."""
    sigma2, tau2, alpha, beta = law
    columns, n = len(codes), len(rows)
    count, total = np.zeros((columns, 256)), np.zeros((columns, 256))
    for j in range(columns):
        for i in rows:
            count[j, codes[j, i]] += 1
            total[j, codes[j, i]] += partial[i]
    whole = total[0].sum()
    split, base = alpha * (1.0 + depth) ** -beta, evidence(n, whole, sigma2, tau2)
    weights, usable = np.zeros((columns, 256)), 0
    for j in range(columns):
        codes_here = np.nonzero(count[j])[0]
        low, high = codes_here[0], codes_here[-1]
        usable += high > low
        left, sums = 0.0, 0.0
        for cut in range(low, high):
            left += count[j, cut]
            sums += total[j, cut]
            parts = evidence(left, sums, sigma2, tau2) + evidence(n - left, whole - sums, sigma2, tau2)
            weights[j, cut] = np.exp(min(parts - base, 700.0)) / (high - low)
    if usable:
        weights *= split / usable
        threshold = np.random.random() * (weights.sum() + 1 - split)  # noqa: NPY002  # compiled
        for j in range(columns):
            for cut in range(256):
                threshold -= weights[j, cut]
                if threshold < 0:
                    below = codes[j][rows] <= cut
                    regrow(codes, partial, rows[below], depth + 1, law, out)
                    regrow(codes, partial, rows[~below], depth + 1, law, out)
                    return
    variance = 1 / (1 / tau2 + n / sigma2)
    value = variance * whole / sigma2 + np.sqrt(variance) * np.random.normal()  # noqa: NPY002  # compiled
    for i in rows:
        out[i] = value


@numba.njit
def sweep_from_root(codes, residual, fits, law):
    """Regrow every tree in turn."""
    rows, out = np.arange(len(residual)), np.zeros(len(residual))
    for number in range(len(fits)):
        residual += fits[number]
        regrow(codes, residual, rows, 0, law, out)
        fits[number] = out
        residual -= out


def from_root(problem, codes, y, sweeps):
    """Return sigma after sweeps that regrow every tree, and their seconds."""
    constants = problem.training.constants
    residual, fits = y - constants.offset, np.zeros((TREES, len(y)))
    rng, sigma2 = np.random.default_rng(1), constants.sigma_start**2
    sigmas, seconds = [], 0.0
    for sweep in range(sweeps + 1):
        start = time.process_time()
        sweep_from_root(
            codes, residual, fits, (sigma2, constants.leaf_sd**2, constants.alpha, constants.beta)
        )
        seconds += (time.process_time() - start) * (sweep > 0)  # the first call compiles
        squares = constants.nu * constants.lambda_ + residual @ residual
        sigma2 = squares / rng.chisquare(constants.nu + len(y))
        sigmas.append(np.sqrt(sigma2))
    return np.mean(sigmas[-10:]), seconds


def stumps_for(problem, seconds):
    """Return the mean sigma of the last tenth of iterations from stumps in that time, and their number."""
    chain = Chain.start(problem.training, 1)
    chain.run(1)
    start, sigmas = time.process_time(), []
    while time.process_time() - start < seconds and not chain.done:
        chain.run(10)
        sigmas.append(chain.sigma)
    return np.mean(sigmas[-max(1, len(sigmas) // 10) :]), 10 * len(sigmas)


def look(name, states, sweeps):
    """Print one line of each kind for a data set."""
    X, y, *_ = mixing.load(name, 1)
    problem = prepare(X, y, num_trees=TREES, num_chains=2, num_burnin=10**6, num_draws=1, seed=1, **PLAIN)
    codes = np.stack([problem.grid.encode(j, X[:, j]) for j in range(X.shape[1])])
    chain, rng = Chain.start(problem.training, 0), np.random.default_rng(1)
    chain.run(BURNIN)
    accepted, changed, two, splits = [], [], [], 0
    for _ in range(states):
        chain.run(APART)
        state = State(chain, codes)
        accepted += grows(state, rng)
        two += twigs(state, rng)
        changes = list(inner_changes(state, rng))
        changed += changes
        splits += int(chain.leaf_counts.sum()) - TREES
    plain, informed = np.mean(accepted, axis=0)
    drawn = chain.statistics()["moves"]["rule"]
    print(f"{name}\n  informed   a grow is accepted in {plain:.4f}, with an informed cut in {informed:.4f}")
    first, both = np.array(two).T
    print(
        f"  twig       two splits are accepted in {both.mean():.4f}, of these after a first one below .02 "
        f"{both[first < 0.02].sum() / both.sum():.3f}, both at once by two grows {np.mean(first) ** 2:.4f}"
    )
    print(
        f"  inner      {len(changed) / splits:.3f} of splits; another rule in {np.mean(changed):.3f} at most "
        f"(the rule draw at the bottom: {drawn['accepted'] / drawn['proposed']:.3f})"
    )
    sigma, seconds = from_root(problem, codes, y, sweeps)
    own, iterations = stumps_for(problem, seconds)
    print(
        f"  from root  sigma {sigma:.4g} after {sweeps} sweeps, {seconds:.2f} s; "
        f"{own:.4g} after {iterations} iterations of the default in the same time",
        flush=True,
    )


def main():
    parser = command(__doc__)
    parser.add_argument("--data", nargs="+", default=mixing.DATA, help=", ".join(mixing.DATA))
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=60)
    options = parser.parse_args()
    for name in options.data:
        look(name, options.states, options.sweeps)
