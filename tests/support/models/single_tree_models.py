"""Data and requests for single-tree models."""

import numpy as np

KINDS = ("a", "b", "c")


def numbers(num_rows: int = 120) -> str:
    """Make a step in x with more noise above it."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=num_rows)
    y = np.where(x < 0.5, 1.0, 4.0) + rng.normal(size=num_rows) * np.where(x < 0.5, 0.1, 1.0)
    return "x,y\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(x, y, strict=True))


def kinds(num_rows: int = 120) -> str:
    """Make three classes, by thirds of x."""
    rng = np.random.default_rng(6)
    x = rng.uniform(size=num_rows)
    return "x,y\n" + "".join(f"{a:.4f},{KINDS[int(3 * a)]}\n" for a in x)


def ask(client, model, **more):
    answer = client.post(f"/models/{model['id']}/predict", json={"columns": {"x": [0.1, 0.9]}} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()
