"""Measure what it takes until the means of two fits agree, beside the code of another checkout.

    python -m lab between_fits [--before FOLDER] [--data Computers diamonds concrete friedman-10000]
                               [--seeds 6] [--rows 2100]

Default fits with different seeds are made in processes of their own, those of the other checkout (`git
worktree add FOLDER COMMIT`) and of this one in turn, with the same packages. Printed are, for each, the least
and the median processor time of a fit in all (its choice of a transform and a line included); how far two
fits' means are apart at up to 1,000 held-out rows, in posterior standard deviations (median over rows and
pairs of fits) and what the chains' own differences expect; the effective draws that a fit is worth (the
posterior variance over that of the mean of its chains, harmonic mean over rows); RMSE; and the seconds until
two fits would be .1 sd apart if more chains were added, by the least time, with the ratio of the two.
"""

import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from inspect import signature
from pathlib import Path

import numpy as np

from lab import command

HERE = Path(__file__).parents[1]
CODE = """
import sys
import lab
sys.path[:0] = [{checkout!r}]
from lab import between_fits
between_fits.fit_once({data!r}, {seed}, {out!r})
"""
MOST_HELD_OUT = 1000
MEDIAN = 0.6745  # of |z|, z standard normal


def fit_once(data, seed, out):
    """Fit by default and write seconds, chain means [chain, row], variances [row] and the RMSE to a file."""
    from sampler import fit  # that of the process's checkout

    X, y, X_new, y_new = pickle.loads(Path(data).read_bytes())
    for settings in ({}, {"linear": True}) if "linear" in signature(fit).parameters else ({},):  # compiles
        fit(X[:100], y[:100], num_chains=1, num_burnin=5, num_draws=8, thin=1, progress=False, **settings)
    start = time.process_time()
    posterior = fit(X, y, seed=seed, progress=False)
    seconds = time.process_time() - start
    f = posterior.sample(X_new)
    rmse = np.sqrt(np.mean((f.mean((0, 1)) - y_new) ** 2))
    np.savez(out, seconds=seconds, means=f.mean(1), variance=f.reshape(-1, f.shape[2]).var(0), rmse=rmse)


def load(name, rows, folder):
    """Write training and held-out rows to a file of the folder; return it."""
    import schedules  # not in the processes of other checkouts, which may lack what it needs

    X, y, X_new, y_new = schedules.load(name)
    X, y = schedules.first(None if name.startswith("friedman-") else rows, X, y)
    data = Path(folder) / "data.pickle"
    data.write_bytes(pickle.dumps((X, y, X_new[:MOST_HELD_OUT], np.asarray(y_new)[:MOST_HELD_OUT])))
    return data


def run(checkout, data, seed):
    """Fit in a process with the sampler of a checkout."""
    out = str(data.with_name("fit.npz"))
    code = CODE.format(checkout=str(checkout), data=str(data), seed=seed, out=out)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(checkout)])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=data.parent)
    with np.load(out) as arrays:
        return {key: arrays[key] for key in arrays}


def summarise(fits):
    """Return least and median seconds, sds apart and expected, draws worth, RMSE, and seconds to .1."""
    means = [each["means"].mean(0) for each in fits]
    variance = np.mean([each["variance"] for each in fits], axis=0)
    apart = np.median(
        [np.median(np.abs(a - b) / np.sqrt(variance)) for a, b in itertools.combinations(means, 2)]
    )
    of_mean = np.mean([each["means"].var(0, ddof=1) / len(each["means"]) for each in fits], axis=0)
    expected = np.median(MEDIAN * np.sqrt(2 * of_mean / variance))
    seconds = [float(each["seconds"]) for each in fits]
    rmse = float(np.mean([each["rmse"] for each in fits]))
    worth = 1 / np.mean(of_mean / variance)
    to_tenth = min(seconds) * (apart / 0.1) ** 2
    return min(seconds), float(np.median(seconds)), apart, expected, worth, rmse, to_tenth


def main():
    parser = command(__doc__)
    parser.add_argument("--before", type=Path, help="folder of another checkout")
    parser.add_argument("--data", nargs="+", default=["Computers", "diamonds", "concrete", "friedman-10000"])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rows", type=int, default=2100)
    parser.add_argument("--keep", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    checkouts = {"now": HERE} | ({"before": arguments.before.resolve()} if arguments.before else {})
    kept = {}
    for name in arguments.data:
        fits = {key: [] for key in reversed(checkouts)}
        with tempfile.TemporaryDirectory() as folder:
            data = load(name, arguments.rows, folder)
            for seed in range(1, arguments.seeds + 1):
                for key, each in fits.items():
                    each.append(run(checkouts[key], data, seed))
        figures = {key: summarise(each) for key, each in fits.items()}
        kept[name] = figures
        print(name)
        for key, (least, median, apart, expected, worth, rmse, to_tenth) in figures.items():
            print(
                f"  {key:6} {least:5.2f} s (median {median:.2f})  apart {apart:.3f}, expected "
                f"{expected:.3f}  worth {worth:5.1f} draws  rmse {rmse:.4g}  to .1 {to_tenth:5.1f} s"
            )
        if arguments.before:
            print(f"  before / now {figures['before'][-1] / figures['now'][-1]:.2f}", flush=True)
    if arguments.keep:
        arguments.keep.write_text(json.dumps(kept))
