"""A setting is defined once: the HTTP field, the worker's argument and the stored value follow from it."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sampler.settings
from app.dashboard.forms import fit_fields
from sampler import fit
from sampler.settings import SETTINGS, Settings
from worker import fit_spec

EXTENDED = """
import sys, types
module = types.ModuleType("sampler.settings")
sys.modules["sampler.settings"] = module
exec(compile(sys.stdin.read(), "settings.py", "exec"), module.__dict__)
import sampler
sampler.settings = module
from sampler import Settings, prepare
from app.web.fit_request import ModelRequest
from worker import fit_spec
shown = ModelRequest.model_json_schema()["properties"]["width"]
assert shown["description"] == "How wide." and shown["anyOf"][0]["maximum"] == 9, shown
asked = ModelRequest(dataset_id="d", target="y", width=4).fit_request()
assert asked.settings == {"width": 4}, asked
spec = fit_spec.Spec("m", "d", 20, ["x", "y"], "y", {"width": 4}, [])
assert fit_spec.fit_settings(spec).width == 4
assert prepare({"x": list(range(20))}, list(range(20)), width=4).training.settings.width == 4
assert "width" not in Settings.resolve().to_json()
assert Settings.from_json(Settings.resolve(width=3).to_json()).width == 3
try:
    Settings.resolve(width=10)
except sampler.SettingsError as error:
    assert error.field == "width"
else:
    raise AssertionError("a width out of range")
"""


def test_an_entry_is_a_setting_everywhere():
    """With one entry more there is a setting more: documented, checked, passed on and stored."""
    text = Path(sampler.settings.__file__).read_text()
    entry = (
        '    width: int = _setting("whole", "model", "How wide.", default=2, limits=(1, 9), sparing=True)\n'
    )
    before = "\n    @classmethod\n    def resolve("
    assert text.count(before) == 1
    told = subprocess.run(
        [sys.executable, "-c", EXTENDED],
        input=text.replace(before, f"{entry}{before}"),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert told.returncode == 0, told.stderr


def test_every_setting_is_described():
    """Each has a sentence, and a default of its own or of the method."""
    for name, setting in SETTINGS.items():
        assert setting.about.endswith("."), name
    resolved = Settings.resolve()
    assert Settings.from_json(resolved.to_json()) == resolved
    assert set(fit_spec._PASSED) == {*SETTINGS, "prior", "columns"}


def test_a_keyword_that_is_no_setting():
    """An unknown keyword is a TypeError that names it, as for any function."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_tree'"):
        Settings.resolve(num_tree=3)


def test_the_form_and_fit_know_every_setting():
    """The form has a field for each that may be requested, and `fit` an argument with the same default."""
    shown = {knob.name.partition(".")[0] for knob in fit_fields.every()} | {"family", "method"}
    assert {name for name, setting in SETTINGS.items() if setting.requested} <= shown
    arguments = inspect.signature(fit).parameters
    assert {name: arguments[name].default for name in SETTINGS} == {
        name: setting.default for name, setting in SETTINGS.items()
    }
