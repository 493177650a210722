"""Project rules that no linter checks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_only_session_scope_commits():
    """No code calls commit itself: each request or slice is one transaction, committed at the edge."""
    breaches = [
        f"{file.relative_to(ROOT)}:{number}"
        for package in ("app", "worker")
        for file in sorted((ROOT / package).rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(r"\.commit\(|\bSession\(", line) and file.name != "engine.py"
    ]

    assert breaches == []
