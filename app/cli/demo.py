"""`bartserve demo`: the main workflow on real data, through HTTP, with its own temporary service."""

import csv
import tempfile
from pathlib import Path

from app.cli.embedded import run_embedded
from app.cli.output import make_console
from app.cli.progress import about_dataset, about_intervals, about_use, about_verdict, bars
from app.client import Client, ClientError, Model
from app.sample_data import sample_path

TARGET = "mpg"
HOLDOUT = 0.25
TRAIN_SECONDS = 600
SHOWN = 5


def run_demo() -> None:
    """Start a service, upload, fit, predict, report the results, and clean up.

    Raises
    ------
    ClientError
        A step failed.
    """
    console = make_console()
    try:
        data = sample_path()
    except FileNotFoundError as error:
        raise ClientError(str(error)) from None
    with (
        tempfile.TemporaryDirectory(prefix="bartserve-demo-") as folder,
        run_embedded(Path(folder) / "data", console.print) as address,
        Client(address) as client,
    ):
        console.print(f"service   {address}, embedded: one API, one worker, SQLite")
        dataset = client.upload(data)
        console.print(about_dataset(dataset, data.name, "cars"))
        model = client.fit(dataset, TARGET, name="demo", holdout=HOLDOUT, seed=1)
        with bars(console) as show:
            model = client.wait(model, progress=show, seconds=TRAIN_SECONDS)
        about = [*about_use(model), *_about_holdout(model), *about_verdict(model)]
        console.print("\n".join(about), soft_wrap=True)
        console.print(_about_predictions(client, model, data))
    console.print(
        "next      make up, then open http://127.0.0.1:8000, or see the README for the same in curl"
    )


def _about_holdout(model: Model) -> list[str]:
    held = model.holdout
    assert held is not None, "a holdout was asked for"
    return [
        f"held out  {held['rows']} cars it never saw: RMSE {held['rmse']:.2f} mpg, "
        f"linear model {held['linear_rmse']:.2f} mpg",
        *about_intervals(held),
    ]


def _about_predictions(client: Client, model: Model, data: Path) -> str:
    """Return a few rows with 90% predictive intervals beside the measured values."""
    with data.open(newline="") as file:
        cars = list(csv.DictReader(file))[:: 397 // SHOWN][:SHOWN]
    features = [name for name in cars[0] if name not in {TARGET, "name"}]
    rows = [{name: _cell(car[name]) for name in features} for car in cars]
    answer = client.predict(model, rows, level=0.9, interval="predictive")
    lines = [f"predict   {'car':<28}{'mpg':>6}{'mean':>8}   90% predictive interval"]
    for car, mean, lower, upper in zip(cars, answer.mean, answer.lower, answer.upper, strict=True):
        lines.append(
            f"          {car['name']:<28}{float(car[TARGET]):>6.1f}{mean:>8.1f}   {lower:.1f} to {upper:.1f}"
        )
    return "\n".join(lines)


def _cell(text: str) -> float | None:
    return None if text == "?" else float(text)
