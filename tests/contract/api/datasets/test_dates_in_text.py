"""Dates that a file has as text are dates on every face, and what was done is said."""

import io
import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sampler import DataWarning, fit
from tests.support.api_calls import of_file
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.workbooks import xlsx

pytestmark = only("sqlite")
ROWS = 120
FORMS = {
    "days": "2024-{:02}-{:02}",
    "times": "2024-{:02}-{:02}T10:30",
    "times with a zone": "2024-{:02}-{:02} 10:30:00Z",
}
ARROW, EXCEL = (
    "application/vnd.apache.arrow.stream",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
)


def columns_of(form: str) -> dict[str, list]:
    y = np.arange(ROWS) % 12 + np.random.default_rng(0).normal(size=ROWS)
    days = [FORMS[form].format(1 + k % 12, 1 + k % 28) for k in range(ROWS)]
    return {"day": days, "y": y.round(3).tolist()}


def files(columns: dict[str, list]) -> dict[str, tuple[bytes, str]]:
    """Write a table in each kind of file, its days as text."""
    rows = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
    parquet, arrow, table = io.BytesIO(), io.BytesIO(), pa.table(columns)
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    lines = [[*columns], *([*each.values()] for each in rows)]
    return {
        "csv": ("\n".join(",".join(map(str, line)) for line in lines).encode(), "text/csv"),
        "json": (json.dumps(rows).encode(), "text/plain"),
        "parquet": (parquet.getvalue(), "application/vnd.apache.parquet"),
        "arrow": (arrow.getvalue(), ARROW),
        "xlsx": (xlsx({"Data": lines}), EXCEL),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_text_of_dates_is_dates_on_every_face(client, settings, form):
    """Every kind of file, fit and request reads them alike; a typed file's note says so, and undoes it."""
    columns, means = columns_of(form), {}
    new = [{"day": FORMS[form].format(3, 29)}, {"day": FORMS[form].format(12, 31)}]  # not seen by the fit
    for kind, (content, media) in files(columns).items():
        made = client.post("/datasets", content=content, headers={"content-type": media}).json()
        day = made["columns"][0]
        assert (day["kind"], "1 date" in made["read_as"]["summary"]) == ("date", True), (kind, made)
        if kind in ("parquet", "arrow"):
            assert day["note"] == "text that spells dates, read as such: ?kind=day:category takes it as names"
            asked = client.post(
                "/datasets", params={"kind": "day:category"}, content=content, headers={"content-type": media}
            )
            assert asked.json()["columns"][0]["kind"] in ("category", "text")
            assert "spells dates" in page_of(client.get(f"/ui/datasets/{made['id']}")).words
        body = {"dataset_id": made["id"], "target": "y", "seed": 1, "noise": "constant"} | SMALL
        model = client.post("/models", json=body).json()
        run_units(settings)
        model = client.get(f"/models/{model['id']}").json()
        assert model["settings"]["columns"] == {"day": "date"}, model
        answer = client.post(f"/models/{model['id']}/predict", json={"rows": new}).json()
        means[kind] = answer["mean"]
        assert of_file(client, model).predict(new).mean.tolist() == answer["mean"]
    assert len({*map(tuple, means.values())}) == 1, means
    short = SMALL | {"noise": "constant", "seed": 1, "progress": False}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        posterior = fit({"day": np.array(columns["day"], object)}, columns["y"], **short)
    assert any("day is text that spells dates" in str(each.message) for each in said)
    np.testing.assert_allclose(posterior.predict(new).mean, means["csv"])
