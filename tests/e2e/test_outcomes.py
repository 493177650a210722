"""Outcomes reported by the Python client and the command line, from a fit to an alarm and out of it."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from app.cli import app
from app.client import Client, ProblemError

CARS = Path(__file__).parents[2] / "examples" / "auto_mpg.csv"
SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 50, "thin": 1, "seed": 1}


def bartserve(service, *words):
    result = CliRunner().invoke(app, ["outcomes", *words, "--url", service.address], prog_name="bartserve")
    return result.exit_code, result.stdout


def test_from_an_alarm_to_a_model_that_knows_of_it(service, tmp_path):
    """Cars that do worse than predicted raise the alarm; recalibrated, the same cars are inside."""
    cars = pd.read_csv(CARS).sample(frac=1, random_state=1, ignore_index=True)  # by year, they would drift
    cars = cars.assign(id=lambda table: "car " + table.index.astype(str))
    first, later = cars[:200].drop(columns="id"), cars[200:320].assign(mpg=lambda table: table.mpg - 8)
    with Client(service.address) as bart:
        model = bart.wait(bart.fit(bart.upload(first), "mpg", name="drifting", **SHORT), seconds=300)
        report = bart.report_outcomes("drifting", later[:60], key="id")
        assert (report["rows"], report["verdict"]) == (60, "no_longer_hold")
        with pytest.raises(ProblemError, match="reported before"):
            bart.report_outcomes(model, later[:1].to_dict("records"), key="id")
        assert bart.report_outcomes(model, later.iloc[60].to_dict(), key="id")["rows"] == 1
        assert "drifting" in [
            each.name for each in bart.models() if each.document["outcomes"] == report["verdict"]
        ]

        later[61:90].to_csv(tmp_path / "later.csv", index=False)
        file = str(tmp_path / "later.csv")
        code, output = bartserve(service, "report", "drifting", file, "--key", "id", "--repeated", "skip")
        assert (code, "29 outcomes" in output, "no longer hold" in output) == (0, True, True)
        assert bartserve(service, "show", "drifting", "--check")[0] == 1
        code, output = bartserve(service, "show", "drifting", "--json")
        assert (code, json.loads(output)["rows"]) == (0, 90)
        code, output = bartserve(service, "recalibrate", "drifting")
        assert (code, "90 outcomes since the change" in output, "no exact statement" in output) == (
            0,
            True,
            True,
        )
        assert bartserve(service, "show", "drifting", "--check")[0] == 0
        answer = bart.predict("drifting", later[90:].drop(columns=["mpg", "id"]), interval="calibrated")
        inside = (answer.lower <= later[90:].mpg) & (later[90:].mpg <= answer.upper)
        assert inside.mean() > 0.7
        assert bart.report_outcomes(model, later[90:], key="id")["verdict"] == "holds"

        code, output = bartserve(service, "policy", "drifting", "off")
        assert (code, "policy    off" in output) == (0, True)
        fresh = bart.wait(bart.refit_with_outcomes("drifting", holdout=0.2), seconds=300)
        assert (fresh.name, fresh.document["holdout"]["rows"]) == ("drifting", 64)
        bart.delete_outcomes(model)
        assert bart.outcomes(model)["rows"] == 0
