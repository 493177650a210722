"""A recalibration that changes a law of outcomes much, for tests of the answers of recalibrated models."""

from typing import Any

import numpy as np

from sampler import SettingsError
from sampler.posterior.assessment.recalibrating import why_not
from sampler.posterior.recalibration.recalibration import KNOTS, Recalibration, features_of
from sampler.posterior.recalibration.scale_trees import INNER, LEAVES, TREES, ScaleTrees


def recalibrated(posterior: Any) -> Any:
    """Return the posterior with a law of skewed, wider outcomes, whose scale differs by row.

    Raises SettingsError for a model whose law never was.
    """
    law = getattr(posterior, "law", None)
    reason = "several" if law is None else why_not(law, 1_000)
    if reason and "mixture" not in reason:  # such models are stored: they answer as before
        raise SettingsError(reason, field="recalibrate", code="not_applicable")
    rng = np.random.default_rng(0)
    mean, sd = law.moments(law.draws.reference)
    features = features_of(law.draws.reference.codes, mean, sd)
    feature = rng.integers(0, len(features), (TREES, INNER))
    limit = features[feature, rng.integers(0, features.shape[1], feature.shape)]
    trees = ScaleTrees(feature, limit, rng.normal(0, 0.05, (TREES, LEAVES)))
    target = np.linspace(-2.5, 2.5, KNOTS)
    low, high = float((mean - 4 * sd).min()), float((mean + 5 * sd).max())
    return posterior.recalibrated_by(
        Recalibration(
            0.2 + 0.9 * target + 0.12 * target**2 + 0.03 * target**3, target, low, high, 300, 0,
            posterior.num_draws, trees, 0.75, float(trees.of(features).mean()), 0.05 * float(sd.mean()),
        )
    )  # fmt: skip
