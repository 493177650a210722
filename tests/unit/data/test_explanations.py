"""Explanations: one question, one answer and one guard for all, so that a new one takes few files."""

import re
from pathlib import Path

import pytest

from app.api.explanations import router
from app.services.explanations.guard import Question

ROOT = Path(__file__).parents[3]
SOURCES = [file for package in ("sampler", "app", "worker") for file in (ROOT / package).rglob("*.py")]


@pytest.mark.parametrize("name", ["contrast", "accumulated_effects", "interactions", "shap"])
def test_few_files_spell_an_explanation(name):
    """They are its computation, result, work and charts, a posterior's method, its service and faces."""
    spelled = [str(file.relative_to(ROOT)) for file in SOURCES if re.search(rf"\b{name}\b", file.read_text())]
    assert len(spelled) <= 10, spelled


def test_every_question_has_a_route_that_documents_its_answer():
    """A route's response is the class that the question's `answer` returns: there is no other schema."""
    documented = {route.response_model for route in router.routes}
    questions = [each for each in _below(Question) if each.__doc__ and "answer" in vars(each)]
    assert len(questions) >= 10
    assert {each.answer.__annotations__["return"] for each in questions} <= documented


def _below(kind):
    return [each for child in kind.__subclasses__() for each in (child, *_below(child))]
