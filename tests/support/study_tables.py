"""Tables for tests of studies."""

import numpy as np

from app.services.studies.plan import TrainingData
from sampler import holdout_rows


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


def as_csv(columns: dict[str, list[object]]) -> str:
    """Return the columns as a file in which None is an empty cell."""
    rows = zip(*columns.values(), strict=True)
    lines = (",".join("" if value is None else str(value) for value in row) for row in rows)
    return "\n".join([",".join(columns), *lines])


def training_rows(
    columns: dict[str, list[object]], target: str, holdout: float | None, seed: int
) -> dict[str, list[object]]:
    """Return the columns without held-out rows and without those that lack the target."""
    is_training = np.array([value is not None for value in columns[target]])
    is_training[holdout_rows(len(is_training), holdout, seed)] = False
    return {
        name: [value for value, is_seen in zip(values, is_training, strict=True) if is_seen]
        for name, values in columns.items()
    }


def training_size(num_rows: int, num_features: int = 10) -> TrainingData:
    """Describe training data of numbers of that size."""
    return TrainingData(num_rows, num_features, num_features, {"family": "gaussian"})
