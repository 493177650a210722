"""Simulation-based calibration of noise by row, heavy tails, mixtures and the linear part."""

import pytest

from tests.statistical.test_heavy_tails import Tails
from tests.statistical.test_linear_part import Line
from tests.statistical.test_noise_forest import ByRow
from tests.statistical.test_noise_mixture import Mixed
from tests.support.chain_driver import RESTRUCTURED
from tests.support.joint_law import calibrated
from tests.support.models.precisions import make_few
from tests.support.reports.p_values import ALARM, all_above

SLOWER = 4  # times as long where the noise is a mixture, whose components are drawn given the rows' labels
WIDE = {"weighted": True, "missing": 0.1}
FEW = {"num_rows": 60, "num_trees": 5}
DEEP = {"moves": "cgm", "levels": (40, 3, 250, 9)}
COVERING = {
    "by row, weights, missing values": lambda: ByRow("noise", **FEW, **WIDE),
    "by row, all classical moves": lambda: ByRow("noise", **FEW, **DEEP),
    "by row, restructured": lambda: ByRow("noise", **FEW, moves=RESTRUCTURED, missing=0.3),
    "tails, weights, missing values": lambda: Tails("t", **FEW, **WIDE, moves="cgm"),
    "tails by row": lambda: Tails("t-forest", **FEW, **WIDE),
    "mixture, missing values": lambda: Mixed("mixture", **FEW, missing=0.1),
    "line": lambda: Line(**FEW),
    "line, weights, missing values": lambda: Line(**FEW, **WIDE, moves="cgm"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] if later else []) for later, case in enumerate(COVERING)],
)
def test_calibrated(monkeypatch, case):
    """The rank of the truth among its posterior draws is uniform, over a covering set of options."""
    make_few(monkeypatch)
    slower = SLOWER if case.startswith("mixture") else 1
    all_above(calibrated(COVERING[case](), 96, 8, burnin=300 * slower, thin=12 * slower), ALARM)
