"""Refusals of roles and treatments: what one advises is accepted, by the call that it advises."""

import numpy as np
import pandas as pd
import pytest

from sampler import DataError, SettingsError, fit
from sampler.sklearn import BARTSurvival

N = 120
RNG = np.random.default_rng(8)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.normal(size=N),
        "z": RNG.integers(0, 2, N),
        "died": RNG.integers(0, 2, N),
    }
)
X = TABLE[["a", "b"]]
TIMES = pd.Series(np.exp(TABLE["a"] + TABLE["z"] + 0.3 * RNG.normal(size=N)), name="time")
DIED, LOGS = TABLE["died"], np.log(TIMES).rename("log time")
SHORT = {"num_trees": 5, "num_chains": 1, "num_burnin": 5, "num_draws": 5, "thin": 1, "progress": False}


def of_events(X, y, event, **more):
    """Fit the estimator of times."""
    short = {name: value for name, value in SHORT.items() if name != "progress"}
    y = np.array([*zip(event == 1, y, strict=True)], [("event", bool), ("time", float)])
    return BARTSurvival(**short, **more).fit(X, y).posterior_


# The refused call, what it says, and the calls that this advises.
ADVICE = {
    "events beside a treatment": (
        lambda: fit(X, TIMES, event=DIED, treatment=TABLE["z"], transform="log", **SHORT),
        "leave treatment out.*is a feature.*contrast of its values.*logarithms",
        [
            lambda: fit(TABLE[["a", "b", "z"]], TIMES, event=DIED, **SHORT).contrast(
                None, {"z": 1}, {"z": 0}
            ),
            lambda: fit(
                X,
                LOGS.where(DIED == 1),
                lower=LOGS.where(DIED == 0).rename("lower"),
                treatment=TABLE["z"],
                **SHORT,
            ).effects(),
        ],
    ),
    "events beside a treatment, by the estimator": (
        lambda: of_events(TABLE[["a", "b", "z"]], TIMES, DIED, treatment="z"),
        "leave treatment out.*is a feature",
        [lambda: of_events(TABLE[["a", "b", "z"]], TIMES, DIED)],
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_the_advised_call_is_accepted(name):
    """A refusal names a way that works."""
    refused, words, advised = ADVICE[name]
    with pytest.raises((SettingsError, DataError), match=words):
        refused()
    for call in advised:
        assert call() is not None
