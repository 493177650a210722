"""docs/papers.md is the recorded results of the studies, and the quick studies give them again."""

import re

import pytest

from benchmarks.papers import page
from benchmarks.papers.catalogue import STUDIES
from benchmarks.papers.study import RESULTS, WORDS, Kept, rounded


def test_the_page_is_that_of_the_recorded_results():
    """Nobody edits the page, and no result is recorded without it."""
    assert page.PAGE.read_text() == page.text(), "python -m benchmarks.papers --page"


def test_every_study_that_the_page_names_exists():
    """Commands, results and pictures are of studies; every claim has one of the four words."""
    named = set(re.findall(r"STUDY=([a-z0-9-]+)", page.PAGE.read_text()))
    assert named == {name for name, study in STUDIES.items() if study.run is not None}
    assert {file.stem for file in RESULTS.glob("*.json")} <= named
    pictures = {file.stem for file in (page.DOCS / "pictures" / "papers").glob("*.svg")}
    drawn = {name for name, study in STUDIES.items() if study.draw is not None and study.recorded()}
    assert pictures == drawn
    for study in STUDIES.values():
        result = study.recorded()
        for claim, answer in study.answers(result.figures if result else None):
            assert answer.word in WORDS
            assert answer.why or answer.word in {"reproduced", "better"} or result is None, claim.text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.small])
def test_what_was_reproduced_is_again(name):
    """With fewer replicates, what is recorded as reproduced is reproduced."""
    study = STUDIES[name]
    figures = rounded(study.run(Kept(), study.small))
    recorded = study.answers(study.recorded().figures)
    for (claim, before), (_, now) in zip(recorded, study.answers(figures), strict=True):
        assert now.word in {before.word, "reproduced", "better"}, f"{claim.text}: {now.ours}"
