"""First words of a model's overview: the colour and heading of its box, and the one next step."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.dashboard.overview import Situation, next_step, standing
from app.services.errors import ConflictError
from app.services.fits.models import ModelView
from app.services.fits.restarts import ExtensionView
from sampler.posterior.verdict.intervals import chance_range, judged
from sampler.posterior.verdict.use import use_of

PLAN = ExtensionView(
    model_id="mdl_1", num_draws=100, expected_draws=300, seconds=40.0, most_seconds=90.0, stop=None
)
CLASSES = {"rows": 400, "accuracy": 0.9}


def share(observed: float, rows: int) -> dict[str, Any]:
    """Return the share of rows inside 90% intervals."""
    lower, upper = chance_range(0.9, rows)
    figures = {"level": 0.9, "rows": rows, "observed": observed, "expected": 0.9}
    return {**figures, "lower": lower, "upper": upper}


def held_out(observed: float, quarters: tuple[float, ...] = (), rows: int = 800) -> dict[str, Any]:
    """Return scores of held-out rows, with the share inside and those of quarters of the prediction."""
    parts = [
        {"low": None, "high": None, "where": f"in quarter {k}"} | share(each, rows // 4)
        for k, each in enumerate(quarters)
    ]
    by = [{"feature": None, "quarters": parts}] if parts else []
    verdict = judged({"level": 0.9, "rows": rows, "overall": [share(observed, rows)], "by": by})
    inside = [{"level": 0.9, "coverage": observed, "lower": 0.8, "upper": 0.99}]
    return {"rows": rows, "coverage": inside, "intervals_verdict": verdict | {"advice": None}}


def situation(
    holdout: dict[str, Any] | None,
    *,
    agreement: str | None = "converged",
    has_dataset: bool = True,
    continuation: Any = None,
    calibrating: bool = False,
    advice: str | None = None,
    **more: Any,
) -> Situation:
    """Return a model with its scores as a page has it."""
    diagnostics = None if agreement is None else {"verdict": agreement, "advice": "Fit fewer trees."}
    if advice is not None and holdout is not None:
        holdout["intervals_verdict"]["advice"] = advice
    use = None
    if diagnostics is not None:
        use = use_of(diagnostics, holdout, no_longer_hold=more.get("outcomes") == "no_longer_hold")
    known: dict[str, Any] = {
        "id": "mdl_1", "name": "mine", "label": "mine", "state": "succeeded", "dataset_id": "ds_1",
        "target": "y", "settings": {}, "draws": 100, "verdict": agreement, "error": None, "warnings": [],
        "created_at": datetime(2026, 1, 1, tzinfo=UTC), "started_at": None, "finished_at": None,
        "num_rows": 800, "set_id": None,
        "progress": {"fraction": 1.0, "iterations_per_second": None, "eta_seconds": None, "chains": []},
    }  # fmt: skip
    model = ModelView(**known | {"diagnostics": diagnostics, "holdout": holdout, "use": use} | more)
    return Situation(model, has_dataset, calibrating, continuation)


GOOD = (0.9, (0.9, 0.9, 0.9, 0.9))
CENSORED = {"settings": {"event": "seen"}}
CASES: list[tuple[str, Situation, str, str, str]] = [  # its colour, words of its heading, and of its button
    ("good", situation(held_out(*GOOD)), "converged", "and so are their intervals", "Predict"),
    ("classes", situation(dict(CLASSES)), "converged", "are usable", "Predict"),
    ("narrow", situation(held_out(0.8)), "not_converged", "are too narrow", "Calibrate intervals"),
    ("wide", situation(held_out(0.97)), "approximate", "are too wide", "Calibrate intervals"),
    ("some narrow", situation(held_out(0.88, (0.7, 0.94, 0.94, 0.94))), "not_converged",
     "too narrow for some rows", "Calibrate intervals"),
    ("some wide", situation(held_out(0.92, (1.0, 0.89, 0.9, 0.89))), "approximate",
     "too wide for some rows", "Calibrate intervals"),
    ("both", situation(held_out(0.9, (0.75, 0.9, 0.95, 1.0))), "not_converged",
     "too narrow here, too wide there", "Calibrate intervals"),
    ("uneven noise", situation(held_out(0.8), advice="fit again with noise=forest"), "not_converged",
     "too narrow", "noise that differs by row"),
    ("being calibrated", situation(held_out(0.8), calibrating=True), "not_converged", "narrow", "how far"),
    ("calibrated", situation(held_out(0.8), calibration={}), "converged", "are usable", "Predict"),
    ("narrow, censored", situation(held_out(0.8), **CENSORED), "not_converged", "narrow", "the checks"),
    ("imported", situation(held_out(0.8), has_dataset=False), "not_converged", "narrow", "the checks"),
    ("few rows", situation(held_out(0.9, rows=20)), "", "nothing has checked", "Predict"),
    ("no rows", situation(None), "", "nothing has checked", "a part held out"),
    ("no rows, imported", situation(None, has_dataset=False), "", "nothing", "Report outcomes"),
    ("by outcomes", situation(None, outcomes="holds"), "", "are usable", "Predict"),
    ("no longer", situation(held_out(*GOOD), outcomes="no_longer_hold"), "not_converged", "no longer hold",
     "what to do"),
    ("apart", situation(None, agreement="not_converged", continuation=PLAN), "not_converged",
     "chains disagree", "Continue until converged (about 40 s)"),
    ("apart for good", situation(None, agreement="not_converged", continuation=ConflictError("No.")),
     "not_converged", "chains disagree", "Look at the chains"),
    ("withheld", situation(held_out(*GOOD), withheld=True), "converged", "usable", "decide"),
    ("treatment", situation(None, settings={"treatment": "drug"}), "", "usable", "See the effect"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "of", "colour", "heading", "label"), CASES, ids=[each[0] for each in CASES])
def test_the_box_has_its_colour_and_leads_on(name, of, colour, heading, label):
    """Red is what promises too much, the heading says on which side intervals err, one button follows."""
    found, said = standing(of)
    step = next_step(of)

    assert (found, heading in said) == (colour, True), said
    assert step is not None
    assert label in step.label
    assert ("No. Fit fewer trees." in step.text) == (name == "apart for good")


@pytest.mark.parametrize(
    ("average", "rows", "colour", "told"),
    [
        ("usable", "roughly", "converged", ""),
        ("usable", "not_yet", "approximate", "; of effects only averages are"),
        ("not_yet", "not_yet", "approximate", "; effects aren't yet"),
    ],
)
def test_the_box_says_what_of_effects_is_usable(average, rows, colour, told):
    """Effects that aren't usable yet are in the first line, and more draws are the next step."""
    of = situation(held_out(0.9), continuation=PLAN, settings={"treatment": "z"})
    of.use["effects"] = {"average": average, "rows": rows}
    assert standing(of) == (colour, f"Predictions are usable, and so are their intervals{told}")
    assert ("until" in (next_step(of).fields or {})) == bool(told)


@pytest.mark.parametrize(("state", "label"), [("running", None), ("failed", "Retry"), ("cancelled", "Retry")])
def test_a_fit_that_has_not_ended_well_is_retried(state, label):
    """One that still runs has no step; the others have the one that continues them."""
    step = next_step(situation(None, agreement=None, state=state))
    assert (step and step.label) == label
