"""Another package, bartz, set to our cuts, leaf minimum, lambda and leaf prior, has an equal posterior."""

import runpy
from pathlib import Path

import numpy as np
import pytest

AGREEMENT = Path(__file__).parents[2] / "benchmarks" / "agreement.py"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("default")  # the other package's
def test_bartz():
    """R-hat of f over eight chains of each package, pooled, is below 1.05."""
    pytest.importorskip("bartz", reason="bartz is not there: `make statistical` installs it")
    shown = runpy.run_path(str(AGREEMENT))
    X, y = shown["problem"]()
    (f, sigma), (g, tau) = shown["ours"](X, y, 1000), shown["theirs"](X, y, 1000)
    rhat = shown["rhat"](np.concatenate([f, g]))
    noise = float(shown["rhat"](np.concatenate([sigma, tau])))
    print(f"\nR-hat of f: median {np.median(rhat):.4f}, largest {rhat.max():.4f}; of sigma {noise:.4f}")
    assert f.shape == g.shape == (8, 1000, 100)
    assert rhat.max() < 1.05
    assert noise < 1.05
