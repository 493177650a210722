"""Make the pictures of docs/tutorial.md and docs/explanations.md: `make pictures`.

For the tutorial the script starts its own embedded service in a temporary folder, follows the page, and draws
the results; for the explanations it runs the page's own Python.
"""

import csv
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import matplotlib as mpl  # noqa: E402

mpl.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from app.cli.embedded import run_embedded  # noqa: E402
from app.client import Client, Model  # noqa: E402

CARS = HERE.parent / "examples" / "auto_mpg.csv"
FEATURES = ("cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin")
BLUE, ORANGE, GREY = "#2f6f9f", "#c4622d", "#8a8f98"
STYLE = {
    "svg.fonttype": "none",  # text stays text, which keeps files small
    "svg.hashsalt": "bartserve",  # equal pictures have equal bytes
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def main() -> None:
    """Fit the models of the tutorial and draw the pictures."""
    with CARS.open(newline="") as file:
        cars = list(csv.DictReader(file))
    plt.rcParams.update(STYLE)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_embedded(Path(folder) / "data", print) as url,
        Client(url) as client,
    ):
        dataset = client.upload(CARS, name="cars")
        whole = client.wait(client.fit(dataset, "mpg", name="cars", seed=1))
        _new_cars(client, cars)
        _weight(client, whole)
        _trace(client, whole)
    _reasons()


def _reasons() -> None:
    """Draw the charts of docs/explanations.md by its own blocks."""
    session: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (HERE / "explanations.md").read_text(), re.DOTALL):
        exec(compile(block, "explanations.md", "exec"), session)  # noqa: S102
    posterior, reasons = session["posterior"], session["reasons"]
    charts = {
        "importance": session["importance"].plot(),
        "waterfall": reasons.waterfall(row=3),
        "beeswarm": reasons.beeswarm(),
        "weight": posterior.plot.accumulated_effects("weight"),
        "surface": posterior.plot.effects(["weight", "year"])[0],
        "interactions": session["pairs"].plot(),
        "contrast": session["contrast"].plot(),
        "selection": session["selection"].plot("se"),
        "trees": session["by_trees"].plot(),
    }
    for name, axes in charts.items():
        _save(axes.figure, f"why-{name}.svg")
    _card(session["page"])


def _card(page: str) -> None:
    """Take a picture of the first page of a model card, if there is a Chromium."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # needed for this picture alone

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.stderr.write("no Chromium was found: why-card.png stays as it is\n")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": 760, "height": 1075})  # the shape of a printed page
        window.set_content(page)
        window.screenshot(path=HERE / "pictures" / "why-card.png")
        browser.close()


def _new_cars(client: Client, cars: list[dict[str, Any]]) -> None:
    """Draw predictions of every fourth car by a model fitted to the others."""
    new, old = cars[::4], [car for k, car in enumerate(cars) if k % 4]
    text = "\n".join(
        [",".join((*FEATURES, "mpg")), *(",".join(car[n] for n in (*FEATURES, "mpg")) for car in old)]
    )
    model = client.wait(client.fit(client.upload(text.encode(), name="three quarters"), "mpg", seed=1))
    rows = [{name: None if car[name] == "?" else float(car[name]) for name in FEATURES} for car in new]
    answer = client.predict(model, rows, level=0.9, interval="predictive")
    actual = np.array([float(car["mpg"]) for car in new])
    inside = (answer.lower <= actual) & (actual <= answer.upper)
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    axes.plot([8, 48], [8, 48], color=GREY, linewidth=1, zorder=0)
    for chosen, colour, label in ((inside, BLUE, "inside"), (~inside, ORANGE, "outside")):
        low, high = answer.mean[chosen] - answer.lower[chosen], answer.upper[chosen] - answer.mean[chosen]
        axes.errorbar(
            actual[chosen],
            answer.mean[chosen],
            yerr=[low, high],
            fmt="o",
            markersize=4,
            elinewidth=1,
            color=colour,
            alpha=0.75,
            label=f"{chosen.sum()} {label}",
        )
    axes.set(xlabel="measured mpg", ylabel="predicted mpg, with 90% predictive interval")
    axes.legend(frameon=False, loc="upper left")
    _save(figure, "tutorial-new-cars.svg")


def _weight(client: Client, model: Model) -> None:
    """Draw partial dependence on weight."""
    effect = client.partial_dependence(model, ["weight"], level=0.9)
    (interval,) = effect["intervals"]
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.fill_between(
        effect["grid"][0], interval["lower"], interval["upper"], color=BLUE, alpha=0.2, linewidth=0
    )
    axes.plot(effect["grid"][0], effect["mean"], color=BLUE)
    axes.set(xlabel="weight (lbs)", ylabel="mpg, averaged over cars")
    _save(figure, "tutorial-weight.svg")


def _trace(client: Client, model: Model) -> None:
    """Draw the traces of sigma, by chain."""
    traces = client.diagnostics(model, points=125)["traces"]
    figure, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    for number, sigma in enumerate(traces["sigma"]):
        axes.plot(traces["draws"], sigma, linewidth=0.8, alpha=0.8, label=f"chain {number + 1}")
    axes.set(xlabel="kept draw", ylabel="sigma (of log mpg)")
    figure.legend(frameon=False, ncols=4, loc="outside upper right")  # above the lines, which may be anywhere
    _save(figure, "tutorial-sigma.svg")


def _save(figure: Any, name: str) -> None:
    (HERE / "pictures").mkdir(exist_ok=True)
    figure.savefig(HERE / "pictures" / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
