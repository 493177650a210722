"""Pages of datasets as a browser without JavaScript shows them."""

import re

from app.dashboard import formatting
from app.web.read_options import UploadQuery
from tests.support.api_calls import post_csv
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, run_units

pytestmark = only("sqlite")


def test_a_file_sent_by_the_form_becomes_a_dataset_with_its_profile(browser):
    """An uploaded file's page shows kinds, missing values, histograms and first rows."""
    text = "size,colour,when,new\n"
    text += "1,red,2024-01-01,true\n,blue,2024-02-01,false\n3,red,2024-03-01,false\n" * 8
    answer = browser.post("/ui/datasets", data={"name": "my table"}, files={"file": ("t.csv", text)})
    page = page_of(answer)

    assert re.fullmatch(r".*/ui/datasets/ds_\w+", str(answer.url))
    assert "my table" in page.words
    for words in ("number", "category", "date", "8 33.3%", "missing", "2024-03-01"):
        assert words in " ".join(page.words.split()), words
    assert "false67%" in "".join(page.words.split())
    assert not {"True", "False"} & set(page.words.split())
    assert page.tags.count("svg") == 1 + 2  # the logo, a histogram of numbers and one of dates
    assert browser.get("/datasets").json()["items"][0]["name"] == "my table"


def test_a_dataset_is_mended_on_its_page(browser, client):
    """The page asks about codes for missing and offers other kinds; one form does both, without an upload."""
    text = "rent,area,city\n" + "".join(
        f"{'k.A.' if i % 7 == 0 else 500 + i},{30 + i},9\n" for i in range(42)
    )
    old = post_csv(client, text, name="flats").json()
    at = f"/ui/datasets/{old['id']}"
    page = page_of(browser.get(at))
    words = " ".join(page.words.split())
    assert "rent: k.A. in 6 rows; 36 of 42 values are numbers" in words
    assert "always the same: tells a model nothing" in words
    ticked = {c["name"]: c["value"] for c in page.controls if c.get("type") == "checkbox" and "checked" in c}
    assert ticked == {"codes:rent": "k.A."}

    response = browser.post(
        f"{at}/amend", data=page.hidden | ticked | {"kind:rent": "category", "kind:area": "text"}
    )

    page_of(response)
    new = client.get(f"/datasets/{str(response.url).rpartition('/')[2]}").json()
    assert new["name"] == "flats"
    assert [column["kind"] for column in new["columns"]] == ["number", "category", "number"]
    assert new["columns"][0]["missing"] == 6
    assert client.get(f"/datasets/{old['id']}").status_code == 404, "nothing needs the old one"
    page_of(browser.post(f"/ui/datasets/{new['id']}/amend", data={"kind:rent": "number"}), 422)


def test_a_wide_table_is_made_long_at_a_click(browser, client):
    """The page of a table with a column for each month, and the form, lead to a row for each."""
    months = [f"2024-{month:02}" for month in range(1, 13)]
    lines = [",".join(["shop", *months]), *(f"{shop},1,2,,4,5,6,7,8,9,10,11,12" for shop in "AB")]
    old = post_csv(client, "\n".join(lines), name="plan").json()
    at = f"/ui/datasets/{old['id']}"
    form = page_of(browser.get(f"/ui/models/new?dataset={old['id']}&target=2024-01"))
    assert "Make these 12 columns rows" in form.words
    page = page_of(browser.get(at))
    assert "Make 12 columns of times rows" in page.words

    both = {"wide": "long", "columns": {"shop": {"kind": "text"}}}
    refused = client.post(f"/datasets/{old['id']}/amend", json=both)
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "wide")
    copied = client.post(f"/datasets/{old['id']}/amend", json={"wide": "long"})
    made = browser.post(f"{at}/amend", data=page.hidden | {"wide": "long"})

    words = page_of(made).words
    assert "are made rows: time has their names, value their cells" in words
    assert "columns of times rows" not in words
    new = client.get(f"/datasets/{str(made.url).rpartition('/')[2]}").json()
    assert (new["num_rows"], new["read_as"]["wide"]) == (24, None)
    assert copied.json()["columns"] == new["columns"]
    assert [(each["name"], each["kind"]) for each in new["columns"]] == [
        ("shop", "category"), ("time", "date"), ("value", "number"),
    ]  # fmt: skip
    assert new["columns"][2]["missing"] == 2
    asked = page_of(browser.get(f"/ui/models/new?dataset={new['id']}&target=value"))
    assert "Forecast the next steps, by time" in asked.words
    page_of(browser.post(f"/ui/datasets/{new['id']}/amend", data={"wide": "long"}), 422)


def test_a_refused_change_keeps_the_choices_on_the_datasets_page(browser, client):
    """A kind that doesn't fit names a few cells and their number; a level isn't ticked as missing."""
    text = "floor;rent;begin\n" + "".join(
        f"{'EG' if i % 7 == 0 else i % 5 + 1};{500 + i},5 €;{'early' if i > 70 else f'{i % 24}:30'}\n"
        for i in range(90)
    )
    old = post_csv(client, text).json()
    at = f"/ui/datasets/{old['id']}"
    page = page_of(browser.get(at))
    assert "floor: EG in 13 rows" in " ".join(page.words.split())
    assert not [c for c in page.controls if c.get("type") == "checkbox" and "checked" in c]
    assert "categorytext EUR" in " ".join(page.words.split())

    sent = page.hidden | {
        "kind:begin": "number",
        "kind:rent": "category",
        "codes:floor": "EG",
        "missing": "x y",
    }
    refused = page_of(browser.post(f"{at}/amend", data=sent), 422)

    words = " ".join(refused.words.split())
    assert words.count("is not a time") == 1
    assert "begin: the text 'early' (in 19 rows) is not a time such as 10:30 (row 72)" in words
    assert "EG in 13 rows" in words
    boxes = [c for c in refused.controls if c.get("type") == "checkbox"]
    assert [(c["value"], "checked" in c) for c in boxes] == [("EG", True)]
    assert [c["value"] for c in refused.controls if c["name"] == "missing"] == ["x y"]
    wish = {"dataset_id": old["id"], "target": "rent", "features": ["floor"]} | SMALL
    model = client.post("/models", json=wish).json()
    assert "Predicts rent in EUR" in page_of(browser.get(f"/ui/models/{model['id']}")).words
    assert client.get(f"/datasets/{old['id']}").json() == old


def test_rows_without_a_target_are_left_out_by_a_ticked_box(browser, client, settings):
    """The refusal is one line with the rows, and brings a box that says how many it leaves out."""
    text = "y,size\n" + "".join(f"{'' if i % 10 == 3 else i % 7},{i}\n" for i in range(60))
    dataset = post_csv(client, text).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1"))
    assert "missing_target" not in {c["name"] for c in form.controls if "disabled" not in c}
    sent = (
        form.hidden
        | {name: str(value).lower() for name, value in SMALL.items()}
        | {"target": "y", "features": "size", "holdout": "20"}
    )

    refused = page_of(browser.post("/ui/models", data=sent), 422)

    assert refused.words.count("the target is missing") == 2, "in the summary, and once at the field"
    assert "missing in 6 of 60 rows (4, 14, 24, 34, 44, ..)" in refused.words
    assert "Leave out the 6 rows without it" in " ".join(refused.words.split())
    (box,) = (c for c in refused.controls if c["name"] == "missing_target")
    assert "checked" in box
    response = browser.post("/ui/models", data=sent | {"missing_target": box["value"]})
    run_units(settings)
    page = page_of(browser.get(str(response.url)))
    model = client.get(f"/models/{str(response.url).rpartition('/')[2]}").json()
    assert model["state"] == "succeeded"
    assert model["settings"]["missing_target"] == "leave_out"
    assert model["holdout"]["rows"] <= 12
    assert "6 rows without y are left out" in page.words
    held_out = client.get(f"/models/{model['id']}/holdout").json()
    assert len(held_out["rows"]["row"]) == model["holdout"]["rows"]
    assert not any(row % 10 == 4 for row in held_out["rows"]["row"])


def test_the_form_says_how_a_file_is_written(browser, client):
    """The form has every reading option and column kind; an unknown value is reported."""
    rows = "1,5|1/2/2026|x|7\n2,5|3/2/2026|?|8\n" * 12
    options = {"separator": "bar", "decimal": "comma", "header": "false", "dates": "day-first"}
    options |= {"missing": "?, x y", "encoding": "utf-8", "quoting": "none"}
    fields = {control["name"] for control in page_of(browser.get("/ui/datasets")).controls}
    assert set(UploadQuery.model_fields) <= fields
    names = [column["name"] for column in post_csv(client, rows, **options).json()["columns"]]
    file = {"file": ("t.csv", rows)}

    answer = browser.post("/ui/datasets", data=options | {"kind": f"{names[3]}:category"}, files=file)

    page_of(answer)
    dataset = client.get(f"/datasets/{str(answer.url).rpartition('/')[2]}").json()
    assert [column["kind"] for column in dataset["columns"]] == ["number", "date", "category", "category"]
    assert dataset["columns"][1]["max"] == "2026-02-03"
    assert dataset["columns"][2]["missing"] == 12
    assert dataset["num_rows"] == 24
    for field, word in (("encoding", "klingon"), ("decimal", "dot"), ("kind", "zip")):
        assert field in page_of(browser.post("/ui/datasets", data={field: word}, files=file), 422).words


def test_hints_on_files_are_in_the_words_of_the_page(browser, client):
    """Options of a request are named by the fields that set them, in notes, warnings and refusals."""
    names = "zip;week;serial date;thousand;time;when;stamp"
    rows = "".join(
        f"0106{i % 10};2024-W0{i % 9 + 1};4532{i % 10};1.2{i % 10}1;10:3{i % 6};0{i % 9 + 1}/02/2026;"
        f"17000000{i:02d}\n"
        for i in range(30)
    )
    dataset = post_csv(client, f"Report of the shops\n{names}\n{rows}").json()
    assert "?kind=week:date" in dataset["columns"][1]["note"]
    page = page_of(browser.get(f"/ui/datasets/{dataset['id']}"))
    words = " ".join(page.words.split())
    assert not page.words_of_programs()
    assert "looks like a week, as its Monday: " in words
    assert "give it the kind date to read it so" in words
    assert "choose “1/2/2026 begins with: the day” or “1/2/2026 begins with: the month”" in words
    labels = page_of(browser.get("/ui/datasets")).words
    for label, choices in formatting.READING.values():
        assert {label, *choices.values()} <= {*map(str.strip, labels.splitlines())} or label in labels

    for text in ("1,2\n3,4\n5,6\n", "a,b,c\n1\n2\n", "a,a\n1,2\n", ""):
        refused = page_of(browser.post("/ui/datasets", files={"file": ("t.csv", text)}), 422)
        assert not refused.words_of_programs()
    classes = post_csv(client, "y,x\n" + "".join(f"{'abc'[i % 3]},{i}\n" for i in range(30))).json()["id"]
    sent = {"dataset_id": classes, "target": "y", "family": "gaussian", "once": "x"}
    assert not page_of(browser.post("/ui/models", data=sent), 422).words_of_programs()
