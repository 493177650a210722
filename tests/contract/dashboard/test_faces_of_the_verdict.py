"""Every face says the same of predictive intervals: what is refused, on which side, and by which rows."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.assistants.words import verdict_words
from app.cli.progress import about_intervals, about_use
from app.client import Model as Answer
from app.store.engine import session_scope
from app.store.tables import Model
from sampler import Posterior
from sampler.posterior.charts.cards import scores_card
from sampler.posterior.verdict import intervals as rules
from sampler.posterior.verdict.intervals import chance_range, judged, made_to_hold
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import fitted

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

ROOT = Path(__file__).parents[3]
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): " ".join(path.read_text(encoding="utf-8").split())
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
HOLDS = re.compile(
    r"[Mm]ade to hold by ([\d,]+) held-out rows: (of new rows like these [^,]*, on average over rows)"
)
EVIDENCE = re.compile(
    r"90% intervals: (\w+)\. (Of ([\d,]+) held-out rows (\d+)% are inside \(chance: \d+ to \d+\))"
)
REFUSED = re.compile(
    r"90% intervals are too (narrow|wide) [^.(]*\((\d+)% of (\d+) rows inside\); the others hold"
)
OTHERS = re.compile(r"(\d+)% intervals hold (\d+)%: (narrower|wider) than they say")


def test_documents_say_what_the_program_says():
    """Sentences of verdicts that README and docs quote are those of the program for such figures."""
    found = dict.fromkeys(("holds", "evidence", "refused", "others"), 0)
    for page, text in DOCUMENTS.items():
        for rows, said in HOLDS.findall(text):
            found["holds"] += 1
            assert said in made_to_hold(int(rows.replace(",", "")))["text"], page
        for word, said, rows, inside in EVIDENCE.findall(text):
            found["evidence"] += 1
            report = held_out(int(inside) / 100, (), int(rows.replace(",", "")))["intervals_verdict"]
            assert (rules.WORDS[report["verdict"]], said in report["text"]) == (word, True), (page, report)
        for side, inside, rows in REFUSED.findall(text):
            found["refused"] += 1
            quarters = (int(inside) / 100, 0.93, 0.93, 0.93)
            report = held_out(0.89, quarters, 4 * int(rows))["intervals_verdict"]
            sentence = f"too {side} where size is part 0 ({inside}% of {rows} rows inside); the others hold"
            assert sentence in report["text"], (page, report["text"])
        for level, inside, side in OTHERS.findall(text):
            found["others"] += 1
            assert (int(inside) > int(level)) == (side == "wider"), page
        assert "not as they are" not in text  # words of the verdict until 2026-11-28
    assert min(found.values()) > 0, found


def test_the_page_of_the_verdict_has_its_words_and_limits():
    """Its table has all words of `use.intervals`, and the limits by which a share is doubted."""
    page = DOCUMENTS["docs/verdict.md"]
    table = page[page.index("| `intervals` | when |") :].partition(" > ")[0]
    assert {*re.findall(r"\| `(\w+)` \|", table)} == {"intervals", *rules.WORDS.values()}
    low, high = 100 * (rules.LEVEL - rules.NARROWER), 100 * (rules.LEVEL + rules.WIDER)
    of_all, of_quarter = f"{rules.CHANCE_OF_ALL:.2f}"[1:], f"{rules.CHANCE:.3f}"[1:]
    for limit in (
        f"off by more than {100 * rules.TOLERANCE:.0f} points and beyond chance (p < {of_all})",
        f"outside {low:.0f} to {high:.0f}% with p < {of_quarter}",
        f"fewer than {rules.FEWEST_ROWS} rows, or fewer than {rules.FEWEST_UNITS} groups",
    ):
        assert limit in table, limit
    assert {*re.findall(r"`(too_\w+)`", page)} == {*rules.SIDES}


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


@only("sqlite")
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
