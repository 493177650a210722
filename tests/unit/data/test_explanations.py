"""Explanations: one question, one answer and one guard for all."""

from app.api.explanations import router
from app.services.explanations.guard import Question


def test_every_question_has_a_route_that_documents_its_answer():
    """A route's response is the view of its question: there is no other schema of an answer."""
    documented = {route.response_model for route in router.routes}
    questions = [each for each in _below(Question) if each.__doc__ and "answer" in vars(each)]
    assert len(questions) >= 10
    assert {each.view for each in questions} <= documented


def _below(kind):
    return [each for child in kind.__subclasses__() for each in (child, *_below(child))]
