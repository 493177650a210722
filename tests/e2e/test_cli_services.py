"""The service that a command finds or starts, and the examples of its help."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CARS, FAST, bartserve


@pytest.mark.slow
def test_the_embedded_service_is_started_for_a_command_and_kept_data(tmp_path):
    """Without a service a command starts one on the data folder and says so; data are kept."""
    data = str(tmp_path / "data")
    fitted = bartserve("fit", str(CARS), "--target", "mpg", "--data-dir", data, *FAST, cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    assert "started for this command" in fitted.stdout

    listed = bartserve("models", cwd=tmp_path, BARTSERVE_DATA_DIR=data)

    assert "auto_mpg" in listed.stdout, listed.stderr


def test_a_service_on_the_data_folder_is_found(service, tmp_path):
    """Commands use the service running on their data folder, at any address."""
    folder = next(
        word
        for word in Path(f"/proc/{service.process.pid}/cmdline").read_text().split("\0")
        if word.endswith("data")
    )

    listed = bartserve("datasets", "--data-dir", folder, cwd=tmp_path)

    assert f"{service.address}, running on the data in {folder}" in listed.stderr


def test_every_help_has_examples_that_are_commands():
    """Every help text has examples, with commands and options that exist."""
    examples = []
    alone = ("fit", "predict", "survival", "aggregate", "models", "datasets", "keys", "up", "api", "worker")
    for words in ([], *([one] for one in alone)):
        page = bartserve(*words, "--help", cwd=Path.cwd(), TERM="dumb", COLUMNS="160").stdout
        examples += re.findall(r"^\s*(bartserve .*?)\s*$", page, re.MULTILINE)
    assert len(examples) >= 20
    for line in examples:
        _, command, *rest = shlex.split(line)
        options = [word for word in rest if word.startswith("--")]
        sub = [rest[0]] if command in {"models", "datasets", "keys"} and rest else []
        helped = bartserve(command, *sub, "--help", cwd=Path.cwd())
        page = helped.stdout
        assert helped.returncode == 0, line
        assert all(option in page for option in options), line
