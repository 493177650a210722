"""References in code and documentation lead to existing headings."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("app", "worker", "sampler", "bartserve", "lab", "migrations", "tests", "docs")
CITED = re.compile(r"((?:lab/)?[\w-]+\.md)#([\w-]+)")
PRIVATE = re.compile("sampler" + "_math|families" + "_math|design" + r"\.md", re.IGNORECASE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def files() -> list[Path]:
    """Return the sources and the documentation's pages."""
    paths = [path for name in SOURCES for path in (ROOT / name).rglob("*") if path.suffix in {".py", ".md"}]
    return [ROOT / "README.md", *paths]


def test_every_cited_heading_is_there():
    """Every heading cited in code (`docs/maths.md#exact-rule-draw`) or linked between pages exists."""
    docs = ROOT / "docs"
    known = {str(page.relative_to(docs)): anchors(page) for page in docs.rglob("*.md")}
    cited = [(path, name, anchor) for path in files() for name, anchor in CITED.findall(path.read_text())]
    dangling = [
        f"{path.relative_to(ROOT)}: {name}#{anchor}"
        for path, name, anchor in cited
        if name in known and anchor not in known[name]
    ]

    assert dangling == []
    assert sum(name == "maths.md" for _, name, _ in cited) > 30


def test_no_unpublished_page_is_cited():
    """Code cites the mathematics in docs/maths.md and no unpublished notes."""
    assert [str(path) for path in files() if PRIVATE.search(path.read_text())] == []
