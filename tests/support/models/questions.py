"""Every question that a posterior answers, found among its public methods, and its answers as digests."""

import dataclasses
import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sampler import DataWarning, PackedError, Posterior, SamplerError
from sampler.posterior.assessment.density import PredictiveDistribution
from sampler.posterior.several.posterior import SeveralPosterior
from tests.support.models.kinds import ROWS, Kind

# What is no question: readers and writers, charts of answers, and what needs the rows of the fit themselves.
NO_QUESTIONS = {
    *("from_blocks", "from_bytes", "save", "plot", "to_arviz", "placebo", "calibrated_by", "with_table"),
    "recalibrated_by",
    *("law", "origin", "several", "nbytes"),
}
DEAR = ("aggregate", "model_card", "score")  # which take twenty times as long as all others together
# Further arguments with which a question is asked too, beside all that its rows allow.
MORE: dict[str, list[dict[str, Any]]] = {
    "inclusion": [{"of": "noise"}, {"by": "rows"}],
    "partial_dependence": [{"of": "noise"}, {"of": "effect"}, {"ice": 2}],
    "predict": [{"interval": "credible"}, {"interval": "predictive"}, {"interval": "calibrated"}],
    "aggregate": [{"of": "mean"}, {"of": "quantile", "q": 0.5}, {"interval": "credible"}, {"by": "kind"}],
    "shap": [{"game": "path-dependent"}],
    "effects": [{"of": "treated"}, {"by": "kind"}],
    "contrast": [{"by": "kind"}],
    "score": [{"quick": True}],
}


def questions(kind: Kind, posterior: Any) -> dict[str, Callable[[Any], Any]]:
    """Return all questions to posteriors of a kind by name: with default rows, with given ones, and choices.

    A new method is asked by itself; one with an argument whose name is new needs an entry here. Columns that
    the kind hasn't, which those of a forged file may be, are missing in all rows.
    """
    several = isinstance(posterior, SeveralPosterior)
    header = posterior.header
    names = [column.name for column in header.schema.inputs]
    rows = {name: kind.rows.get(name, [None] * ROWS) for name in dict.fromkeys([*names, *kind.rows])}
    y = kind.y if several or not isinstance(kind.y, Mapping) else kind.y.get(header.schema.target.name)
    feature = "last" if "last" in names else names[0]
    given = {
        "X": rows, "y": y, "Y": y, "weights": kind.weights, "other": posterior,
        "row": {name: rows[name][1] for name in [*names, *header.beside.values()] if name in rows},
        "feature": feature, "features": [feature], "first": {feature: 0.2}, "second": {feature: 0.8},
        "names": [*kind.new], "background": rows, "progress": False,
    }  # fmt: skip
    found: dict[str, Callable[[Any], Any]] = {}
    for name in sorted(set(dir(type(posterior))) - NO_QUESTIONS):
        member = inspect.getattr_static(type(posterior), name)
        if name.startswith("_"):
            continue
        if not inspect.isfunction(member):
            found[name] = lambda p, name=name: getattr(p, name)
            continue
        own = given | ({"num_draws": 2} if name in ("extend", "discard") else {})
        parameters = [*inspect.signature(member).parameters.values()][1:]
        needed = {each.name: own[each.name] for each in parameters if each.default is each.empty}
        known = {each.name: own[each.name] for each in parameters if each.name in own}
        takes = {each.name for each in parameters}
        for more in [{}, *(each for each in MORE.get(name, []) if {*each} <= takes)]:
            for rows in (needed, known):
                asked = rows | more
                if name == "extend" and rows is needed:  # only a fit has its rows
                    continue
                label = ", ".join([*(sorted({*rows} & {"X", "y", "Y"})), *map(str, more.values())])
                found[f"{name}({label})"] = lambda p, name=name, asked=asked: getattr(p, name)(**asked)
    return found


def answers(kind: Kind, posterior: Any, only: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    """Return a digest of every answer, of refusals their words; of several outcomes those of each too."""
    found = {}
    for label, each in _outcomes(posterior):
        for name, ask in questions(kind, each).items():
            if only(name):
                found[label + name] = answer(ask, each)
    return found


def _outcomes(posterior: Any) -> Iterator[tuple[str, Any]]:
    yield "", posterior
    if isinstance(posterior, SeveralPosterior):
        yield from ((f"{name}: ", posterior[name]) for name in posterior.outcomes)


def answer(ask: Callable[[Any], Any], posterior: Any) -> str:
    """Ask, and return a digest of the answer, or the words of a refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            return digest(ask(posterior))
    except PackedError:
        raise
    except SamplerError as refusal:
        return f"refused: {refusal}"


def digest(value: Any) -> str:
    """Return a digest of the bits of any answer."""
    into = hashlib.sha256()
    _feed(value, into)
    return into.hexdigest()[:16]


def _feed(value: Any, into: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        into.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Posterior | SeveralPosterior):
        into.update(value.to_bytes())
    elif isinstance(value, PredictiveDistribution):
        _feed([value.mean, value.quantile(0.3)], into)
    elif value is None or isinstance(value, str | bytes | bool | int | float | np.generic):
        into.update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, Mapping):
        _feed(sorted(value.items(), key=repr), into)
    elif isinstance(value, list | tuple | np.ndarray):
        into.update(f"{len(value)}[".encode())
        for each in value:
            _feed(each, into)
    elif dataclasses.is_dataclass(value):
        into.update(type(value).__name__.encode())
        _feed([getattr(value, each.name) for each in dataclasses.fields(value) if each.compare], into)
    elif hasattr(value, "__dict__"):
        _feed([type(value).__name__, vars(value)], into)
    else:
        raise TypeError(f"a digest of {type(value)} is not defined")
