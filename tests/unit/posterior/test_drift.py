"""The watch on rows: how it counts them, and that it alarms where they drift and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from sampler.posterior.assessment.drift import (
    EDGES,
    DriftPart,
    DriftRows,
    count_cells,
    count_rows,
    training_parts,
    watch_rows,
)
from sampler.posterior.several.posterior import SeveralPosterior
from tests.support.models import kinds

ROWS = 40  # of a week


def part_of(name: str, role: str = "feature", count: int = 2000, **more) -> DriftPart:
    """Return a part of standard normal training rows."""
    values = np.random.default_rng(1).normal(size=count)
    edges = np.quantile(values, EDGES)
    ends = [f"{edge:.3g}" for edge in edges]
    part = DriftPart(name, role, "number", [0] * (len(edges) + 5), edges.tolist(), ends, [], units=count)
    return replace(part, training=cells(part, values), **more)


def cells(part: DriftPart, values) -> list[int]:
    return count_cells(part, 1 + np.searchsorted(part.edges, values)).tolist()


def weeks_of(parts, rng, likeness=0.0, shift=0.0, begin=0, count=30):
    """Count rows of weeks that resemble themselves, with a shift from a week on."""
    weeks = {}
    for week in range(count):
        own = [
            np.sqrt(likeness) * rng.normal() + np.sqrt(1 - likeness) * rng.normal(size=ROWS) for _ in parts
        ]
        moved = shift if week >= begin else 0.0
        weeks[week] = [cells(part, values + moved) for part, values in zip(parts, own, strict=True)]
    return weeks


@pytest.mark.parametrize("likeness", [0.0, 0.5])
def test_rows_like_the_training_rows_raise_no_alarm(likeness):
    """Nor do weeks whose rows resemble each other much, which are looked at each week."""
    parts = [part_of("a"), part_of("b"), part_of("y", "prediction")]
    for seed in range(5):
        weeks = weeks_of(parts, np.random.default_rng(seed), likeness)
        for now in range(1, 31, 3):
            assert watch_rows(parts, weeks, 0, now).verdict in {"too_few", "resembles"}


def test_a_shift_is_found_named_and_dated():
    """A shift of two sd is, after ten good weeks; weeks that were forgotten change no verdict."""
    parts = [part_of("a"), part_of("b"), part_of("y", "prediction")]
    rng = np.random.default_rng(3)
    weeks = weeks_of(parts, rng, 0.1)
    for week, late in weeks_of(parts, rng, 0.1, shift=2.0).items():
        if week >= 10:
            weeks[week][0] = late[0]
    report = watch_rows(parts, weeks, 0, 24)
    assert (report.verdict, report.reasons[0].name, report.since) == ("drifted", "a", 10)
    assert "a is above" in report.text
    assert [each.name for each in report.reasons] == ["a"]
    before = watch_rows(parts, weeks, 0, 10)
    assert before.verdict == "resembles"
    kept = {week: counts for week, counts in weeks.items() if week >= 5}
    forgotten = watch_rows(parts, kept, 0, 24)
    assert forgotten.verdict == "drifted"
    assert forgotten.evidence <= report.evidence


def test_few_training_rows_leave_room():
    """Limits are what few units don't exceed; spans of weeks count once, when they have ended."""
    many, few = part_of("a"), part_of("a", count=2000, units=10)
    assert (few.limits(1e-4) >= many.limits(1e-4)).all()
    shares = [sum(many.training[cell] for cell in held) / 2000 for held in many.sets().values()]
    assert (many.limits(1e-4) > shares).all()
    spans = [part_of("a", span=8)]
    assert watch_rows(spans, weeks_of(spans, np.random.default_rng(1)), 0, 7).verdict == "too_few"
    assert watch_rows(spans, weeks_of(spans, np.random.default_rng(1)), 0, 8).verdict == "resembles"


@pytest.mark.slow
@pytest.mark.sampled(slow=12)
@pytest.mark.parametrize("name", kinds.KINDS)
def test_rows_of_every_kind_of_model_are_counted(name):
    """Its training rows, asked about again, are in the cells that they were counted in, by outcome."""
    kind, posterior = kinds.Kind(name), kinds.fitted(name)
    several = isinstance(posterior, SeveralPosterior)
    for each in [posterior[outcome] for outcome in posterior.outcomes] if several else [posterior]:
        coded = each.encode(kind.rows)
        mean = each.predict(coded, level=None).mean
        predicted = {each.schema.target.name: (mean, each.classes if mean.ndim == 2 else None)}
        few = np.arange(kinds.ROWS)
        parts = training_parts(each.schema, each.header.grid.cuts, coded, predicted, few)
        counts = count_rows(parts, [DriftRows.of(each.schema, coded, mean)])
        assert [part.name for part in parts][-1:] == [each.schema.target.name]
        assert counts == [part.training for part in parts]
        assert all(sum(count) == kinds.ROWS for count in counts)
