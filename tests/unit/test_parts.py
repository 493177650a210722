"""Parts beside the mean's trees: each is its files and its entry, and nothing else asks for them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sampler.definitions.parts import PARTS

ROOT = Path(__file__).parents[2]
IMPORTED = """
import pkgutil
from importlib import import_module
import sampler
from sampler.costs.memory import estimate
from sampler.preparation import prepare
from sampler.storage.model_header import Header

for module in pkgutil.walk_packages(sampler.__path__, "sampler."):
    import_module(module.name)
rows, y = {"x": [*range(30)], "g": [*"abc"] * 10}, [k * 1.5 for k in range(30)]
prepared = prepare(rows, y, groups="g", linear=True)
header = prepared.header()
assert Header.from_bytes(header).to_bytes() == header
try:
    prepare(rows, y, monotone={"x": "increasing"})
except sampler.SettingsError as error:
    assert error.field == "monotone" and "installed without monotone" in str(error), error
else:
    raise AssertionError("monotone was ignored")
assert sampler.__file__.startswith("COPY"), sampler.__file__
assert estimate(prepared.training.settings.to_json(), 30, 1).seconds > 0
"""


@pytest.mark.slow
def test_a_part_is_removed_with_its_files_and_its_entry(tmp_path):
    """Without the entry of monotone features, and what it names, all else is there, and they are refused."""
    shutil.copytree(ROOT / "sampler", tmp_path / "sampler", ignore=shutil.ignore_patterns("__pycache__"))
    part = PARTS["monotone"]
    for place in (part.design, part.chain, part.cost):
        (tmp_path / (place.partition(":")[0].replace(".", "/") + ".py")).unlink()
    table = tmp_path / "sampler" / "definitions" / "parts.py"
    text, count = re.subn(r'    "monotone": Part\(\n(?:        .*\n)+    \),\n', "", table.read_text())
    assert count == 1
    table.write_text(text)
    command = [sys.executable, "-c", IMPORTED.replace("COPY", str(tmp_path))]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
