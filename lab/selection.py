"""Measure how often features are rightly selected: by permutation null, and by the sparse prior (DART).

    python -m lab selection [--seeds 20] [--noise 95] [--rows 500]

On Friedman's function of five columns beside columns of noise: for each rule of the permutation null, and for
the sparse prior's columns that more than half of the draws use, the seeds in which all five are selected, the
columns of noise selected in all, and the seeds with any of them.
"""

import time

import numpy as np

from lab import command
from lab.sparse import friedman
from sampler import fit
from sampler.studies.selection import RULES, select_features


def by_permutations(X, y, seed):
    """Return the columns that each rule selects."""
    selection = select_features(X, y, seed=seed)
    return {rule: {int(name[1:]) - 1 for name in selection.selected(rule)} for rule in RULES}


def by_sparse_prior(X, y, seed):
    """Return the columns that more than half of the draws use under the sparse prior."""
    posterior = fit(X, y, num_trees=50, seed=seed, prior={"sparse": True}, progress=False)
    used = np.zeros(X.shape[1])
    draws = 0
    for chain in posterior.chains():
        for one in range(chain.num_draws):
            used[np.unique(chain[one : one + 1].feature[chain[one : one + 1].feature >= 0])] += 1
        draws += chain.num_draws
    return {"sparse prior": set(np.flatnonzero(used > draws / 2).tolist())}


def main():
    parser = command(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--noise", type=int, default=95)
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    selections, seconds = {}, {}
    for seed in range(1, options.seeds + 1):
        X, y = friedman(options.rows, 5 + options.noise, seed)
        for select in (by_permutations, by_sparse_prior):
            start = time.process_time()
            for rule, columns in select(X, y, seed).items():
                selections.setdefault(rule, []).append(columns)
                seconds.setdefault(rule, []).append(time.process_time() - start)
    truth = set(range(5))
    print(f"n = {options.rows}, five columns that matter and {options.noise} of noise")
    for rule, selected in selections.items():
        false = [len(each - truth) for each in selected]
        print(
            f"{rule:13} all five in {sum(truth <= each for each in selected)} of {len(selected)} seeds; "
            f"{sum(false)} of noise in all, in {sum(count > 0 for count in false)} seeds; "
            f"{np.median(seconds[rule]):.1f} s of processor time"
        )
