"""Views: filled with the figures of an answer by name, and read from stored documents."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from pydantic import BaseModel

from app import api, services, web
from app.services.explanations.contrasts import AverageView
from app.services.explanations.diagnostics import HeldOut
from app.services.views import filled, of_document
from sampler.posterior.results.contrasts import ContrastEstimate


def classes_of(package):
    """Classes that the modules of a package define."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for defined in vars(importlib.import_module(module.name)).values():
            if isinstance(defined, type) and defined.__module__ == module.name:
                yield defined


OF_SERVICES = [kind for kind in classes_of(services) if is_dataclass(kind)]
OF_HTTP = [kind for package in (api, web) for kind in classes_of(package) if issubclass(kind, BaseModel)]


def test_a_view_is_filled_by_name_with_plain_values():
    """Arrays become lists and numbers of numpy numbers; fields that are given win."""
    view = filled(AverageView, ContrastEstimate(np.float64(1.5), np.array([0.5]), 2.5, 7), rows=8)
    assert view == AverageView(mean=1.5, lower=[0.5], upper=2.5, rows=8)
    assert type(view.mean) is float


def test_a_view_without_a_figure_is_refused():
    """A field that neither the answer nor the caller has is a mistake of the program."""
    with pytest.raises(AttributeError):
        filled(AverageView, object())


def test_a_stored_document_is_read_with_what_it_lacks_and_without_what_it_has_besides():
    """Documents of earlier versions lack fields that have a default, and may have others."""
    rows = {"row": [1], "actual": [2.0], "mean": [2.5], "lower": [1.0], "upper": [None]}
    stored = {"interval": "predictive", "level": 0.9, "classes": None, "rows": rows, "calibration": []}
    own = {"model_id": "mdl_1", "target": "y", "scores": {}}
    held_out = of_document(HeldOut, stored | own | {"importance": []})
    assert held_out.rows == rows | {"predicted": None}
    assert held_out.pit is None


def test_no_answer_is_defined_twice():
    """No class of HTTP has exactly the fields of a dataclass of the services: that is the schema itself."""
    of_services = {frozenset(each.name for each in fields(kind)): kind for kind in OF_SERVICES}
    named = {kind: frozenset(kind.model_fields) for kind in OF_HTTP}
    assert len(of_services) > 50
    assert len(named) > 20
    assert [kind for kind, names in named.items() if len(names) > 3 and names in of_services] == []
