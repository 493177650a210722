"""Run studies of the papers, record their results and renew docs/papers.md with its pictures.

    python -m lab papers [STUDY ..] [--count N] [--page] [--code FOLDER --python FILE]

Without names every study runs but the long ones. Parts of a study are kept in build/papers, so that a run
that was stopped goes on from there; delete a study's file there to run it anew. `--count` takes other than
the recorded number of replicates and records nothing: it prints the answers. `--page` only renews the page.
`--code` names a folder with the code of a document's authors, for the studies that run it beside ours in a
process of its own, and `--python` the interpreter that does, with the packages that the code needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from lab import command
from lab.papers import page
from lab.papers.catalogue import STUDIES
from lab.papers.study import RESULTS, AuthorsCode, Kept, Recorded, Study, rounded
from sampler import warm

BUILD = Path("build/papers")


def record(study: Study, count: int, code: AuthorsCode | None = None) -> Recorded:
    """Run a study, some beside the authors' code, and return what is to be recorded."""
    assert study.run is not None
    warm()
    kept = Kept(BUILD / f"{study.name}.json", _commit(), code)
    figures = rounded(study.run(kept, count))
    day = f"{datetime.now(tz=UTC):%Y-%m-%d}"
    return Recorded(day, round(kept.seconds, 1), count, figures, kept.commits, study.protocol)


def _commit() -> str:
    """Return the commit that runs, and whether files differ from it; nothing outside a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    found, changed = (
        subprocess.run([git, *words], capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
        for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
    )
    return found.stdout.strip() + (" with changes" if changed.stdout.strip() else "")


def main() -> None:
    """Run the studies asked for."""
    parser = command(__doc__)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--count", type=int, help="replicates, other than the recorded number")
    parser.add_argument("--page", action="store_true", help="only renew the page from the recorded results")
    parser.add_argument("--code", type=Path, help="folder with the code of a document's authors")
    parser.add_argument("--python", type=Path, help="interpreter that runs it")
    options = parser.parse_args()
    both = options.code is not None and options.python is not None
    code = AuthorsCode(options.code.absolute(), options.python.absolute()) if both else None
    if unknown := [name for name in options.studies if name not in STUDIES]:
        parser.error(f"no study is named {', '.join(unknown)}; there are {', '.join(STUDIES)}")
    asked = [STUDIES[name] for name in options.studies] or [
        each for each in STUDIES.values() if not each.long
    ]
    if lacking := next((each for each in asked if each.code and code is None and not options.page), None):
        parser.error(f"{lacking.name} needs --code and --python: {lacking.code}")
    for study in [] if options.page else asked:
        if study.run is None:
            continue
        result = record(study, options.count or study.count, code)
        print(f"{study.name}: {result.seconds:.0f} s of a processor", flush=True)
        for claim, answer in study.answers(result.figures):
            print(f"  {claim.text}: {claim.paper or '-'} | {answer.ours} | {answer.word}", flush=True)
        if options.count is None:
            RESULTS.mkdir(exist_ok=True)
            study.file.write_text(json.dumps(asdict(result)) + "\n")
            page.picture(study, result.figures)
    if options.count is None:
        page.PAGE.write_text(page.text())
