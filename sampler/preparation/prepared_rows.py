"""Preparation of a fit to one outcome or to several: training data and the model's header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sampler.data.rows import Rows
from sampler.definitions.several import are_several
from sampler.preparation.encode import prepare_one, resemblance_warnings
from sampler.preparation.from_header import prepare_one_again
from sampler.preparation.several import check_several, prepare_several, prepare_several_again
from sampler.prepared_fit import PreparedFit
from sampler.storage.model_header import Header


def prepare(
    X: Any,
    y: Any,
    *,
    target_name: str | Sequence[str] | None = None,
    missing_target: str = "refuse",
    **arguments: Any,
) -> PreparedFit:
    """Read, check and encode the data of a fit; the arguments are those of `fit`, and of `prepare_rows`."""
    if are_several(y):
        check_several(arguments)
    rows = Rows.of_arguments(X, y, arguments, target_name).to_fit(missing_target)
    prepared = prepare_rows(rows, **arguments)
    return replace(prepared, warnings=[*prepared.warnings, *resemblance_warnings(rows, prepared)])


def prepare_rows(rows: Rows, **arguments: Any) -> PreparedFit:
    """Plan and encode a fit; the arguments, and what is raised, are those of the fit of so many outcomes."""
    return (prepare_several if rows.others else prepare_one)(rows, **arguments)


def prepare_again(header: Header, X: Any, y: Any, weights: Any = None) -> PreparedFit:
    """Prepare a fitted model's training data again; raises as `prepare_one_again`."""
    if header.others:
        return prepare_several_again(header, X, y, weights)
    return prepare_one_again(header, X, y, weights)
