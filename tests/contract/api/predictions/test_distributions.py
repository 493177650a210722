"""Predictive distributions of rows over HTTP."""

import numpy as np
import pytest

from tests.support.api_calls import of_file, problem

ROWS = {"size": [1.5, 4.0, None, 9.0], "colour": ["red", "blue", "green", None]}


def post(client, model, **body):
    return client.post(f"/models/{model['id']}/distribution", json={"columns": ROWS, **body})


def test_distributions_are_those_of_the_model_file(client, model):
    """Figures equal those of the downloaded file; what isn't asked for is null."""
    law, y = of_file(client, model).distribution(ROWS), [2.5, 4.0, 1.0, 8.5]
    answer = post(client, model, outcomes=y, at=[2.0, 5.0], quantiles=[0.1, 0.9]).json()
    for name, expected in {
        "mean": law.mean,
        "log_prob": law.log_prob(y),
        "cdf": law.cdf(y),
        "crps": law.crps(y),
        "below": law.cdf([[2.0], [5.0]]).T,
        "quantiles": law.quantile([0.1, 0.9]).T,
    }.items():
        np.testing.assert_array_equal(answer[name], expected)
    bare = post(client, model).json()
    assert {name for name, value in bare.items() if value is None} == {
        "log_prob",
        "cdf",
        "crps",
        "below",
        "quantiles",
    }


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"outcomes": [1, 2]}, "outcomes"),
        ({"outcomes": [1, 2, 3, "x"]}, "outcomes.3"),
        ({"quantiles": [1]}, "quantiles.0"),
        ({"at": []}, "at"),
    ],
)
def test_faults_name_their_field(client, model, asked, field):
    """Outcomes of another number, quantiles outside (0, 1) and no values are refused by name."""
    assert field in problem(post(client, model, **asked), 422)["detail"]
