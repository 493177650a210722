"""A finish says of every kind of model whether held-out rows recalibrate it, or why not."""

import warnings

import numpy as np
import pytest

from sampler import DataWarning
from sampler.data.rows import Rows
from tests.support.models import kinds
from worker.fits.fit_spec import SplitRows
from worker.fits.scoring import recalibrated

pytestmark = pytest.mark.usefixtures("all_kernels")

# The reason by what a kind's name or family has, the first that is found.
REASONS = {
    "several": "the model has several outcomes",
    "probit": "outcomes are classes",
    "categorical": "outcomes are classes",
    "ordinal": "outcomes are classes",
    "binomial": "outcomes are counts",
    "poisson": "outcomes are counts",
    "hurdle": "the law has a point mass",
    **dict.fromkeys(("bcart", "smc", "rjhmc", "dcc-tree"), "the fit is no sum of trees"),
    "mixture": "its noise is a mixture",
    **dict.fromkeys(("event", "limits"), "outcomes are censored"),
    **dict.fromkeys(
        ("treatment", "arms", "dose", "ps-bart", "plain", "random", "propensity"), "the model has a treatment"
    ),
    "panel": "the model has a treatment",
    **dict.fromkeys(("+groups", "two-groups", "slopes"), "the model has groups"),
    "": f"there are {kinds.ROWS} held-out rows, and it takes 90",
}


@pytest.mark.parametrize("name", [each for each in kinds.KINDS if "recalibrated" not in each])
@pytest.mark.sampled(quick=12)
def test_every_kind_is_recalibrated_or_says_why_not(name):
    kind, posterior = kinds.Kind(name), kinds.fitted(name)
    arguments = {**kind.arguments, "weights": kind.weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        rows = Rows.of_arguments(kind.trained_on, kind.y, arguments)
    parts = SplitRows(rows, rows, np.arange(kinds.ROWS), None)
    first = posterior[posterior.outcomes[0]] if name.startswith("several") else posterior
    served, judging, done = recalibrated(first, parts, "auto", lambda *_: None)
    reason = next(why for part, why in REASONS.items() if part in name)
    made = "Probabilities" if reason == "outcomes are classes" else "Intervals"
    assert done["text"].startswith(
        f"{made} are as the model makes them, not corrected by held-out rows: {reason}"
    )
    assert (served, judging, done["rows"]) == (first, parts, 0)
