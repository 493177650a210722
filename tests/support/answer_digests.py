"""Digests of the answers of every kind of posterior: predictions, scores, explanations, diagnostics.

`python -m tests.support.answer_digests [CASE ...]` rewrites them, or all. Rewrite one only
after an intended change of that answer. The draws behind them have digests of their own (`fit_digests`).

Cases of soft splits have digests for each width in which their kernels take sums: the compiler prefers narrow
vectors on some processors that have wide ones, which NumPy takes there.
"""

import dataclasses
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sampler import DataWarning, SettingsError
from tests.support import fit_digests
from tests.support.models.recalibrations import recalibrated

FILE = Path(__file__).parents[1] / "data" / "formats" / "answer_digests.json"
# Fields that answers got after the record: left out where they are empty.
LATER = {"subgroups", "units", "measure", "until", "curves", "followed"}
NEW_ROWS = 12

# One or more of each kind of posterior, noise, transform and part beside the trees.
CASES = (
    "bart-default-prior", "bart-weights", "noise-forest", "noise-t-forest", "hurdle", "times", "groups",
    "group-slopes", "probit", "classes", "classes-with-lines", "ordered", "counts", "counts-dispersed",
    "bcart", "bcart-mean-variance", "bcart-classes", "smc", "smc-classes", "rjhmc-df", "dcc-tree",
)  # fmt: skip
WITH_PARTS = (
    "noise-mixture", "hurdle-plain", "ordered-groups", "spatial", "treatment", "treatment-default-prior",
    "treatment-ps-bart", "treatment-plain", "treatment-at-random", "treatment-transform", "treatment-classes",
    "treatment-groups", "treatment-counts", "arms", "arms-classes", "arms-counts", "dose", "dose-plain",
    "monotone", "monotone-noise", "monotone-groups", "monotone-probit", "monotone-ordered", "subgroups",
    "subgroups-of-classes", "new-groups", "level-sets",
)  # fmt: skip
TOGETHER = ("several", "several-own-columns", "several-mixed", "several-noise", "set")  # outcomes, models
# Cases of these names without the last word, with a law that is recalibrated much.
RECALIBRATED = tuple(f"{case}-recalibrated" for case in ("noise-forest", "noise-mixture", "bart-weights"))
ALL = CASES + WITH_PARTS + TOGETHER + RECALIBRATED
# Of which totals of new outcomes are asked, and quantiles of these: few, since most are simulated.
OF_TOTALS = {
    "bart-default-prior", "bart-weights", "noise-forest", "group-slopes", "counts", "treatment-groups",
    "hurdle-plain", "treatment-at-random", "arms-counts",
}  # fmt: skip
OF_QUANTILES = {"hurdle-plain", "treatment-at-random"}


def answers(case: str) -> dict[str, Callable[[Any], Any]]:
    """Return by name what a posterior of a case, or a set of models, is asked."""
    outcome, weighted, settings = fit_digests.CASES[_fit_of(case)]
    X, y, weights = fit_digests.data(outcome)
    treatment = settings.get("treatment")
    X |= {role: settings[role] for role in ("treatment", "exposure") if role in settings}
    new = {name: values[:NEW_ROWS] for name, values in X.items()}
    # A level that was never seen, a value outside the range, a group that is new.
    new |= {"kind": ["z", *new["kind"][1:]], "last": [3.0, *new["last"][1:]]}
    if "site" in new:
        new["site"] = [99, *new["site"][1:]]
    known = X | ({"event": [row % 3 > 0 for row in range(fit_digests.ROWS)]} if outcome == "time" else {})
    if case == "set":
        return {
            "predict": lambda p: p.predict(new, level=[0.5, 0.9], quantiles=[0.1, 0.5], unknown="flag"),
            # In files groups are in the order in which their fits ended.
            "groups": lambda p: sorted(
                zip(*(each for name, each in p.columns().items() if name != "seconds"), strict=True)
            ),
        }
    if case in TOGETHER:
        given = {"number": y["number"][:NEW_ROWS]}
        asked = {
            "predict": lambda p: p.predict(new, 0.8),
            "predict-given": lambda p: p.predict(new | given, given=["number"]),
            "predict-given-other": lambda p: p.predict(X, given={"other": y["other"]}, num_draws=3),
            "sample-predictive": lambda p: p.sample_predictive(new),
            "covariances": lambda p: p.covariances,
            "score": lambda p: p.score(X, y),
            "log-scores": lambda p: p.log_scores(X, y),
        }
        for name in y:
            there = [row for row, value in enumerate(y[name]) if value is not None]
            rows = {each: [X[each][row] for row in there] for each in X}, [y[name][row] for row in there]
            of_one = _of_one(new, X, (*rows, None)).items()
            asked |= {f"{name}: {each}": lambda p, name=name, ask=ask: ask(p[name]) for each, ask in of_one}
        return asked
    more = _of_effects(X, treatment) if treatment else {}
    if settings.get("method") not in fit_digests.SOFT:  # of which narrow vectors have a record too
        more["sample-predictive"] = lambda p: p.sample_predictive(new)
        more["expected-total"] = lambda p: p.aggregate(new, by="kind", level=0.8, interval="credible")
        more["population"] = lambda p: p.aggregate(new, of="mean", interval="credible", population=True)
    if case in OF_TOTALS:
        more["total"] = lambda p: p.aggregate(new, by="kind", level=0.8)
    if case in OF_QUANTILES:
        more["median-of-rows"] = lambda p: p.aggregate(new, of="quantile", q=0.5)
    if case == "new-groups":
        more["calibrated-total"] = lambda p: p.aggregate(X, by="site", level=0.5, interval="calibrated")
    if "calibrate" in settings:
        more["as-calibrated"] = lambda p: p.predict(new, level=[0.5, 0.8], interval="calibrated")
        more["claims"] = lambda p: p.calibrated_levels([0.5, 0.8])
    asked = _of_one(new, X, (known, y, weights if weighted else None)) | more
    if settings.get("method") in fit_digests.SOFT:  # asked since for a group of rows without a value
        del asked["contrast"]
    return asked


def _of_one(new: dict[str, Any], X: dict[str, Any], rows: tuple[Any, ...]) -> dict[str, Callable[[Any], Any]]:
    """Return what the posterior of one outcome is asked about new rows, features, and rows with outcomes."""
    return {
        "predict": lambda p: p.predict(new, level=[0.5, 0.9], quantiles=[0.1, 0.5]),
        "predict-credible": lambda p: p.predict(new, level=0.8, interval="credible", num_draws=3),
        "sample": lambda p: p.sample(new),
        "sample-sigma": lambda p: p.sample_sigma(new),
        "score": lambda p: p.score(*rows),
        "calibration": lambda p: p.calibration(*rows),
        "calibrated": lambda p: p.calibrate(*rows).predict(new, level=0.9, interval="calibrated"),
        "importance": lambda p: p.importance(*rows, permutations=2),
        "inclusion": lambda p: p.inclusion(),
        "partial-dependence": lambda p: p.partial_dependence(["last", "kind"], X, {"last": [0.1, 0.5, 0.9]}),
        "accumulated-effects": lambda p: p.accumulated_effects("last", X),
        "shap": lambda p: p.shap(new, X),
        "contrast": lambda p: p.contrast(X, {"last": 0.2}, {"last": 0.9}, by="kind"),
        "interactions": lambda p: p.interactions(None, X),
        "density": lambda p: p.density({name: values[1] for name, values in new.items()}),
        "survival": lambda p: p.survival(new, times=[1.0, 2.0, 5.0]),
        "groups": lambda p: p.groups(),
        "linear-part": lambda p: p.linear_part(),
        "summary": lambda p: p.summary().to_json(),
        "diagnostics": lambda p: p.diagnostics(max_points=4),
    }


def _of_effects(X: dict[str, Any], treatment: list[Any]) -> dict[str, Callable[[Any], Any]]:
    """Return what is asked about a treatment: on average, in groups, by row, of curves, between two arms."""
    against, *_, arm = (each if isinstance(each, str) else f"{each:g}" for each in sorted(set(treatment)))
    return {
        "effects": lambda p: p.effects(),
        "effects-by-group": lambda p: p.effects(X, by="kind", level=0.8),
        "effects-by-number": lambda p: p.effects(X, by="last", num_draws=3),
        "effects-of-treated": lambda p: p.effects(X, of="treated"),
        "effects-between": lambda p: p.effects(X, arm=arm, against=against),
        "curve-of-effect": lambda p: p.partial_dependence(["last"], X, {"last": [0.1, 0.9]}, of="effect"),
    }


def digests(case: str, folder: Path) -> dict[str, str | list[str]]:
    """Return a digest of each answer of a case, two where it changes once the posterior was saved and loaded.

    Of an answer that the kind refuses, the refusal's words stand for the digest.
    """
    posterior = fit_digests.fitted(_fit_of(case))
    if case in RECALIBRATED:
        posterior = recalibrated(posterior)
    again = fit_digests.loaded(case, posterior, folder)
    found: dict[str, str | list[str]] = {}
    for name, ask in answers(case).items():
        fitted, loaded = (_digest(ask, each) for each in (posterior, again))
        found[name] = fitted if fitted == loaded else [fitted, loaded]
    return found


def _digest(ask: Callable[[Any], Any], posterior: Any) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            answer = plain(ask(posterior))
    except SettingsError as refusal:
        return f"refused: {refusal}"
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:16]


def machine() -> dict[str, str]:
    """Return what the last digits of answers depend on: NumPy has functions of its own for wide vectors."""
    return fit_digests.machine() | {"vectors": fit_digests.cases_of_this_width()}


def plain(value: Any) -> Any:
    """Turn an answer into lists, texts and numbers: arrays by their bytes, objects by their public fields."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        content = np.ascontiguousarray(value, dtype=np.float64)
        return [list(value.shape), hashlib.sha256(content.tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if dataclasses.is_dataclass(value):
        names = [
            field.name
            for field in dataclasses.fields(value)
            if field.compare
            and not field.name.startswith("_")
            and not (field.name in LATER and not getattr(value, field.name))
        ]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if value is None or isinstance(value, str | int | np.integer | np.bool_):
        return value if value is None or isinstance(value, str) else int(value)
    raise TypeError(f"a digest of {type(value)} is not defined")


def expected(case: str, record: dict[str, Any]) -> list[dict[str, str | list[str]]]:
    """Return the recorded digests of a case: one, or one for each width in which kernels take sums."""
    return [record[part][case] for part in ("cases", "narrow") if case in record.get(part, {})]


def _fit_of(case: str) -> str:
    """Return the case of `fit_digests` whose draws answer."""
    return case.removesuffix("-recalibrated") if case in RECALIBRATED else case


def _part_of(case: str) -> str:
    """Return the part of the record that holds a case, which for soft splits its draws tell."""
    if fit_digests.CASES[_fit_of(case)][2].get("method") not in fit_digests.SOFT:
        return "cases"
    with tempfile.TemporaryDirectory() as folder:
        drawn = fit_digests.digests(case, Path(folder))
    narrow = drawn == json.loads(fit_digests.FILE.read_text())["cases"][case]
    return "narrow" if narrow and machine()["vectors"] == "wide" else "cases"


def main(cases: list[str]) -> None:
    """Write the digests of the given cases, or of all."""
    record: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() and cases else {"cases": {}}
    if record.get("machine", machine()) != machine():
        raise SystemExit("these digests are another machine's: renew all of them, without naming cases")
    record["machine"] = machine()
    for case in cases or ALL:
        with tempfile.TemporaryDirectory() as folder:
            record.setdefault(_part_of(case), {})[case] = digests(case, Path(folder))
    FILE.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
