"""The page docs/papers.md, and its pictures, from the recorded results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lab.papers.catalogue import STUDIES
from lab.papers.judges import WORDS
from lab.papers.study import DOCUMENTS, Figures, Recorded, Study

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "papers.md"
HEAD = """# The papers: their numbers beside ours

Each table, figure and numeric claim of the five documents that this project implements: the document's
number, ours by the document's own protocol, and one word. `make papers STUDY=NAME` runs a study, and renews
its result in `lab/papers/results` and this page; `make papers` runs all but those marked long (parts
that ended are kept in `build/papers`), and `python -m lab papers --page` only renews this page, which nobody
edits. Seconds are of one processor, beside other work.

Claims are of three kinds, and the word is a function of the document's figures, ours, and the smaller of
the two errors:

- *number*: within two errors of the document's, and half a unit of its last digit; where neither has an
  error, the rounding alone;
- *order*: what the document has in another order isn't the other way round here; where it has numbers without
  errors, those within a factor of two are equal;
- *statement*: what is said to be larger is.

Words:

- **reproduced**: the number, the order or the statement holds here.
- **better**: our number is beyond the errors on the good side.
- **not reproduced**: it doesn't hold here, and the row says why, as far as it is known.
- **no word**: ours is of another method, split or table than the document's, or it has none; the row says so.
- **not yet**: not studied here; the row says what is lacking.

The count run stands beside the document's. A result names the commit that made it; older results don't know
theirs, and say so.
"""


def text() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_summary(), *(line for name in DOCUMENTS for line in _document(name))]) + "\n"


def _summary() -> list[str]:
    lines = [f"| document | {' | '.join(WORDS)} |", f"| --- |{' ---: |' * len(WORDS)}"]
    for document, title in DOCUMENTS.items():
        words = Counter(
            answer.word
            for study in STUDIES.values()
            if study.document == document
            for _, answer in _answers(study)
        )
        lines.append(f"| {title} | {' | '.join(str(words[word]) for word in WORDS)} |")
    return lines


def _answers(study: Study) -> list[tuple]:
    result = study.recorded()
    return study.answers(result.figures if result else None)


def _document(document: str) -> list[str]:
    lines = ["", f"## {DOCUMENTS[document]}"]
    for study in STUDIES.values():
        if study.document == document:
            lines += ["", *_study(study)]
    return lines


def _study(study: Study) -> list[str]:
    result = study.recorded()
    lines = [f"### {study.item}", ""]
    if study.run is not None:
        facts = f"`make papers STUDY={study.name}`"
        if result is None:
            facts += ", not run yet"
        else:
            facts += f": {_seconds(result.seconds)}, {result.date}, {_counts(study, result)}, "
            facts += f"commit {result.commit}" if result.commit else "commit not recorded"
        protocol = result.protocol if result and result.protocol else study.protocol
        lines += [f"{facts}. {protocol}".strip() + (" Long." if study.long else ""), ""]
    lines += ["| claim | kind | the document | here | |", "| --- | --- | --- | --- | --- |"]
    for claim, answer in _answers(study):
        word = f"**{answer.word}**" + (f": {answer.why}" if answer.why else "")
        lines.append(f"| {claim.text} | {claim.judge.kind} | {claim.paper} | {answer.ours} | {word} |")
    if study.draw is not None and result is not None:
        lines += ["", f"![{study.item}](pictures/papers/{study.name}.svg)", "", f"*{study.see}*"]
    return lines


def _counts(study: Study, result: Recorded) -> str:
    """Say how many replicates were run, and how many the document has."""
    theirs = {0: "the document says no number", result.count: "as many as the document"}
    of = theirs.get(study.of, f"the document {study.of}")
    return f"{result.count} {study.unit}{'s' if result.count > 1 else ''} ({of})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def picture(study: Study, figures: Figures) -> None:
    """Draw a study's picture, if it has one, as SVG."""
    if study.draw is None:
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {"svg.fonttype": "none", "svg.hashsalt": "bartserve", "font.size": 8, "axes.spines.top": False}
    with mpl.rc_context(style | {"axes.spines.right": False, "path.simplify": True}):
        figure = Figure(figsize=study.size, layout="constrained")
        study.draw(figures, figure)
        path = DOCS / "pictures" / "papers" / f"{study.name}.svg"
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
