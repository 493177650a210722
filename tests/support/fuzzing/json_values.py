"""Strategies for JSON values of all kinds, many nearly valid, and their sending."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.api_calls import problem

FUZZ = settings(
    max_examples=settings().max_examples // 2,  # each sends several requests
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WORDS = st.sampled_from(
    [
        *("dataset_id", "target", "features", "columns", "weights", "family", "method", "num_trees", "moves"),
        *(
            "num_chains",
            "num_burnin",
            "num_draws",
            "thin",
            "prior",
            "stop",
            "holdout",
            "seed",
            "name",
            "rows",
        ),
        *("verdict", "max_rhat", "min_ess", "max_seconds", "max_draws"),
        *("level", "interval", "quantiles", "draws", "require", "size", "colour", "y", "note", "k", "cuts"),
        *("quantile", "credible", "predictive", "converged", "gaussian", "bart", "default", "grow", "prune"),
        *("number", "category", "date", "boolean", "red", "2026-01-31", "sigma", "alpha", "lambda"),
    ]
)

TEXT = WORDS | st.text(max_size=8) | st.text(st.characters(), max_size=4)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.sampled_from([0, 1, 0.5, 0.9, 1e308, -1e308, 5e-324, 2**63])
    | TEXT
)

VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def check(response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        problem(response, response.status_code)
    else:
        json.loads(response.text or "null", parse_constant=pytest.fail)


def send(client, path: str, body: Any) -> None:
    # NaN and Infinity as Python writes them, half surrogate pairs as escapes: everything a client can send
    text = json.dumps(body)
    check(client.post(path, content=text.encode(), headers={"Content-Type": "application/json"}))
