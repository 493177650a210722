"""Tables for tests of studies."""

import numpy as np

from app.services.studies.plan import TrainingData


def outcomes_of_every_kind(num_rows=90) -> dict[str, list[object]]:
    """Make columns of a table with every kind of outcome, two missing ones among them."""
    rng = np.random.default_rng(8)
    x, z, days = rng.uniform(size=num_rows), rng.uniform(size=num_rows), rng.integers(1, 9, num_rows)
    number = [float(value) for value in (3 * x + 0.3 * rng.normal(size=num_rows)).round(3)]
    return {
        "number": [None if row in {4, 50} else value for row, value in enumerate(number)],
        "answer": ["yes" if value > 0.5 else "no" for value in x],
        "count": rng.poisson(days * np.exp(x)).tolist(),
        "days": days.tolist(),
        "weight": rng.integers(1, 4, num_rows).tolist(),
        "x": x.round(4).tolist(),
        "z": z.round(4).tolist(),
        "unused": [row % 5 for row in range(num_rows)],
    }


def training_size(num_rows: int, num_features: int = 10) -> TrainingData:
    """Describe training data of numbers of that size."""
    return TrainingData(num_rows, num_features, num_features, {"family": "gaussian"})
