"""The site's llms.txt: what the project is, and its pages by their headings, written while the site is built.

`mkdocs.yml` names this file as a hook; it needs nothing of the application.
"""

from pathlib import Path
from typing import Any

HEAD = """# bartserve

> A prediction service whose every answer carries an honest interval, from Bayesian additive regression trees.

Assistants use it by the Model Context Protocol (`bartserve mcp`, see Assistants), programs by HTTP or in
Python. Read the verdict of a model before you report an interval.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the files of the site (an event of MkDocs)."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # only the site has it

    files.append(File.generated(config, "llms.txt", content=as_text(config["nav"], Path(config["docs_dir"]))))
    return files


def as_text(nav: list[Any], folder: Path) -> str:
    """Write the navigation as sections of links, each with the heading of its page."""
    groups = {"Pages": [entry for entry in nav if isinstance(_only(entry)[1], str)]}
    groups |= {name: below for name, below in map(_only, nav) if not isinstance(below, str)}
    parts = [HEAD]
    for name, entries in groups.items():
        parts += [f"## {name}", "", *(_link(title, page, folder) for title, page in _pages(entries)), ""]
    return "\n".join(parts)


def _only(entry: Any) -> tuple[str, Any]:
    """Return the title of an entry and what is under it: the address of a page, or entries."""
    return ("", entry) if isinstance(entry, str) else next(iter(entry.items()))


def _pages(entries: list[Any]) -> list[tuple[str, str]]:
    found = []
    for title, below in map(_only, entries):
        found += [(title, below)] if isinstance(below, str) else _pages(below)
    return found


def _link(title: str, page: str, folder: Path) -> str:
    file = folder / page
    lines = file.read_text().splitlines() if file.exists() else []  # some are written by other hooks
    heading = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), title)
    address = page.removesuffix(".md").removesuffix("README").removesuffix("index").rstrip("/")
    said = "" if heading == (title or heading) else f": {heading}"
    return f"- [{title or heading}]({address}/){said}" if address else f"- [{title or heading}](./){said}"
