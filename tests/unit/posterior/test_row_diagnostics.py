"""Diagnostics of the requested rows: flags, Monte Carlo errors, R-hat."""

import numpy as np
import pytest
from scipy.special import ndtri

from sampler import SettingsError
from sampler.data import row_flags
from sampler.data.schema import Column
from sampler.posterior.assessment import row_diagnostics
from sampler.posterior.kernels.mixture import mixture_quantiles
from tests.support.models.random_posteriors import make_posterior

ROWS = {"x1": [0.5, None, -1.0], "x2": [None, 0.1, 2.0], "x3": [0.0, 1.0, 2.0], "c": ["a", "z", "e"]}


def test_flags_name_what_training_never_saw():
    """Out-of-range, unseen and newly missing values are flagged; values known from training are not."""
    number = Column("x", "number", min=0.0, max=1.0)
    holed = Column("h", "number", missing=2, min=0.0, max=1.0)
    town = Column("t", "category", ("a", "b"))
    values = np.array([0.0, 1.0, -1e-9, 1.1, np.nan])
    marks = np.stack(
        [
            row_flags.mark_numbers(values, number),
            row_flags.mark_numbers(values, holed),
            row_flags.mark_levels(np.array([0, 1, -2, 0, -1]), town),
        ]
    )
    columns = [number, holed, town]

    flags = row_flags.by_row(marks, columns)

    assert flags == [
        [],
        [],
        [("x", "outside_range"), ("h", "outside_range"), ("t", "unseen_level")],
        [("x", "outside_range"), ("h", "outside_range")],
        [("x", "missing"), ("t", "missing")],
    ]
    assert row_flags.as_text(flags[4]) == "missing: x; missing: t"
    assert row_flags.count(marks, columns) == {
        "x": {"outside_range": 2, "missing": 1},
        "h": {"outside_range": 2},
        "t": {"unseen_level": 1, "missing": 1},
    }


def test_flags_of_one_row_are_bounded():
    """A row unusual in a thousand columns names ten, which bounds the answer's size."""
    columns = [Column(f"x{j}", "number", min=0.0, max=1.0) for j in range(1000)]
    marks = np.ones((1000, 2), np.uint8)

    assert [len(row) for row in row_flags.by_row(marks, columns)] == [10, 10]


def test_the_error_of_a_predictive_bound_is_its_spread_over_repetitions(monkeypatch):
    """With independent draws a bound's stated error is its standard deviation over many posteriors."""
    generator = np.random.default_rng(5)
    chains, draws, repeats, tail = 4, 100, 400, 0.05
    f = np.rint(generator.normal(size=(repeats, chains, draws)) * 1000)
    sigma = generator.uniform(0.5, 1.5, size=(chains, draws))
    bound = np.empty((repeats, 1))
    steps = f.reshape(repeats, -1).astype(np.int32)
    mixture_quantiles(steps, 0.001, sigma.reshape(-1), np.array([tail]), ndtri(np.array([tail])), bound)

    posterior, _, _ = make_posterior()
    learnt = (f * 0.001).transpose(1, 2, 0), np.broadcast_to(sigma[:, :, None], (chains, draws, repeats))
    monkeypatch.setattr(posterior.law, "f", lambda _part, _used: learnt[0])
    monkeypatch.setattr(posterior.law, "noise", lambda _part, _used: learnt[1])
    stated = posterior.law.bound_errors(None, draws)(bound[:, 0])

    # the larger of two estimates, one of them from four chains: above the truth by a fifth
    assert 0.9 < np.sqrt(np.mean(stated**2)) / bound.std() < 1.35


@pytest.mark.parametrize("kind", ["credible", "predictive"])
def test_errors_belong_to_their_rows(kind):
    """Every bound has an error per row, equal for any accompanying rows."""
    posterior, _, _ = make_posterior()
    coded = posterior.encode(ROWS)
    options = {"level": [0.5, 0.9], "interval": kind, "quantiles": [0.2]}
    whole = row_diagnostics.errors(posterior.law, coded, posterior.predict(coded, **options))
    one = {name: column[1:2] for name, column in ROWS.items()}
    single = posterior.encode(one)
    alone = row_diagnostics.errors(posterior.law, single, posterior.predict(single, **options))

    assert [each.level for each in whole.intervals] == [0.5, 0.9]
    assert alone.mean[0] == pytest.approx(whole.mean[1], rel=1e-12)
    for few, many in zip(alone.intervals, whole.intervals, strict=True):
        assert few.upper[0] == pytest.approx(many.upper[1], rel=1e-12)
    assert np.all(whole.mean >= 0)
    assert np.all(np.isfinite(whole.quantiles[0].values))


def test_the_verdict_on_rows_is_that_of_the_summary():
    """Requested rows equal to the reference rows get the model's own verdict."""
    posterior, _, _ = make_posterior()
    verdict = row_diagnostics.agreement(posterior.law, posterior.reference, posterior.num_draws)

    judged = row_diagnostics.verdict(posterior.law, verdict, posterior.num_draws)

    assert judged.verdict == posterior.summary().verdict
    assert not any("reference" in str(reason) for reason in judged.reasons)


def test_too_few_draws_have_no_known_error():
    """Seven draws per chain are refused with a sentence."""
    posterior, _, _ = make_posterior()

    with pytest.raises(SettingsError, match="at least 8"):
        row_diagnostics.agreement(posterior.law, posterior.encode(ROWS), 7)
