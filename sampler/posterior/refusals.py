"""Refusals of models: one table of questions by kinds of models, asked before anything is computed.

A method of a law computes; what it isn't for is said here alone, so that no class can override it. A question
about a model is answered, or refused by the first entry that names it and a kind that the model is of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sampler.errors import SettingsError
from sampler.methods import known_family, method_of

if TYPE_CHECKING:
    from sampler.posterior.laws.law import Law

AskedOfLaw = Literal[
    "shap", "interactions", "usage by rows", "parts of noise", "usage of noise by rows",
    "effects", "placebo", "survival", "counts", "distribution", "density", "crps", "squared error",
    "calibration", "quantiles of sets", "known outcomes of sets", "weights", "roc", "residuals",
]  # fmt: skip

# Kinds of models, by what their files say: a model is of any number of them.
KINDS: Mapping[str, Callable[[Law], bool]] = {
    "any": lambda _: True,
    "treated": lambda law: "treatment" in law.draws.header.parts,
    "untreated": lambda law: "treatment" not in law.draws.header.parts,
    "soft": lambda law: method_of(law.draws.header.settings).engine.soft,
    "classes": lambda law: law.draws.classes is not None,
    "many classes": lambda law: len(law.draws.classes or ()) > 2,
    "other than two classes": lambda law: len(law.draws.classes or ()) != 2,
    "other than counts": lambda law: not law.counts,
    "censored": lambda law: bool(law.draws.header.censoring),
    "uncensored": lambda law: not law.draws.header.censoring,
    "noise alike": lambda law: not law.noise_differs,
    "counts": lambda law: law.counts,
    "hurdle": lambda law: known_family(law.draws.header.settings).point,
}


@dataclass(frozen=True)
class Refusal:
    """Questions that models of a kind refuse.

    Attributes
    ----------
    questions
        The questions.
    kind
        The kind, of `KINDS`.
    sentence
        What is said: why, and a way that works.
    field
        The argument that asks; None where it is the question itself.

    """

    questions: tuple[AskedOfLaw, ...]
    kind: str
    sentence: str
    field: str | None = None


REFUSALS = (
    Refusal(
        ("shap", "interactions"),
        "treated",
        "this model has a treatment, and its trees split on more than the features: ask for its "
        "effects instead",
    ),
    Refusal(
        ("shap", "interactions"),
        "soft",
        "soft trees have no exact SHAP values: see partial_dependence instead",
    ),
    Refusal(
        ("usage by rows",),
        "soft",
        "soft splits send each row both ways: leave by out, to count by rules",
        "by",
    ),
    Refusal(
        ("interactions",),
        "many classes",
        "interactions are for numbers and two classes only: see partial_dependence of two features",
    ),
    Refusal(
        ("parts of noise",),
        "noise alike",
        "of noise: this model's noise has no trees, since it doesn't differ by row (noise=forest does)",
        "of",
    ),
    Refusal(
        ("usage of noise by rows",),
        "any",
        "by rows, usage is of the trees of the mean: leave of out, or count by rules",
        "by",
    ),
    Refusal(
        ("effects",),
        "untreated",
        "this model has no treatment: fit it with treatment, a column of the rows that were treated",
    ),
    Refusal(("placebo",), "untreated", "this model has no treatment, whose placebo could be fitted"),
    Refusal(
        ("survival",),
        "uncensored",
        "the model has no survival curves: fit it with event, lower or upper (predict gives quantiles of any "
        "numbers)",
        "times",
    ),
    Refusal(
        ("counts",),
        "classes",
        "probabilities of counts are of families of counts: predict has those of classes",
    ),
    Refusal(
        ("counts",),
        "other than counts",
        "probabilities of counts are of families of counts: see distribution for those of numbers",
    ),
    Refusal(
        ("distribution",),
        "classes",
        "classes have probabilities, which predict gives: a distribution is of numbers and counts",
    ),
    Refusal(
        ("density",),
        "many classes",
        "more than two classes have no single density: predict their probabilities",
    ),
    Refusal(
        ("crps",),
        "censored",
        "outcomes that may be censored have no CRPS: score has the integrated Brier score",
    ),
    Refusal(
        ("squared error",),
        "censored",
        "outcomes that may be censored have no squared error: compare the scores of each model",
    ),
    Refusal(
        ("calibration",),
        "censored",
        "intervals can't be calibrated by rows whose outcomes may be censored",
        "calibrate",
    ),
    Refusal(("quantiles of sets",), "classes", "classes have no quantile: of is sum or mean", "of"),
    Refusal(
        ("known outcomes of sets",),
        "classes",
        "observed is of numbers and counts; leave rows of known classes out and add them to the total",
        "observed",
    ),
    Refusal(("weights",), "classes", "classes take no weights: leave them out", "weights"),
    Refusal(("weights",), "counts", "counts take no weights: leave them out", "weights"),
    Refusal(("weights",), "hurdle", "outcomes of a hurdle take no weights: leave them out", "weights"),
    Refusal(
        ("weights",),
        "censored",
        "censored outcomes take no weights: leave weights out, or event, lower and upper",
        "weights",
    ),
    Refusal(("roc",), "other than two classes", "ROC curves are of two classes: see `calibration`"),
    Refusal(
        ("residuals",), "classes", "residuals are of numbers and counts: classes have `calibration` and `roc`"
    ),
)  # fmt: skip


def refusal_of(question: AskedOfLaw, law: Law) -> Refusal | None:
    """Return why a model doesn't answer a question; None where it does."""
    return next((each for each in REFUSALS if question in each.questions and KINDS[each.kind](law)), None)


def check(question: AskedOfLaw, law: Law) -> None:
    """Raise SettingsError for a question that the model doesn't answer."""
    if refused := refusal_of(question, law):
        raise SettingsError(refused.sentence, field=refused.field, code="not_applicable")
