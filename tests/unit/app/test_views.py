"""Views: filled with the figures of an answer by name, and read from stored documents."""

import copy
import importlib
import json
import pickle
import pkgutil
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated

import numpy as np
import pytest
from pydantic import BaseModel, TypeAdapter

from app import api, services, web
from app.services.explanations.diagnostics import HeldOut
from app.services.views import VIEWS, filled, lines_of, of_document, schema_of
from app.web.json_pieces import written
from sampler.array_types import Axes, ByRow, Floats, Longs
from sampler.posterior.protocol import Document
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
    average = VIEWS[ContrastEstimate]
    view = filled(average, ContrastEstimate(np.float64(1.5), np.array([0.5]), 2.5, 7), rows=8)
    assert view == average(mean=1.5, lower=[0.5], upper=2.5, rows=8)
    assert type(view.mean) is float


def test_a_view_without_a_figure_is_refused():
    """A field that neither the answer nor the caller has is a mistake of the program."""
    with pytest.raises(AttributeError):
        filled(VIEWS[ContrastEstimate], object())


@dataclass(frozen=True, eq=False, repr=False)
class Report(Document):
    """A report."""

    mean: Annotated[float, "The mean."]
    most: dict[str, int]
    of_class: Annotated[str | None, "Its class."] = None


@dataclass(frozen=True)
class Holder:
    """An answer with a report."""

    report: Report


def test_a_document_is_read_as_a_dict_and_by_attributes():
    """It is the JSON of its fields, without those that are absent, and its schema is that of a dict."""
    report = Report(0.5, {"a": 1})
    assert json.loads(json.dumps(report)) == report == {"mean": 0.5, "most": {"a": 1}}
    assert (report.mean, report["mean"], report.of_class) == (0.5, 0.5, None)
    assert pickle.loads(pickle.dumps(report)) == report == copy.deepcopy(report)
    assert Report(0.5, {}, "red") == {"mean": 0.5, "most": {}, "of_class": "red"}

    document = TypeAdapter(schema_of(Report, "ReportView", "of_class? mean most")).json_schema()
    assert document["required"] == ["mean", "most"]
    assert document["properties"]["mean"]["description"] == "The mean."
    assert document["properties"]["of_class"]["default"] is None
    view = schema_of(Holder, "HolderView", "model_id report")
    shown = filled(view, Holder(report), model_id="mdl_1")
    assert written(shown) == b'{"model_id":"mdl_1","report":{"mean":0.5,"most":{"a":1}}}'


@dataclass(frozen=True)
class Inner:
    """A figure.

    Attributes
    ----------
    value
        It has a shape.

    """

    value: Annotated[Floats, Axes("row", "class?"), "By row."]


@dataclass(frozen=True)
class Outer:
    """An answer with another one, and with lines."""

    names: tuple[str, ...]
    mean: Annotated[ByRow, "Means."]
    hits: Annotated[Longs, Axes("row")]
    inner: Inner | None
    order = (1, 0)

    @property
    def best(self) -> Annotated[str, "The best."]:
        """The best one."""
        return self.names[-1]


def test_a_schema_has_the_shapes_and_descriptions_of_the_answers_types():
    """Arrays are lists by their axes; answers in answers, properties, lines and facts are there too."""
    inner = schema_of(Inner, "InnerView", "value")
    lines = lines_of(Outer, "LineView", "name=names mean hits", "A line.", "All of them.")
    view = schema_of(Outer, "OuterView", "model_id labels=names best inner lines", lines=lines)

    document = TypeAdapter(view).json_schema()
    shapes = document["$defs"]["InnerView"]["properties"]["value"]
    assert document["$defs"]["InnerView"]["description"] == "A figure."
    assert [each["items"]["type"] for each in shapes["anyOf"]] == ["number", "array"]
    assert shapes["description"] == "By row."
    assert document["required"] == ["model_id", "labels", "best", "inner", "lines"]
    assert document["properties"]["best"]["description"] == "The best."
    assert document["properties"]["lines"]["description"] == "All of them."
    assert document["$defs"]["LineView"]["properties"]["hits"]["type"] == "integer"

    answer = Outer(("a", "b"), np.array([0.5, 1.5]), np.array([1, 2]), Inner(np.eye(2)))
    shown = filled(view, answer, model_id="mdl_1")
    assert shown.inner == inner(value=[[1.0, 0.0], [0.0, 1.0]])
    assert [vars(each) for each in shown.lines] == [
        {"name": "b", "mean": 1.5, "hits": 2},
        {"name": "a", "mean": 0.5, "hits": 1},
    ]


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
