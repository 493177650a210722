"""`sampler.storage.model_header`: the facts of a model stored beside its draws."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import prepare
from sampler.errors import PackedError
from sampler.storage.file_dialect import FileDialect
from sampler.storage.model_header import Header, with_counts


def test_with_counts_is_the_header_of_a_fit_with_those_counts():
    """Changed counts give the header bytes of a fit with those numbers of draws and chains."""
    X, y = {"x": np.arange(30.0)}, np.arange(30.0)

    def header(**counts):
        return prepare(X, y, num_burnin=100, thin=2, seed=3, **counts).header()

    longer = with_counts(header(num_draws=20, num_chains=4), num_draws=50, num_chains=3)
    assert longer == header(num_draws=50, num_chains=3)
    assert Header.from_bytes(longer).settings["thin"] == 2


def test_the_dialect_of_the_file_is_kept_and_checked():
    """Other counts keep it; a header without one has the bytes it always had; odd entries are refused."""
    prepared = prepare({"x": np.arange(30.0)}, np.arange(30.0))
    dialect = FileDialect("semicolon", "UTF-8", "comma", "day-first", ("k.A.",), {"x": ("-9",), "z": ("?",)})
    dialect = replace(dialect, units={"y": "EUR", "z": "%"})
    assert Header.from_bytes(prepared.header()).dialect is None
    assert b"dialect" not in prepared.header()
    header = replace(prepared, dialect=dialect.of_columns(["x", "y"])).header()
    kept = Header.from_bytes(with_counts(header, num_draws=50, num_chains=3)).dialect
    assert kept == replace(dialect, codes={"x": ("-9",)}, units={"y": "EUR"})
    for odd in (
        {"decimal": "dot"},
        {"dates": 1},
        {"missing": "NA"},
        {"codes": {"x": [1]}},
        {"codes": ["x"]},
        {"units": {"x": 1}},
    ):
        with pytest.raises((ValueError, AttributeError)):
            FileDialect.from_json(odd)


def test_a_report_of_reading_has_the_dialect():
    """The spellings that the upload named count, not those found; a report that tells nothing has none."""
    report = {"format": "csv", "decimal": "comma", "missing": [{"text": "-", "count": 3}], "spellings": ["x"]}
    assert FileDialect.of_report(report) == FileDialect(decimal="comma", missing=("x",))
    assert FileDialect.of_report({"format": "parquet", "compression": None, "missing": None}) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"outcome": np.full(30, np.nan)},
        {"outcome": np.full(30, np.inf)},
        {"outcome": np.zeros(30), "weights": np.zeros(30)},
        {"outcome": np.zeros(30), "exposure": np.full(30, -1.0)},
        {"outcome": np.zeros(30), "lower": np.zeros(30)},
        {"outcome": np.zeros(30), "treatment": np.zeros(30)},
        {"weights": np.ones(30)},
    ],
    ids=["missing", "infinite", "no weight", "no exposure", "one limit", "treatment", "no outcome"],
)
def test_odd_outcomes_of_reference_rows_are_refused(odd):
    """They are finite, with weights and exposures that a fit would take, and both limits or none."""
    prepared = prepare({"x": np.arange(30.0)}, np.arange(30.0))
    kept = Header.from_bytes(prepared.header()).reference_outcomes
    np.testing.assert_array_equal(kept["outcome"], np.arange(30.0))
    with pytest.raises(PackedError, match=r"reference rows|weight|exposure"):
        Header.from_bytes(replace(prepared, reference_outcomes=odd).header())


def test_outcomes_of_reference_rows_are_classes_of_the_model():
    """Indices beyond the classes are refused."""
    prepared = prepare({"x": np.arange(30.0)}, ["a", "b", "b"] * 10, family="probit")
    assert set(Header.from_bytes(prepared.header()).reference_outcomes["outcome"]) == {0.0, 1.0}
    for odd in (-1.0, 0.5, 2.0):
        with pytest.raises(PackedError, match="out of range"):
            Header.from_bytes(replace(prepared, reference_outcomes={"outcome": np.full(30, odd)}).header())
