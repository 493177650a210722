"""Formatting of figures and displayed defaults."""

from datetime import UTC, datetime, timedelta

import pytest

from app.dashboard.formatting import ago, cell, duration, percent, severe_first
from app.dashboard.forms import fit_fields
from sampler.bart import prior
from sampler.methods import METHODS
from sampler.settings import PARTICLES, STARTS, labelled


def test_settings_are_named_as_on_the_form():
    """Advice for programs is shown with the labels of the form's fields; other text stays."""
    advice = "pool more chains (num_chains=8), or thin 14 times; noise=forest, zip=3"
    assert labelled(advice) == "pool more chains (Chains: 8), or thin 14 times; Noise: forest, zip=3"
    advice = "overfits (propensity_overfits), by (a_b): raise num_draws, not 'num_draws' or num_draws_x"
    assert (
        labelled(advice) == "overfits, by (a_b): raise Kept draws per chain, not 'num_draws' or num_draws_x"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "under a second"),
        (59.7, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (3599.6, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_are_rounded_before_they_are_divided(seconds, text):
    """Durations never show sixty seconds or sixty minutes."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(30, "just now"), (150, "2 min ago"), (2.6 * 3600, "2 h ago"), (3 * 86_400, "3 d ago"), (None, "never")],
)
def test_ages_are_given_in_one_unit(seconds, text):
    """An age is the whole number of its largest unit, whether the moment is a time or text."""
    moment = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    assert ago(moment) == ago(moment and moment.isoformat()) == text


def test_a_percentage_has_no_minus_before_zero():
    """A skill of -0.1% is 0%, and rounding stays as it was."""
    assert [percent(x) for x in (-0.001, 0.0, -0.006, 0.995, None)] == ["0%", "0%", "-1%", "100%", "\u2013"]
    assert percent(0.12345, 1) == "12.3%"


def test_fields_show_the_defaults_of_the_sampler():
    """A field's placeholder is the sampler's default, which its list of choices leaves out."""
    knobs = {knob.name: knob for knob in fit_fields.every()}
    bart, bcart, soft = METHODS["bart"], METHODS["bcart"], METHODS["rjhmc-df"]
    for name in ("num_trees", "num_chains", "num_draws", "thin"):
        assert knobs[name].default.startswith(f"{getattr(bart, name)}"), name
    assert f"{soft.num_chains} of rjhmc" in knobs["num_chains"].default
    assert f"{bcart.num_draws} of bcart" in knobs["num_draws"].default
    assert f"{bcart.thin} of bcart" in knobs["thin"].default
    assert f"at most {bart.most_burnin}" in knobs["num_burnin"].default
    of_search = METHODS["dcc-tree"].search
    assert {name for name in knobs if name.startswith("search.")} == {f"search.{name}" for name in of_search}
    for name, value in of_search.items():
        assert knobs[f"search.{name}"].default == f"{value:g}", name
    for name, value in prior.DEFAULTS.items():
        if name == "sparse":
            continue  # shown in words
        assert knobs[f"prior.{name}"].default.split(";")[0] == f"{value}".removesuffix(".0"), name
    assert (knobs["start"].default, *(name for name, _ in knobs["start"].choices)) == STARTS
    assert int(knobs["particles"].default) == PARTICLES


def test_grave_warnings_come_first():
    """A folded list begins with what makes predictions doubtful, and ends with how a file was read."""
    read, plain, grave = (
        "x: '1 €' is read as the number 1 in EUR",
        "x: missing in 2 rows",
        "z: levels never seen in training: q",
    )

    assert severe_first([read, plain, grave]) == [grave, plain, read]
    assert severe_first([plain, read, "other"]) == [plain, "other", read]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (10117, "10117"),
        (10117.0, "10117"),
        (-2.5, "-2.5"),
        (True, "true"),
        ("10 117", "10 117"),
        (1e-5, "0.00001"),
    ],
)
def test_cells_keep_their_digits_together(value, shown):
    """A postcode is no amount: no space between thousands, and words as they are."""
    assert cell(value) == shown
