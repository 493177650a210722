"""`sampler.storage.model_header`: the facts of a model stored beside its draws."""

from dataclasses import replace

import numpy as np
import pytest

from sampler import prepare
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
