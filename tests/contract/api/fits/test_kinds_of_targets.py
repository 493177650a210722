"""Every kind of target goes through everything that the service does with a model, or is refused by name."""

import numpy as np
import pytest

from tests.support.api_calls import post_csv
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, extended, run_units

BRIEF = {"num_trees": 5, "num_chains": 1, "num_burnin": 20, "num_draws": 10, "thin": 1}
ROWS, FEATURES = 100, ["x", "z"]
# by kind: settings of the fit, studies that are refused, and whether tables of outcomes are
KINDS = {
    "two classes": ({"target": "answer", "family": "probit"}, ()),
    "classes": ({"target": "label", "family": "categorical"}, ()),
    "counts": ({"target": "count", "family": "poisson", "exposure": "days"}, ()),
    "dispersed counts": ({"target": "count", "family": "zero-inflated-negative-binomial"}, ()),
    "hurdle": ({"target": "claim", "family": "hurdle"}, ()),
    "times": ({"target": "time", "event": "seen"}, ("tuning", "selection", "calibration")),
    "limits": ({"target": "time", "lower": "from", "upper": "to"}, ("tuning", "selection", "calibration")),
    "groups": ({"target": "number", "groups": ["school"], "slopes": ["x"]}, ()),
}


def columns() -> dict[str, list[object]]:
    """Make a table with an outcome of every kind."""
    rng = np.random.default_rng(8)
    x, z, days = rng.uniform(size=ROWS), rng.uniform(size=ROWS), rng.integers(1, 5, ROWS)
    school, end = rng.integers(0, 6, ROWS), np.exp(0.5 + rng.normal(size=ROWS))
    time = np.exp(x + 0.3 * rng.normal(size=ROWS))
    return {
        "x": x.round(4).tolist(),
        "z": z.round(4).tolist(),
        "school": [f"s{k}" for k in school],
        "days": days.tolist(),
        "answer": ["yes" if value > 0.5 else "no" for value in x],
        "label": [("low", "middle", "high")[int(3 * value)] for value in x],
        "count": rng.poisson(days * np.exp(x)).tolist(),
        "claim": np.where(x < 0.4, 0.0, time).round(4).tolist(),
        "time": np.minimum(time, end).round(4).tolist(),
        "seen": (time <= end).astype(int).tolist(),
        "from": ["" for _ in range(ROWS)],
        "number": (x * (1 + school) + rng.normal(size=ROWS)).round(4).tolist(),
    }


@only("sqlite")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(quick=3, slow=5)
def test_a_kind_of_target_has_everything(client, settings, kind):
    """Estimate, stop rules, explanations, a background prediction, outcomes, studies, an extension."""
    of_fit, refused = KINDS[kind]
    table = columns()
    if kind == "limits":
        table["to"] = [
            "" if seen else value for seen, value in zip(table["seen"], table["time"], strict=True)
        ]
        table["from"] = ["" if seen else 0.01 for seen in table["seen"]]
        table["time"] = [v if seen else "" for seen, v in zip(table["seen"], table["time"], strict=True)]
        of_fit = of_fit | {"missing_target": "leave_out"}
    lines = zip(*table.values(), strict=True)
    text = "\n".join([",".join(table), *(",".join(map(str, row)) for row in lines)])
    dataset = post_csv(client, text).json()
    stop = {"max_rhat": 1.5, "max_draws": 80}
    body = {"dataset_id": dataset["id"], "features": FEATURES, "stop": stop, "holdout": 0.2} | SMALL | of_fit
    estimate = client.post("/models/estimate", json=body).json()
    assert 0 < estimate["seconds"] <= estimate["most_seconds"]
    response = client.post("/models", json=body)
    assert response.status_code == 202, response.text
    run_units(settings)
    path = f"/models/{response.json()['id']}"
    model = client.get(path).json()
    assert (model["state"], model["stopped"]["draws"] >= 40) == ("succeeded", True), model["error"]

    more = {name: [1, 2] for name in of_fit.get("exposure", "").split()}
    more |= {name: ["s1", "s2"] for name in of_fit.get("groups", ())}
    rows = {"x": [0.1, 0.9], "z": [0.5, 0.5]} | more
    for part, question in (
        ("predict", {"columns": rows}),
        ("shap", {"columns": rows}),
        ("contrast", {"first": {"x": 0.9}, "second": {"x": 0.1}, "columns": rows}),
        ("aggregate", {"by": "z", "columns": rows}),
        ("partial-dependence", {"features": ["x"]}),
        ("accumulated-effects", {"feature": "x"}),
        ("predictions", {"dataset_id": dataset["id"]}),
    ):
        answer = client.post(f"{path}/{part}", json=question)
        assert answer.status_code in (200, 202), (part, answer.text)
    run_units(settings)
    reply = client.get(answer.headers["location"] + "/result", headers={"Accept": "text/csv"})
    assert len(reply.text.splitlines()) == 1 + ROWS
    outcomes = {"time": 2.5, "count": 3, "number": 1.0, "label": "low", "answer": "yes", "claim": 0.0}
    outcome = outcomes[of_fit["target"]]
    seen = {"seen": 1} if "event" in of_fit else {"from": None, "to": None} if kind == "limits" else {}
    first = {name: values[0] for name, values in rows.items()} | {of_fit["target"]: outcome} | seen
    reported = client.post(f"{path}/outcomes", json={"rows": [first]})
    assert reported.status_code == 201, reported.text
    for study in ("tuning", "selection", "calibration"):
        question = {"kind": study} | ({"candidates": [BRIEF], "folds": 2} if study == "tuning" else {})
        started = client.post(f"{path}/studies", json=question)
        if study in refused:
            assert (started.status_code, "censored" in started.json()["detail"]) == (409, True), study
            continue
        assert started.status_code == 202, (study, started.text)
        client.post(f"/studies/{started.json()['id']}/cancel")
    run_units(settings)
    extended(client, settings, path)
