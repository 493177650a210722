"""Units on the pages of a model whose outcome is an amount and whose trees learn its logarithm."""

import csv
import re
from html import unescape
from io import StringIO
from pathlib import Path

import pytest

from tests.support.api_calls import of_file
from tests.support.databases import only
from tests.support.html_page import checked_svg, page_of
from tests.support.models.fitted_models import SMALL, fitted, run_units

pytestmark = only("sqlite")
CARS = Path(__file__).parents[3] / "examples" / "auto_mpg.csv"
EXPONENT = re.compile(r"(?<![\w-])\d+(?:[.,]\d+)?e[+-]?\d+\b", re.IGNORECASE)
OF_PROGRAMS = re.compile(r"\b[a-z]+_[a-z_]+\b|\bnull\b|\bNone\b|\bnan\b|\bTrue\b|\bFalse\b")
# Sections with figures, by their headings, and what these are of: the outcome, its logarithm, or neither.
OUTCOME = (
    "How good it is on",
    "As tables",
    "Importance for prediction",
    "Why",
    "Predictions are usable",
    "Effect of ",
    "Difference of power",
    "power",
    "together",
)
LOGARITHM = ("Slopes of the linear part", "Groups: ", "Features that act together")
NEITHER = (
    "Predictive intervals",
    "The chains don't agree",
    "All features",
    "Shares of the split",
    "Convergence by",
    "Moves",
)


@pytest.fixture
def model(client, settings) -> dict:
    """Fit the power of real cars, written as amounts with decimal commas, by three numbers and a group."""
    sink = StringIO()
    writer = csv.writer(sink, delimiter=";")
    writer.writerow(["power", "weight", "year", "share", "origin"])
    for row in csv.DictReader(CARS.read_text().splitlines()):
        if row["horsepower"].replace(".", "").isdigit():
            power, weight = (f"{37 * float(row['horsepower']):,.2f}", f"{float(row['weight']) / 8:.1f}")
            power = power.translate(str.maketrans(",.", ".,"))
            cells = (
                weight.replace(".", ","),
                1900 + int(row["year"]),
                f"{row['cylinders']}0 %",
                row["origin"],
            )
            writer.writerow([f"{power} €", *cells])
    text = sink.getvalue().replace(";1\r", ";us\r").replace(";2\r", ";eu\r").replace(";3\r", ";jp\r")
    options = {
        "target": "power",
        "groups": ["origin"],
        "holdout": 0.25,
        "linear": True,
        "num_draws": 60,
        "transform": "log",
    }
    return fitted(client, settings, text=text, calibrate="holdout", **options)


def sections(text: str) -> dict[str, str]:
    """Split a page without its code into the words below each heading, ids left out."""
    text = re.sub(r"<(pre|script|style|svg)\b.*?</\1>|\b(mdl|ds)_\w+", " ", text, flags=re.DOTALL)
    parts = re.split(r"<h2[^>]*>(.*?)</h2>", text, flags=re.DOTALL)
    heads, bodies = parts[1::2], parts[2::2]
    return {words(head): words(head + " " + body) for head, body in zip(heads, bodies, strict=True)}


def words(html: str) -> str:
    """Return the text of a page as one line, with a mark for figures in tables."""
    html = re.sub(r'<td class="num">', " #", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_every_figure_is_in_the_outcome_s_unit_or_said_to_be_of_its_logarithm(browser, client, model):
    """All pages: no exponents, no words of programs, and each section with figures says of what they are."""
    at = f"/ui/models/{model['id']}"
    seen = dict.fromkeys([*LOGARITHM, *NEITHER, *OUTCOME], 0)
    tabs = (
        "",
        "/checks",
        "/improve",
        "/settings",
        "/chains",
        "/features?pairs=true",
        "/effects?part=all&feature=weight",
        "/what-if",
        "/outcomes",
    )
    pair = "/effects?part=all&feature=weight&feature=year"
    for tab in (*tabs, pair, f"{pair}&feature=share", "/predict?f0=400,5&f1=1976&f2=40 %25&f3=us"):
        page = page_of(browser.get(at + tab))
        for head, text in sections(page.text).items():
            assert not EXPONENT.search(text), (tab, EXPONENT.search(text), text)
            assert not OF_PROGRAMS.search(text), (tab, OF_PROGRAMS.search(text), text)
            known = next((each for each in seen if each in head), None)
            if known is None:
                assert "#" not in text, f"say in this test of what the figures below {head!r} are"
                continue
            seen[known] += 1
            assert ("EUR" in text) == (known in OUTCOME), (tab, head, text)
            assert ("logarithm of power" in text) == (known in LOGARITHM), (tab, head, text)
    assert all(seen.values()), seen

    answer = sections(browser.get(f"{at}/predict?f0=400,5&f1=1976&f2=40&f3=us").text)["power"]
    mean = client.post(
        f"/models/{model['id']}/predict",
        json={"rows": [{"weight": 400.5, "year": 1976, "share": 40, "origin": "us"}]},
    ).json()["mean"][0]
    assert f"{mean:.0f} EUR" in answer.replace("\u202f", " ")


def test_one_row_is_typed_with_its_units_and_refused_in_others(browser, model):
    """The form names units, takes numbers with theirs or none, and says which it is where others stand."""
    at = f"/ui/models/{model['id']}/predict?f0=400,5&f1=1976&f3=us"
    plain, own = (page_of(browser.get(f"{at}&f2={share}")) for share in ("40", "40 %25"))
    assert "share (%)" in plain.words
    assert sections(plain.text)["power"] == sections(own.text)["power"]
    refused = page_of(browser.get(f"{at}&f2=40 €"), 422).words
    assert "'40 €' is not a number" in refused
    assert "in % or without a unit" in refused


def test_models_are_compared_in_the_unit(browser, client, settings, model):
    """Errors of two models side by side, and their difference, have the unit of the outcome."""
    body = {"dataset_id": model["dataset_id"], "target": "power", "holdout": 0.25, "seed": 3} | SMALL
    other = client.post("/models", json=body).json()["id"]
    run_units(settings)
    text = words(browser.get(f"/ui/models/compare?model={model['id']}&model={other}").text)
    for line in ("Typical error", "Error less that of the first"):
        _, _, rest = text.partition(line)
        assert re.match(r"(?: \u2013)? [-\d .]+( ± [\d.]+)? EUR", rest), (line, rest[:80])


def test_charts_name_the_unit_on_their_axes(browser, model):
    """Axes of outcomes and features have the units of the file."""
    at = f"/ui/models/{model['id']}"
    labels = {
        "charts/held-out.svg": ("actual power (EUR)", "predicted power (EUR)"),
        "dependence.svg?feature=share": ("power (EUR)", "share (%)"),
        "accumulated.svg?feature=weight": ("change of power (EUR)",),
        "dependence.svg?feature=weight&feature=share": ("power (EUR)", "share (%)"),
        "dependence.svg?feature=year&feature=share&feature=weight": ("power (EUR)", "share (%)"),
        "density.svg?f0=400,5&f1=1976&f2=40&f3=us": ("power (EUR)",),
    }
    for path, expected in labels.items():
        content = browser.get(f"{at}/{path}").content
        texts = [element.text for element in checked_svg(content).iter() if element.text]
        for label in expected:
            assert label in texts, (path, texts)


def test_the_card_and_the_library_write_the_same_figures_for_people(client, model):
    """The card and the texts of a model that was downloaded: the unit, no exponents, the scale of pairs."""
    card = client.get(f"/models/{model['id']}/card").text
    parts = sections(card)
    assert "a number in EUR" in parts["Model"]
    assert "of the logarithm of power" in parts["Model"]
    assert " EUR" in parts["Scores on held-out rows"].replace("\u202f", " ")
    for text in parts.values():
        assert not EXPONENT.search(text), text
        assert not OF_PROGRAMS.search(text), text

    posterior = of_file(client, model)
    assert posterior.unit == "EUR"
    texts = [str(posterior.summary()), str(posterior.interactions(max_draws=50)), posterior._repr_html_()]
    for text in texts:
        assert not EXPONENT.search(text), text
    assert "of the logarithm of power" in texts[1]
