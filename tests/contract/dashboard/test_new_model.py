"""The form of a new model: every field of `POST /models`, with the same errors at the right fields."""

import json
import re
from html import unescape

import pytest
from starlette.datastructures import FormData

from app.dashboard import formatting
from app.dashboard.forms import fit_fields, fit_form
from app.services.errors import InvalidRequestError
from app.services.fits.fit_request import ModelRequest, StopRequest
from sampler.bart import prior
from sampler.definitions.search import SEARCH
from sampler.definitions.tree_laws import LAW_SETTINGS
from sampler.methods import METHODS
from sampler.trees.cart import prior as single
from tests.support.api_calls import post_csv, table
from tests.support.databases import only
from tests.support.html_page import page_of

pytestmark = only("sqlite")
PRIOR = {*prior.DEFAULTS, *prior.ABSOLUTE, *prior.HYPER, *LAW_SETTINGS, "cuts"}
TREE_PRIOR = {*single.DEFAULTS, *single.CLASS_DEFAULTS, *single.ABSOLUTE}


@pytest.fixture
def form(browser, client):
    """Return the fields of the untouched form, with a target."""
    dataset = post_csv(client, table(60)).json()
    hidden = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1")).hidden
    return hidden | {"target": "y", "features": ["size", "colour"]}


def test_every_setting_has_a_field_with_a_default_and_a_sentence(browser, form):
    """Every setting of `POST /models`, stop rule and prior has a field with a default and an explanation."""
    page = page_of(browser.get(f"/ui/models/new?dataset={form['dataset_id']}&all=1"))

    fields = {control["name"] for control in page.controls} | set(page.hidden)
    nested = {"prior", "stop", "columns", "search", "new_rows", "monotone", "parts"}
    assert not set(ModelRequest.model_fields) - fields - nested
    assert {f"new_rows.{name}" for name in fit_form.NEW_ROWS} <= fields
    assert {*fit_fields.DIRECTIONS} <= fields
    assert not {f"stop.{name}" for name in StopRequest.model_fields} - fields
    assert not {f"prior.{name}" for name in PRIOR | TREE_PRIOR} - fields
    assert not {f"search.{name}" for name in SEARCH} - fields
    assert {"kind:size", "kind:colour", "kind:y"} <= fields
    (moves,) = (knob for knob in fit_fields.every() if knob.name == "moves")
    sets = {name for method in METHODS.values() for name in method.move_sets}
    assert {name for name, _ in moves.choices} == sets - {"default"}
    for method in METHODS:
        assert f"{method}: {formatting.METHODS[method]}" in page.words
    for knob in fit_fields.every():
        assert knob.default, knob.name
        assert knob.hint.endswith("."), knob.name
        assert knob.hint in page.words, knob.name


@pytest.mark.parametrize(
    ("values", "family", "words"),
    [
        ("01", "probit", "Only 0 and 1, so two classes: the model gives the probability that t is 1."),
        (["yes", "no"], "probit", "Two classes: the model gives the probability that t is yes."),
        ("abc", "categorical", "3 classes: the model gives the probability of each."),
        (["true", "false"], "probit", "Two classes: the model gives the probability that t is true."),
        (
            ["0.5", "1.5", "12.25"],
            "gaussian",
            "Numbers from 0.5 to 12.25: the model gives their mean, with an",
        ),
        (
            ["-1", "1"],
            "probit",
            "Only -1 and 1, so two classes: the model gives the probability that t is 1.",
        ),
        (
            ["1.5", "2.5"],
            "gaussian",
            "If they stand for two classes, choose that as the kind of outcome, among all settings.",
        ),
        (["0", "0.5", "7"], "gaussian", "Numbers from 0 to 7: the model gives their mean, with an interval."),
        (
            "0137",
            "gaussian",
            "If they are counts, choose “a count” as the kind of outcome, among all settings.",
        ),
    ],
)
@pytest.mark.sampled(quick=4)
def test_the_form_says_what_it_will_fit(browser, client, values, family, words):
    """For each column, and for the chosen one without scripts; what it says is what "auto" chooses.

    A column without any value has words too.
    """
    rows = "".join(f"{values[i % len(values)]},{i},\n" for i in range(30))
    dataset = post_csv(client, f"t,x,none\n{rows}").json()
    at = f"/ui/models/new?dataset={dataset['id']}&all=1"
    before, after = (browser.get(f"{at}{more}").text for more in ("", "&target=t"))
    (told,) = re.findall(r'<option value="t"[^>]* data-fits="([^"]+)"', before)
    assert words in unescape(told)
    assert '<option value="none" data-missing="30" data-fits="No row has a value of it."' in before
    assert ("a count" in told) == ("a count" in words)
    assert words in page_of(browser.get(f"{at}&target=t")).words
    assert words not in page_of(browser.get(at)).words
    assert " selected" in re.search(r'<option value="t"[^>]*>', after)[0]
    two_steps = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&target=t")).hidden
    body = fit_form.body_of(FormData(two_steps | {"target": "t"}))
    assert client.post("/models/estimate", json=body).json()["settings"]["family"] == family


def test_what_few_need_is_folded(browser, form):
    """Noise and transform are open; columns with roles, trees and chains are folded until they are used."""

    def folded(text: str) -> dict[str, bool]:
        found = re.findall(
            r'<details class="more"( open)?>\s*<summary>(.*?)</summary>(.*?)</details>', text, re.DOTALL
        )
        return {
            name: not is_open
            for is_open, _, inside in found
            for name in re.findall(r' name="([^"]+)"', inside)
        }

    untouched = folded(browser.get(f"/ui/models/new?dataset={form['dataset_id']}&all=1").text)
    assert not {"target", "family", "noise", "transform", "linear", "holdout"} & untouched.keys()
    hidden = {
        "weights",
        "exposure",
        "groups",
        "event",
        "lower",
        "method",
        "num_trees",
        "num_draws",
        "prior.k",
    }
    assert all(untouched[name] for name in hidden)
    used = folded(browser.post("/ui/models/estimate", data=form | {"weights": "size", "num_trees": "5"}).text)
    assert not used["weights"]
    assert not used["num_trees"]
    assert used["prior.k"]


def test_text_that_no_database_stores_is_refused_by_its_field(browser, form):
    """A NUL in a field of a form gets a page with the field's name, before the form is used."""
    page = browser.post("/ui/models", data=form | {"weights": "a\0b"})
    assert page.status_code == 422
    assert "weights: text must not contain a NUL" in page.text


def test_what_is_filled_in_is_what_is_fitted(browser, client, form):
    """Prior, stop rules, moves and column kinds of the form reach the model as from the API."""
    filled = {
        "prior.k": "3",
        "prior.sigma_estimate": "naive",
        "prior.sparse": "true",
        "prior.cuts": "uniform",
        "stop.verdict": "approximate",
        "stop.max_seconds": "30.5",
        "stop.max_draws": "80",
        "moves": "cgm",
        "start": "smc",
        "kind:size": "category",
        "kind:colour": "",
        "num_draws": "40",
        "num_trees": "20",
        "seed": "7",
    }
    page_of(browser.post("/ui/models", data=form | filled))

    (model,) = client.get("/models").json()["items"]
    settings = model["settings"]
    assert settings["prior"] == settings["prior"] | {
        "k": 3.0,
        "sigma_estimate": "naive",
        "sparse": True,
        "cuts": "uniform",
    }
    assert settings["stop"] == settings["stop"] | {
        "verdict": "approximate",
        "max_seconds": 30.5,
        "max_draws": 80,
    }
    assert settings["moves"] == METHODS["bart"].move_sets["cgm"]
    assert settings["columns"] == {"size": "category", "colour": "category"}
    assert (settings["start"], settings["num_trees"], settings["seed"]) == ("smc", 20, 7)


def test_a_column_of_groups_is_no_feature(browser, client, form):
    """Groups chosen in the form reach the model, and are taken from the features."""
    page_of(browser.post("/ui/models", data=form | {"groups": ["colour"]}))

    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["groups"] == ["colour"]
    assert model["settings"]["features"] == ["size"]
    page = page_of(browser.get(f"/ui/models/{model['id']}/settings"))
    assert "Groupscolour" in page.words
    both = page_of(browser.post("/ui/models", data=form | {"groups": ["y"], "once": "another"}), 422)
    assert "is the target already" in both.words


def test_further_targets_are_no_features(browser, client, form):
    """Targets chosen beside the first are learnt with it, and are taken from the features."""
    page_of(browser.post("/ui/models", data=form | {"others": ["size"]}))

    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["outcomes"] == ["y", "size"]
    assert model["settings"]["features"] == ["colour"]
    refused = page_of(browser.post("/ui/models", data=form | {"others": ["colour"], "once": "another"}), 422)
    assert "colour" in refused.words


def test_slopes_by_group_stay_features(browser, client, form):
    """Slopes chosen in the form reach the model; without groups they are refused beside their field."""
    page_of(browser.post("/ui/models", data=form | {"groups": ["colour"], "slopes": ["size"]}))

    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["slopes"] == ["size"]
    assert model["settings"]["features"] == ["size"]
    alone = page_of(browser.post("/ui/models", data=form | {"slopes": ["size"], "once": "another"}), 422)
    assert "name the columns of groups too" in alone.words


def test_left_empty_every_method_gets_its_own_defaults(browser, client, form):
    """Untouched fields aren't sent, so that each method uses its own defaults."""
    page_of(browser.post("/ui/models", data=form | {"method": "bcart"}))

    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["num_trees"] == 1
    assert model["settings"]["num_chains"] == METHODS["bcart"].num_chains


REFUSED = (
    ({"prior.k": "-1"}, "prior.k"),
    ({"prior.alpha": "much"}, "prior.alpha"),
    ({"prior.nu": "nan"}, "prior.nu"),
    ({"prior.k_scale": "1"}, "prior.k_scale"),
    ({"stop.max_rhat": "0.5"}, "stop.max_rhat"),
    ({"stop.max_draws": "10"}, ""),
    ({"stop.verdict": "converged", "stop.max_draws": "1"}, "stop.max_draws"),
    ({"moves": "cgm", "method": "smc"}, "moves"),
    ({"num_trees": "2.5"}, "num_trees"),
    ({"method": "dcc-tree", "search.delta": "2"}, "search.delta"),
)


def test_a_refusal_stands_at_its_field_in_an_open_group(browser, form):
    """An error is the API's sentence, beside its field in an open group; other errors are above the form."""
    for filled, field in REFUSED:
        answer = browser.post("/ui/models", data=form | filled)

        page = page_of(answer, 422)
        wrong = [control["name"] for control in page.controls if control.get("aria-invalid") == "true"]
        assert wrong == [field] * bool(field)
        values = {control["name"]: control.get("value") for control in page.controls}
        for name, value in filled.items():
            assert values[name] in {value, None}  # None: a list
        for group in fit_fields.FOLDED:
            if set(filled) & {each.name for each in group.fields}:
                assert re.search(rf'<details class="more" open>\s*<summary>{group.title}', answer.text)


def test_the_estimate_brings_the_request_to_copy(browser, client, form):
    """The command beside the form sends the same request as the form."""
    filled = {"prior.k": "3", "stop.max_rhat": "1.2", "kind:size": "category", "num_draws": "40"}
    answer = browser.post("/ui/models/estimate", data=form | filled)

    page_of(answer)
    request = unescape(re.findall(r"<code>(.*?)</code>", answer.text, re.DOTALL)[0])
    sent = json.loads(re.search(r"-d '(.*)'", request, re.DOTALL)[1])
    assert client.post("/models", json=sent).status_code == 202
    page_of(browser.post("/ui/models", data=form | filled))
    by_page, by_command = (model["settings"] for model in client.get("/models").json()["items"])
    assert by_page == by_command


def test_the_form_declares_how_new_rows_differ(browser, form):
    """The fields make the declaration of the API; its column is no feature, and a wrong number is marked."""
    sent = form | {"features": ["size", "colour"], "new_rows.groups": "colour", "family": "gaussian"}
    body = fit_form.body_of(FormData([*pairs_of(sent)]))
    assert body["new_rows"] == {"groups": "colour"}
    assert body["features"] == ["size"]
    with pytest.raises(InvalidRequestError):
        fit_form.body_of(FormData([*pairs_of(sent | {"new_rows.gap": "soon"})]))


def test_the_form_names_subgroups_one_a_line(browser, form):
    """Lines are those of the command line; the page keeps them beside what is wrong with one."""
    body = fit_form.body_of(FormData([*pairs_of(form | {"subgroups": "colour\r\n size>=3 & colour=red\n"})]))
    where = [{"column": "size", "at_least": 3.0}, {"column": "colour", "in": ["red"]}]
    assert body["subgroups"] == ["colour", {"name": "size>=3 & colour=red", "where": where}]
    page = page_of(browser.post("/ui/models", data=form | {"subgroups": "size>=3 & colour="}), 422)
    assert "is no condition: write age>=65" in page.words
    wrong = form | {"subgroups": "weight", "calibrate": "holdout", "holdout": "50"}
    page = page_of(browser.post("/ui/models", data=wrong), 422)
    assert "'weight' is no column of the table" in page.words
    wrong = [control["name"] for control in page.controls if control.get("aria-invalid") == "true"]
    assert wrong == ["subgroups"]


def pairs_of(form):
    for name, value in form.items():
        yield from ((name, each) for each in (value if isinstance(value, list) else [value]))


def test_a_hurdle_is_offered_before_the_fit(browser, client):
    """A button of the form fills in the family where many outcomes are 0."""
    lines = [f"{(i * 7) % 19},{0 if i % 5 < 3 else (i * 37) % 83 + 1}" for i in range(100)]
    dataset = post_csv(client, "\n".join(["dose,y", *lines]) + "\n").json()["id"]
    form = {"dataset_id": dataset, "target": "y", "features": "dose", "all": "1", "once": "x"}
    text = browser.post("/ui/models/estimate", data=form).text
    assert "60% of the rows are exactly 0" in text
    assert 'data-declare="family" data-value="hurdle"' in text
    assert "data-declare" not in browser.post("/ui/models/estimate", data=form | {"family": "hurdle"}).text


SUBJECTS = "\n".join(
    ["subject,day,dose,drug,y"]
    + [
        f"s{i // 5},2024-01-{i % 5 + 1:02d},{(i * 7) % 19},{i % 2},{(i // 5 * 37) % 23 + (i * 5 % 7) / 9:.2f}"
        for i in range(200)
    ]
)


@pytest.fixture
def subjects(client):
    """Return the id of a table whose rows of one subject resemble each other."""
    return post_csv(client, SUBJECTS).json()["id"]


def chosen(text):
    """Return the chosen value of every field of choice."""
    lists = re.findall(r'<select [^>]*name="([^"]+)"[^>]*>(.*?)</select>', text, re.DOTALL)
    return {name: re.findall(r'<option value="([^"]*)"[^>]* selected', options) for name, options in lists}


def test_two_steps_ask_four_questions_and_suggest_the_subject(browser, subjects):
    """Few fields, without scripts; the second step says what the rows of the chosen target are like."""
    first = page_of(browser.get(f"/ui/models/new?dataset={subjects}"))
    assert [control["name"] for control in first.controls] == ["dataset", "target"]
    step = browser.get(f"/ui/models/new?dataset={subjects}&target=y")
    second = page_of(step)
    ahead = ["known"] * 3  # ticks beside the offer to forecast, since day is a time
    asked = ["target", "missing_target", "new_rows.groups", "new_rows.later", "treatment", "by", *ahead]
    assert [control["name"] for control in second.controls] == asked
    assert len(second.controls) + len(second.hidden) + second.tags.count("button") <= 40
    assert len(re.findall(r"[?]</(?:label|legend)>", step.text)) == 4
    assert "one for each subject (40)" in second.words
    assert "one for each y" not in second.words
    assert not second.words_of_programs()
    assert "Will you predict for other values of subject?" in second.words
    assert "About" in second.words
    assert 'data-declare="new_rows.groups" data-value="subject"' in step.text
    declared = second.hidden | {"target": "y", "new_rows.groups": "subject"}
    assert "Will you predict for other" not in browser.post("/ui/models/estimate", data=declared).text
    page_of(browser.get(f"/ui/models/new?dataset={subjects}&target=none"))


def test_answers_become_the_settings_of_a_model_or_of_a_set(browser, client, subjects):
    """New rows and treatment reach the model, which leaves its features to the service; `by` makes a set."""
    sent = page_of(browser.get(f"/ui/models/new?dataset={subjects}&target=y")).hidden | {"target": "y"}
    asked = {"new_rows.groups": "subject", "new_rows.later": "day", "treatment": "drug"}
    page_of(browser.post("/ui/models", data=sent | asked))
    (model,) = client.get("/models").json()["items"]
    assert model["settings"]["new_rows"] == {"groups": "subject", "later": "day"}
    assert model["settings"]["treatment"] == "drug"
    assert model["settings"]["holdout"] == 0.2
    assert {"subject", "drug", "y"}.isdisjoint(model["settings"]["features"])
    by = sent | {"by": "drug", "once": "another"}
    estimate = " ".join(page_of(browser.post("/ui/models/estimate", data=by)).words.split())
    assert "2 models; the first takes about" in estimate
    made = browser.post("/ui/models", data=by)
    assert made.url == browser.post("/ui/models", data=by).url
    assert "by a model for each drug" in page_of(made).words
    (model_set,) = client.get("/model-sets").json()["items"]
    assert (model_set["by"], model_set["groups"]) == (["drug"], 2)


def test_nothing_entered_is_lost_between_the_steps(browser, subjects):
    """All settings keep the answers, and so does a refusal, whose field is marked in either form."""
    sent = page_of(browser.get(f"/ui/models/new?dataset={subjects}&target=y")).hidden | {"target": "y"}
    sent |= {"new_rows.later": "day", "treatment": "drug", "by": "subject"}
    answers = {name: [value] for name, value in sent.items() if name in ("target", "treatment", "by")}
    full = browser.post("/ui/models/settings", data=sent)
    assert "prior.k" in {control["name"] for control in page_of(full).controls}
    for wrong, field, opens in (
        ({"treatment": "y"}, "treatment", False),
        ({"by": "y"}, "by", False),
        ({"new_rows.later": "dose", "new_rows.groups": "dose"}, "new_rows", False),
        ({"holdout": "95", "by": ""}, "holdout", True),
        ({"all": "1", "features": "dose", "prior.k": "-1", "by": ""}, "prior.k", True),
    ):
        refused = browser.post("/ui/models", data=sent | wrong)
        page = page_of(refused, 422)
        marked = [control["name"] for control in page.controls if control.get("aria-invalid") == "true"]
        assert [name.startswith(field) for name in marked] == [True], (wrong, marked)
        assert ("prior.k" in {control["name"] for control in page.controls}) == opens
        kept = {name: [value] for name, value in (sent | wrong).items() if name in answers and value}
        assert chosen(refused.text) == chosen(refused.text) | kept
    assert chosen(full.text) == chosen(full.text) | answers | {"new_rows.later": ["day"]}
