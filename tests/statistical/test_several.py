"""Several outcomes against the exact law of enumerated problems, and Geweke's test."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sampler.bart.chain import Chain
from sampler.bart.kernels.leaf_models.log_linear_pass import STEP as PRECISION_STEP
from sampler.bart.kernels.steps.covariance import find_regression
from sampler.bart.several.chain import STREAMS, SeveralChain
from sampler.training import GroupTraining, SeveralTraining
from tests.reference.enumerator import Toy, leaves
from tests.reference.prior import draw_tree
from tests.support.chain_driver import check_resuming, f_of, fits, training, with_outcome
from tests.support.joint_law import Law, calibrated, keeps_joint_law
from tests.support.models.precisions import draw_precisions, make_few
from tests.support.reports.p_values import ALARM, all_above, chi_square, holds, mean_is

CODES = np.array([[0, 1, 2]])
Y = np.array([[0.3, 0.8], [-0.4, 0.1], [1.1, 0.5]])
KNOWN = np.array([[0.3, 0.12], [0.12, 0.2]])
SHORT, THIN = 5_000, 10
SCALE = 0.3  # of the prior of intercepts' standard deviations

# by enumeration of both trees: whether row 2 lacks its second outcome, whether the covariance is drawn, the
# probabilities of 1, 2, 3 leaves of the first outcome's tree, and where it is known f of both outcomes
EXACT = {
    "known": (
        False,
        False,
        (0.03500236, 0.45592024, 0.50907739),
        ((-0.02361955, -0.09895652, 0.41107748), (0.33028720, 0.18488450, 0.13563233)),
    ),
    "known, one missing": (True, False, (0.03595950, 0.45578974, 0.50825076), None),
    "drawn": (False, True, (0.02757202, 0.39793425, 0.57449373), None),
    "drawn, one missing": (True, True, (0.02906493, 0.39985435, 0.57108072), None),
}
# the same of a number beside two classes, the second of which may be missing: trees of both outcomes
LABELS = np.array([1.0, 0.0, 1.0])
EXACT_OF_CLASSES = {
    "known": (False, False, (0.0445920, 0.4714390, 0.4839690), (0.0451365, 0.4463814, 0.5084821)),
    "known, one missing": (True, False, (0.0392295, 0.4466067, 0.5141638), (0.0592477, 0.9407523)),
    "drawn": (False, True, (0.0335382, 0.4146981, 0.5517637), (0.0431153, 0.4291263, 0.5277584)),
    "drawn, one missing": (True, True, (0.0313504, 0.3983147, 0.5703349), (0.0632798, 0.9367222)),
}
MOMENTS_OF_CLASSES = {"drawn": (0.299248, -0.637083), "drawn, one missing": (0.203514, -0.638604)}
MOMENTS = {"drawn": (0.2513404, -0.6474010), "drawn, one missing": (0.2251158, -0.6445974)}


def problem(
    codes,
    outcomes,
    *,
    known=None,
    leaf_sds=(0.5, 0.4),
    lambdas=(0.2, 0.15),
    weights=None,
    uneven=False,
    **settings,
):
    """Return the training of several outcomes, NaN where missing, with absolute constants.

    Outcomes without a lambda are of two classes. `codes` are those of all, or a list of each one's own. Noise
    differs by row if `uneven`.
    """
    parts, rows = [], []
    of_each = codes if isinstance(codes, list) else [codes] * outcomes.shape[1]
    for codes, y, leaf_sd, lambda_ in zip(of_each, outcomes.T, leaf_sds, lambdas, strict=True):
        mine = np.flatnonzero(~np.isnan(y))
        prior = {"leaf_sd": leaf_sd, "alpha": 0.95, "beta": 1.0}
        of_number = {"nu": 3.0, "lambda": lambda_} if lambda_ else {}
        family = "gaussian" if lambda_ else "probit"
        own_weights = None if weights is None else weights[mine]
        own = training(
            codes[:, mine], y[mine], weights=own_weights, prior=prior | of_number, family=family, **settings
        )
        mixed = uneven or np.isnan(outcomes).any()
        parts.append(
            replace(
                own,
                constants=replace(own.constants, sigma_fixed=True),
                weights=np.ones(len(mine)) if mixed and weights is None else own_weights,
            )
        )
        rows.append(mine)
    noise = None
    if uneven:
        prior = {"leaf_sd": 1.0, "alpha": 0.95, "beta": 1.0, "nu": 3.0, "lambda": 1.0}
        counts = np.sum(~np.isnan(outcomes), axis=1)
        noise = training(of_each[0], counts, prior=prior, noise="forest", **settings)
    several = SeveralTraining(tuple(parts), tuple(rows), len(outcomes), known, weights, noise)
    return replace(parts[0], several=several)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    """Draws have the sizes of trees, means, and moments of the covariance that enumeration gives."""
    missing, drawn, leaves, means = EXACT[name]
    outcomes = Y.copy()
    if missing:
        outcomes[1, 1] = np.nan
    lengths = {"num_trees": 1, "num_draws": SHORT, "num_burnin": 200, "thin": THIN, "seed": 2}
    data = problem(CODES, outcomes, known=None if drawn else KNOWN, **lengths)
    chain = SeveralChain.start(data, 0)
    chain.run(chain.iterations)
    draws = chain.take()
    counts = np.bincount(draws.leaf_counts[:, 0], minlength=4)[1:4]
    holds(chi_square(counts, np.array(leaves)).p)
    if means is not None:
        both = draws, draws.forests["outcome:2"]
        for own, mean, part in zip(both, means, data.several.parts, strict=True):
            holds(mean_is(fits(own, CODES, part.constants), np.array(mean)))
    if drawn:
        moments = np.stack([draws.scalars["correlation:1:2"], np.log(draws.sigma)], axis=1)
        holds(mean_is(moments, np.array(MOMENTS[name])))


def enumerated(columns, outcomes, covariance, leaf_sds, weights=None):
    """Enumerate both trees: probabilities of 1, 2, .. leaves of each, and the means of f, [outcome, row].

    `columns` are the codes of each outcome's own columns. Given the trees, the outcomes are normal. Of rows
    without an outcome its tree knows nothing.
    """
    problems = [
        Toy(codes[:, ~np.isnan(y)], y[~np.isnan(y)]) for codes, y in zip(columns, outcomes.T, strict=True)
    ]
    y, rows = outcomes.T.reshape(-1), len(outcomes)
    there = [np.flatnonzero(~np.isnan(column)) for column in outcomes.T]
    seen = ~np.isnan(y)
    noise = np.kron(covariance, np.diag(1 / (np.ones(rows) if weights is None else weights)))
    logs, sizes, means = [], [], []
    for one, other in product(*(list(zip(each.trees, each.log_prior, strict=True)) for each in problems)):
        prior = np.zeros((2 * rows, 2 * rows))
        for number, (each, (tree, _)) in enumerate(zip(problems, (one, other), strict=True)):
            for members in (each.members(bits) for bits in leaves(each, tree)):
                place = there[number][members] + number * rows
                prior[np.ix_(place, place)] = leaf_sds[number] ** 2
        law = (prior + noise)[np.ix_(seen, seen)]
        logs.append(one[1] + other[1] + stats.multivariate_normal(np.zeros(seen.sum()), law).logpdf(y[seen]))
        sizes.append(
            [len(leaves(each, tree)) for each, (tree, _) in zip(problems, (one, other), strict=True)]
        )
        means.append(prior[:, seen] @ np.linalg.solve(law, y[seen]))
    share = np.exp(logs - np.max(logs))
    share /= share.sum()
    counts = [np.bincount(column, share)[1:] for column in np.transpose(sizes)]
    return counts, (share @ np.array(means)).reshape(2, rows)


def test_enumeration_agrees_with_what_was_found_before():
    """The law of outcomes with the same column is that of `EXACT`."""
    counts, means = enumerated([CODES, CODES], Y, KNOWN, (0.5, 0.4))
    assert np.allclose(counts[0], EXACT["known"][2])
    assert np.allclose(means, EXACT["known"][3])


OWN_COLUMNS = [np.array([[0, 1, 2, 1]]), np.array([[1, 0, 1, 0], [0, 0, 1, 2]])]
OWN_OUTCOMES = np.array([[0.3, 0.8], [-0.4, 0.1], [1.1, 0.5], [-0.9, -0.3]])


@pytest.mark.parametrize("weights", [None, np.array([1.0, 4.0, 0.25, 2.0])], ids=["plain", "weights"])
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
def test_exact_with_own_columns(weights, missing):
    """Trees and f of outcomes with columns of their own are those that enumeration gives."""
    outcomes = OWN_OUTCOMES.copy()
    if missing:
        outcomes[3, 1] = np.nan
    law, means = enumerated(OWN_COLUMNS, outcomes, KNOWN, (0.5, 0.4), weights)
    swapped, _ = enumerated(OWN_COLUMNS[::-1], outcomes, KNOWN, (0.5, 0.4), weights)
    plain, _ = enumerated(OWN_COLUMNS, outcomes, KNOWN, (0.5, 0.4))
    assert abs(law[0][0] - swapped[0][0]) > 0.002  # the columns matter
    assert weights is None or abs(law[0][0] - plain[0][0]) > 0.005
    lengths = {"num_trees": 1, "num_draws": SHORT, "num_burnin": 200, "thin": THIN, "seed": 2}
    data = problem(OWN_COLUMNS, outcomes, known=KNOWN, weights=weights, **lengths)
    chain = SeveralChain.start(data, 0)
    chain.run(chain.iterations)
    draws = chain.take()
    for number, own in enumerate((draws, draws.forests["outcome:2"])):
        counts = np.bincount(own.leaf_counts[:, 0], minlength=1 + len(law[number]))[1:]
        holds(chi_square(counts, law[number]).p)
        part = data.several.parts[number]
        there = data.several.rows[number]
        holds(mean_is(fits(own, OWN_COLUMNS[number], part.constants)[:, there], means[number][there]))


@pytest.mark.parametrize("name", EXACT_OF_CLASSES)
def test_exact_of_classes(name):
    """A number beside two classes: draws have the trees and the moments that enumeration gives."""
    missing, drawn, *laws = EXACT_OF_CLASSES[name]
    outcomes = np.stack([Y[:, 0], LABELS], axis=1)
    if missing:
        outcomes[1, 1] = np.nan
    lengths = {"num_trees": 1, "num_draws": SHORT, "num_burnin": 200, "thin": THIN, "seed": 3}
    known = None if drawn else np.array([[0.3, 0.25], [0.25, 1.0]])
    data = problem(CODES, outcomes, known=known, leaf_sds=(0.5, 0.8**0.5), lambdas=(0.2, None), **lengths)
    chain = SeveralChain.start(data, 0)
    chain.run(chain.iterations)
    draws = chain.take()
    for own, law in zip((draws, draws.forests["outcome:2"]), laws, strict=True):
        counts = np.bincount(own.leaf_counts[:, 0], minlength=1 + len(law))[1:]
        holds(chi_square(counts, np.array(law)).p)
    assert np.all(draws.forests["outcome:2"].sigma == 1.0)
    if drawn:
        moments = np.stack([draws.scalars["correlation:1:2"], np.log(draws.sigma)], axis=1)
        holds(mean_is(moments, np.array(MOMENTS_OF_CLASSES[name])))


def test_separate_without_correlation():
    """With a known covariance without correlation, chains are those of the outcomes alone, bit for bit."""
    data = problem(CODES, Y, known=np.diag([0.3, 0.2]), num_trees=3, num_draws=20, seed=1)
    chain = SeveralChain.start(data, 1)
    chain.run(20)
    draws = chain.take()
    for number, own in enumerate((draws, draws.forests["outcome:2"])):
        part = data.several.parts[number]
        constants = replace(part.constants, sigma_start=float(np.sqrt((0.3, 0.2)[number])))
        alone = Chain.start(replace(part, constants=constants), 1 + STREAMS * number)
        alone.run(20)
        assert np.array_equal(alone.take().leaf, own.leaf)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("classes", [False, True])
def test_resumes(missing, classes):
    """A chain resumed from any checkpoint is the whole one, bit for bit."""
    outcomes = np.stack([Y[:, 0], LABELS], axis=1) if classes else Y
    outcomes = np.where(np.arange(6).reshape(3, 2) == 3, np.nan, outcomes) if missing else outcomes
    lambdas = (0.2, None if classes else 0.15)
    data = problem(CODES, outcomes, lambdas=lambdas, num_trees=2, num_draws=10, num_burnin=3)
    check_resuming(data)


def test_regression():
    """Slopes and what is left are those of the normal conditional law."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T
    slopes = np.zeros(4)
    left = find_regression(covariance, 2, 0b1011, np.zeros((4, 5)), slopes)
    seen = [0, 1, 3]
    expected = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, 2])
    assert np.allclose(slopes[seen], expected)
    assert slopes[2] == 0
    assert np.isclose(left, covariance[2, 2] - expected @ covariance[seen, 2])


def functions_of(f, covariance, leaves):
    """Return the functions compared, of f [outcome, row], the covariance and the mean size of trees."""
    sds = np.sqrt(np.diag(covariance))
    rho = covariance[0, 1] / (sds[0] * sds[1])
    of_both = {"other log sd": np.log(sds[1]), "log sd x other": np.log(sds[0]) * np.log(sds[1])}
    return ({} if np.isclose(sds[1], 1, rtol=0, atol=1e-9) else of_both) | {
        "f at a row": f[0, 0],
        "f at a row squared": f[0, 0] ** 2,
        "other f squared": f[1, 3] ** 2,
        "f x other f": f[0, 0] * f[1, 0],
        "log sd": np.log(sds[0]),
        "log sd squared": np.log(sds[0]) ** 2,
        "atanh rho": np.arctanh(rho),
        "atanh rho squared": np.arctanh(rho) ** 2,
        "rho x f x f": rho * f[0, 0] * f[1, 0],
        "leaves": leaves,
        "leaves x log sd": leaves * np.log(sds[0]),
    }


def of_groups(tau, effects):
    """Return functions of the intercepts' standard deviations, and of the intercepts [outcome, group]."""
    a, b = np.arcsinh(effects / SCALE)
    return {
        "log tau": np.log(tau[0]),
        "product of log taus": np.log(tau[0] / SCALE) * np.log(tau[1] / SCALE),
        "an intercept": a[0],
        "an intercept squared": b[1] ** 2,
        "product across": a[0] * b[0],
    }


def of_noise(log_w, leaves, spread, covariance):
    """Return the functions compared of noise by row, given the rows' log precisions."""
    return {
        "log w at a row": log_w[0],
        "log w at a row squared": log_w[0] ** 2,
        "product of log w at two rows": log_w[0] * log_w[5],
        "spread of log w": log_w.var(),
        "log spread": np.log(spread),
        "log spread squared": np.log(spread) ** 2,
        "leaves of precisions": leaves,
        "log sd x log w": np.log(covariance[0, 0]) * log_w[0],
    }


class Pair(Law):
    """Prior law of two outcomes of 16 rows, some of which lack one of them if `missing`.

    The second has two classes if `classes`. Noise differs by row if `uneven`, by few trees (`make_few`).
    States: the functions compared, f [outcome, row], the errors' covariance, the rows' log precisions.
    """

    trees, sds, nu = 2, (0.6, 0.4), 8.0
    left_out = 8

    def __init__(
        self, *, missing, classes=False, weighted=False, grouped=False, uneven=False, moves="default"
    ):
        self.classes, self.uneven, self.moves = classes, uneven, moves
        self.lambdas = (0.5, None if classes else 0.3)
        rng = np.random.default_rng(3)
        self.codes = rng.integers(0, 4, (2, 16)).astype(np.uint8)
        self.holes = rng.uniform(size=(16, 2)) < (0.3 if missing else 0.0)
        self.holes[self.holes.all(axis=1)] = False
        self.rows = [np.flatnonzero(~column) for column in self.holes.T]
        self.weights = rng.uniform(0.3, 3, 16) if weighted else None
        self.group = rng.integers(0, 4, 16).astype(np.int32) if grouped else None

    def first(self, rng):
        return self.outcome((None, np.zeros((2, 16)), np.eye(2), np.zeros(16)), rng)

    def outcome(self, state, rng):
        """Draw the outcomes of all rows, NaN where one is missing."""
        _, f, covariance, log_w = state
        errors = rng.multivariate_normal(np.zeros(2), covariance, 16) * np.exp(-0.5 * log_w)[:, None]
        y = f.T + (errors if self.weights is None else errors / np.sqrt(self.weights)[:, None])
        if self.classes:
            y[:, 1] = y[:, 1] > 0
        return np.where(self.holes, np.nan, y)

    def training(self, y, seed):
        data = problem(
            self.codes,
            y,
            leaf_sds=self.sds,
            lambdas=self.lambdas,
            num_trees=self.trees,
            weights=self.weights,
            uneven=self.uneven,
            moves=self.moves,
            seed=seed,
            **self.lengths,
        )
        parts = tuple(
            replace(part, constants=replace(part.constants, nu=self.nu, leaf_sd=sd / np.sqrt(self.trees)))
            for part, sd in zip(data.several.parts, self.sds, strict=True)
        )
        if self.group is not None:
            parts = tuple(
                replace(part, parts={"groups": GroupTraining(self.group[None, rows], (4,), (SCALE,))})
                for part, rows in zip(parts, self.rows, strict=True)
            )
        return replace(data, several=replace(data.several, parts=parts))

    def start(self, y, seed):
        return SeveralChain.start(self.training(y, seed), 0)

    def replace(self, chain, y):
        if self.classes:
            with_outcome(chain.chains[1], y[self.rows[1], 1])
        own = zip(chain.chains, y.T, self.rows, strict=True)
        chain.set_outcomes([replace(each.training, y=column[rows]) for each, column, rows in own])

    def functions(self, state, y):
        return state[0]

    def figures(self, state):
        return state[0]

    def draw(self, rng):
        scale = np.diag([self.nu * (lambda_ or 1.0) for lambda_ in self.lambdas])
        covariance = stats.invwishart(self.nu + 1, scale).rvs(random_state=rng)
        if self.classes:
            units = np.sqrt([1.0, covariance[1, 1]])
            covariance /= np.outer(units, units)
        f, leaves = np.zeros((2, 16)), []
        for number, (sd, rows) in enumerate(zip(self.sds, self.rows, strict=True)):
            for _ in range(self.trees):
                tree = draw_tree(self.codes[:, rows], 0.95, 1.0, rng)
                values = rng.normal(0, sd / np.sqrt(self.trees), tree.num_leaves)
                f[number, rows] += values[tree.leaf]
                leaves += [tree.num_leaves] if number == 0 else []
        values = functions_of(f, covariance, np.mean(leaves))
        if self.group is not None:
            tau = SCALE * np.tan(rng.uniform(size=2) * np.arctan(10.0))
            effects = tau[:, None] * rng.normal(size=(2, 4))
            values |= of_groups(tau, effects)
            f = f + effects[:, self.group]
        log_w = np.zeros(16)
        if self.uneven:
            log_w, leaves, spread = draw_precisions(self, rng)
            values |= of_noise(log_w, np.mean(leaves), spread, covariance)
        return values, f, covariance, log_w

    def draw_tree_sum(self, num_trees, leaf_values, rng):
        """Draw a sum of trees as `covering_models.Model.draw_tree_sum`."""
        trees = [draw_tree(self.codes, 0.95, 1.0, rng) for _ in range(num_trees)]
        total = sum(leaf_values(tree.num_leaves)[tree.leaf] for tree in trees)
        return total, [tree.num_leaves for tree in trees]

    def state_of(self, chain):
        f = np.zeros((2, 16))
        for number, (own, rows) in enumerate(zip(chain.chains, self.rows, strict=True)):
            f[number, rows] = f_of(own)
        known = chain.chains if self.group is not None else []
        effects = [own.training.constants.step * own._likelihood.parts["groups"].effects for own in known]
        tau = [own._likelihood.outcome.scalars[-1] for own in known]
        step = np.array([own.training.constants.step for own in chain.chains])
        covariance = chain.covariance * np.outer(step, step)
        trees = [own - effect[self.group] for own, effect in zip(f, effects, strict=True)] if known else f
        trees = [
            np.where(np.isin(np.arange(16), rows), own, 0) for own, rows in zip(trees, self.rows, strict=True)
        ]
        values = functions_of(np.array(trees), covariance, np.mean(chain.chains[0].leaf_counts))
        values |= of_groups(tau, np.array(effects)) if known else {}
        log_w = np.zeros(16)
        if self.uneven:
            log_w = PRECISION_STEP * chain.noise._models[0].log_value[:16]
            leaves, spread = chain.noise.leaf_counts.mean(), chain.noise._likelihood.scalars[1]
            values |= of_noise(log_w, leaves, spread, covariance)
        return values, f, covariance, log_w


def ranks(count, bins, **options):
    """Return the p-values of calibration."""
    return calibrated(Pair(**options), count, bins, burnin=300, thin=THIN)


OPTIONS = [{"missing": missing} | classes for classes in ({}, {"classes": True}) for missing in (False, True)]
WEIGHTED = {"missing": True, "weighted": True}
GROUPED = {"missing": True, "weighted": True, "grouped": True}
GROUPED_CLASSES = {"missing": True, "classes": True, "grouped": True}
UNEVEN = {"missing": True, "weighted": True, "uneven": True}
UNEVEN_GROUPED = {"missing": False, "grouped": True, "uneven": True}
PARTICLES = {"missing": True, "classes": True, "moves": "pg"}
UNEVEN_PARTICLES = {"missing": True, "uneven": True, "moves": "pg"}
LONG = [
    *OPTIONS, WEIGHTED, GROUPED, GROUPED_CLASSES, UNEVEN, UNEVEN_GROUPED, PARTICLES, UNEVEN_PARTICLES,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _few_precisions(monkeypatch):
    make_few(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("options", [OPTIONS[-1], UNEVEN], ids=str)
def test_calibrated(options):
    """Simulation-based calibration: ranks of the truth among its posterior draws are uniform."""
    all_above(ranks(48, 8, **options), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("options", LONG, ids=str)
def test_calibrated_long(options):
    """Simulation-based calibration of several outcomes with many more replications."""
    all_above(ranks(1_280, 8, **options), ALARM)


@pytest.mark.slow
@pytest.mark.parametrize("options", [OPTIONS[1], WEIGHTED, GROUPED, GROUPED_CLASSES, UNEVEN], ids=str)
def test_joint(options):
    """Alternating outcomes given the state and a sweep keeps the prior law of functions of the state."""
    all_above(keeps_joint_law(Pair(**options), 12_000, 4_000), ALARM)


@pytest.mark.long
@pytest.mark.parametrize("options", LONG, ids=str)
def test_joint_long(options):
    """Geweke's test of several outcomes with many more draws."""
    all_above(keeps_joint_law(Pair(**options), 96_000, 40_000), ALARM)
