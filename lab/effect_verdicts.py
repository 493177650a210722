"""Measure the verdict on effects: default fits to IHDP, or to simulated tables, twice each.

    python -m lab effect_verdicts [--boards A B simulated] [--tables 20] [--first 100] [--seconds 300]

IHDP is that of lab/effect_tables.py, which says where its table is from. The simulated tables are those of
`lab effects`, 250 rows, nonlinear, with varying effects. Prints, for each table, the verdict, what
`use.effects` says of the average and of rows, the R-hat of both, and the share of the rows whose mean effect
is within .3 posterior sd of that of a fit by another seed; then how often each is usable, and how often 95%
of the rows are so near where rows are. It stops after so many seconds of the processor.
"""

import time

import numpy as np

from lab import command
from lab.effect_tables import board_table, lacking
from lab.effects import simulate
from sampler import fit

NEAR, SHARE = 0.3, 0.95


def rows_of(board, seed):
    """Return features, treatments and outcomes of a table of a board."""
    if board == "simulated":
        return simulate(250, nonlinear=True, varying=True, seed=seed)[:3]
    table = board_table(board, seed)
    return table.X, table.treated, table.y


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
    parser.add_argument("--seconds", type=float, default=300, help="processor seconds, of each board")
    options = parser.parse_args()
    for board in options.boards:
        if board != "simulated" and lacking(board):
            print(f"{board}: left out; {lacking(board)}")
            continue
        measured, start = [], time.process_time()
        for seed in range(options.first, options.first + options.tables):
            if measured and time.process_time() - start > options.seconds:
                break
            measured.append(measure(*rows_of(board, seed)))
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
