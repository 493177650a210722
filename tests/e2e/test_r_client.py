"""The R package: built, checked and tested as R does it, and its answers beside the Python client's."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.client import Client
from app.services.readers.options import MISSING

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "r"
NEEDED = ("httr2", "jsonlite", "testthat")
# A check that asks nobody elsewhere.
QUIET = {"_R_CHECK_FORCE_SUGGESTS_": "false", "_R_CHECK_CRAN_INCOMING_": "false", "LC_ALL": "C.UTF-8"}

# Uploads a table of every kind of column, fits it, and writes what the service says of its own rows.
ROUND_TRIP = """
library(bartserve)
source(file.path(commandArgs(TRUE)[1], "tests", "testthat", "helper-service.R"))
bart_connect()
frame <- every_kind()
fitted <- quick_fit(y ~ ., frame)
answer <- suppressWarnings(predict(fitted, frame, level = c(0.5, 0.9), interval = "predictive"))
hex <- lapply(answer, sprintf, fmt = "%a")
cat(jsonlite::toJSON(list(model = fitted$id, dataset = fitted$dataset_id, hex = hex), auto_unbox = TRUE))
"""


def run(command: list[str], folder: Path, address: str = "", **more: str) -> str:
    environment = {**os.environ, **QUIET, "BARTSERVE_URL": address, **more}
    environment.pop("BARTSERVE_KEY", None)
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    return ran.stdout


@pytest.fixture(scope="module")
def checked(service, tmp_path_factory) -> tuple[str, Path]:
    """Build and check the package, whose tests ask the service; return the report and the library."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed: its package is not tried")
    folder = tmp_path_factory.mktemp("r")
    found = f"cat(all(c({', '.join(map(repr, NEEDED))}) %in% rownames(installed.packages())))"
    if run(["Rscript", "-e", found], folder) != "TRUE":
        pytest.skip(f"R has not all of {', '.join(NEEDED)}: its package is not tried")
    run(["R", "CMD", "build", str(PACKAGE)], folder)
    (archive,) = folder.glob("bartserve_*.tar.gz")
    report = run(["R", "CMD", "check", "--no-manual", archive.name], folder, service.address)
    return report, folder / "bartserve.Rcheck"


@pytest.mark.slow
def test_the_package_passes_r_cmd_check_with_a_real_service(checked):
    """R CMD check has nothing to say; of the package's tests only one file, tried below, was skipped."""
    report, library = checked

    assert "Status: OK" in report
    assert "SKIP 1 |" in (library / "tests" / "testthat.Rout").read_text()


@pytest.mark.long
def test_explanations_effects_forecasts_and_sets(checked, service):
    """The package's longer tests pass."""
    _, library = checked
    tests = PACKAGE / "tests" / "testthat" / "test-questions.R"
    code = (
        f"testthat::test_file('{tests}', reporter = 'summary', stop_on_failure = TRUE, package = 'bartserve')"
    )
    command = ["Rscript", "-e", f".libPaths('{library}'); {code}"]
    run(command, library, service.address, BARTSERVE_LONG="1")


@pytest.mark.long
def test_the_page_runs_and_prints_what_it_says(checked, service):
    """The blocks of docs/r.md run in order in one session, and print every line that is shown."""
    _, library = checked
    (library / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "r.md").read_text()
    blocks = re.findall(r"^```(r|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (library / "page.R").write_text("".join(code for language, code in blocks if language == "r"))
    code = f".libPaths('{library}'); options(width = 90); source('page.R', print.eval = TRUE)"
    printed = run(["Rscript", "-e", code], library, service.address).splitlines()
    for language, shown in blocks:
        assert language == "r" or not {*shown.splitlines()} - {*printed}, shown


@pytest.mark.slow
def test_every_kind_of_column_predicts_as_from_python(checked, service):
    """The rows of R and the same rows of pandas have the same columns and, bit for bit, predictions."""
    _, library = checked
    command = ["Rscript", "-e", f".libPaths('{library}')", "-e", ROUND_TRIP, str(PACKAGE)]
    told = json.loads(run(command, library, service.address))
    frame = pandas_twin()

    with Client(service.address) as client:
        mine = client.upload(frame)
        same = ("name", "kind", "missing", "distinct", "min", "max", "levels")
        theirs = client.dataset(told["dataset"])
        assert [[c[s] for s in same] for c in theirs.columns] == [[c[s] for s in same] for c in mine.columns]
        rows = frame.drop(columns="y")
        answer = client.predict(told["model"], rows, level=[0.5, 0.9], interval="predictive")
    for name, values in answer.to_dict().items():
        assert [float.fromhex(each) for each in told["hex"][name]] == values.tolist(), name


def pandas_twin() -> pd.DataFrame:
    """Return the table of `every_kind` in clients/r/tests/testthat/helper-service.R."""
    k = np.arange(1, 41)
    hours = pd.to_timedelta(k, "h")
    frame = pd.DataFrame({"y": k / 3 + k % 7, "double": 1 / k, "integer": k, "logical": k % 2 == 0})
    frame["text"] = [("NA", "none", "007", 'a "b", c')[i % 4] for i in k]
    frame["factor"] = pd.Categorical([("2024-01-01", "1", "été")[i % 3] for i in k])
    frame["ordered"] = pd.Categorical([("low", "middle", "high")[i % 3] for i in k])
    frame["date"] = pd.Timestamp("2024-02-28") + pd.to_timedelta(k, "D")
    frame["utc"] = pd.Timestamp("2024-03-31 00:30", tz="UTC") + hours
    frame["berlin"] = pd.Timestamp("2024-03-31 00:30:00.25", tz="Europe/Berlin") + hours
    frame["span"] = 60.0 * k
    frame["constant_na"] = np.nan
    for j in range(1, 11):
        frame[frame.columns[j]] = frame.iloc[:, j].astype(object if j == 3 else frame.dtypes.iloc[j])
        frame.loc[2 * j + 1, frame.columns[j]] = None
    return frame


@pytest.mark.slow
def test_the_package_knows_every_spelling_of_a_missing_value():
    """Texts that the service would take for missing are told apart, so R has to know all of them."""
    source = (PACKAGE / "R" / "cells.R").read_text()

    assert all(f'"{spelling}"' in source for spelling in MISSING if spelling)
