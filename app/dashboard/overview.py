"""First words of a model's overview: how far the model can be used, and the one next step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.dashboard.formatting import advice_on, number, roughly
from app.services.errors import ServiceError
from app.services.fits.models import ModelView
from app.services.fits.restarts import ExtensionView

SIDES = {"too_narrow": "too narrow", "too_wide": "too wide"}
WITHOUT_CALIBRATION = ("outcomes", "event", "lower", "upper")  # settings of a fit


@dataclass(frozen=True)
class NextStep:
    """A next step: a link to `at`, below the model's address or whole, or with `fields` a form for it."""

    text: str
    label: str
    at: str
    fields: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Situation:
    """A model with what else its next step depends on."""

    model: ModelView
    has_dataset: bool
    calibrating: bool
    continuation: ExtensionView | ServiceError | None

    @property
    def use(self) -> Any:
        """Uses of the model as they are shown; empty for an old one."""
        return self.model.use or {}

    @property
    def judged(self) -> Mapping[str, Any]:
        """The verdict on intervals by held-out rows."""
        return (self.model.holdout or {}).get("intervals_verdict") or {}

    @property
    def sides(self) -> list[str]:
        """The sides on which intervals err by held-out rows: too narrow, too wide, both or none."""
        found = [each["code"] for kind in ("reasons", "refused") for each in self.judged.get(kind) or ()]
        return [words for code, words in SIDES.items() if code in found]

    @property
    def agrees(self) -> bool:
        """Whether the chains agree well enough for predictions."""
        return bool(self.use.get("predictions") != "not_yet")

    @property
    def effects_lack(self) -> str | None:
        """Words on effects of a treatment that aren't usable yet; None where nothing is lacking."""
        effects = self.use.get("effects") or {}
        named = {"average": "effects aren't yet", "rows": "of effects only averages are"}
        return next((words for part, words in named.items() if effects.get(part) == "not_yet"), None)

    @property
    def is_calibrated(self) -> bool:
        """Whether intervals are made to hold."""
        return self.model.calibration is not None or self.use.get("intervals") == "made_to_hold"


def standing(of: Situation) -> tuple[str, str]:
    """Return the colour, as the name of a verdict, and the heading of how far a model can be used.

    Intervals that are too narrow are red, as they promise too much; those that are too wide are not.
    """
    if of.model.outcomes == "no_longer_hold":
        return "not_converged", "The intervals no longer hold"
    if not of.agrees:
        return "not_converged", "Not usable yet: the chains disagree"
    colour, told = _of_intervals(of)
    if (lacking := of.effects_lack) is not None:
        colour, told = "not_converged" if colour == "not_converged" else "approximate", f"{told}; {lacking}"
    return colour, f"Predictions are usable{told}"


def _of_intervals(of: Situation) -> tuple[str, str]:
    if of.is_calibrated:
        which = "calibrated intervals" if of.model.calibration is not None else "their intervals"
        return "converged", f"; {which} are made to hold"
    if not of.sides and of.use.get("intervals") == "usable":
        return "converged", ", and so are their intervals"
    if len(of.sides) == 2:
        return "not_converged", "; intervals are too narrow here, too wide there"
    if of.sides:
        where = " for some rows" if of.use.get("intervals") == "usable" else ""
        colour = "approximate" if of.sides == [SIDES["too_wide"]] else "not_converged"
        return colour, f"; intervals are {of.sides[0]}{where}"
    if of.use.get("held_out") and of.use["held_out"]["inside"] is None:
        return "converged", ""  # of classes
    return "", "; nothing has checked their intervals"


def next_step(of: Situation) -> NextStep | None:
    """Return the one thing to do next with a model; None while it is being fitted."""
    ended = of.model.verdict is not None or of.model.state in ("failed", "cancelled")
    return next(make(of) for holds, make in STEPS if holds(of)) if ended else None


def _withheld(of: Situation) -> NextStep:
    text = f"The name {of.model.name} still means an older model, which answers whoever asks by that name."
    return NextStep(text, "See why, and decide", "/improve#gate")


def _failed(of: Situation) -> NextStep:
    return NextStep(advice_on(of.model.error), "Retry", "/retry", {})


def _cancelled(of: Situation) -> NextStep:
    text = (
        f"The draws are kept: {number(of.model.draws)} per chain. Retry continues from there and gives "
        "exactly the draws of an uninterrupted fit."
    )
    return NextStep(text, "Retry", "/retry", {})


def _outdated(_: Situation) -> NextStep:
    text = "More of the reported outcomes are outside the intervals than chance allows."
    return NextStep(text, "See since when, and what to do", "/outcomes")


def _disagreeing(of: Situation) -> NextStep:
    plan = of.continuation
    if isinstance(plan, ExtensionView):
        text = (
            f"The chains have {number(of.model.draws)} draws each, and will probably agree after "
            f"{number(plan.expected_draws)} more. This takes {roughly(plan.most_seconds)} at most, and the "
            "model keeps predicting meanwhile."
        )
        label = f"Continue until converged (about {roughly(plan.seconds)})"
        return NextStep(text, label, "/extend", {"until": "converged"})
    why = "" if plan is None else plan.errors[0].detail if plan.errors else str(plan)
    advice = (of.model.diagnostics or {}).get("advice") or ""
    return NextStep(f"{why} {advice}".strip(), "Look at the chains", "/chains")


def treatment_in(settings: Mapping[str, Any]) -> str | None:
    """Name the column of treatments or adoptions; None without one."""
    return settings.get("treatment") or settings.get("adoption")


def _of_treatment(of: Situation) -> NextStep:
    treatment, target = treatment_in(of.model.settings), of.model.target
    text = f"Read what {treatment} does to {target}, for which rows, and how sure that is."
    return NextStep(text, "See the effect", "/treatment")


def _unchecked(of: Situation) -> NextStep:
    unknown = "How wrong its predictions are is unknown: no rows were held out."
    if not of.has_dataset:
        text = f"{unknown} Report outcomes as they become known, and this is measured by them."
        return NextStep(text, "Report outcomes", "/outcomes")
    query = urlencode({"dataset": of.model.dataset_id, "target": of.model.target})
    text = f"{unknown} Fit again without a part of them, which then measures the error and the intervals."
    return NextStep(text, "Fit again with a part held out", f"/ui/models/new?{query}")


def _erring(of: Situation) -> NextStep:
    if of.has_dataset and "noise=forest" in (of.judged.get("advice") or ""):
        text = "The noise differs from row to row, and this model has one size of it for all rows."
        return NextStep(text, "Fit with noise that differs by row", "/refit", {"noise": "forest"})
    if of.calibrating:
        return NextStep("The intervals are being calibrated.", "See how far it is", "/improve#calibrate")
    if of.has_dataset and not any(map(of.model.settings.get, WITHOUT_CALIBRATION)):
        text = (
            "Calibrated intervals hold what they say, however wrong the model. This takes five more fits, "
            "each to four fifths of the rows: about five times as long as this one."
        )
        return NextStep(text, "Calibrate intervals", "/calibrate", {})
    return NextStep("See for which rows the intervals err, and by how much.", "See the checks", "/checks")


def _usable(_: Situation) -> NextStep:
    text = "Type the values of one row, or send a file: it comes back with a prediction in each row."
    return NextStep(text, "Predict", "/predict")


def _is_unchecked(of: Situation) -> bool:
    return not of.is_calibrated and of.model.outcomes is None


STEPS: tuple[
    tuple[Callable[[Situation], Any], Callable[[Situation], NextStep]], ...
] = (  # the first that holds
    (lambda of: of.model.state == "failed", _failed),
    (lambda of: of.model.state == "cancelled", _cancelled),
    (lambda of: of.model.withheld, _withheld),
    (lambda of: of.model.outcomes == "no_longer_hold", _outdated),
    (lambda of: not of.agrees, _disagreeing),
    (lambda of: of.effects_lack and isinstance(of.continuation, ExtensionView), _disagreeing),
    (lambda of: treatment_in(of.model.settings), _of_treatment),
    (lambda of: of.model.holdout is None and _is_unchecked(of), _unchecked),
    (lambda of: of.sides and _is_unchecked(of), _erring),
    (lambda _: True, _usable),
)
