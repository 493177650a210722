"""Tables whose effects are known, for the measurements of effects.

IHDP are 747 children with 25 features, whose outcomes are simulated on surface A or B of Hill (2011) by the
generators of econml 0.17.0, whose table has the features. ACIC 2016 are ten settings of the competition of
Dorie et al. (2019), 4,802 rows with 58 features, an instance of each in causallib 0.10.0: a table is a draw
of its rows. `make effectboards` installs both in an environment of their own.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from lab.other_environments import FOLDER

ROWS = {"ihdp": 672, "acic": 1200}  # of a table, that a method sees; others are new
NEW = 800  # new rows of ACIC 2016
FEATURES = [
    "bw", "b.head", "preterm", "birth.o", "nnhealth", "momage", "sex", "twin", "b.marr", "mom.lths", "mom.hs",
    "mom.scoll", "cig", "first", "booze", "drugs", "work.dur", "prenatal", "site1", "site2", "site3", "site4",
    "site5", "site6", "site7",
]  # fmt: skip
SURFACES = {  # values of a coefficient, and their probabilities
    "A": ([0, 1, 2, 3, 4], [0.5, 0.2, 0.15, 0.1, 0.05]),
    "B": ([0, 0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.1, 0.1, 0.1]),
}


class KnownEffects(NamedTuple):
    """A table: features, treatments, outcomes and true effects by row, and the feature that parts rows."""

    X: pd.DataFrame
    treated: NDArray[Any]
    y: NDArray[Any]
    effect: NDArray[Any]
    by: str

    def take(self, rows: Any) -> "KnownEffects":
        """Return some of the rows."""
        own = self.X.iloc[rows].reset_index(drop=True)
        return KnownEffects(own, self.treated[rows], self.y[rows], self.effect[rows], self.by)


def lacking(board: str) -> str:
    """Return what a board needs and isn't there, in words, or an empty string."""
    package = "econml 0.17.0" if board in SURFACES else "causallib 0.10.0"
    return "" if _folder(package.split(maxsplit=1)[0]) else f"{package} has the table: run make effectboards"


def board_table(board: str, number: int) -> KnownEffects:
    """Return a table of IHDP, "A" or "B", or of a setting of ACIC 2016."""
    return ihdp(board, number) if board in SURFACES else acic(int(board), number)


def ihdp(surface: str, seed: int) -> KnownEffects:
    """Return a replication, as econml's generators make it."""
    table = pd.read_csv(_folder("econml") / "data" / "ihdp" / "sim.csv")
    table = table[(table["treat"] == 0) | (table["momwhite"] == 1)]
    treated, x = table["treat"].to_numpy(), table[FEATURES].to_numpy(float)
    x[:, :6] = (x[:, :6] - x[:, :6].mean(axis=0)) / x[:, :6].std(axis=0)
    x[:, FEATURES.index("first")] += 1
    x, rng = np.insert(x, 0, 1.0, axis=1), np.random.RandomState(seed)  # as the generators
    values, p = SURFACES[surface]
    beta = rng.choice(values, size=x.shape[1], replace=True, p=p)
    line = x @ beta
    if surface == "A":
        effect = np.full(len(x), 4.0)
        y = line + 4 * treated + rng.normal(0, 1, len(x))
    else:
        curve = np.exp((x + np.r_[0, np.full(len(beta) - 1, 0.5)]) @ beta)
        above = np.mean((line - curve)[treated == 1]) - 4
        effect = line - above - curve
        y = (line - above) * treated + curve * (1 - treated) + rng.normal(0, 1, len(x))
    return KnownEffects(pd.DataFrame(x[:, 1:], columns=FEATURES), treated.astype(float), y, effect, "momage")


def acic(setting: int, draw: int, rows: int = ROWS["acic"] + NEW) -> KnownEffects:
    """Return rows of a setting, drawn without replacement."""
    folder = _folder("causallib") / "datasets" / "data" / "acic_challenge_2016"
    X, outcomes = pd.read_csv(folder / "x.csv"), pd.read_csv(folder / f"zymu_{setting}.csv")
    treated = outcomes["z"].to_numpy(float)
    y = np.where(treated == 1, outcomes["y1"], outcomes["y0"])
    whole = KnownEffects(X, treated, y, (outcomes["mu1"] - outcomes["mu0"]).to_numpy(), "x_1")
    return whole.take(np.random.default_rng([setting, draw]).permutation(len(X))[:rows])


def confounded(seed: int) -> KnownEffects:
    """Return rows whose treatment follows their mean, which biases effects that are shrunk."""
    rng = np.random.default_rng([59, seed])
    rows = [300, 400, 500][seed % 3]
    a, b, c = rng.normal(size=(3, rows))
    d = rng.integers(0, 4, rows)
    mean = 2 * np.sin(a) + b**2 / 2 + c + np.array([0, 0.5, 1.0, 1.5])[d]
    p = norm.cdf(1.2 * (mean - mean.mean()) / mean.std())
    treated, effect = (rng.uniform(size=rows) < p).astype(float), 1.0 + (b > 0)
    X = pd.DataFrame({"a": a, "b": b, "c": c, "d": np.array([*"wxyz"])[d]})
    return KnownEffects(X, treated, mean + effect * treated + rng.normal(size=rows), effect, "a")


def _folder(package: str) -> Any:
    """Return the folder of a package, here or in the environment of the boards; None where it is not."""
    found = find_spec(package)
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0])
    return next(iter(FOLDER.glob(f"effects/lib/python*/site-packages/{package}")), None)
