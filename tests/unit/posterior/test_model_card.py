"""A model card says what the posterior and its scores say, as Markdown and as HTML."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

from sampler import Posterior
from sampler.data.scalars import number_to_text
from sampler.posterior.charts.effects import dependence
from sampler.posterior.charts.style import ChartStyle, svg_element
from sampler.posterior.results.card_document import ModelCard
from tests.support.models.random_posteriors import make_posterior

TITLES = [
    "Model",
    "What can be used?",
    "Scores on held-out rows",
    "Do the chains agree?",
    "Importance",
    "Effects",
    "Data",
    "Limits",
    "Settings",
]
SCORES = {
    "rows": 12,
    "rmse": 1.23456,
    "coverage": [{"level": 0.9, "interval": "predictive", "coverage": 0.75, "lower": 0.4, "upper": 0.9}],
    "intervals_verdict": {"text": "The intervals are too narrow.", "advice": None},
}


class Cells(HTMLParser):
    """The text of every cell and heading of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.found.append(data)


def test_the_figures_are_the_posterior_s_own():
    """Sections, shares, effects and verdict equal those of the posterior; both forms have them."""
    posterior, _, _ = make_posterior(2)
    card = posterior.model_card(scores=SCORES, facts={"Name": "first"})
    assert [section.title for section in card.sections] == TITLES
    model, _, held_out, chains, importance, effects, data, _, settings = card.sections
    assert ("Name", "first") in model.tables[0].rows
    assert [row[0] for row in data.tables[0].rows] == ["x1", "x2", "x3", "c"]
    missing = {name: int(count) for name, _, _, count in data.tables[0].rows}
    assert missing == {"x1": 0, "x2": 12, "x3": 0, "c": 0}
    summary = posterior.summary()
    assert chains.sentences[0] == f"Verdict: {summary.verdict.replace('_', ' ')}."
    assert ("Root mean square error of the posterior mean", "1.235") in held_out.tables[0].rows
    assert held_out.tables[1].rows == [("90% predictive", "75.0%", "40.0% to 90.0%")]
    shares = posterior.inclusion()
    order = np.argsort(-shares.mean, kind="stable")
    assert [row[0] for row in importance.tables[0].rows] == [shares.names[j] for j in order]
    first = shares.names[order[0]]
    effect = posterior.partial_dependence([first])
    assert effects.pictured[0].heads[0] == first
    assert effects.pictured[0].rows[0][1].startswith(f"{number_to_text(effect.mean[0])} (")
    assert settings.sentences[0].startswith("Family gaussian, method bart, trees")
    assert settings.sentences[1].startswith("Prior: k ")
    assert not any("_" in sentence for sentence in settings.sentences), "labels, no raw names"
    assert all(section.title in card.to_markdown() for section in card.sections)
    numbers = Cells(card.to_html()).found
    assert {*TITLES, "1.235", "75.0%"} <= set(numbers)


def test_scores_of_rows_are_those_of_score():
    """With rows the card has their scores; without any it says that nothing was measured."""
    posterior, X, _ = make_posterior(2)
    y = np.random.default_rng(1).normal(10, 1, len(X["x1"]))
    _, _, held_out, _, importance, *_ = posterior.model_card(X, y).sections
    rows = dict(held_out.tables[0].rows)
    ranked = posterior.importance(X, y).to_json()["features"]
    assert [row[0] for row in importance.tables[0].rows] == [each["name"] for each in ranked]
    assert importance.tables[0].rows[0][1] == number_to_text(ranked[0]["mean"], 3)
    shares = dict(zip(posterior.inclusion().names, posterior.inclusion().mean, strict=True))
    assert importance.tables[0].rows[0][3] == f"{shares[ranked[0]['name']]:.1%}"
    scores = posterior.score(X, y)
    assert rows["Mean log density of the outcomes"] == f"{scores['log_score']:.4g}"
    assert "no row was held out" in posterior.model_card().to_markdown()


def test_names_are_text():
    """Names never become markup: not in HTML, and in Markdown neither marks nor further cells."""
    posterior, _, _ = make_posterior(2)
    names = {"HTML": "<script>x</script>", "Bar": "a|b", "Marks": "`$x*_#[y](z)"}
    card = posterior.model_card(facts=names)
    html, text = card.to_html(), card.to_markdown()
    assert set(names.values()) <= set(Cells(html).found)
    assert "<script>" not in html
    for fact, name in names.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {fact} |"))
        assert line.replace("\\", "") == f"| {fact} | {name} |"
        assert sum(line[i] == "|" and line[i - 1] != "\\" for i in range(len(line))) == 3


def test_the_card_of_a_file_is_the_same():
    """A model read from its file elsewhere has the same card."""
    posterior, _, _ = make_posterior(3)
    assert Posterior.from_bytes(posterior.to_bytes()).model_card() == posterior.model_card()


def test_pictures_are_drawn_of_names_as_they_are():
    """The HTML has a chart of each effect, Markdown its figures."""
    posterior, _, _ = make_posterior(2)
    card = posterior.model_card()
    effects = card.sections[5]
    assert card.to_html().count("<svg") == len(effects.pictured) > 0
    heads = " | ".join(effects.pictured[0].heads)
    assert heads in card.to_markdown()
    assert "<svg" not in card.to_markdown()
    assert effects.pictured[0].rows[0][1] not in card.to_html()
    bare = ModelCard(card.title, [replace(effects, pictures=[])])
    assert effects.pictured[0].rows[0][1] in bare.to_html(), "without matplotlib the page has the figures"
    effect = replace(posterior.partial_dependence(["x1"]), features=["$x_{1$"])
    assert "$x_{1$" in svg_element(ChartStyle(), dependence, effect, "y")
