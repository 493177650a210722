"""A model reads later files as its own was read: decimal sign, order of dates, missing values."""

import io
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sampler import Posterior
from tests.support.api_calls import places, post_csv, post_model, problem
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units

pytestmark = only("sqlite")
CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"
DAY = date(2024, 1, 1)
SIZES = [*range(150, 1000, 50), *range(1_000, 400_000, 9_377)]


def with_dots(number):
    return f"{number:,}".replace(",", ".")


def german(sizes=SIZES):
    """Make a table of sizes with points between thousands, days first, decimal commas, and `k.A.`."""
    lines = ["flaeche;tag;lage;preis;nummer"]
    for row, size in enumerate(sizes):
        day = (DAY + timedelta(days=5 * row)).strftime("%d/%m/%Y")
        price = f"{3 + 10 * (size > 100_000) + row % 4 / 10:.1f}".replace(".", ",")
        lines.append(
            f"{'k.A.' if row % 9 == 4 else with_dots(size)};{day};{'ABC'[row % 3]};{price};{row},250"
        )
    return "\n".join(lines) + "\n"


@pytest.fixture
def model(client, settings):
    """Fit a model of the price to a German file, with `k.A.` for missing."""
    dataset = post_csv(client, german(), missing="k.A.").json()
    assert {c["name"]: c["kind"] for c in dataset["columns"]}["tag"] == "date", dataset
    body = {"dataset_id": dataset["id"], "target": "preis", "name": "rent", "transform": "none"}
    response = client.post("/models", json=body | {"features": ["flaeche", "tag", "lage"]} | SMALL)
    assert response.status_code == 202, response.text
    run_units(settings)
    return client.get(response.headers["location"]).json()


def send(client, model, text, path="predict", kind=CSV, **query):
    content = text if isinstance(text, bytes) else text.encode()
    return client.post(
        f"/models/{model}/{path}", content=content, headers={"Content-Type": kind}, params=query
    )


def parquet(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_rows_of_a_file_are_read_as_the_models_own_file(client, model):
    """Thousands, days and missing values mean what they meant there, in every file and after an import."""
    rows = [
        {"flaeche": 250_000, "tag": "2024-04-03", "lage": "B"},
        {"flaeche": None, "tag": "2024-05-06", "lage": "A"},
        {"flaeche": 900, "tag": "2024-11-09", "lage": None},
    ]
    expected = client.post("/models/rent/predict", json={"rows": rows}).json()
    assert "read_as" not in expected
    text = "lage;flaeche;tag\nB;250.000;3/4/2024\nA;k.A.;06/05/2024\nk.A.;900;9/11/2024\n"
    answer = send(client, "rent", text).json()
    told = answer.pop("read_as")
    assert answer == expected
    assert told["as_in_model"] == ["decimal", "dates", "missing"]
    assert (told["decimal"], told["dates"], told["spellings"]) == ("comma", "day-first", ["k.A."])
    assert told["summary"].endswith(
        "3 rows; decimal sign and order of dates and missing values as in the model's file"
    )
    # One column alone, and the outcome beside it: neither shows a decimal sign.
    one = {"lage": ["B"], "tag": ["2024-04-03"]}
    mean = client.post("/models/rent/predict", json={"columns": one | {"flaeche": [350_250]}}).json()["mean"]
    for text in ("lage;tag;flaeche;preis\nB;3/4/2024;350.250;12\n", "flaeche|tag|lage\n350.250|3/4/2024|B\n"):
        assert send(client, "rent", text).json()["mean"] == mean
    # The request comes first.
    overridden = send(
        client, "rent", "flaeche;tag;lage\n250.000;3/4/2024;B\n", decimal="point", dates="month-first"
    )
    one = [{"flaeche": 250, "tag": "2024-03-04", "lage": "B"}]
    assert overridden.json()["mean"] == client.post("/models/rent/predict", json={"rows": one}).json()["mean"]
    assert overridden.json()["read_as"]["as_in_model"] == ["missing"]
    spelled = problem(send(client, "rent", "flaeche;tag;lage\nk.A.;3/4/2024;B\n", missing="none"), 422)
    assert places(spelled) == [("flaeche", 1)]
    # A model file keeps the dialect, in the library too.
    file = client.get("/models/rent/file").content
    posterior = Posterior.from_bytes(Posterior.from_bytes(file).to_bytes())
    assert (posterior.header.dialect.decimal, posterior.header.dialect.separator) == ("comma", "semicolon")
    imported = post_model(client, posterior.to_bytes())
    assert imported.status_code == 201, imported.text
    again = send(client, imported.json()["id"], "lage;flaeche;tag\nB;250.000;3/4/2024\n").json()
    assert again["mean"] == expected["mean"][:1]


def test_a_file_that_contradicts_the_models_is_refused_with_both_readings(client, model):
    """No cell is guessed: the message has both readings, or what to write, and the parameter that decides."""
    for text, where, said in [
        (
            "flaeche;tag;lage\n1.000;3/4/2024;A\n500.5;3/4/2024;A\n",
            ("flaeche", 2),
            ("'500.5'", "?decimal=point"),
        ),
        ("flaeche;tag;lage\n1,000.50;3/4/2024;A\n", ("flaeche", 1), ("a decimal point", "decimal commas")),
        ("flaeche,tag,lage\n350.250,3/4/2024,B\n", ("flaeche", None), ("is 350.25 with", "350250 with")),
        (
            "flaeche;tag;lage\n9;3/4/2024;A\n9;3/28/2024;A\n",
            ("tag", 2),
            ("'3/28/2024'", "?dates=month-first"),
        ),
    ]:
        body = problem(send(client, "rent", text), 422, "unusable-data")
        assert places(body) == [where], body
        assert all(part in body["errors"][0]["detail"] for part in said), body
    # Nothing in these depends on the decimal sign.
    assert send(client, "rent", "flaeche,tag,lage\n350250,2024-04-03,B\n").status_code == 200
    # A decimal point beside semicolons, where the model's file had commas.
    english = send(client, "rent", "flaeche;tag;lage\n350.5;2024-04-03;B\n", decimal="point")
    assert english.status_code == 200


def test_columns_named_by_numbers_are_a_header_where_the_model_has_them(client, settings):
    """A file of years is no table without a header; a line of other numbers still is."""
    rows = "".join(f"{k % 7},{k % 5},{k % 3},{k % 7}\n" for k in range(60))
    dataset = post_csv(client, f"2019,2020,2021,y\n{rows}").json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": "years"} | SMALL
    assert client.post("/models", json=body).status_code == 202
    run_units(settings)
    asked = {"rows": [{"2019": 2, "2020": 2, "2021": 2}]}
    expected = client.post("/models/years/predict", json=asked).json()["mean"]
    assert send(client, "years", "2021,2020,2019\n2,2,2\n").json()["mean"] == expected
    assert "no header" in problem(send(client, "years", "5,6,7\n2,2,2\n"), 422)["detail"]
    assert "the model needs this column" in problem(send(client, "years", "2019,2020\n2,2\n"), 422)["detail"]


def test_outcomes_and_refit_read_as_the_models_own_file(client, settings, model):
    """Outcomes of the training rows hold; the refit's dataset has all columns as the first has."""
    rows = german()
    head, *lines = rows.splitlines()
    whole = [line for line in lines if line.split(";")[3].endswith(",0")]
    text = "\n".join([head, *(line.replace(",0;", ";") for line in whole)]) + "\n"
    response = send(client, "rent", text, "outcomes")
    assert response.status_code == 201, response.text
    assert response.json()["read_as"]["as_in_model"] == ["decimal", "dates", "missing"]
    refitted = client.post("/models/rent/outcomes/refit", json={"name": "again"})
    assert refitted.status_code == 202, refitted.text
    run_units(settings)
    grown = client.get(f"/datasets/{refitted.json()['dataset_id']}").json()
    first = client.get(f"/datasets/{model['dataset_id']}").json()
    ranges = [
        {c["name"]: (c["kind"], c["min"], c["max"]) for c in each["columns"]} for each in (first, grown)
    ]
    assert ranges[0] == ranges[1]
    assert grown["num_rows"] == first["num_rows"] + len(whole)
    assert grown["read_as"]["decimal"] == "comma"
    cell = "flaeche;tag;lage\n250.000;3/4/2024;B\n"
    told = send(client, "again", cell).json()["read_as"]
    assert (told["decimal"], told["dates"], told["spellings"]) == ("comma", "day-first", ["k.A."])


def test_values_amended_to_missing_are_missing_in_later_files(client, settings):
    """A code that was ticked on the dataset's page is missing in CSV and Parquet, in its column alone."""
    text = "size,year,y\n" + "".join(
        f"{'unknown' if i == 7 else -99 if i == 9 else i},{-99 if i == 3 else 2000 + i},{i % 5}\n"
        for i in range(40)
    )
    dataset = post_csv(client, text).json()
    change = {"columns": {"size": {"kind": "number", "missing": ["unknown", "-99"]}}}
    amended = client.post(f"/datasets/{dataset['id']}/amend", json=change).json()
    assert amended["read_as"]["codes"] == {"size": ["unknown", "-99"]}
    again = {"columns": {"size": {"missing": ["38"]}}}
    amended = client.post(f"/datasets/{amended['id']}/amend", json=again).json()
    assert amended["read_as"]["codes"] == {"size": ["unknown", "-99", "38"]}
    body = {"dataset_id": amended["id"], "target": "y", "name": "codes"} | SMALL
    assert client.post("/models", json=body).status_code == 202
    run_units(settings)
    rows = [{"size": None, "year": -99}, {"size": None, "year": 2001}, {"size": 3, "year": None}]
    expected = client.post("/models/codes/predict", json={"rows": rows}).json()["mean"]
    assert send(client, "codes", "size,year\nunknown,-99\n-99.0,2001\n3,\n").json()["mean"] == expected
    table = parquet(size=[-99, None, 3], year=[-99, 2001, None])
    answer = send(client, "codes", table, kind=PARQUET).json()
    assert answer["mean"] == expected
    assert answer["read_as"]["as_in_model"] == ["missing"]
    # Named by the request, for a format with types of its own.
    table = parquet(size=[1000.0, None, 3], year=[-99, 2001, None])
    assert send(client, "codes", table, kind=PARQUET, missing="1e3").json()["mean"] == expected
    late = parquet(size=[1.0, 2], year=[2001, 2002], y=[-7.0, 1])
    refused = problem(send(client, "codes", late, "outcomes", kind=PARQUET, missing="-7"), 422)
    assert places(refused) == [("y", 1)]


def test_a_table_as_the_models_own_file(client, settings, model):
    """CSV in its dialect has the same figures, or rounded ones beside exact kept columns."""
    text = "nr;flaeche;tag;lage\n1,25;250.000;3/4/2024;B\n2,5;900;9/11/2024;A\n"
    query = {"keep": "nr", "level": 0.9}

    def table(accept=CSV, **more):
        headers = {"Content-Type": CSV, "Accept": accept}
        return client.post("/models/rent/predict", content=text, headers=headers, params=query | more)

    plain = [line.split(",") for line in table().text.splitlines()]
    own = table(dialect="model")
    assert own.content.startswith(b"\xef\xbb\xbf")
    lines = [line.split(";") for line in own.content.decode("utf-8-sig").replace('"', "").splitlines()]
    assert [line[0] for line in lines] == ["nr", "1,25", "2,5"]
    assert [float(line[1].replace(",", ".")) for line in lines[1:]] == [float(line[2]) for line in plain[1:]]
    again = post_csv(client, own.content).json()
    assert {c["name"]: c["kind"] for c in again["columns"]} | {"mean": "number", "sd": "number"} == {
        c["name"]: c["kind"] for c in again["columns"]
    }
    short = table(digits="rounded", dialect="model").content.decode("utf-8-sig").replace('"', "").splitlines()
    mean, sd = short[1].split(";")[1:3]
    assert len(sd.replace(",", "").lstrip("0")) <= 3 < len(lines[1][1])
    assert float(mean.replace(",", ".")) == pytest.approx(float(lines[1][1].replace(",", ".")), abs=0.01)
    assert short[1].startswith("1,25;")
    arrow = pq.read_table(io.BytesIO(table(PARQUET, digits="rounded").content))
    assert str(arrow.column("mean")[0].as_py()).replace(".", ",") == mean
    assert b'"dialect"' in arrow.schema.metadata[b"bartserve"]
    for accept, more, field in [
        ("application/json", {"digits": "rounded", "keep": []}, "digits"),
        (PARQUET, {"dialect": "model"}, "dialect"),
        (CSV, {"dialect": "german"}, "dialect"),
    ]:
        assert places(problem(table(accept, **more), 422))[0][0] == field
    body = {"rows": [{"flaeche": 900, "tag": "2024-11-09", "lage": "A"}], "dialect": "model"}
    by_rows = client.post("/models/rent/predict", json=body, headers={"Accept": CSV})
    assert by_rows.content.decode("utf-8-sig").splitlines()[0].startswith('"mean";"sd";')
    # The result of a background prediction.
    dataset = post_csv(client, text).json()
    job = client.post("/models/rent/predictions", json={"dataset_id": dataset["id"], "keep": ["nr"]}).json()
    run_units(settings)
    path = f"/predictions/{job['id']}/result"
    stored = client.get(path, headers={"Accept": CSV}, params={"dialect": "model", "digits": "rounded"})
    assert stored.content.decode("utf-8-sig").replace('"', "").splitlines() == short
    assert places(problem(client.get(path, params={"digits": "rounded"}), 422)) == [("digits", None)]


def test_a_model_of_a_table_has_no_dialect(client, settings):
    """A request for the dialect of a file that had types of its own is refused."""
    table = parquet(x=[float(i) for i in range(40)], y=[float(i % 7) for i in range(40)])
    dataset = client.post("/datasets", content=table, headers={"Content-Type": PARQUET}).json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": "typed"} | SMALL
    assert client.post("/models", json=body).status_code == 202
    run_units(settings)
    headers = {"Content-Type": CSV, "Accept": CSV}
    asked = client.post(
        "/models/typed/predict", content="x\n3\n", headers=headers, params={"dialect": "model"}
    )
    assert places(problem(asked, 422)) == [("dialect", None)]


def test_units_of_the_models_file(client, settings):
    """Amounts are learnt as numbers in every route; later files have the unit or none, and no other."""
    rows = [f"{20 + i},50 €;{i % 9}%;{6 + i % 12}:30;{1_000 + 40 * i},00 €" for i in range(60)]
    text = "\n".join(["miete;zins;beginn;preis", *rows, "k.A.;1%;7:30;1.000,00 €"])
    dataset = post_csv(client, text).json()
    found = {column["name"]: column for column in dataset["columns"]}
    assert found["miete"]["profile"]["missing_codes"] == [{"value": "k.A.", "count": 1}]
    assert "?kind=beginn:number" in found["beginn"]["note"]
    assert dataset["read_as"]["units"] == {"zins": "%", "preis": "EUR"}
    columns = {"miete": {"kind": "number", "missing": ["k.A."]}, "beginn": {"kind": "number"}}
    amended = client.post(f"/datasets/{dataset['id']}/amend", json={"columns": columns}).json()
    assert amended["read_as"]["units"] == {"zins": "%", "preis": "EUR", "miete": "EUR", "beginn": "h"}
    assert {column["name"]: column["max"] for column in amended["columns"]} == {
        "miete": 79.5, "zins": 8, "beginn": 17.5, "preis": 3360
    }  # fmt: skip
    back = client.post(f"/datasets/{amended['id']}/amend", json={"columns": {"zins": {"kind": "category"}}})
    assert "zins" not in back.json()["read_as"]["units"]

    body = {"dataset_id": amended["id"], "target": "preis", "name": "units", "family": "auto"}
    model = client.post("/models", json=body | SMALL).json()
    assert model["settings"]["family"] == "gaussian"
    run_units(settings)
    plain = {"miete": [30.5, 70], "zins": [3, 4], "beginn": [9.5, 14]}
    mean = client.post("/models/units/predict", json={"columns": plain}).json()["mean"]
    answer = send(client, "units", "miete;zins;beginn\n30,50 €;3 %;9:30\n70,00;4;14:00\n").json()
    assert (answer["mean"], answer["warnings"]) == (mean, [])
    dollars = "miete;zins;beginn\n$30,50;3 %;9:30\n$20,50;4 %;9:30\n"
    body = problem(send(client, "units", dollars), 422, "unusable-data")
    assert places(body) == [("miete", 1), ("miete", 2)]
    assert "another unit than the model's file, EUR" in body["detail"]
    stored = post_csv(client, dollars).json()
    prediction = client.post("/models/units/predictions", json={"dataset_id": stored["id"]})
    assert places(problem(prediction, 422, "unusable-data")) == [("miete", None)]
