"""Every study, in the order of the page."""

from __future__ import annotations

from benchmarks.papers import cgm10_friedman, cgm10_many_columns, cgm10_times, pg_bart
from benchmarks.papers.study import DOCUMENTS, Study

_ALL = (
    *cgm10_times.STUDIES,
    *cgm10_friedman.STUDIES,
    *cgm10_many_columns.STUDIES,
    *pg_bart.STUDIES,
)
STUDIES: dict[str, Study] = {
    study.name: study for document in DOCUMENTS for study in _ALL if study.document == document
}
assert len(STUDIES) == len(_ALL)
