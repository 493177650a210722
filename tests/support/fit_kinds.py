"""Things that a fit may be asked to have, with small rows for them: what tests of pairs are made from."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from sampler.data.columns import summarise
from sampler.data.rows import Rows
from sampler.data.table import Table, read
from sampler.definitions.pairs import Combination
from sampler.errors import DataError, SettingsError
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.noise import KINDS
from sampler.pairs import check
from sampler.preparation.plan import PLANNED, plan, resolve_settings
from sampler.preparation.several import check_several

ROWS = 60
OF_STUDIES = ("calibrate", "holdout", "new_rows", "subgroups")
_DICE = np.random.default_rng(6)
_A, _B = _DICE.uniform(size=(2, ROWS)).round(3)
_COUNTS = 1 + _DICE.poisson(2, ROWS)
TABLE = {
    "a": _A.tolist(), "b": _B.tolist(), "site": ["nsw"[i % 3] for i in range(ROWS)],
    "ward": [f"w{i % 12}" for i in range(ROWS)], "year": [2001 + i // 12 for i in range(ROWS)],
    "began": [2003 if i % 12 < 5 else 2004 if i % 12 < 10 else None for i in range(ROWS)],
}  # fmt: skip
OUTCOMES: dict[str, list[Any]] = {  # by the kind of a family's outcomes
    "numbers": (1 + _A + _DICE.uniform(size=ROWS)).round(3).tolist(),
    "two": (_DICE.uniform(size=ROWS) < 0.5).tolist(),
    "classes": ["xyz"[k % 3] for k in _COUNTS],
    "ordered": np.minimum(_COUNTS, 4).tolist(),
    "counts": _COUNTS.tolist(),
    "hurdle": np.where(_B < 0.6, 1.0, 2 + _A).tolist(),
}
_ONES = (0.5 + _B).round(3).tolist()
ROLES: dict[str, list[Any]] = {
    "weights": _ONES,
    "exposure": _ONES,
    "offset": _ONES,
    "event": (_DICE.uniform(size=ROWS) < 0.7).astype(int).tolist(),
    "lower": [0.5, *[None] * (ROWS - 1)],
    "upper": [9.5, *[None] * (ROWS - 1)],
}
TREATMENTS: dict[str, list[Any]] = {
    "two arms": _DICE.integers(0, 2, ROWS).tolist(),
    "three arms": _DICE.choice(["none", "low", "high"], ROWS).tolist(),
    "a dose": (_DICE.integers(0, 20, ROWS) / 4).tolist(),
}
TREATED = {"treatment": TREATMENTS["two arms"]}
PARTS: dict[str, dict[str, Any]] = {
    **{role: {role: ROLES[role]} for role in ROLES},
    **{f"a treatment of {kind}": {"treatment": values} for kind, values in TREATMENTS.items()},
    "propensity": {"propensity": "b"},
    "a treatment with its propensity": TREATED | {"propensity": "b"},
    **{f"effects {kind}": TREATED | {"effects": kind} for kind in ("ps-bart", "plain")},
    "assignment at random": TREATED | {"assignment": "random"},
    "groups": {"groups": ("site",)},
    "slopes by group": {"groups": ("site",), "slopes": ("a",)},
    "slopes": {"slopes": ("b",)},
    "a panel": {"adoption": "began", "period": "year", "groups": ("ward",)},
    "adoption": {"adoption": "began"},
    "period": {"period": "year"},
    "levels": {"levels": ["1", "2", "3", "4"]},
    "a line": {"linear": True},
    "monotone features": {"monotone": {"a": "increasing"}},
    "a surface": {"parts": {"spatial": ["a", "b"]}},
    "rules by sets of levels": {"categories": "sets"},
    "several outcomes": {"outcomes": 2},
    **{f"recipe {name}": {"recipe": name} for name in ("cgm10", "pg-bart")},
    **{f"moves {name}": {"moves": name} for name in ("cgm", "pg")},
    "a start by particles": {"start": "smc"},
    "balanced trees by local moves": {"prior": {"trees": "balanced"}},
    "an annealed start": {"start": "annealed"},
    "the noise's sd": {"prior": {"sigma": 1.0}},
    "the prior of the noise": {"prior": {"nu": 4.0}},
    "a number of trees that is drawn": {"prior": {"num_trees": "poisson"}},
    **{f"calibration by {kind}": {"calibrate": kind, "holdout": None} for kind in ("holdout", "folds")},
    "rows held out": {"holdout": 0.3},
    "new rows": {"new_rows": {"groups": "site"}},
    "subgroups": {"subgroups": ["a"]},
}
NOISES = {f"noise {name}": {"noise": name} for name in (*KINDS, "auto")}
TRANSFORMS = {f"transform {name}": {"transform": name} for name in ("none", "log", "yeo-johnson", "auto")}
METHODS_ASKED = {f"method {name}": {"method": name} for name in METHODS if name != "bart"}
FAMILIES_ASKED = {f"family {name}": {"family": name} for name in FAMILIES if name != "gaussian"}
THINGS = PARTS | NOISES | TRANSFORMS | METHODS_ASKED | FAMILIES_ASKED


def together(*names: str) -> dict[str, Any] | None:
    """Put things together; None where two of them give one argument other values."""
    arguments: dict[str, Any] = {}
    for name in names:
        for key, value in THINGS[name].items():
            if arguments.setdefault(key, value) != value:
                return None
    return arguments


def kind_of(arguments: Mapping[str, Any]) -> str:
    """Name the kind of outcomes that the family which is asked for takes, of `OUTCOMES`."""
    family = FAMILIES[arguments.get("family") or "gaussian"]
    return "hurdle" if family.point else family.target


_REFUSALS: dict[str, SettingsError | DataError | None] = {}


def refusal(arguments: Mapping[str, Any], y: list[Any]) -> SettingsError | DataError | None:
    """Plan a fit, as `fit` does before it reads features; return what it is refused by.

    It is planned once: ways out of many pairs lead to the same arguments.
    """
    given = {name: value for name, value in sorted(arguments.items()) if value is not None}
    key = repr((given, y))
    if key not in _REFUSALS:
        _REFUSALS[key] = _refused(given, y)
    return _REFUSALS[key]


def _refused(given: dict[str, Any], y: list[Any]) -> SettingsError | DataError | None:
    try:
        if given.pop("outcomes", 1) > 1:
            check_several(given)
        of_studies = {name: given.pop(name, None) for name in OF_STUDIES}
        check(Combination(of_studies | {"calibrate": of_studies["calibrate"] or "none"}))
        rows = Rows.of_arguments(_read(), y, given, "y").to_fit("refuse")
        planned = {name: given.pop(name) for name in PLANNED if name in given}
        settings = resolve_settings(rows, **given, **planned)
        plan(rows, _summaries(), settings, **planned)
    except (SettingsError, DataError) as error:
        return error.with_traceback(None)  # whose frames hold rows
    return None


@cache
def _summaries() -> list[Any]:
    return [summarise(_read().column(name), count_distinct=False) for name in _read().names]


@cache
def _read() -> Table:
    return read(TABLE)


def after(arguments: Mapping[str, Any], way: Mapping[str, Any]) -> dict[str, Any]:
    """Change arguments as a way says; None leaves one out."""
    changed = dict(arguments)
    for name, value in way.items():
        first, _, entry = name.partition(".")
        if entry:
            changed[first] = {key: each for key, each in changed[first].items() if key != entry}
        else:
            changed[first] = value
    return {name: value for name, value in changed.items() if value is not None}
