"""Every kind of model: a family with parts beside its trees, fitted to a few rows within a tenth of a second.

A kind is named by its family and its parts, ``"poisson+exposure+treatment"``. `KINDS` has one or more of each
family, part and method, and of the pairs that meet in the code; `every_pair()` names all that `fit` accepts.
"""

import warnings
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from sampler import DataError, DataWarning, SettingsError, fit
from sampler.definitions.data import COLUMN_ROLES, PREDICTED
from sampler.families import FAMILIES
from tests.support.models.recalibrations import recalibrated

ROWS, NEW_ROWS = 60, 5
SEVERAL, SEVERAL_WITH_CLASS = "several", "several-with-class"  # outcomes, in place of a family

# Arguments of `fit` by part; a text that names a column of `columns` stands for its values where `fit` takes
# values.
PARTS: dict[str, dict[str, Any]] = {
    "weights": {"weights": "precision"},
    "exposure": {"exposure": "days"},
    "offset": {"offset": "known"},
    "event": {"event": "seen", "transform": "log"},
    "limits": {"lower": "least", "upper": "most"},
    "treatment": {"treatment": "treated"},
    "arms": {"treatment": "arm"},
    "dose": {"treatment": "amount"},
    "ps-bart": {"treatment": "treated", "effects": "ps-bart"},
    "plain": {"treatment": "treated", "effects": "plain"},
    "plain-arms": {"treatment": "arm", "effects": "plain"},
    "ps-bart-dose": {"treatment": "amount", "effects": "ps-bart"},
    "random": {"treatment": "treated", "assignment": "random"},
    "propensity": {"treatment": "treated", "propensity": "share"},
    "groups": {"groups": "site"},
    "two-groups": {"groups": ["site", "ward"]},
    "panel": {"adoption": "began", "period": "year", "groups": "ward"},
    "slopes": {"groups": "site", "slopes": "last"},
    "linear": {"linear": True},
    "monotone": {"monotone": {"last": "increasing"}},
    "log": {"transform": "log"},
    "yeo-johnson": {"transform": "yeo-johnson"},
    "forest": {"noise": "forest"},
    "t": {"noise": "t"},
    "t-forest": {"noise": "t-forest"},
    "mixture": {"noise": "mixture"},
    "calibrated": {"calibrate": "holdout", "holdout": 0.3},
    "calibrated-groups": {"calibrate": "folds", "new_rows": {"groups": "ward"}},
    "subgroups": {
        "calibrate": "holdout",
        "holdout": 0.3,
        "subgroups": [{"name": "low", "where": [{"column": "last", "below": 0.6}]}],
    },
    "recalibrated": {"recalibrated": True},  # not an argument of `fit`
    "encoded": {"columns": {"place": "encoded"}},
    **{
        method: {"method": method, "num_trees": None, "prior": None, "num_burnin": 20}
        for method in ("bcart", "bcart-mean-variance", "bcart-wu", "rjhmc-df", "rjhmc-dfi")
    },
    "smc": {"method": "smc", "num_trees": None, "prior": None, "num_burnin": None, "thin": None},
    "dcc-tree": {
        "method": "dcc-tree", "num_trees": None, "prior": None, "num_chains": 1, "num_draws": 20,
        "thin": None,
        "search": {"iterations": 1, "first": 2, "most": 2, "chains": 1, "draws": 20, "samples": 2},
    },
}  # fmt: skip
SETTINGS = {
    "noise": "constant", "linear": False, "transform": "none", "num_trees": 3, "num_chains": 2,
    "num_burnin": 5, "num_draws": 5, "thin": 1, "seed": 3,
}  # fmt: skip
ONLY_NUMBERS = ("noise", "transform")  # settings that other families refuse, unless a part has them

KINDS = (
    *("gaussian", "gaussian+weights", "gaussian+event", "gaussian+limits", "gaussian+linear", "gaussian+log"),
    *("gaussian+yeo-johnson", "gaussian+monotone", "gaussian+forest", "gaussian+t", "gaussian+t-forest"),
    *("gaussian+mixture", "gaussian+yeo-johnson+forest", "gaussian+groups", "gaussian+slopes+linear"),
    *("gaussian+two-groups+log", "gaussian+calibrated", "gaussian+calibrated-groups", "gaussian+subgroups"),
    *("gaussian+encoded+linear", "poisson+exposure+encoded"),
    *("gaussian+recalibrated+calibrated", "gaussian+yeo-johnson+forest+recalibrated"),
    *("gaussian+treatment", "gaussian+treatment+weights+linear", "gaussian+arms", "gaussian+dose"),
    *("gaussian+ps-bart", "gaussian+plain", "gaussian+plain-arms", "gaussian+random", "gaussian+propensity"),
    *("gaussian+ps-bart-dose", "gaussian+treatment+log", "gaussian+treatment+forest"),
    *(
        "gaussian+panel",
        "gaussian+panel+linear",
        "gaussian+treatment+groups",
        "gaussian+treatment+calibrated",
    ),
    *("hurdle", "hurdle+t-forest+linear", "hurdle+log", "hurdle+mixture"),
    *("probit", "probit+offset", "probit+groups", "probit+monotone", "probit+calibrated"),
    *("probit+treatment+offset", "probit+arms", "probit+dose+groups", "probit+plain"),
    *("categorical", "categorical+linear", "categorical+subgroups", "ordinal", "ordinal+groups"),
    *("poisson", "poisson+exposure", "poisson+exposure+treatment", "poisson+plain", "poisson+arms"),
    *("negative-binomial+exposure+ps-bart", "negative-binomial"),
    *("zero-inflated-poisson+exposure", "zero-inflated-negative-binomial"),
    *("several", "several-with-class", "several+linear"),
    *("gaussian+bcart", "categorical+bcart", "gaussian+bcart+weights", "gaussian+bcart-mean-variance"),
    *("categorical+bcart-wu", "gaussian+smc", "categorical+smc", "gaussian+rjhmc-df", "categorical+rjhmc-df"),
    *("gaussian+rjhmc-dfi", "gaussian+dcc-tree", "gaussian+bcart+calibrated"),
)


@cache
def columns() -> dict[str, np.ndarray]:
    """Return all columns: features with missing values, roles, groups, and outcomes by what they are."""
    rng = np.random.default_rng(5)
    last = rng.uniform(size=ROWS).round(3)
    first = np.where(np.arange(ROWS) % 9 == 4, np.nan, rng.uniform(size=ROWS).round(3))
    kind = rng.choice(["a", "b", "c"], ROWS).astype(object)
    share = (0.2 + 0.6 * last).round(3)
    treated = (rng.uniform(size=ROWS) < share).astype(float)
    level = 2 * last + 1.5 * (kind == "b") + treated
    number = (level + rng.normal(0, 0.4, ROWS)).round(3)
    days = rng.uniform(100, 365, ROWS).round()
    ranks = np.searchsorted(np.quantile(number, [1 / 3, 2 / 3]), number)
    unknown = np.arange(ROWS) % 4 == 1
    return {
        "first": first, "kind": np.where(np.arange(ROWS) == 8, None, kind), "last": last, "share": share,
        "site": np.array([f"s{row % 4}" for row in range(ROWS)], object),
        "ward": np.array([f"w{row % 12}" for row in range(ROWS)], object),
        "place": np.array([f"p{row % 15}" for row in range(ROWS)], object),
        "year": 2001.0 + np.arange(ROWS) // 12,
        "began": np.array([2003.0] * 5 + [2004.0] * 5 + [np.nan] * 2)[np.arange(ROWS) % 12],
        "precision": rng.uniform(0.5, 2, ROWS).round(2), "days": days,
        "known": rng.normal(size=ROWS).round(3), "seen": np.arange(ROWS) % 3 > 0,
        "treated": treated, "arm": np.array([f"arm {row}" for row in rng.choice(3, ROWS)], object),
        "amount": (5 * share + rng.uniform(0, 2, ROWS)).round(),
        "least": np.where(unknown, np.floor(number), np.nan),
        "most": np.where(unknown & (np.arange(ROWS) % 8 == 1), np.ceil(number), np.nan),
        "numbers": number, "positive": np.exp(number).round(4),
        "censored": np.where(unknown, np.nan, number), "spike": np.maximum(number, np.median(number)),
        "two": np.where(ranks > 0, "yes", "no").astype(object),
        "classes": np.array(["low", "mid", "top"], object)[ranks],
        "ordered": ranks, "counts": rng.poisson(np.exp(level - 1)),
        "counts in days": rng.poisson(days / 100 * np.exp(level - 1)), "other": (number**2 + last).round(3),
    }  # fmt: skip


class Kind:
    """A kind of model by its name: its rows, their outcomes, and the arguments of its fit.

    Attributes
    ----------
    rows
        Columns of rows as they are given to a fitted model, by name: features, groups, and those with a role.
    new
        A few of them as rows to predict, without what is known of outcomes.
    y, weights
        The rows' outcomes, and their weights or None.
    arguments
        Arguments of `fit` besides these, with the columns that have a role.

    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.family, *self.parts = name.split("+")
        every = columns()
        target = FAMILIES[self.family].target if self.family in FAMILIES else SEVERAL
        roles = {role: column for part in self.parts for role, column in PARTS[part].items()
                 if role in COLUMN_ROLES}  # fmt: skip
        self.arguments: dict[str, Any] = {**SETTINGS}
        self.arguments["family"] = self.family if self.family in FAMILIES else "auto"
        if target == "ordered":
            self.arguments["levels"] = [0, 1, 2]
        if target != "numbers" or any("method" in PARTS[part] for part in self.parts):
            self.arguments = {key: value for key, value in self.arguments.items() if key not in ONLY_NUMBERS}
        for part in self.parts:
            self.arguments |= {key: value for key, value in PARTS[part].items() if key not in roles}
        weights = roles.pop("weights", None)
        self.weights = None if weights is None else every[weights]
        features = ["first", "kind", "last", *(["share"] if "propensity" in self.arguments else [])]
        self.arguments |= {role: every[column] for role, column in roles.items()}
        features += ["year"] if "period" in self.arguments else []
        features += ["place"] if "columns" in self.arguments else []
        beside = [*np.atleast_1d(self.arguments.get("groups", [])).tolist()]
        beside += ["began"] if "adoption" in self.arguments else []
        if "calibrated-groups" in self.parts:
            beside.append("ward")
        self.trained_on = {column: every[column] for column in dict.fromkeys([*features, *beside])}
        self.rows = self.trained_on | {role: every[column] for role, column in roles.items()}
        self.y: Any = every[self._outcome(target, roles)] if target != SEVERAL else self._several(every)
        known = {*self.trained_on, *PREDICTED}
        self.new = {name: values[:NEW_ROWS] for name, values in self.rows.items() if name in known}

    def _outcome(self, target: str, roles: dict[str, str]) -> str:
        if target == "counts":
            return "counts in days" if "exposure" in roles else "counts"
        if target == "numbers":
            if FAMILIES[self.family].point:
                return "spike"
            if "lower" in roles:
                return "censored"
            return "positive" if "event" in roles or "log" in self.parts else "numbers"
        return target

    def _several(self, every: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        y = {"y": every["numbers"], "z": every["other"]}
        return y | {"k": every["two"]} if self.family == SEVERAL_WITH_CLASS else y

    def fit(self) -> Any:
        """Fit it."""
        arguments = self.arguments | {"progress": False}
        changed = arguments.pop("recalibrated", False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            posterior = fit(self.trained_on, self.y, self.weights, **arguments)
        return recalibrated(posterior) if changed else posterior


@cache
def fitted(name: str) -> Any:
    """Return the posterior of a kind, fitted once in a process."""
    return Kind(name).fit()


def every_pair() -> list[str]:
    """Name all kinds with up to two parts that `fit` may accept."""
    methods = {part for part in PARTS if "method" in PARTS[part]}
    parts = [
        own
        for count in (0, 1, 2)
        for own in combinations(PARTS, count)
        if sum(part in methods for part in own) < 2 and not _clash(own)
    ]
    return ["+".join((family, *own)) for family in (*FAMILIES, SEVERAL, SEVERAL_WITH_CLASS) for own in parts]


def accepted(name: str) -> bool:
    """Tell whether `fit` accepts a kind."""
    try:
        fitted(name)
    except (SettingsError, DataError):
        return False
    return True


def _clash(parts: tuple[str, ...]) -> bool:
    """Tell whether two parts give the same argument."""
    given = [key for part in parts for key in PARTS[part] if key not in ("transform", "num_trees")]
    return len({*given}) < len(given)
