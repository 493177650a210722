"""Write docs/openapi.json and docs/settings.md from the application: `make docs`.

A test compares them with the application, so that a changed route shows in the diff of a change.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from app.application import create_app  # noqa: E402
from app.described_settings import describe_settings  # noqa: E402
from app.settings import Settings  # noqa: E402

SETTINGS = """# Settings

Generated from the application by `make docs`; `bartserve config` prints the settings with their current
values. Each setting is an environment variable; an empty one means the default. A variable with `_FILE`
after its name holds the path of a file with the value, as is usual for secrets. Command-line options
override variables.

| variable | type | default | |
| --- | --- | --- | --- |
"""


def document() -> dict[str, Any]:
    """Build the OpenAPI document, without opening a database."""
    openapi: dict[str, Any] = create_app(Settings(database_url="sqlite:///never-opened")).openapi()
    return openapi


def as_json(document: dict[str, Any]) -> str:
    """Format the document as it is checked in."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def settings_markdown() -> str:
    """Write the page on settings."""
    rows = [
        f"| `{one.variable}` | {one.kind} | {one.default} | {' '.join(one.meaning.split())} |"
        for one in describe_settings()
    ]
    return SETTINGS + "\n".join(rows) + "\n"


def main() -> None:
    """Write both files."""
    (HERE / "openapi.json").write_text(as_json(document()))
    (HERE / "settings.md").write_text(settings_markdown())


if __name__ == "__main__":
    main()
