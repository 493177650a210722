"""Fitting in one call, and reading of a saved posterior.

Slow imports are made when a fit begins, so that importing this module is fast.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampler.definitions.forecast import FORECAST, Forecasting
from sampler.definitions.other_names import suggest_arguments
from sampler.definitions.pairs import Combination
from sampler.definitions.several import are_several
from sampler.errors import DataWarning, SettingsError

if TYPE_CHECKING:
    from sampler.posterior.posterior import Posterior

_OF_STUDIES = (
    "calibrate",
    "holdout",
    "new_rows",
    "subgroups",
    "num_threads",
    "executor",
    "progress",
)  # not of the preparation


@suggest_arguments
def fit(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    exposure: Any = None,
    offset: Any = None,
    levels: Sequence[Any] | None = None,
    treatment: Any = None,
    propensity: Any = None,
    adoption: Any = None,
    period: Any = None,
    groups: Any = None,
    slopes: Any = None,
    event: Any = None,
    lower: Any = None,
    upper: Any = None,
    family: str = "gaussian",
    method: str = "bart",
    num_trees: int | None = None,
    num_chains: int | None = None,
    num_burnin: int | None = None,
    num_draws: int | None = None,
    thin: int | None = None,
    seed: int | None = 0,
    prior: Mapping[str, Any] | None = None,
    moves: str | Mapping[str, float] = "default",
    prior_only: bool = False,
    particles: int = 10,
    start: str = "stumps",
    noise: str | None = None,
    linear: bool | str | None = None,
    transform: str | None = None,
    categories: str = "indicators",
    effects: str = "bcf",
    assignment: str = "observed",
    recalibrate: str = "auto",
    search: Mapping[str, float] | None = None,
    monotone: Mapping[str, str] | None = None,
    parts: Mapping[str, Any] | None = None,
    recipe: str = "none",
    features: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    columns: Mapping[str, str] | None = None,
    target_name: str | Sequence[str] | None = None,
    missing_target: str = "refuse",
    calibrate: str = "none",
    holdout: float | None = None,
    new_rows: str | Mapping[str, Any] | None = None,
    subgroups: Sequence[Any] | None = None,
    time: str | None = None,
    series: str | Sequence[str] | None = None,
    horizon: int | None = None,
    known: str | Sequence[str] | None = None,
    step: str = "auto",
    season: int | Sequence[int] | str = "auto",
    difference: str = "auto",
    gaps: str = "auto",
    num_threads: int | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> Posterior:
    """Fit a model: draw from the posterior of a sum of trees, or of a single tree.

    The chains run in threads, one per core. Equal data, settings and seed give equal posteriors. After an
    interruption (Ctrl-C) the draws made so far are returned, if there are any.

    Parameters
    ----------
    X
        A pandas, polars or pyarrow table, a `pyarrow.parquet.ParquetFile` (whose columns are read when they
        are needed), a 2-D array, or a mapping of columns; n rows. Missing values are allowed and learnt from.
    y
        n outcomes, or a table of several (numbers, with family "auto" one of two classes; method "bart"),
        whose errors may have correlations: then outcomes may be missing, and the result is a
        `SeveralPosterior` (docs/several_outcomes.md). Outcomes, weights, exposures, offsets, events and
        limits have the row labels of X where they have any, and the values of the column of X that is called
        as they are, if there is one.
    weights
        n positive precision weights, or None: row i has variance sigma^2 / weight. These and all columns with
        a role below are given by their values or as the name of a column of X, which is no feature then.
    exposure
        n positive exposures of counts, or None: row i's expected count is in proportion to it. New rows have
        theirs in a column of its name ("exposure" unless it has one); without such a column, 1.
    offset
        n offsets of two classes, or None: the normal quantile of a probability that is known before the
        features are read, between -8 and 8; the trees learn what is added to it. New rows have theirs in a
        column of its name ("offset" unless it has one); without such a column, 0.
    levels
        The ordered classes of family "ordinal", from the lowest to the highest. None takes the order of an
        ordered Categorical of pandas, or that of numbers.
    treatment
        n treatments, or None: 1 (or true) for rows that were treated, 0 for the others, or the names of three
        to eight arms. The fit learns by how much that changes y, for each row (`Posterior.effects`; method
        "bart", numbers or two classes). New rows have theirs in a column of its name ("treatment" unless it
        has one); without such a column, 0, or the first arm.
    propensity
        A feature, or n values of one, that is each row's probability of being treated, known from
        elsewhere; None fits it. New rows have it in a column of its name ("propensity" unless it has one).
    adoption
        n periods, or None: of units in several periods, that in which a row's unit adopted a treatment,
        missing if it never did. The fit learns the effect at each lag since then (`Posterior.effects`), with
        an intercept for each cohort of units that adopted at one time; `groups` has the units first (method
        "bart", numbers). New rows have theirs in a column of its name ("adoption" unless it has one).
    period
        With an adoption, the feature that is a row's period, a number or date.
    groups
        A column of X or n values, or names of up to four columns, whose levels (subjects, schools, sites)
        differ by more than the features say: each has an intercept beside the trees, normal with a standard
        deviation that is drawn too (method "bart", numbers, two classes or ordered ones). The columns are no
        features; new rows may be of new groups.
    slopes
        A feature (a number, date or boolean), or names of up to four, whose slope differs by group
        too: ``groups="Subject", slopes="Days"``. A group's intercept and slopes are normal with a covariance
        that is drawn.
    event
        n events, or None: y are positive times, and row i's is that of the event where this is 1 (or true);
        where it is 0, the row is censored: there was no event up to that time. Times are learnt on the scale
        of their logarithms (method "bart", numbers with normal noise).
    lower
        n lower limits, or None: where y is missing, the row is censored, and its outcome is only known to be
        above `lower`, below `upper` (a detection limit) or between both. Limits of other rows don't count.
    upper
        n upper limits, or None; see `lower`.
    family
        "gaussian" for numbers; "probit" (method "bart") for two classes of any type, with predictions of the
        probability of the second (in order of value or spelling); "categorical" for two or more classes (with
        method "bart" a multinomial logit, one sum of trees for each class); "ordinal" (method "bart") for
        classes in an order (`levels`), by thresholds of one latent outcome; "hurdle" (method "bart") for
        numbers many of which are one value exactly, such as 0; "poisson", "negative-binomial",
        "zero-inflated-poisson" and "zero-inflated-negative-binomial" (method "bart") for counts; "auto"
        chooses one of the first three by y, and takes two whole numbers as classes.
    method
        "bart", a sum of trees; or one tree: "bcart" (Chipman, George and McCulloch 1998),
        "bcart-mean-variance" (leaves with their own noise), "bcart-wu" (with the radical restructure of Wu,
        Tjelmeland and West 2007), "smc" (the particle filter of Lakshminarayanan, Roy and Teh 2013, whose
        draws are weighted); or one tree of soft splits, which rows pass with a probability: "rjhmc-df" (each
        split on one column), "rjhmc-dfi" (on a weighted sum of columns; Cochrane, Wills and Johnson 2023) and
        "dcc-tree" (Divide, Conquer, Combine: topologies with their own chains; weighted draws).
    num_trees
        Number of trees in the sum; 200 by default for "bart" (50 for each class of family "categorical", and
        with monotone features), always 1 for the other methods.
    num_chains
        Number of chains, or of runs of "smc" and "dcc-tree"; 8 by default for "bart" and the bcart methods
        (where more chains help more than longer ones), 4 for "smc" and the rjhmc methods, 2 for "dcc-tree".
    num_burnin
        Number of iterations per chain before the first draw; by default as many as sampling takes, from 100
        to 500 for "bart" (20,000 for the bcart methods, 1,000 for others).
    num_draws
        Number of draws kept per chain, 125 by default for "bart", 250 for the bcart and rjhmc methods; for
        "smc" the number of particles per run, 1,000 by default, as for "dcc-tree".
    thin
        Number of iterations per kept draw; 8 by default, 80 for the bcart methods, 4 for the rjhmc methods.
    seed
        Seed of all random numbers, a non-negative integer; None draws one, which `settings` then hold.
    prior
        Hyperparameters of Chipman, George and McCulloch (2010) or absolute constants (see
        `sampler.definitions.prior.PRIOR`), and `cuts`.
    moves
        Name of a move set, or the probabilities of the moves.
    prior_only
        Leave the likelihood out, which gives draws from the prior.
    particles
        Number of particles of particle Gibbs (moves="pg", or a probability of "pg" among the moves).
    start
        First state of every chain: "stumps"; "smc", trees drawn in turn by sequential Monte Carlo;
        "annealed", stumps, with a likelihood that counts less in the first half of burn-in (for few, large
        trees, which get stuck in the shape they grow first).
    noise
        "constant", normal with one size for all rows; "forest", a size by row, from a second sum of trees for
        its logarithm: intervals are wide where outcomes vary much; "t", heavy tails (Student's t with drawn
        degrees of freedom): outcomes far out don't count too much; "t-forest", both; "mixture", up to ten
        normals with means and sizes of their own: noise of any shape, such as that of two kinds of outcomes
        (no weights); all for method "bart" and numbers; "auto", the one whose short fits predict left-out
        rows best, constant unless it is clearly worse. None is "auto" for numbers and method "bart",
        "constant" elsewhere.
    linear
        Whether a linear part stands beside the trees, with a slope for every number and for every level of a
        category but one (method "bart", numbers): better where the truth is nearly linear. None is "auto",
        where the rows say so clearly or groups are beside the trees too, for method "bart" with normal noise;
        else False.
    transform
        What the trees learn: "none", the outcome itself; "log", its logarithm; "yeo-johnson", a power of it;
        "auto", whichever of these predicts left-out rows best in a quick regression, none unless it is
        clearly worse (method "bart", numbers). Answers are about the outcome itself. None is "auto" for
        numbers with normal noise, "none" elsewhere; with `event` it is "log", with limits "none".
    categories
        What rules of trees part a category of more than two levels by: "indicators", one level from all
        others; "sets", any set of levels from the others (method "bart"; docs/categories.md).
    effects
        How a treatment's effect is learnt: "bcf", by a forest of its own beside the mean's, which has the
        probability of being treated as a column; "ps-bart", by one forest with the treatment and that
        probability as columns; "plain", by one forest with the treatment.
    assignment
        "observed", rows were treated for reasons that the features may tell of; "random", by chance, as in an
        experiment: the probability of being treated is no column then.
    recalibrate
        "auto", the law of outcomes is changed to what the rows of calibrate="holdout" say of it, where they
        are 90 or more and outcomes are numbers by a sum of trees: predictive intervals, means, samples and
        totals then hold for rows like these; "off", it is as the draws make it.
    search
        Entries for "dcc-tree": iterations, first (topologies drawn from the prior), proposals (that make one
        active), most (active ones), chains and draws (per topology and round), samples (around each draw),
        delta, kappa, optimism (of the utility), spatial (1, or 0 for the basic weights).
    recipe
        The settings and the prior of a publication, where they are not given: "cgm10", the default of
        Chipman, George and McCulloch (2010); "pg-bart", that with particle Gibbs (Lakshminarayanan, Roy and
        Teh 2015). Numbers and two classes; chains are as long and as many as by default.
    monotone
        Features (numbers, dates or booleans) with which f rises or falls in every draw, others held:
        ``{"age": "increasing", "distance": "decreasing"}`` (method "bart"; numbers, two classes and ordered
        ones).
    parts
        What further parts are told, by name: ``{"spatial": ["east", "north"]}`` (docs/spatial.md), and those
        of other packages (docs/reference.md).
    features
        Names of the columns to learn from; None takes all that are usable. Of several outcomes they may be by
        outcome, ``{"mpg": ["weight"], "horsepower": ["displacement"]}``: the trees of each split on its own.
    columns
        Kinds to use instead of the inferred ones, by name: "number", "boolean", "category", "date", "encoded"
        (text whose levels count as the mean outcome of their rows: by default that of more than 50 levels, of
        three rows or more for half of the rows, for numbers, counts and two classes).
    target_name
        Name of the outcome, or names of several; None takes the name of `y`, or else "y" (y1, y2, ..).
    missing_target
        What to do with rows whose outcome is missing: "refuse" them, or "leave_out" these rows (those with a
        limit stay).
    calibrate
        Whether `predict(X, interval="calibrated")` gives intervals (of classes, prediction sets) with a
        stated coverage, however wrong the model: "none"; "holdout", by rows held out from the fit; "folds",
        by five more fits, each to four fifths of the rows: no rows are lost, and the coverage is an estimate.
    holdout
        Share of the rows held out by calibrate="holdout", 0.2 unless given, chosen by `holdout_rows` with the
        seed.
    new_rows
        How the rows to predict will differ from these, by which rows are held out and folds are made:
        "like_these"; ``{"groups": "subject"}``, rows of subjects that these don't have (the column is no
        feature then); ``{"later": "date", "horizon": 28, "gap": 7}``, rows up to `horizon` later (days, or
        units of a number; the span of the newest tenth unless given), of whose last `gap` nothing is known
        when they are predicted; or both. What calibrated intervals then hold is said by ``claims``.
    subgroups
        Subgroups in each of which calibrated intervals hold, which may overlap: columns (a category's levels
        with ten calibration rows, a number's quarters);
        ``{"name": "old", "where": [{"column": "age", "at_least": 65}]}``, with at_least, below, in, not_in or
        missing, all of which must be true; "missing", rows by what they lack; "by_class", each class by
        itself. Columns may be others than the features: rows to predict then need them too.
    time
        A column of dates, periods ("2014 Q1", "2024-W05") or numbers in equal steps: the fit is then of a
        `Forecaster` of later steps (docs/forecasts.md). X has the columns known ahead, and those that don't
        change within a series.
    series
        Columns that tell the series of a row, or None for one series.
    horizon
        How many steps ahead are forecast.
    known
        Columns whose later values are known ahead, such as promotions.
    step
        The step between times, "hour", "day", "business day", "week", "month", "quarter" or "year"; "auto"
        finds it.
    season
        Number of steps after which a season returns, or two; 1 for none; "auto" goes by the step.
    difference
        "last", models learn the difference to the value before; "season", to that a season ago; "none", the
        value itself; "auto", all of them.
    gaps
        "missing", a step without a row isn't known; "zero", it is 0; "auto" is "missing" where few are.
    num_threads
        Number of threads in which the chains run; None takes one per core. Where they are at least twice the
        chains, several share the rows of a chain, at least 25,000 each. The draws are the same.
    executor
        A `concurrent.futures.Executor` whose tasks the chains are instead of threads (of processes, or Dask's
        ``client.get_executor()``); the draws are the same. An interruption then leaves no draws.
    progress
        Show a progress bar.

    Returns
    -------
    Posterior
        The draws, with predictions, explanations, diagnostics and scores as methods; with `time` a
        `Forecaster`.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For an invalid setting.

    Examples
    --------
    >>> import pandas as pd
    >>> from bartserve import fit, holdout_rows
    >>> cars = pd.read_csv("examples/auto_mpg.csv")
    >>> X, y = cars[["weight", "year", "origin"]], cars["mpg"]
    >>> held = holdout_rows(len(X), 0.2, seed=0)
    >>> posterior = fit(X.drop(index=held), y.drop(index=held), num_trees=50)
    >>> summary = posterior.summary()  # do the chains agree? else posterior.extend(125) goes on with them
    >>> scores = posterior.score(X.loc[held], y.loc[held])  # how good is it on rows that it never saw?
    >>> table = posterior.predict(X.loc[held], level=0.9).to_pandas()

    """
    if seed is None:
        seed = secrets.randbits(32)
    arguments = locals().copy()  # every setting is one
    whole = isinstance(num_threads, int) and not isinstance(num_threads, bool)
    if num_threads is not None and not (whole and num_threads >= 1):
        raise SettingsError(
            f"num_threads must be a whole number from 1 up, or None for one per core, not {num_threads!r}",
            field="num_threads",
            code="out_of_range",
        )
    from sampler.pairs import check  # noqa: PLC0415

    if Forecasting.read({name: arguments[name] for name in FORECAST}) is not None:
        from sampler.forecasts.forecaster import fit_forecaster  # noqa: PLC0415

        check(Combination({**arguments, "outcomes": 2 if are_several(y) else 1}))
        forecaster: Any = fit_forecaster(X, y, arguments)
        return forecaster  # type: ignore[no-any-return]
    arguments = {name: value for name, value in arguments.items() if name not in FORECAST}
    of_studies = {name: arguments[name] for name in _OF_STUDIES}
    check(Combination({**arguments, "outcomes": 2} if are_several(y) else of_studies))
    if calibrate != "none":
        from sampler.studies.calibrated_fit import fit_calibrated  # noqa: PLC0415

        return fit_calibrated(**arguments)
    from sampler.preparation import prepare  # noqa: PLC0415
    from sampler.running import run  # noqa: PLC0415

    problem = prepare(**{name: value for name, value in arguments.items() if name not in _OF_STUDIES})
    for warning in problem.warnings:
        warnings.warn(warning, DataWarning, stacklevel=3)
    return run(problem, progress=progress, num_threads=num_threads, executor=executor)


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior or forecaster that `save` wrote; raise PackedError for any other file."""
    from sampler.forecasts.forecaster import Forecaster  # noqa: PLC0415
    from sampler.posterior.several.stored import read_posterior  # noqa: PLC0415
    from sampler.storage.forecast_file import is_forecaster  # noqa: PLC0415

    data = Path(path).read_bytes()
    read: Any = Forecaster.from_bytes if is_forecaster(data) else read_posterior
    posterior: Posterior = read(data)
    return posterior
