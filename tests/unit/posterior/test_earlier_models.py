"""Models made before laws were recalibrated answer as they did, and claim nothing of a recalibration.

Files and answers in `data/formats/before_recalibration` are those of the code of b17f92ae (2026-11-27), with
all kernels compiled: fits to 160 rows with missing numbers, text of 60 levels and dates as text.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sampler import Posterior, load
from tests.support import answer_digests

FOLDER = Path(__file__).parents[2] / "data" / "formats" / "before_recalibration"
KEPT = json.loads((FOLDER / "answers.json").read_text())
SAME_MACHINE = json.loads(answer_digests.FILE.read_text())["machine"] == answer_digests.machine()


def answers(posterior: Posterior, new: dict[str, Any], judged: dict[str, Any]) -> dict[str, Any]:
    """Ask what was asked then."""
    told = posterior.predict(new, level=[0.5, 0.9], quantiles=[0.01, 0.3], interval="predictive")
    usual, credible = (
        posterior.predict(new, level=level, interval=kind)
        for level, kind in ((0.8, posterior.usual_interval), (0.9, "credible"))
    )
    one, total = posterior.distribution(new), posterior.aggregate(new)
    features = {name: cells for name, cells in judged.items() if name != "y"}
    scores = posterior.score(features, judged["y"])
    return {
        "mean": told.mean.tolist(),
        "sd": told.sd.tolist(),
        "ends": [[each.lower.tolist(), each.upper.tolist()] for each in told.intervals],
        "quantiles": [each.values.tolist() for each in told.quantiles],
        "usual": [usual.lower.tolist(), usual.upper.tolist()],
        "credible": [credible.lower.tolist(), credible.upper.tolist()],
        "drawn": posterior.sample_predictive(new, num_draws=2).tolist(),
        "cdf": one.cdf(told.mean).tolist(),
        "density": one.prob(told.mean).tolist(),
        "crps": one.crps(told.mean + 1).tolist(),
        "total": [float(each[0]) for each in (total.mean, total.lower, total.upper)],
        "score": {name: scores[name] for name in ("rmse", "log_score", "crps")}
        | {"coverage": [each["coverage"] for each in scores["coverage"]]},
    }


@pytest.mark.parametrize("name", KEPT["answers"])
def test_they_answer_as_before(name):
    """Every answer is the one of that time, bit for bit on such a processor; nothing made intervals hold."""
    posterior = load(FOLDER / f"{name}.bart")
    found, kept = answers(posterior, KEPT["new"], KEPT["judged"][name]), KEPT["answers"][name]
    assert found.keys() == kept.keys()
    if SAME_MACHINE:
        assert {key: (each, found[key]) for key, each in kept.items() if found[key] != each} == {}
    for key in kept.keys() - {"score"}:
        np.testing.assert_allclose(found[key], kept[key], rtol=1e-7, atol=1e-9)
    assert posterior.law.recalibration is None
    assert posterior.to_bytes() == (FOLDER / f"{name}.bart").read_bytes()
    use = posterior.use()
    assert use.intervals == ("made_to_hold" if name == "calibrated" else "unchecked")  # as asked for
    words = " ".join([use.text, str(posterior.summary()), posterior.model_card().to_markdown()])
    assert not any(each in words for each in ("recalibrat", "made to hold", "corrected by"))
