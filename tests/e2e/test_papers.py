"""docs/papers.md is the recorded results of the studies, and the quick studies give them again."""

import csv
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab import compounds, particle_sums
from lab.papers import cgm10_drugs, page
from lab.papers.__main__ import main
from lab.papers.catalogue import STUDIES
from lab.papers.judges import BETTER, NOT_REPRODUCED, REPRODUCED, WORDS, Number, Order, Seen, Statement
from lab.papers.study import RESULTS, Kept, rounded
from sampler.settings import Settings

DEAR = {"cgm10-fig1", "cgm10-fig3", "cgm10-fig5", "cgm10-coverage"}  # 10 s and more, also with few replicates
SMALL = [
    pytest.param(name, marks=pytest.mark.long) if name in DEAR else name
    for name, study in STUDIES.items()
    if study.small
]


def test_the_page_is_that_of_the_recorded_results():
    """Nobody edits the page, and no result is recorded without it."""
    assert page.PAGE.read_text() == page.text(), "python -m lab papers --page"


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
            assert answer.why or answer.word in {REPRODUCED, BETTER} or result is None, claim.text


JUDGED = {
    f"{study.name}: {claim.text}": (claim, study.recorded().figures)
    for study in STUDIES.values()
    if study.recorded()
    for claim in study.claims
    if claim.look is not None and not isinstance(claim.look(study.recorded().figures), str)
}


@pytest.mark.parametrize("name", JUDGED)
def test_a_judge_can_say_no(name):
    """A claim that agrees isn't reproduced with its error doubled or its order reversed."""
    claim, figures = JUDGED[name]
    judge, seen = claim.judge, claim.look(figures)

    def word(values, errors=()):
        return judge.word(Seen("", values, errors))

    match judge:
        case Number():
            limits = judge.tolerances(seen.errors)
            assert word(judge.paper, seen.errors) == REPRODUCED
            for k, limit in enumerate(limits):
                for sign in (-1, 1):
                    near, far = list(judge.paper), list(judge.paper)
                    near[k] += sign * 0.99 * limit
                    far[k] += sign * 2 * 0.99 * limit or sign
                    assert word(near, seen.errors) == REPRODUCED
                    assert word(far, seen.errors) != REPRODUCED
            if judge.errors:  # the document's is the yardstick, however large ours is
                far = [x + 1.98 * limit for x, limit in zip(judge.paper, judge.tolerances([]), strict=True)]
                assert word(far, [100 * error for error in judge.errors]) != REPRODUCED
        case Order():
            places = {each: k for k, group in enumerate(judge.groups) for each in group}
            assert len(judge.groups) > 1
            assert set(places) <= set(seen.values)
            sign = 1 if judge.rising else -1
            assert word({each: sign * place for each, place in places.items()}) == REPRODUCED
            assert word({each: -sign * place for each, place in places.items()}) == NOT_REPRODUCED
            if word(seen.values) == REPRODUCED:
                assert word({each: -value for each, value in seen.values.items()}) == NOT_REPRODUCED
        case Statement():
            ordered = [(min(pair) - 1e-9, max(pair)) for pair in seen.values]
            assert word(ordered) == REPRODUCED
            for k, (less, more) in enumerate(ordered):
                assert word([*ordered[:k], (more, less), *ordered[k + 1 :]]) == NOT_REPRODUCED


@pytest.mark.parametrize("name", JUDGED)
def test_a_judge_looks_at_our_figures(name):
    """With other figures it sees other values: none is said without looking."""
    claim, figures = JUDGED[name]
    rng = np.random.default_rng(1)

    def other(value, low, high):
        """Return figures with other numbers, by factors between `low` and `high`, and other marks."""
        if isinstance(value, dict):
            return {key: other(each, low, high) for key, each in value.items()}
        if isinstance(value, list):
            return [other(each, low, high) for each in value]
        if isinstance(value, bool):
            return bool(rng.integers(2))
        return value * rng.uniform(low, high) if isinstance(value, int | float) else value

    before = claim.look(figures).values
    assert any(claim.look(other(figures, *ends)).values != before for ends in ((0.5, 2), (0, 0)))


def test_the_smaller_error_judges():
    """An unstable fit of ours doesn't widen what is reproduced; without an error only rounding does."""
    theirs = Number((1.2,), (0.46,), 1.0, good="less")  # of HMC-DF on the CGM data
    assert theirs.word(Seen("", [7.8], [22.21])) == NOT_REPRODUCED
    assert theirs.word(Seen("", [2.0], [22.21])) == REPRODUCED
    assert theirs.word(Seen("", [2.0], [0.01])) == NOT_REPRODUCED
    assert theirs.word(Seen("", [0.2], [0.01])) == BETTER
    assert Number((0.93,), unit=0.01).word(Seen("", [0.934])) == REPRODUCED
    assert Number((0.93,), unit=0.01).word(Seen("", [0.936])) == NOT_REPRODUCED
    assert Order.of({"cgm": 752, "growprune": 474, "pg": 259}).groups == (("cgm", "growprune"), ("pg",))


def test_a_result_names_its_commit(tmp_path):
    """A run that goes on from parts of an earlier commit names both, and none where one isn't known."""
    path = tmp_path / "parts.json"
    first = Kept(path, "aaaa")
    first("one", lambda: 1.0)
    second = Kept(path, "bbbb")
    second("one", lambda: 2.0)
    second("two", lambda: 3.0)
    assert second.commits == "aaaa, bbbb"
    path.write_text('{"one": [1.0, 0.1]}')  # as before commits were kept
    older = Kept(path, "cccc")
    older("one", lambda: 2.0)
    assert older.commits == ""


class _AskedError(Exception):
    """A fit was asked for."""


OF_TABLES = {"cgm10-tables2and3", "cgm10-table5", "cgm10-fig9", "cgm10-fig10", "pg-bart-real"}  # not here
OF_TABLES |= {"slides-boston-table1"}  # it looks at its first part, another method's


@pytest.mark.parametrize(
    "name",
    [n for n, s in STUDIES.items() if s.run and not s.code and n not in OF_TABLES],
)
def test_a_study_fits_the_model_of_its_document(name, monkeypatch):
    """Noise, a line and a transform, which we may choose from the rows, are those of the documents."""
    asked, parts = [], []

    def first(*given, **settings):
        asked.append(known(*given, **settings))
        raise _AskedError

    def collect(_name, compute):
        parts.append(compute)
        return {}

    known = Settings.resolve
    with suppress(Exception):  # of a study that looks at its parts
        STUDIES[name].run(collect, 1)
    monkeypatch.setattr(Settings, "resolve", first)
    for part in parts[:20]:
        with suppress(_AskedError):
            part()
    assert {(each.noise, each.linear, each.transform) for each in asked} == {("constant", False, "none")}


def test_the_page_tells_a_result_by_its_own_protocol(monkeypatch):
    """A study that is changed afterwards leaves it as it is."""
    name = "cgm10-fig3"
    known = STUDIES[name]
    assert known.recorded().protocol
    monkeypatch.setitem(STUDIES, name, replace(known, protocol="Of twice as many draws."))
    assert page.text() == page.PAGE.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sampled(slow=2)
@pytest.mark.filterwarnings("ignore::sampler.errors.DataWarning")
def test_what_was_reproduced_is_again(name):
    """With fewer replicates, what is recorded as reproduced is reproduced."""
    study = STUDIES[name]
    figures = rounded(study.run(Kept(), study.small))
    recorded = study.answers(study.recorded().figures)
    for (claim, before), (_, now) in zip(recorded, study.answers(figures), strict=True):
        assert now.word in {before.word, "reproduced", "better"}, f"{claim.text}: {now.ours}"


def test_compounds_of_a_folder(tmp_path):
    """The one table of a folder is read by its two columns; anything else is refused with its place."""
    table = tmp_path / "screen.csv"
    table.write_text("smiles,activity,note\nCCO,CI,\nc1ccccc1O,CA,x\nCC(=O)O,1,\n")
    assert compounds.read(tmp_path) == [("CCO", False), ("c1ccccc1O", True), ("CC(=O)O", True)]
    table.write_text("smiles,activity\nCCO,CI\nCCN,strong\n")
    with pytest.raises(ValueError, match=r"screen.csv, line 3: the activity 'strong'"):
        compounds.read(tmp_path)
    table.write_text("structure,activity\nCCO,CI\n")
    with pytest.raises(ValueError, match="no column smiles"):
        compounds.read(tmp_path)
    (tmp_path / "other.csv").write_text("")
    with pytest.raises(ValueError, match="2 files"):
        compounds.read(tmp_path)


def test_tables_of_a_folder(tmp_path):
    """Files as StatLib and UCI have them give the outcome, the paper's columns, and the test rows last."""
    rng = np.random.default_rng(4)
    houses = np.round(rng.uniform(1, 9, (2030, 9)), 3)
    songs = np.column_stack([np.arange(2010), np.round(rng.normal(size=(2010, 90)), 2)])
    np.savetxt(tmp_path / "cal_housing.data", houses, "%.6f", ",")
    np.savetxt(tmp_path / "YearPredictionMSD.txt", songs, "%.6g", ",")
    X, y = particle_sums.read_rows(tmp_path, "houses", 1)
    assert X.shape == (2030, 6)
    assert set(y) == set(houses[:, 8])
    np.testing.assert_array_equal(X[0], houses[houses[:, 8] == y[0]][0, 2:8])
    X, y = particle_sums.read_rows(tmp_path, "year", 1)
    assert X.shape == (2010, 90)
    assert list(y[2000:]) == list(range(2000, 2010))
    (tmp_path / "slice_localization_data.csv").write_text("patientId,value0,reference\n1,.5,20\n")
    with pytest.raises(ValueError, match="has 384 features, and 2,000 rows train"):
        particle_sums.read_rows(tmp_path, "slices", 1)


@pytest.mark.slow
def test_drug_discovery_on_compounds_that_a_package_ships(tmp_path, monkeypatch):
    """Half of the inhibitors of a sodium channel train: the other half is ranked better than by chance."""
    pytest.importorskip("rdkit", reason="rdkit is not there: locks/bench.txt has it")
    from rdkit import RDConfig

    data = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
    structures = [line.split() for line in (data / "CHEMBL2321810.smi").read_text().splitlines()]
    found = csv.DictReader((data / "CHEMBL2321810_act.csv").read_text().splitlines())
    activity = {row["Name"]: float(row["Act"]) for row in found}
    lines = [f"{smiles},{int(activity[name] > 8)}" for smiles, name in structures[::3] if name in activity]
    monkeypatch.chdir(tmp_path)
    cgm10_drugs.FOLDER.mkdir(parents=True)
    (cgm10_drugs.FOLDER / "inhibitors.csv").write_text("\n".join(["smiles,activity", *lines, "broken(,0"]))
    cgm10_drugs.compounds_of_folder.cache_clear()
    known = cgm10_drugs.compounds_of_folder()
    assert known.X.shape == (len(lines), len(compounds.NAMES))
    assert known.left_out == 1
    for method in ("default", "svm"):
        assert cgm10_drugs.area(method, 0) > 0.6
    first = STUDIES["cgm10-fig9"].run(Kept(), 1)
    assert sum(first["training"]["active"]) >= 15
    cgm10_drugs.compounds_of_folder.cache_clear()


def test_a_study_of_the_authors_code_says_what_to_fetch(monkeypatch, capsys):
    """Without a folder and an interpreter it ends with what to fetch and name, before anything runs."""
    monkeypatch.setattr(sys, "argv", ["papers", "pg-bart-authors"])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "needs --code and --python: clone github.com/balajiln/pgbart" in said
