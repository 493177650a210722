"""Parts of Chipman, George and McCulloch (2010) that have no study here yet, and what is near them."""

from __future__ import annotations

from benchmarks.papers.study import Claim, Study

_DRUG = "needs the compounds of the NCI's AIDS screen and their descriptors, which no registry has"


def _absent(name: str, item: str, *claims: tuple[str, str, str]) -> Study:
    return Study(f"cgm10-{name}", "cgm10", item, tuple(Claim(t, p, why=why) for t, p, why in claims))


STUDIES = (
    _absent(
        "fig9",
        "Figure 9: the 20 compounds most probably active",
        ("true positive rate, training and test rows", "16 of 20, 16 of 20", _DRUG),
        ("mean width of 90% intervals, training and test rows", ".47, .50", _DRUG),
    ),
    _absent(
        "table5",
        "Table 5: AUC of drug discovery",
        ("random forest", ".7680", _DRUG),
        ("boosting", ".7543", _DRUG),
        ("BART-cv", ".7483", _DRUG),
        ("support vector machine", ".7417", _DRUG),
        ("BART", ".7245", _DRUG),
        ("neural network", ".7205", _DRUG),
    ),
    _absent(
        "fig10",
        "Figure 10: descriptors that matter",
        ("the same three descriptors are first with every number of trees", "shown", _DRUG),
    ),
    _absent(
        "section3",
        "Sections 3 and 7: statements",
        (
            "mixing is not an issue: one long chain does",
            "stated",
            "looked into, and contradicted on tables with little noise, in [mixing](mixing.md)",
        ),
        (
            "intervals widen at values far from the data",
            "stated",
            "of any sum of trees they don't grow with the distance beyond the edge; no study yet",
        ),
        (
            "linear terms and random effects beside the trees (28)",
            "stated",
            "in the library (`linear`, `groups`, `slopes`) and [verified](verification.md); no number there",
        ),
        ("several outcomes at once (29)", "stated", "one outcome a model here"),
        ("a spatial component (SBART)", "stated", "none here"),
    ),
)
