"""Effects of a treatment on times with events: exact figures, curves, follow-up, refusals."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import lognorm, norm

from sampler import Posterior, SettingsError, fit
from sampler.data.transform import Transform
from sampler.data.treatment.follow_up import FollowUp
from sampler.posterior.assessment.censored_scores import kaplan_meier, steps_at
from sampler.posterior.explanations.effect_measures import Measure

SHORT = {"num_trees": 10, "num_chains": 2, "num_burnin": 40, "num_draws": 15, "thin": 1, "progress": False}
ROWS = 160
LOG = Transform("log")


@cache
def rows():
    """Return features, treatments of each kind, times and events: treated rows' times are longer."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, ROWS))
    z = (rng.uniform(size=ROWS) < 1 / (1 + np.exp(-a))).astype(float)
    site = rng.choice(["n", "s", "w"], ROWS)
    time = np.exp(1 + 0.5 * a + 0.7 * z + 0.4 * rng.normal(size=ROWS))
    until = np.minimum(rng.exponential(14, ROWS), 10)
    treatments = {
        "two arms": z,
        "three arms": list(np.where(z > 0, "drug", rng.choice(["placebo", "other"], ROWS))),
        "a dose": np.where(z > 0, 1 + rng.uniform(size=ROWS).round(1), 0.0),
    }
    return {"a": a, "b": b, "site": list(site)}, treatments, np.minimum(time, until), (time <= until) * 1


KINDS = {
    "two arms": {},
    "one forest": {"effects": "ps-bart"},
    "a column": {"effects": "plain"},
    "three arms": {},
    "a dose": {},
    "noise by row": {"noise": "forest"},
    "groups": {"groups": "site"},
    "raw times": {"transform": "none"},
}


@cache
def fitted(kind):
    """Return a short fit of a kind."""
    X, treatments, time, event = rows()
    treatment = treatments.get(kind, treatments["two arms"])
    return fit(X, time, event=event, treatment=treatment, **SHORT | KINDS[kind])


def test_figures_are_the_closed_forms():
    """Survival, restricted means and the ratio of two log-normal times, by numbers and by simulation."""
    f, sd = np.array([0.8, 0.3]), np.array([0.5, 0.5])
    known = {
        ("survival", 2.0): (0.5846116931, 0.2158475276),
        ("restricted_mean", 3.0): (2.1841321151, 1.4864741456),
    }
    drawn = np.exp(f + sd * np.random.default_rng(0).normal(size=(1_000_000, 2)))
    for (name, until), expected in known.items():
        own = Measure(name, until).figure(f, sd, LOG)
        np.testing.assert_allclose(own, expected, atol=1e-9)
        simulated = (drawn > until) if name == "survival" else np.minimum(drawn, until)
        np.testing.assert_allclose(own, simulated.mean(axis=0), atol=4e-3)
    assert np.exp(f[0] - f[1]) == pytest.approx(1.6487212707)


def integral(f, sd, until, above, low):
    """Integrate a probability of more than each time up to one, from where it is sure."""
    grid = np.linspace(low, until, 20_001)
    return low + np.trapezoid(above(grid[:, None, None], f, sd), grid, axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_effects_of_every_kind_are_differences_of_its_own_laws(kind):
    """Rows' effects are what each draw says of the time in either arm; exchanged arms change the sign."""
    posterior, raw = fitted(kind), kind == "raw times"
    law, coded = posterior.law, posterior.training_rows()
    ends = {"three arms": ("drug", "placebo"), "a dose": (1.5, 0.0)}.get(kind, (1, 0))
    names = law.draws.header.arms
    places = [names.index(each) for each in ends] if kind == "three arms" else ends
    some, chosen = coded.part(slice(0, 3)), law.alike(None)
    arms = [some.with_role("treatment", place) for place in places]
    laws = [(law.f_of(own, chosen), law.noise_of(own, chosen)) for own in arms]

    def above(time, f, sd):
        return norm.sf(time, f, sd) if raw else lognorm.sf(time, sd, scale=np.exp(f))

    figures = {
        "survival": [above(4.0, *each) for each in laws],
        "restricted_mean": [integral(*each, 4.0, above, -30.0 if raw else 0.0) for each in laws],
        "ratio": [f for f, _ in laws],
    }
    for measure in figures if not raw else ("survival", "restricted_mean"):
        asked = {"measure": measure, "until": None if measure == "ratio" else 4.0}
        answer = posterior.effects(arm=ends[0], against=ends[1], **asked)
        first, second = figures[measure]
        expected = (first - second).mean(axis=0)
        expected = np.exp(expected) if measure == "ratio" else expected
        np.testing.assert_allclose(answer.mean[:3], expected, atol=1e-5)
        back = posterior.effects(arm=ends[1], against=ends[0], **asked).average.mean
        assert answer.average.mean == pytest.approx(1 / back if measure == "ratio" else -back)
        assert answer.average.lower < answer.average.mean < answer.average.upper
        assert (answer.measure, answer.neutral) == (measure, float(measure == "ratio"))
        assert answer.average.mean > answer.neutral
        assert "Censoring must tell nothing" in str(answer)


def test_without_censoring_it_is_the_fit_to_the_logarithms():
    """Draws are, bit for bit, those of the logarithms of the times, with events and without."""
    X, treatments, time, _ = rows()
    z = treatments["two arms"]
    of_events = fit(X, time, event=np.ones(ROWS), treatment=z, **SHORT)
    of_logs = fit(X, np.log(time), treatment=z, **SHORT)
    np.testing.assert_array_equal(of_events.law.draws.sigma, of_logs.law.draws.sigma)
    logs = of_logs.effects().mean
    np.testing.assert_allclose(np.log(of_events.effects(measure="ratio").mean), logs, rtol=1e-12)
    chosen = of_logs.law.alike(None)
    shift = of_events.law.shift_of(of_events.training_rows(), chosen)
    np.testing.assert_array_equal(shift, of_logs.law.effect_of(of_logs.training_rows(), chosen))


def test_curves_and_how_far_rows_were_followed():
    """Curves end where an arm does, agree with the averages, and are kept in the model's file."""
    posterior = fitted("two arms")
    X, treatments, time, event = rows()
    z = treatments["two arms"] == 1
    answer = posterior.effects()
    curves = answer.curves
    assert curves.times[-1] == pytest.approx(min(time[z].max(), time[~z].max()))
    assert np.all(np.diff(curves.arm.survival) < 0)
    at = posterior.effects(measure="survival", until=curves.times[9])
    assert at.average.mean == pytest.approx(curves.difference.survival[9])
    ends = curves.difference.lower[9], curves.difference.upper[9]
    assert (at.average.lower, at.average.upper) == pytest.approx(ends)
    assert curves.farthest < 0.25
    assert answer.followed["1"].events == event[z].sum()
    assert answer.followed["1"].at_risk == pytest.approx(np.mean(time[z] >= answer.until), abs=0.011)
    assert min(each.at_risk for each in answer.followed.values()) == pytest.approx(0.1, abs=0.011)
    table = X | {"treatment": treatments["two arms"]}
    again = Posterior.from_bytes(posterior.to_bytes())
    for name in ("average", "curves", "followed"):
        assert getattr(again.effects(table), name) == getattr(posterior.effects(table), name)
    assert again.effects(table, of="treated").curves.farthest is None
    assert "events in" in answer.notes[1]
    assert answer.to_pandas().shape[0] == ROWS
    answer.plot_curves()


def test_curves_of_unweighted_rows_are_kaplan_and_meiers():
    """With weights of one, and ties of events and censored rows."""
    rng = np.random.default_rng(1)
    times, events = rng.integers(1, 30, 400) / 2.0, rng.uniform(size=400) < 0.5
    every = np.ones(400, bool)
    own = FollowUp.of(times, events, [every], [np.ones(400)])
    np.testing.assert_allclose(
        own.survival[0], steps_at(kaplan_meier(times, events), own.times[0]), rtol=1e-8
    )
    assert own.at_risk(0, 5.0) == pytest.approx(np.mean(times >= 5), abs=0.011)
    assert FollowUp.from_json(own.to_json(), 1).to_json() == own.to_json()


@pytest.mark.parametrize(
    ("kind", "asked", "field", "message"),
    [
        ("two arms", {"until": 10.5}, "until", "at most 9.74113, until which rows of each arm"),
        ("two arms", {"until": 0}, "until", "above 0"),
        ("two arms", {"measure": "survival", "until": "soon"}, "until", "not 'soon'"),
        ("two arms", {"measure": "ratio", "until": 2}, "until", "leave it out"),
        ("two arms", {"measure": "hazard"}, "measure", "restricted_mean, survival or ratio"),
        ("raw times", {"measure": "ratio"}, "measure", "ask for restricted_mean or survival"),
    ],
)
def test_refused_measures(kind, asked, field, message):
    """Times that were not seen, and figures that a model lacks, are refused with what to ask for."""
    with pytest.raises(SettingsError, match=message) as error:
        fitted(kind).effects(**asked)
    assert error.value.field == field


def test_measures_are_of_times_with_events():
    """Other outcomes have the mean alone."""
    X, treatments, time, _ = rows()
    posterior = fit(X, time, treatment=treatments["two arms"], **SHORT)
    for asked in ({"measure": "survival"}, {"until": 3.0}):
        with pytest.raises(SettingsError, match=r"times with events.*leave it out"):
            posterior.effects(**asked)
    assert posterior.effects().curves is None


def test_what_is_warned_of():
    """Times that are modelled as they are, arms with few events, and times that few were followed until."""
    assert any("transform=none" in each for each in fitted("raw times").effects().warnings)
    assert not any("until then" in each for each in fitted("two arms").effects().warnings)
    X, treatments, time, event = rows()
    z = treatments["two arms"]
    event = np.where((z == 1) & (np.cumsum(z * event) > 4), 0, event)
    time = np.where(time >= 6, 6 - np.arange(ROWS) % 7 / 7, time)
    time[0] = 9.0 if z[0] else 6.5
    few = fit(X, time, event=event, treatment=z, **SHORT)
    last = min(each.last for each in few.effects().followed.values())
    told = few.effects(until=last).warnings
    assert any("followed until then" in each for each in told)
    assert any("the events of arm 1 are 4 only" in each for each in told)


def test_an_effect_along_a_feature_is_of_the_restricted_mean():
    """The curve is the average effect of rows that all have the value."""
    posterior = fitted("two arms")
    X, treatments, _, _ = rows()
    table = {name: values[:30] for name, values in X.items()} | {"treatment": treatments["two arms"][:30]}
    curve = posterior.partial_dependence(["b"], table, {"b": [0.5]}, of="effect")
    expected = posterior.effects(table | {"b": np.full(30, 0.5)}).average.mean
    assert curve.mean[0] == pytest.approx(expected)
