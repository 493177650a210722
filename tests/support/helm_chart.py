"""The Helm chart as rendered, recorded beside its values: tests read it where there is no helm.

`python -m tests.support.helm_chart` records it anew, with the helm of this machine.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
RECORDED = ROOT / "tests" / "data" / "chart"
HELM = shutil.which("helm")
CASES = [file.name.removesuffix(".values.yaml") for file in sorted(RECORDED.glob("*.values.yaml"))]


def digest() -> str:
    """Return a digest of all files of the chart."""
    files = sorted(file for file in CHART.rglob("*") if file.is_file())
    return hashlib.sha256(
        b"".join(f"{file.relative_to(CHART)}\n".encode() + file.read_bytes() for file in files)
    ).hexdigest()


def render(case: str) -> str:
    """Render the chart with a case's values."""
    assert HELM is not None
    command = [HELM, "template", "bartserve", str(CHART), "--values", str(RECORDED / f"{case}.values.yaml")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def recorded(case: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a recorded case by kind and name: "Deployment/bartserve-api"."""
    listed = yaml.safe_load_all((RECORDED / f"{case}.yaml").read_text())
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in listed if each}


if __name__ == "__main__":
    for name in CASES:
        (RECORDED / f"{name}.yaml").write_text(render(name))
    (RECORDED / "digest").write_text(digest() + "\n")
