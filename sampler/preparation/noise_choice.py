"""Choice of the kind of noise by rows left out of short chains (docs/maths.md#choice-of-noise)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.chains import needed_kernels, start_chain
from sampler.data.encode import Coded
from sampler.data.target import MASS_AT_END, point_mass
from sampler.data.transform import IDENTITY, Transform
from sampler.definitions.design import Design
from sampler.errors import SamplerError
from sampler.kernels.jit import warm
from sampler.noise import AUTO, CONSTANT, FOREST, FOREST_ROWS, HEAVIEST, KINDS, NOISES, NoiseChoice
from sampler.posterior.laws.normal import predictive_of
from sampler.posterior.posterior import Posterior
from sampler.posterior.predicting import predict
from sampler.preparation.outcomes import choose_by_outcomes
from sampler.preparation.quick_choice import hits, looked_at, quick_gains
from sampler.prepared_fit import PreparedFit, reference_rows
from sampler.settings import NO_TRANSFORM, Settings
from sampler.storage.draw_codec import pack
from sampler.storage.model_header import need_values

Kind = tuple[Settings, Transform]
EncodedRows = tuple[Floats, Design, Floats | None, NDArray[np.uint8]]

BESIDE = ("mixture", HEAVIEST)  # asked for only where a kind before it is better than constant noise
FEWEST_ROWS = 100  # below, constant
QUICK_MARGIN = 2.5  # standard errors by which quick log scores must be above those of constant noise
MARGIN = 1.0  # by which a simpler kind's loss may be behind the best one's
LARGEST = float(np.finfo(float).max)
FOLDS, MOST_TREES = 3, 200
SHORT: dict[str, Any] = {"num_chains": 1, "num_burnin": 120, "num_draws": 20, "thin": 3, "seed": 0}
SAMPLES = 4  # of outcomes, of each draw
LEVELS = (np.arange(10) + 0.5) / 10  # of quantiles


def shortened(settings: Settings) -> Settings:
    """Return the settings of a short chain: of up to 200 trees, with any seed the same."""
    return replace(settings, num_trees=min(settings.num_trees, MOST_TREES), **SHORT)


def choose_noise(
    settings: Settings,
    chosen: Kind,
    rows: EncodedRows,
    fit_of: Callable[[Settings, Transform], PreparedFit] | None,
) -> tuple[Kind, NoiseChoice | None]:
    """Choose the kind of noise, with the transform and the linear part that go with it.

    Noise by row is taken unless something speaks against it, with 400 rows or more. All kinds compete where
    quick regressions leave residuals with heavy tails, or whose size differs by row, by two and a half
    standard errors of the log score. Short chains of each are fitted to two of three parts of up to 1,000
    rows in turn, and judged by their quantile loss in the third. Of the kinds whose log score isn't below
    that of constant noise, and whose mean doesn't miss that of the rows left out (`hits`), the simplest
    within a standard error of the best (a mixture only if it is the best) is taken if it saves 3% of the loss
    and two standard errors. Else it is noise by row, unless its mean misses, its loss is above that of
    constant noise by more than one standard error, or its RMSE is more than 1.05 times as large. Noise is
    constant where 40% of the outcomes are one value at an end: rows of that value alone would have next to no
    noise, and decide the mean.

    Parameters
    ----------
    settings
        Settings before any choice.
    chosen
        What `choose_by_outcomes` took for normal noise of one size.
    rows
        Outcomes, columns before binning, weights (or None) and codes, as `choose_by_outcomes` takes them.
    fit_of
        Makes the fit to all rows of settings and a transform; None where rows are censored or grouped, or
        the prior stands for itself or has constants in units of the outcome: noise is constant then.

    Returns
    -------
    tuple
        The settings and the transform, and the evidence; None where nothing can be told.

    """
    (resolved, transform), (y, design, _, _) = chosen, rows
    simplest = replace(resolved, noise=CONSTANT), transform
    if fit_of is None or len(y) < FEWEST_ROWS:
        return simplest, None
    gains = quick_gains(transform, resolved.linear, *rows)
    choice = NoiseChoice(len(gains), float(gains.mean()), _error(gains))
    mass = point_mass(y)
    if mass is not None and mass[1] >= MASS_AT_END:
        return simplest, replace(choice, mass=mass[1])
    kinds: Sequence[str] = KINDS
    if choice.gain <= QUICK_MARGIN * choice.gain_error:
        kinds = (CONSTANT, FOREST)
        if choice.rows < FOREST_ROWS:
            return simplest, choice
    options = _options(settings, simplest, rows, kinds)
    losses: dict[str, Floats] = {}
    missed: dict[str, Floats] = {}
    log_scores: dict[str, float] = {}
    for name, (own, its_transform) in options.items():
        if name in BESIDE and all(each.sum() >= losses[CONSTANT].sum() for each in losses.values()):
            continue  # nothing like it is better than constant noise
        short = fit_of(shortened(own), its_transform)
        try:
            losses[name], log_score, missed[name] = held_out_scores(short, looked_at(len(y)), y, design)
        except SamplerError:  # its chain left the grid, as one may where outcomes have no noise at all
            if name == CONSTANT:
                return simplest, choice
            continue
        log_scores[name] = float(log_score.mean())
    true = hits(missed)
    sound = [name for name in true if CONSTANT not in true or log_scores[name] >= log_scores[CONSTANT]]
    found = _simplest({name: losses[name] for name in sound})
    choice = replace(
        choice,
        losses={name: float(each.mean()) for name, each in losses.items()},
        errors={name: _error(each - losses[CONSTANT]) for name, each in losses.items()},
        log_scores=log_scores,
        rmse={name: _root_mean_square(each) for name, each in missed.items()},
        missed=tuple(name for name in missed if name not in true),
    )
    if CONSTANT in true and not choice.saves(found):
        found = CONSTANT if choice.against_forest() else FOREST
    return options[found], choice


def _simplest(losses: Mapping[str, Floats]) -> str:
    """Return the first kind, of losses [row] by kind, within a standard error of the best one.

    A mixture is no simpler form of the kinds after it: it has to be the best itself.
    """
    least = min(losses, key=lambda name: float(losses[name].sum()))
    best = losses[least]
    return next(
        name
        for name, each in losses.items()
        if (each - best).mean() <= MARGIN * _error(each - best)
        and (name == least or not NOISES[name].mixture)
    )


def _root_mean_square(values: Floats) -> float:
    """Return the root of the mean square; the largest float for means beyond it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.nan_to_num(np.sqrt(np.mean(values**2)), nan=LARGEST, posinf=LARGEST))


def _error(values: Floats) -> float:
    """Return the standard error of the mean."""
    return float(values.std()) / math.sqrt(len(values))


def _options(settings: Settings, simplest: Kind, rows: EncodedRows, kinds: Sequence[str]) -> dict[str, Kind]:
    """List those of the kinds that may be chosen, the simplest first; only normal noise has a transform.

    With noise by row a transform is judged anew, under such noise.
    """
    resolved, transform = simplest
    options = {CONSTANT: simplest}
    for name in kinds[1:]:
        if NOISES[name].mixture and rows[2] is not None:
            continue  # it has no weights
        if NOISES[name].is_normal:
            options[name] = replace(resolved, noise=name), transform
            if transform and settings.transform == AUTO:
                own = replace(settings, noise=name)
                options[name] = choose_by_outcomes(own, rows, None, has_units=False, grouped=False)
        elif settings.transform in (AUTO, NO_TRANSFORM):
            options[name] = replace(resolved, noise=name, transform=NO_TRANSFORM), IDENTITY
    return options


def held_out_scores(
    problem: PreparedFit, rows: NDArray[np.int64], y: Floats, design: Design
) -> tuple[Floats, Floats, Floats]:
    """Fit to two of three parts of the rows in turn, and score each row of the third.

    Parameters
    ----------
    problem
        A short fit to all rows.
    rows
        Places of the rows looked at, int64 [row].
    y, design
        Outcomes, float64 [n], and coded columns before binning, float64 [column, n].

    Returns
    -------
    tuple
        Quantile loss, the mean over quantiles of .05, .15, .. .95, log score, and outcome less its mean,
        times the weight, float64 [row].

    """
    part = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    losses, log_scores, missed = np.zeros((3, len(rows)))
    for fold in range(FOLDS):
        train, held = rows[part != fold], rows[part == fold]
        posterior = _fitted(_of_rows(problem, train, design))
        values = design[:, held] if need_values(problem.parts) else None
        weights = problem.training.weights
        coded = Coded(problem.training.codes[: len(problem.grid.cuts), held], [], values=values)
        law = predictive_of(posterior.law, coded, None if weights is None else weights[held])
        rng = np.random.default_rng(0)
        outcomes = np.concatenate([law.sample(rng) for _ in range(SAMPLES)])
        above = y[held] - np.quantile(outcomes, LEVELS, axis=0)
        losses[part == fold] = np.mean(above * (LEVELS[:, None] - (above < 0)), axis=0)
        log_scores[part == fold] = law.log_density(y[held])
        missed[part == fold] = y[held] - predict(posterior.law, coded, level=None).mean
        if weights is not None:
            missed[part == fold] *= weights[held]
    return losses, log_scores, missed


def _of_rows(problem: PreparedFit, rows: NDArray[np.int64], design: Design) -> PreparedFit:
    """Return the fit to some of the rows, without groups, limits and other roles."""
    training = problem.training
    few = replace(
        training,
        codes=np.ascontiguousarray(training.codes[:, rows]),
        y=training.y[rows],
        weights=None if training.weights is None else training.weights[rows],
        parts={name: part.take(rows) for name, part in training.parts.items()},
    )
    values = design[:, rows[reference_rows(len(rows))]] if need_values(problem.parts) else None
    return replace(problem, training=few, reference_values=values)


def _fitted(problem: PreparedFit) -> Posterior:
    """Run the chain of a short fit."""
    training = problem.training
    warm(needed_kernels(training))
    chain = start_chain(training, 0)
    while not chain.done:
        chain.run(chain.iterations - chain.iteration)
    draws = chain.take()
    assert draws is not None, "a short chain keeps draws"
    return Posterior.from_blocks(problem.header(), [[pack(draws)]])
