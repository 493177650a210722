"""Model cards of several outcomes: what they have in common, and each outcome's own sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from sampler.data.scalars import number_to_text, range_to_text
from sampler.posterior.charts.model_card import LEVEL, model_card
from sampler.posterior.core.intervals import equal_tailed
from sampler.posterior.results.card_document import CardTable, ModelCard, Section
from sampler.posterior.several.posterior import SeveralPosterior

TOGETHER = "What have the outcomes in common?"
OWN, DATA = slice(1, -3), slice(1, -2)  # sections of a card about its outcome, without and with its columns


def several_card(
    posterior: SeveralPosterior,
    joint: Mapping[str, Any] | None,
    scores: Mapping[str, Mapping[str, Any] | None],
    importance: Mapping[str, Mapping[str, Any] | None],
    facts: Mapping[str, str],
) -> ModelCard:
    """Describe a posterior of several outcomes.

    Parameters
    ----------
    posterior
        The posterior.
    joint
        Scores of the outcomes together, as `SeveralPosterior.score` returns them; None where there are none.
    scores, importance
        Of each outcome by name, see `sampler.posterior.charts.model_card.model_card`.
    facts
        Further facts for the first section, by name.

    Returns
    -------
    ModelCard
        The card.

    """
    cards = {
        name: model_card(posterior[name], scores.get(name), importance.get(name), facts)
        for name in posterior.outcomes
    }
    shell = next(iter(cards.values())).sections
    columns = {tuple(column.name for column in posterior[name].schema.columns) for name in cards}
    own_sections = OWN if len(columns) == 1 else DATA
    own = [
        replace(section, title=f"{name}: {section.title}")
        for name, card in cards.items()
        for section in card.sections[own_sections]
    ]
    title = f"Model of {', '.join(posterior.outcomes)}"
    return ModelCard(title, [shell[0], _together(posterior, joint), *own, *shell[own_sections.stop :]])


def _together(posterior: SeveralPosterior, joint: Mapping[str, Any] | None) -> Section:
    rows = []
    for j, k in combinations(range(len(posterior.outcomes)), 2):
        draws = posterior.correlations[:, :, j, k].reshape(-1)
        lower, upper = map(float, equal_tailed(draws, LEVEL))
        ends = range_to_text(lower, upper, 2)
        names = f"{posterior.outcomes[j]}, {posterior.outcomes[k]}"
        rows.append((names, number_to_text(float(np.mean(draws)), 2), ends))
    tables = [CardTable(("Errors of", "Correlation", f"{LEVEL:.0%} interval"), rows)]
    if joint is None:
        return Section(TOGETHER, ["No held-out rows tell of them together."], tables)
    figures = {
        "Log score of all outcomes": joint["log_score"],
        "What correlation is worth of it": joint["gain"],
        "Its standard error": joint["gain_error"],
        "Energy score": joint["energy_score"],
    }
    named = [(name, number_to_text(value, 3)) for name, value in figures.items() if value is not None]
    tables.append(CardTable(("Held-out rows", f"{joint['rows']}"), named))
    shares = [
        (f"{each['level']:.0%}", *(f"{each[kind]:.0%}" for kind in ("region", "simultaneous", "separate")))
        for each in joint["coverage"]
    ]
    heads = ("Level", "In the joint region", "In intervals for all at once", "In intervals each by itself")
    sentence = "Of the held-out rows, so many have all outcomes inside:"
    return Section(TOGETHER, [sentence] if shares else [], [*tables, CardTable(heads, shares)])
