"""Every study, in the order of the page."""

from __future__ import annotations

from lab.papers import (
    cgm10_competitors,
    cgm10_drugs,
    cgm10_friedman,
    cgm10_many_columns,
    cgm10_others,
    cgm10_times,
    dcc_densities,
    dcc_tree,
    pg_bart,
    pg_bart_authors,
    slides,
)
from lab.papers.study import DOCUMENTS, Study

_ALL = (
    *cgm10_friedman.STUDIES,
    *cgm10_many_columns.STUDIES,
    *cgm10_times.STUDIES,
    *cgm10_competitors.STUDIES,
    *cgm10_drugs.STUDIES,
    *cgm10_others.STUDIES,
    *pg_bart.STUDIES,
    *pg_bart_authors.STUDIES,
    *dcc_tree.STUDIES,
    *dcc_densities.STUDIES,
    *slides.STUDIES,
)
STUDIES: dict[str, Study] = {
    study.name: study for document in DOCUMENTS for study in _ALL if study.document == document
}
assert len(STUDIES) == len(_ALL)
