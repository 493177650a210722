"""Every face says the same of predictive intervals: what is refused, on which side, and by which rows."""

import re
from dataclasses import replace

import pytest

from app.assistants.words import verdict_words
from app.cli.progress import about_intervals, about_use
from app.client import Model as Answer
from app.store.engine import session_scope
from app.store.tables import Model
from sampler import Posterior
from sampler.posterior.charts.cards import scores_card
from sampler.posterior.verdict.intervals import chance_range, judged, made_to_hold
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted

pytestmark = only("sqlite")
ROWS = 800


def share(observed, rows):
    lower, upper = chance_range(0.9, rows)
    return {"level": 0.9, "rows": rows, "observed": observed, "lower": lower, "upper": upper}


def held_out(observed, quarters, rows=ROWS):
    ends = [None, 1.0, 2.0, 3.0, None]
    parts = [
        share(each, rows // 4) | {"low": ends[k], "high": ends[k + 1], "where": f"where size is part {k}"}
        for k, each in enumerate(quarters)
    ]
    by = [
        {"feature": None, "quarters": [each | {"where": "anywhere", "observed": 0.9} for each in parts]},
        {"feature": "size", "quarters": parts},
    ]
    figures = {"level": 0.9, "rows": rows, "overall": [share(observed, rows)], "by": by if quarters else []}
    verdict = judged(figures)
    coverage = {"level": 0.9, "interval": "predictive", "coverage": observed, "lower": 0.8, "upper": 0.99}
    return {
        "rows": rows,
        "rmse": 1.0,
        "coverage": [coverage],
        "intervals_verdict": verdict | {"advice": None},
    }


RECALIBRATED = {
    "rows": ROWS, "rmse": 1.0, "coverage": [], "intervals_verdict": made_to_hold(ROWS),
    "recalibration": {"rows": ROWS, "text": f"Intervals are corrected by {ROWS} held-out rows."},
}  # fmt: skip
EVEN = (0.9, 0.9, 0.9, 0.9)
NO = "not usable"
# Scores; `use.intervals`; the colour of the overview; words that every face has, and words that none has.
SITUATIONS = {
    "right": (held_out(0.9, EVEN), "usable", "converged", ["usable"], [NO, "narrow", "wide", "made to hold"]),
    "a quarter too narrow": (
        held_out(0.88, (0.9, 0.7, 0.94, 0.94)), "usable", "not_converged",
        ["too narrow", "where size is part 1"], [NO, "too wide", "part 0", "part 2"],
    ),
    "a quarter too wide": (
        held_out(0.92, (0.9, 0.9, 1.0, 0.9)), "usable", "approximate",
        ["too wide", "where size is part 2"], [NO, "too narrow", "part 1"],
    ),
    "too narrow": (
        held_out(0.8, (0.8,) * 4), "not_usable", "not_converged", ["too narrow"], ["the others hold", "wide"]
    ),
    "too wide": (
        held_out(0.97, (0.97,) * 4), "not_usable", "approximate", ["too wide"], ["the others hold", "narrow"]
    ),
    "made to hold": (
        RECALIBRATED, "made_to_hold", "converged", ["made to hold"], [NO, "too narrow", "too wide"]
    ),
    "few rows": (held_out(0.9, (), rows=20), "unchecked", "", ["unchecked"], [NO, "too narrow"]),
}  # fmt: skip
# An assistant is told what to do, a heading is short: what they have in place of words of the sentence.
OTHERWISE = {
    "assistant": {"right": [], "too narrow": ["don't use predictive"], "too wide": ["don't use predictive"]},
    "heading": {"few rows": ["nothing has checked"]},
}


@pytest.fixture
def faces(client, settings, database):
    """Return a function that gives a model such scores, and what each face then says, by its name."""
    model = fitted(client, settings, holdout=0.25, name="mine")
    posterior = Posterior.from_bytes(client.get("/models/mine/file").content)

    def ask(scores):
        with session_scope(database.engine) as session:
            stored = session.get_one(Model, model["id"])
            stored.holdout, stored.verdict = {"judged_by": "", **scores}, "converged"
            stored.diagnostics = {**stored.diagnostics, "verdict": "converged"}
        answer = client.get("/models/mine").json()
        overview = page_of(client.get("/ui/models/mine"))
        checks = client.get("/ui/models/mine/checks")
        heading = re.search(r'class="verdict (\w*)" aria-labelledby="use">\s*<h2[^>]*>([^<]*)', overview.text)
        card = posterior.model_card(scores=scores).to_markdown()
        words = {
            "answer": answer["use"]["text"],
            "library": replace(posterior.summary(), verdict="converged").use(scores).text,
            "command line": "\n".join(about_use(Answer.of(answer)) + about_intervals(answer["holdout"])),
            "overview": overview.words,
            "heading": heading[2],
            "checks": page_of(checks).words,
            "card": card.partition("## Scores on held-out rows")[2].partition("\n## ")[0],
            "notebook": scores_card(scores),
            "assistant": verdict_words(answer["verdict"], answer["use"]),
        }
        bold = re.findall(r"<td class=\"num\"><strong>[^<]*</strong> <small>(too \w+)</small>", checks.text)
        return answer["use"], heading[1], bold, words

    return ask


@pytest.mark.slow
def test_all_faces_say_the_same(faces):
    """The quarter is refused and not the model, sides are named, and rows that calibrate are no evidence."""
    for name, (scores, intervals, colour, has, lacks) in SITUATIONS.items():
        use, found, bold, words = faces(scores)
        refused = [each["code"].replace("_", " ") for each in use["held_out"]["refused"]]
        assert (use["intervals"], found, bold) == (intervals, colour, refused), name
        for face, said in words.items():
            expected = OTHERWISE.get(face, {}).get(name, has)
            wanted = [each for each in expected if face != "heading" or "part" not in each]
            told = re.split("If the intervals are right|On the dashed line", said)[0]  # captions
            assert [each for each in wanted if each not in told] == [], (name, face, said)
            assert [each for each in lacks if each in told] == [], (name, face, said)
            if scores is RECALIBRATED:
                measured = re.findall(r"\d+% (?:of \d+ rows|are inside \(chance)", said)
                assert measured == [], (face, measured)
