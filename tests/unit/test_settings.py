"""A setting is defined once; HTTP field, worker argument and stored value follow from it."""

import inspect
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sampler.settings
from sampler import SettingsError, fit
from sampler.bart.prior import check_prior
from sampler.costs.memory import estimate
from sampler.definitions.data import ROLES
from sampler.noise import NOISE_TREES
from sampler.settings import ALL_SETTINGS, SETTINGS, Settings
from sampler.sklearn import BARTRegressor
from worker.fits import fit_spec

EXTENDED = """
import sys, types
module = types.ModuleType("sampler.settings")
sys.modules["sampler.settings"] = module
exec(compile(sys.stdin.read(), "settings.py", "exec"), module.__dict__)
import sampler
sampler.settings = module
from sampler import Settings, prepare
from app.services.fits.fit_request import ModelRequest
from worker.fits import fit_spec
shown = ModelRequest.model_json_schema()["properties"]["width"]
assert shown["description"] == "How wide." and shown["anyOf"][0]["maximum"] == 9, shown
asked = ModelRequest(dataset_id="d", target="y", width=4).fit_request()
assert asked.settings == {"width": 4}, asked
assert "width" in fit_spec._PASSED
assert prepare({"x": list(range(20))}, list(range(20)), width=4).training.settings.width == 4
assert "width" not in Settings.resolve().to_json()
assert Settings.from_json(Settings.resolve(width=3).to_json()).width == 3
from app.dashboard.forms import fit_fields
(knob,) = (knob for knob in fit_fields.every() if knob.name == "width")
assert (knob.label, knob.default, knob.hint) == ("Width", "2", "How wide."), knob
assert fit_fields.facts({"width": 4}) == [("width", "Width", "4")]
assert fit_fields.facts({"width": 2}) == []
try:
    Settings.resolve(width=10)
except sampler.SettingsError as error:
    assert error.field == "width"
else:
    raise AssertionError("a width out of range")
"""


@pytest.mark.slow
def test_an_entry_is_a_setting_everywhere():
    """A new entry alone is documented, shown on the form, checked, passed on and stored."""
    text = Path(sampler.settings.__file__).read_text()
    entry = (
        '    width: int = _setting("whole", "model", "How wide.", default=2, limits=(1, 9), sparing=True, '
        'rare=True, form=FormField("Width", ITERATIONS, "2"))\n'
    )
    before = "\n    @classmethod\n    def resolve("
    assert text.count(before) == 1
    process = subprocess.run(
        [sys.executable, "-c", EXTENDED],
        input=text.replace(before, f"{entry}{before}"),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert process.returncode == 0, process.stderr


def test_every_setting_is_described():
    """Each setting has a sentence, and a default of its own or of the method."""
    for name, setting in SETTINGS.items():
        assert setting.about.endswith("."), name
    resolved = Settings.resolve()
    assert Settings.from_json(resolved.to_json()) == resolved
    assert set(fit_spec._PASSED) == {*SETTINGS, "prior"}


def test_discarded_draws_lengthen_a_chain_and_no_more():
    """Draws that were discarded count as iterations; the chain is the same as without them."""
    plain = Settings.resolve(num_draws=20, thin=3, num_burnin=50)
    longer = replace(plain, discarded=10)
    assert longer.iterations == plain.iterations + 30
    assert longer.chain_identity == plain.chain_identity
    assert longer.to_json() == plain.to_json() | {"discarded": 10}
    assert Settings.from_json(longer.to_json()) == longer
    for number in (-1, 2.5, True, "ten"):
        with pytest.raises(SettingsError, match="discarded must be a whole number"):
            Settings.from_json(plain.to_json() | {"discarded": number})


def test_a_keyword_that_is_no_setting():
    """An unknown keyword raises TypeError with its name."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_tree'"):
        Settings.resolve(num_tree=3)


OTHERS = ("forest", "t", "mixture", "auto")
ONLY_NUMBERS = "only numbers have noise"
ONE_TREE = "method bcart has no second forest"
KINDS = "noise must be one of constant, forest, t, t-forest, mixture, auto, not"
SEARCHED = {"method": "dcc-tree"}
HALVES = {"grow": 0.5, "prune": 0.5}


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        *(
            ({"noise": n, "family": "probit"}, "noise", ONLY_NUMBERS)
            for n in ("forest", "t", "mixture", "auto")
        ),
        *(({"noise": n, "method": "bcart"}, "noise", ONE_TREE) for n in OTHERS),
        *(({"noise": "forest", "family": f}, "noise", ONLY_NUMBERS) for f in ("categorical", "poisson")),
        *(({"noise": n, "transform": "log"}, "noise", KINDS) for n in ("loud", ["t"], 5)),
        ({"noise": "loud"}, "noise", KINDS),
        ({"noise": "mixture", "transform": "log"}, "transform", "transform must be none with noise=mixture"),
        ({"linear": True, "family": "probit"}, "linear", "only numbers and classes"),
        ({"linear": True, "method": "bcart"}, "linear", "method bcart has no linear part"),
        ({"linear": "yes"}, "linear", "linear must be true, false or auto, not 'yes'"),
        *(({"moves": "cgm", "family": f}, "moves", "moves with change") for f in ("categorical", "poisson")),
        ({"moves": "fast"}, "moves", "growprune"),
        ({"moves": {"grow": 1.0}}, "moves", "both grow and prune"),
        ({"moves": {"grow": 0.5, "prune": 0.4}}, "moves", "sum to 1"),
        ({"moves": HALVES | {"jump": 0.1}}, "moves", "unknown move 'jump'"),
        ({"moves": HALVES | {"rule": 1.5}}, "moves", "from 0 to 1"),
        ({"moves": "pg", "method": "bcart"}, "moves", "moves must be one of default, cgm, growprune"),
        ({"moves": "cgm", "method": "smc"}, "moves", "moves must be one of default, optimal, prior"),
        ({"num_trees": 0}, "num_trees", "num_trees must be a whole number from 1"),
        ({"num_trees": 5, "method": "bcart"}, "num_trees", "num_trees must be 1"),
        ({"num_draws": 2.5}, "num_draws", "num_draws must be a whole number"),
        ({"seed": True}, "seed", "seed must be a whole number"),
        ({"thin": 3, "method": "smc"}, "thin", "thin must be 1, or left out: method smc has particles"),
        ({"family": "survival"}, "family", "gaussian, hurdle, probit"),
        ({"family": "probit", "method": "bcart"}, "family", "takes family gaussian or categorical"),
        ({"family": "poisson", "method": "bcart"}, "family", "goes with method bart"),
        ({"family": "categorical", "method": "bcart-mean-variance"}, "family", "takes family gaussian"),
        ({"search": {"draws": 20}, "method": "bart"}, "search", "doesn't search over topologies"),
        *(
            (SEARCHED | {"search": each}, "search", "search must be a dict")
            for each in ("iterations", [1], 5)
        ),
        (SEARCHED | {"search": {"depth": 3}}, "search.depth", "unknown entry 'depth' of search"),
        (SEARCHED | {"search": {"iterations": 0}}, "search.iterations", "search iterations must be a whole"),
        (SEARCHED | {"search": {"delta": 1.5}}, "search.delta", "search delta must be a number from 0 to 1"),
        (SEARCHED | {"search": {"draws": 20, "samples": 1, "chains": 1}}, "num_draws", "at least num_draws"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(settings, field, words):
    """Settings that are wrong, alone or beside another, are refused with what is accepted."""
    with pytest.raises(SettingsError, match=re.escape(words)) as refused:
        Settings.resolve(**settings)
    assert refused.value.field == field


MILLION = 10**6


@pytest.mark.parametrize(
    ("more", "columns", "bytes_of_a_row", "times"),
    [
        ({"noise": "t"}, 5, 24, 1.5),
        ({"noise": "forest"}, 5, 32 + NOISE_TREES, 2.0),
        ({"noise": "mixture"}, 5, 24, 1.5),
        ({"linear": True}, 50, 50 * 24, 1.0),
    ],
    ids=str,
)
def test_estimates_count_what_a_setting_adds(more, columns, bytes_of_a_row, times):
    """A fit takes more memory with it, by so many bytes a row, and more than so many times the time."""
    beside = {"holdout": None, "weights": None}
    plain, with_it = (
        estimate(Settings.resolve(**settings).to_json() | beside, MILLION, columns)
        for settings in (
            {"noise": "constant", "linear": False},
            {"noise": "constant", "linear": False} | more,
        )
    )
    assert with_it.bytes - plain.bytes == MILLION * bytes_of_a_row
    assert with_it.seconds > times * plain.seconds


def test_estimates_count_what_may_be_chosen():
    """Memory is that of the largest kind of noise."""
    settings = Settings.resolve(noise="auto").to_json()
    auto, largest = (estimate(settings | {"noise": noise}, 10_000, 5) for noise in ("auto", "t-forest"))
    assert auto.bytes == largest.bytes


def test_the_form_and_fit_know_every_setting():
    """Each requestable setting is on the form, and an argument of `fit` with the same default."""
    hidden = {"features", "columns", "prior_only", "search", "parts"}  # lists and groups of entries
    assert {name for name, setting in ALL_SETTINGS.items() if setting.form is None} - hidden == {
        f"prior.{name}" for name in ("sigma_shape", "sigma_scale", "sharpness", "sharpness_start")
    }
    arguments = inspect.signature(fit).parameters
    assert {name: arguments[name].default for name in SETTINGS} == {
        name: setting.default for name, setting in SETTINGS.items()
    }
    assert set(ROLES) <= arguments.keys()
    documented = inspect.getdoc(fit).splitlines()
    assert {*SETTINGS, *ROLES, "prior"} <= set(documented) | {line.strip() for line in documented}


def test_the_estimators_take_settings_of_a_fit():
    """Every other estimator parameter is an argument of `fit` with the same default."""
    parameters, of_fit = (inspect.signature(each).parameters for each in (BARTRegressor, fit))
    called = {name: name.removeprefix("outcome_") for name in parameters.keys() - {"random_state", "n_jobs"}}
    for name, of_setting in called.items() - {("family", "family")}:  # which the outcomes decide
        assert parameters[name].default == of_fit[of_setting].default, name
    left_out = {"seed", "prior_only", "particles", "start", "search"}
    assert SETTINGS.keys() - {*called.values()} == left_out


def test_a_number_out_of_range_is_refused_with_its_range():
    """Limits are accepted or refused as the definition says; a refusal states the range."""
    for name, value, message in (
        ("prior.k", 0, "prior k must be a number between 1e-100 and 1e+100, not 0"),
        ("prior.beta", -1, "prior beta must be a number from 0 up, not -1"),
        ("prior.nu", True, "prior nu must be a number between 0 and inf, not True"),
        ("search.first", 1.5, "search first must be a whole number from 1 to 100000, not 1.5"),
        ("search.delta", float("nan"), "search delta must be a number from 0 to 1, not nan"),
        ("thin", "8", "thin must be a whole number from 1 to 100000, not '8'"),
    ):
        with pytest.raises(SettingsError, match=re.escape(message)) as refusal:
            ALL_SETTINGS[name].check(name, value)
        assert (refusal.value.field, refusal.value.code) == (name, "out_of_range")
    assert ALL_SETTINGS["prior.beta"].check("prior.beta", 0) == 0.0
    assert ALL_SETTINGS["stop.max_rhat"].check("stop.max_rhat", 10) == 10.0


def test_a_recipe_fills_what_is_not_stated():
    """The paper's default by one word equals its constants one by one; stated settings go before."""
    constants = {
        "num_trees": 200,
        "moves": "cgm",
        "noise": "constant",
        "transform": "none",
        "linear": False,
        "recipe": "cgm10",
    }
    recipe = Settings.resolve(recipe="cgm10")
    assert recipe == Settings.resolve(**constants) == Settings.from_json(recipe.to_json())
    assert Settings.resolve(recipe="pg-bart").moves == {"pg": 1.0}
    assert Settings.resolve(recipe="cgm10", moves="growprune", num_trees=50).num_trees == 50
    prior = check_prior({"q": 0.99}, recipe)
    assert (prior["k"], prior["nu"], prior["q"], "k_df" in prior) == (2.0, 3.0, 0.99, False)
    assert check_prior({"k_df": 3.0}, recipe) == check_prior({"k_df": 3.0}, Settings.resolve())
    two = check_prior(None, Settings.resolve(recipe="cgm10", family="probit"))
    assert (two["k"], two["offset"]) == (2.0, 0.0)
    for strange in ({"family": "poisson"}, {"method": "bcart"}):
        with pytest.raises(SettingsError, match="recipe cgm10 is for method bart") as caught:
            Settings.resolve(recipe="cgm10", **strange)
        assert caught.value.field == "recipe"
