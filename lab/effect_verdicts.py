"""Measure the verdict on effects: default fits to IHDP, or to simulated tables, twice each.

    python -m lab effect_verdicts [--boards A B simulated] [--tables 20] [--first 100]
        [--data FOLDER] [--seconds 300]

IHDP are 747 children with 25 features, whose outcomes are simulated on surface A or B of Hill (2011) by the
generators of econml 0.17.0; without it, --data names the folder `econml/data` of its unpacked wheel, whose
table has the features. The simulated tables are those of `lab effects`, 250 rows, nonlinear, with varying
effects. Prints, for each table, the verdict, what `use.effects` says of the average and of rows, the R-hat
of both, and the share of the rows whose mean effect is within .3 posterior sd of that of a fit by another
seed; then how often each is usable, and how often 95% of the rows are so near where rows are. It stops after
so many seconds of the processor.
"""

import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from lab import command
from lab.effects import simulate
from sampler import fit

NEAR, SHARE = 0.3, 0.95
FEATURES = [
    "bw", "b.head", "preterm", "birth.o", "nnhealth", "momage", "sex", "twin", "b.marr", "mom.lths", "mom.hs",
    "mom.scoll", "cig", "first", "booze", "drugs", "work.dur", "prenatal", "site1", "site2", "site3", "site4",
    "site5", "site6", "site7",
]  # fmt: skip
SURFACES = {  # values of a coefficient, and their probabilities
    "A": ([0, 1, 2, 3, 4], [0.5, 0.2, 0.15, 0.1, 0.05]),
    "B": ([0, 0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.1, 0.1, 0.1]),
}


def ihdp(table, surface, seed):
    """Return features, treatments and outcomes of a replication, as econml's generators make them."""
    table = table[(table["treat"] == 0) | (table["momwhite"] == 1)]
    treated, x = table["treat"].to_numpy(), table[FEATURES].to_numpy(float)
    x[:, :6] = (x[:, :6] - x[:, :6].mean(axis=0)) / x[:, :6].std(axis=0)
    x[:, FEATURES.index("first")] += 1
    x, rng = np.insert(x, 0, 1.0, axis=1), np.random.RandomState(seed)  # as the generators
    values, p = SURFACES[surface]
    beta = rng.choice(values, size=x.shape[1], replace=True, p=p)
    line = x @ beta
    if surface == "A":
        y = line + 4 * treated + rng.normal(0, 1, len(x))
    else:
        curve = np.exp((x + np.r_[0, np.full(len(beta) - 1, 0.5)]) @ beta)
        above = np.mean((line - curve)[treated == 1]) - 4
        y = (line - above) * treated + curve * (1 - treated) + rng.normal(0, 1, len(x))
    return pd.DataFrame(x[:, 1:], columns=FEATURES), treated.astype(float), y


def rows_of(board, folder, seed):
    """Return features, treatments and outcomes of a table of a board."""
    if board == "simulated":
        return simulate(250, nonlinear=True, varying=True, seed=seed)[:3]
    return ihdp(pd.read_csv(folder / "ihdp" / "sim.csv"), board, seed)


def measure(X, treated, y):
    """Return the verdict, the uses, R-hat of both, and the share of rows that a second fit has near."""
    one, other = (fit(X, y, treatment=treated, seed=seed, progress=False) for seed in (1, 2))
    summary, rows = one.summary(), one.training_rows()
    draws, means = one.law.effect_of(rows, one.law.alike(None)), other.effects().mean
    near = np.abs(draws.mean(axis=0) - means) <= NEAR * draws.std(axis=0)
    use = summary.effects
    return summary.verdict, use.average, use.rows, use.average_rhat, use.rows_rhat, float(near.mean())


def main():
    """Print the tables, and the sums."""
    parser = command(__doc__)
    parser.add_argument("--boards", nargs="+", default=["B", "A"], choices=["A", "B", "simulated"])
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--data", type=Path, help="the folder of econml's data")
    parser.add_argument("--seconds", type=float, default=300, help="processor seconds, of each board")
    options = parser.parse_args()
    found, folder = find_spec("econml"), options.data
    if folder is None and found is not None:
        folder = Path(found.submodule_search_locations[0]) / "data"
    for board in options.boards:
        if board != "simulated" and folder is None:
            print(f"{board}: left out; econml 0.17.0 has the table: --data names the folder of its data")
            continue
        measured, start = [], time.process_time()
        for seed in range(options.first, options.first + options.tables):
            if measured and time.process_time() - start > options.seconds:
                break
            measured.append(measure(*rows_of(board, folder, seed)))
            verdict, average, rows, *figures = measured[-1]
            told = " ".join(f"{each:.2f}" for each in figures)
            print(f"{board} {seed} {verdict:14} average {average:8} rows {rows:8} {told}", flush=True)
        _, averages, rows, _, _, near = zip(*measured, strict=True)
        trusted = [share for share, use in zip(near, rows, strict=True) if use == "usable"]
        print(
            f"{board}: of {len(measured)} tables the average is usable in {averages.count('usable')} and "
            f"roughly so in {averages.count('roughly')}, rows in {len(trusted)} and {rows.count('roughly')}; "
            f"where rows are, another fit is near in {sum(share >= SHARE for share in trusted)}"
        )
