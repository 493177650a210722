"""`bartserve demo`: the main job on real data, through HTTP, with a service of its own in a temp folder."""

import contextlib
import csv
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

TARGET = "mpg"
HOLDOUT = 0.25
LEVEL = 0.9
READY_SECONDS = 60
TRAIN_SECONDS = 600
SHOWN = 5

Json = dict[str, Any]


class DemoError(Exception):
    """What went wrong, in one sentence."""


def run_demo() -> None:
    """Start a service, upload, train, predict, say what came out, and leave nothing behind.

    Raises
    ------
    DemoError
        Any step failed.
    """
    console = Console(highlight=False, soft_wrap=True)
    data = _example()
    with tempfile.TemporaryDirectory(prefix="bartserve-demo-") as folder:
        try:
            with _service(Path(folder)) as address, httpx.Client(base_url=address, timeout=30.0) as client:
                console.print(f"service   {address}, embedded: one API, one worker, SQLite")
                dataset = _upload(client, data)
                console.print(_about_dataset(dataset))
                model = _train(client, console, dataset["id"])
                console.print(_about_model(model))
                console.print(_about_predictions(client, model["id"], data))
        except httpx.HTTPError as error:
            raise DemoError(f"The service did not answer: {error}.") from error
    console.print(
        "next      make up, then open http://127.0.0.1:8000/docs, or see the README for the same in curl"
    )


def _example() -> Path:
    """The example data: beside the package in a checkout, inside it in an installed wheel."""
    here = Path(__file__).parent
    for path in (here.parent / "examples" / "auto_mpg.csv", here / "examples" / "auto_mpg.csv"):
        if path.exists():
            return path
    raise DemoError("The example data auto_mpg.csv is missing from this installation.")


@contextlib.contextmanager
def _service(folder: Path) -> Iterator[str]:
    """A service of its own on a free port of loopback; stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "service.log"
    command = [sys.executable, "-m", "app.cli", "up", "--port", str(port), "--data-dir", str(folder / "data")]
    # Settings meant for another service must not leak into this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BARTSERVE_")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)  # noqa: S603
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_ready(address, process, log)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health/ready", timeout=2.0).is_success:
                return
        time.sleep(0.1)
    last = (log.read_text(errors="replace").strip().splitlines() or ["it wrote nothing"])[-1]
    raise DemoError(f"The service did not start; its last words: {last}")


def _call(client: httpx.Client, method: str, path: str, **given: Any) -> Json:
    answer = client.request(method, path, **given)
    body: Json = answer.json()
    if not answer.is_success:
        raise DemoError(f"{method} {path} was answered {answer.status_code}: {body.get('detail', body)}")
    return body


def _upload(client: httpx.Client, data: Path) -> Json:
    headers = {"content-type": "text/csv"}
    return _call(client, "POST", "/datasets?name=auto_mpg", content=data.read_bytes(), headers=headers)


def _train(client: httpx.Client, console: Console, dataset_id: str) -> Json:
    """Train with a held-out part, showing each chain's progress while it runs."""
    request = {"dataset_id": dataset_id, "target": TARGET, "holdout": HOLDOUT, "name": "demo", "seed": 1}
    model = _call(client, "POST", "/models", json=request)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(32),
        TaskProgressColumn(),
        TextColumn("{task.fields[phase]}"),
    )
    deadline = time.monotonic() + TRAIN_SECONDS
    with Progress(*columns, console=console) as progress:
        bars = [
            progress.add_task(f"chain {chain['chain'] + 1}  ", total=1, phase="queued")
            for chain in model["progress"]["chains"]
        ]
        while model["state"] in {"queued", "running"}:
            if time.monotonic() > deadline:
                raise DemoError(f"Training did not end within {TRAIN_SECONDS} seconds.")
            time.sleep(0.1)
            model = _call(client, "GET", f"/models/{model['id']}")
            for bar, chain in zip(bars, model["progress"]["chains"], strict=True):
                progress.update(
                    bar, completed=chain["iteration"], total=chain["iterations"] or 1, phase=_phase(chain)
                )
    if model["state"] != "succeeded":
        raise DemoError(
            f"Training ended as {model['state']}: {(model['error'] or {}).get('detail', 'no reason given')}"
        )
    return model


def _phase(chain: Json) -> str:
    if chain["phase"] == "compiling":
        return f"compiling, first run only ({chain['iteration']} of {chain['iterations']})"
    phase = (chain["phase"] or "starting") if chain["state"] == "running" else chain["state"]
    return str(phase).replace("_", "-")


def _about_dataset(dataset: Json) -> str:
    missing = {column["name"]: column["missing"] for column in dataset["columns"] if column["missing"]}
    told = ", ".join(f"{count} missing in {name}" for name, count in missing.items()) or "nothing missing"
    return f"data      auto_mpg.csv: {dataset['num_rows']} cars, {len(dataset['columns'])} columns, {told}"


def _about_model(model: Json) -> str:
    sigma, f = model["diagnostics"]["sigma"], model["diagnostics"]["f"]
    held = model["holdout"]
    coverage = {round(row["level"], 2): row["coverage"] for row in held["coverage"]}
    return "\n".join(
        [
            f"verdict   {model['verdict'].replace('_', ' ')}: R-hat {sigma['rhat']:.3f} for sigma and "
            f"{f['rhat_median']:.3f} for f (median of {f['rows']} rows)",
            f"          effective sample size {sigma['ess_bulk']:.0f} for sigma, "
            f"{f['ess_bulk_median']:.0f} for f",
            f"held out  {held['rows']} cars it never saw: RMSE {held['rmse']:.2f} mpg, "
            f"linear model {held['linear_rmse']:.2f} mpg",
            f"honest?   90% predictive intervals hold {coverage[0.9]:.0%} of the held-out cars, "
            f"50% ones {coverage[0.5]:.0%}",
        ]
    )


def _about_predictions(client: httpx.Client, model_id: str, data: Path) -> str:
    """A handful of rows, asked with 90% predictive intervals, beside what was measured."""
    with data.open(newline="") as file:
        cars = list(csv.DictReader(file))[:: 397 // SHOWN][:SHOWN]
    features = [name for name in cars[0] if name not in {TARGET, "name"}]
    rows = [{name: _cell(car[name]) for name in features} for car in cars]
    body = {"rows": rows, "level": LEVEL, "interval": "predictive"}
    answer = _call(client, "POST", f"/models/{model_id}/predict", json=body)
    interval = answer["intervals"][0]
    lines = [f"predict   {'car':<28}{'mpg':>6}{'mean':>8}   90% predictive interval"]
    for car, mean, lower, upper in zip(
        cars, answer["mean"], interval["lower"], interval["upper"], strict=True
    ):
        lines.append(
            f"          {car['name']:<28}{float(car[TARGET]):>6.1f}{mean:>8.1f}   {lower:.1f} to {upper:.1f}"
        )
    return "\n".join(lines)


def _cell(text: str) -> float | None:
    return None if text == "?" else float(text)
