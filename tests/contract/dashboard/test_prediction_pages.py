"""Predictions on pages, as a browser without JavaScript shows them."""

import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.dashboard import formatting
from tests.support.api_calls import of_file, post_csv
from tests.support.databases import only
from tests.support.html_page import page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.workbooks import letters_of

pytestmark = only("sqlite")


def test_a_file_is_predicted_and_downloaded_with_its_own_columns(browser, client, settings):
    """Without JavaScript: a preview with bars, then the same file as CSV, Parquet and Arrow."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/predict"
    rows = "id,colour,size\n007,red,3\n008,blue,1000\n"

    def send(accept: str, text: str = rows, **more):
        file = {"file": ("my rows.csv", text)}
        return browser.post(at, data={"as": accept} | more, files=file)

    preview = page_of(send("preview"))
    csv = send("csv", level="80")

    words = " ".join(preview.words.split())
    assert "my rows.csv: 2 rows" in words
    assert "007" in words
    assert "size: outside the training range" in words
    assert preview.tags.count("svg") == 1 + 2
    assert "keep=" in preview.words, "the same with curl"
    assert csv.headers["content-disposition"] == 'attachment; filename="my_rows-predicted.csv"'
    lines = csv.text.replace('"', "").splitlines()
    assert lines[0] == "id,colour,size,mean,sd,lower_80,upper_80,flags,interval"
    assert lines[1].startswith("007,red,3,")
    assert letters_of(send("xlsx").content)[1][:3] == ["007", "red", "3"]
    parquet = pq.read_table(io.BytesIO(send("parquet").content))
    arrow = pa.ipc.open_stream(send("arrow").content).read_all()
    assert parquet.equals(arrow)
    assert parquet["id"].to_pylist() == ["007", "008"]
    several = page_of(send("preview", "id,colour,size\n7,mauve,1000\n8,red,\n"))
    assert re.search(r"<summary>[23] warnings: ", several.text), "one line, which unfolds"
    assert several.text.index("warnings: ") < several.text.index("<caption")
    refused = page_of(send("csv", "id,colour\n1,red\n"), 422)
    assert "the model needs this column" in refused.words
    page_of(send("preview", level="many"), 422)
    page_of(browser.post(at, data={"as": "csv"}), 415)


def test_a_file_whose_columns_are_called_like_figures_is_downloaded(browser, client, settings):
    """The model's own feature `mean` is repeated by another name: none of its files could be downloaded."""
    lines = "".join(f"{k % 17},{k % 5},{k % 3},{k % 7}\n" for k in range(60))
    model = fitted(client, settings, text="mean,mean (sent),interval,y\n" + lines)
    file = {"file": ("new.csv", "mean,mean (sent),interval\n3,4,1\n")}
    at = f"/ui/models/{model['id']}/predict"
    lines = browser.post(at, data={"as": "csv"}, files=file).text.replace('"', "").splitlines()
    own, figures = (
        "mean (sent) (sent),mean (sent),interval (sent)",
        "mean,sd,lower_90,upper_90,flags,interval",
    )
    assert lines[0] == f"{own},{figures}"
    assert lines[1].startswith("3,4,1,")


def test_totals_stand_beside_the_preview(browser, client, settings):
    """Totals of a file's rows, by a column that the model doesn't know, are those of the API."""
    model = fitted(client, settings)
    at = f"/ui/models/{model['id']}/predict"
    rows = {"size": [3.0, 9.0, 1.0], "colour": ["red", "blue", "red"], "shop": ["n", "s", "n"]}
    lines = [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    file = {"file": ("new.csv", "\n".join([",".join(rows), *lines]) + "\n")}
    sent = {"as": "preview", "totals_of": "sum", "totals_by": "shop"}
    page = page_of(browser.post(at, data=sent, files=file))
    answer = client.post(f"/models/{model['id']}/aggregate", json={"columns": rows, "by": "shop"}).json()
    assert "Total of y that will be observed" in page.words
    for each in answer["sets"]:
        cells = [each["set"]["shop"], each["rows"], formatting.number(each["mean"])]
        row = '<tr><th scope="row">{}</th><td class="num">{}</td><td class="num">{}</td>'.format(*cells)
        assert row in page.text
    refused = page_of(browser.post(at, data=sent | {"totals_by": "none"}, files=file), 422)
    assert "none" in refused.words
    whole = page_of(browser.post(at, data=sent | {"totals_of": "mean", "totals_by": ""}, files=file))
    assert "All rows" in whole.words


def test_noise_that_varies_goes_from_the_form_to_the_preview(browser, client, settings):
    """A fit with noise="forest", by the form and by the API, gives each row its own spread."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=120)
    y = x + rng.normal(size=120) * (0.02 + 2 * (x > 0.5))
    rows = "y,x\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(y, x, strict=True))
    dataset = post_csv(client, rows).json()
    form = page_of(browser.get(f"/ui/models/new?dataset={dataset['id']}&all=1"))
    (field,) = (control for control in form.controls if control["name"] == "noise")
    assert field["id"] == "noise"
    small = SMALL | {"num_draws": 100, "num_burnin": 200}
    sent = form.hidden | {name: str(value).lower() for name, value in small.items()}
    response = browser.post("/ui/models", data=sent | {"target": "y", "features": "x", "noise": "forest"})
    run_units(settings)

    page = page_of(browser.get(f"{response.url}/settings"))
    model = client.get(f"/models/{str(response.url).rpartition('/')[2]}").json()
    assert (model["state"], model["settings"]["noise"]) == ("succeeded", "forest")
    assert "forest" in page.words
    file = {"file": ("new.csv", "x\n0.2\n0.8\n")}
    preview = page_of(browser.post(f"/ui/models/{model['id']}/predict", data={"as": "preview"}, files=file))
    columns = {"columns": {"x": [0.2, 0.8]}}
    answer = client.post(f"/models/{model['id']}/predict", json=columns).json()
    calm, wild = answer["sd"]
    assert wild > 2 * calm
    for spread in (calm, wild):
        assert f'<td class="num">{formatting.number(spread, 3)}</td>' in preview.text
    for tab in ("chains", "features", "effects?part=all", "predict?f0=0.8"):
        for image in page_of(browser.get(f"/ui/models/{model['id']}/{tab}")).images:
            assert browser.get(image["src"]).status_code == 200
    body = {"dataset_id": dataset["id"], "target": "y", "noise": "forest"} | small
    by_api = client.post("/models", json=body).json()["id"]
    run_units(settings)
    assert client.post(f"/models/{by_api}/predict", json=columns).json()["sd"] == answer["sd"]


def test_a_prediction_says_why(browser, client, settings):
    """Below the prediction of a row stand the SHAP values of the API, the largest first, with a bar each."""
    model = fitted(client, settings)
    row = {"size": 7.0, "colour": "red"}
    values = client.post(f"/models/{model['id']}/shap", json={"rows": [row]}).json()
    page = page_of(browser.get(f"/ui/models/{model['id']}/predict?f0=7&f1=red"))
    section = page.text[page.text.index('id="why"') :]
    effects = dict(zip(values["features"], values["values"][0], strict=True))
    order = sorted(effects, key=lambda name: -abs(effects[name]))
    at = [section.index(f'<th scope="row">{name}</th>') for name in order]
    assert at == sorted(at)
    for effect in effects.values():
        assert f'<td class="num">{formatting.number(effect, 3)}</td>' in section
    assert "moves this prediction from" in page.words


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"transform": "log"}, "factors", "multiplies the typical y"),
        ({"transform": "yeo-johnson"}, "differences", "moves this prediction from"),
        ({"target": "young", "family": "auto"}, "differences", "moves the probability of yes from"),
    ],
)
def test_reasons_of_a_transformed_outcome_are_in_its_unit(browser, client, settings, more, kind, words):
    """The library's values, HTTP's and the page's are the same, about the outcome and not its transform."""
    rows = [(2 + i % 7 + i % 5 / 9, i % 7, i % 5, ("no", "yes")[i % 7 + i % 5 < 4]) for i in range(60)]
    text = "y,size,age,young\n" + "".join(f"{y:.3f},{size},{age},{own}\n" for y, size, age, own in rows)
    model = fitted(client, settings, text=text, holdout=0.2, features=["size", "age"], **more)
    row = {"size": 3.0, "age": 2.0}
    expected = of_file(client, model).shap([row]).of_outcome
    sent = client.post(f"/models/{model['id']}/shap", json={"rows": [row]}).json()["of_outcome"]
    page = page_of(browser.get(f"/ui/models/{model['id']}/predict?f0=3&f1=2"))

    assert (sent["kind"], expected.kind) == (kind, kind)
    assert sent["values"] == expected.values.tolist()
    assert (sent["base"], sent["outcome"]) == (expected.base, expected.outcome.tolist())
    section = page.text[page.text.index('id="why"') :]
    for value in expected.values[0]:
        assert f'<td class="num">{formatting.number(float(value), 3)}</td>' in section
    told = " ".join(page.words.split())
    assert words in told
    ends = (formatting.number(each) for each in (expected.base, float(expected.outcome[0])))
    assert all(each in told[told.index(words) :] for each in ends)
    assert "the average over training rows" not in told
    importance = client.get(f"/models/{model['id']}/variable-importance").json()["permutation"]
    assert importance["loss"] == ("log_loss" if "target" in more else "rmse")


def test_figures_of_a_logarithm_are_said_to_be_of_it(browser, client, settings):
    """Slopes, pairs and traces name the logarithm; errors of means are beside the outcome's own noise."""
    text = "rent,a,b\n" + "".join(
        f"{900 * 1.3 ** (i % 7) * (1 + i % 5 / 9):.2f},{i % 7},{i % 11}\n" for i in range(60)
    )
    body = {"target": "rent", "features": ["a", "b"], "transform": "log", "linear": True, "holdout": 0.2}
    model = fitted(client, settings, text=text, **body)
    at = f"/ui/models/{model['id']}"
    words = " ".join(page_of(browser.get(f"{at}/features", params={"pairs": "true"})).words.split())
    assert "Change of the logarithm of rent for one more unit" in words
    assert "separate effects on the logarithm of rent" in words
    assert words.count("0.01 in the logarithm is one of about 1% of rent") == 2
    assert (
        "standard deviation of the noise of the logarithm of rent"
        in page_of(browser.get(f"{at}/chains")).words
    )
    precision, page = model["diagnostics"]["precision"], page_of(browser.get(at)).words
    assert precision["noise"] > 20, "in the unit of rent"
    assert model["use"]["chains"]["noise_share"] == precision["share"]
    assert f"({precision['share']:.0%} of the noise)" in page
    assert model["use"]["text"] in page


GERMAN = "preis;flaeche;seit;lage\n" + "".join(
    f"{i % 9},5;{f'{i},25' if i % 8 else 'k.A.'};{i % 12 + 1}/{i % 28 + 1}/2024;{'AB'[i % 2]}\n"
    for i in range(60)
)


def german(browser, client, settings):
    """Fit a model to a file with decimal commas, months first and `k.A.`."""
    dataset = post_csv(client, GERMAN, missing="k.A.").json()
    body = {"dataset_id": dataset["id"], "target": "preis", "transform": "none"} | SMALL
    model = client.post("/models", json=body).json()
    run_units(settings)
    return f"/ui/models/{model['id']}", f"/models/{model['id']}/predict"


def test_one_row_is_typed_as_in_the_models_file(browser, client, settings):
    """The form begins with, takes and refuses what that file has; charts and contrasts read it alike."""
    page, path = german(browser, client, settings)
    first = page_of(browser.get(f"{page}/predict"))
    values = {control["name"]: control.get("value") for control in first.controls if control.get("name")}
    assert values["f0"] == "29,25"
    assert "1,25 to 59,25" in first.words
    typed = {"f0": "1.234,5", "f1": "2/13/2024", "f2": "B"}
    answered = page_of(browser.get(f"{page}/predict", params=typed))
    row = {"flaeche": 1234.5, "seit": "2024-02-13", "lage": "B"}
    mean = client.post(path, json={"rows": [row]}).json()["mean"][0]
    assert f"<dd>{formatting.number(mean)}" in answered.text or formatting.number(mean) in answered.words
    assert "1234.5" in answered.words, "the call to copy"
    for image in answered.images:
        assert browser.get(image["src"]).status_code == 200
    missing = page_of(browser.get(f"{page}/predict", params=typed | {"f0": "k.A.", "f2": "k.A."}))
    assert '"flaeche": null' in missing.words
    wrong = page_of(browser.get(f"{page}/predict", params=typed | {"f0": "500.5", "f1": "13/2/2024"}), 422)
    assert "'500.5' is not a number: write a decimal comma as in the model's file, such as 1,5" in wrong.words
    assert "'13/2/2024' is not a date: write 2026-01-31, or month-first as in the model's file" in wrong.words
    what_if = {"feature": "flaeche", "of": "flaeche", "first": "50,5", "second": "1.000"}
    contrast = page_of(browser.get(f"{page}/what-if", params=what_if))
    assert "50.5" in contrast.words
    assert '"flaeche": 1000' in contrast.words


def test_a_files_format_is_set_beside_it(browser, client, settings):
    """A file is read as the model's own, and said to be; the form's fields come first."""
    page, path = german(browser, client, settings)

    def send(text, **more):
        return browser.post(
            f"{page}/predict", data={"as": "preview"} | more, files={"file": ("new.csv", text)}
        )

    own = "flaeche;seit;lage\nk.A.;2/13/2024;A\n50,5;02/13/2024;B\n"
    preview = page_of(send(own))
    rows = [
        {"flaeche": None, "seit": "2024-02-13", "lage": "A"},
        {"flaeche": 50.5, "seit": "2024-02-13", "lage": "B"},
    ]
    for mean in client.post(path, json={"rows": rows}).json()["mean"]:
        assert f'<td class="num">{formatting.number(mean)}</td>' in preview.text
    assert "decimal sign and order of dates and missing values as in the model's file" in preview.words
    english = own.replace("50,5", "50.5").replace("k.A.", "none")
    assert "'50.5' is a number with a decimal point" in page_of(send(english), 422).words
    set_here = page_of(send(english, decimal="point", missing="none, k.A."))
    assert "Read as: semicolons, UTF-8, 3 columns" in set_here.words
    page_of(send(own, decimal="dot"), 422)


def test_a_download_suits_the_program_that_wrote_the_models_file(browser, client, settings):
    """A model of a German file has a button for CSV like it, and figures can be rounded."""
    page, _ = german(browser, client, settings)
    shown = page_of(browser.get(f"{page}/predict"))
    assert "CSV with semicolons and decimal commas" in shown.words
    assert "checked" in next(each for each in shown.controls if each["name"] == "digits")
    file = {"file": ("neu.csv", "flaeche;seit;lage\n50,5;2/13/2024;B\n")}
    sent = browser.post(f"{page}/predict", data={"as": "csv-model", "digits": "rounded"}, files=file)
    head, row = sent.content.decode("utf-8-sig").replace('"', "").splitlines()
    assert head.startswith("flaeche;seit;lage;mean;sd;")
    assert row.startswith("50,5;2024-02-13;B;")
    assert all(len(figure) < 7 for figure in row.split(";")[3:5])
    english = fitted(client, settings)
    assert "CSV with" not in page_of(browser.get(f"/ui/models/{english['id']}/predict")).words
