"""Cards of forecasters: what one forecasts, how often its intervals held, and what it can't do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sampler.data.scalars import counted, number_to_text
from sampler.forecasts.calibration import ALL, FEW_WINDOWS, STEPS, TOTALS
from sampler.forecasts.forecaster import Forecaster
from sampler.posterior.results.answer import draw
from sampler.posterior.results.card_document import CardTable, ModelCard, Section

LEVEL = 0.9
MOST_STEPS = 60  # in the table


def forecaster_card(forecaster: Forecaster, facts: Mapping[str, str]) -> ModelCard:
    """Describe a forecaster; `facts` are further ones for its first section, by name."""
    sections = [_facts(forecaster, facts), _rehearsed(forecaster), _chains(forecaster), _limits(forecaster)]
    return ModelCard(f"Forecaster of {forecaster.history.target}", sections)


def _facts(forecaster: Forecaster, facts: Mapping[str, str]) -> Section:
    history, settings, of_fit = forecaster.history, forecaster.settings, forecaster.fitted[0]
    asked, season = history.asked, history.asked.season or history.step.seasons
    posterior, count = of_fit.posterior, len(history.keys)
    series = f"{number_to_text(count)}, by {', '.join(asked.series)}" if asked.series else "one"
    first, last = (history.step.text(history.start + at) for at in (history.first.min(), history.last.max()))
    rows = [
        *facts.items(),
        ("Forecasts", history.target),
        ("Time", f"{asked.time}, in steps of {history.step.in_words}, from {first} to {last}"),
        ("Series", series),
        ("Horizon", counted(forecaster.horizon, "step")),
        ("Season", " and ".join(counted(each, "step") for each in season) if max(season) > 1 else "none"),
        ("Known ahead", ", ".join(asked.known) or "nothing"),
        ("Columns of series", ", ".join(history.static) or "none"),
        ("Members", "; ".join(forecaster.members)),
        ("Draws of each", f"{counted(posterior.num_chains, 'chain')} of {posterior.num_draws}"),
        ("Trees of each", number_to_text(settings["num_trees"])),
    ]
    sentence = "Members have equal shares of the paths; no one is chosen."
    return Section("Forecaster", [sentence] * (len(forecaster.fitted) > 1), [CardTable(("", ""), rows)])


def _rehearsed(forecaster: Forecaster) -> Section:
    title, calibration = "How often do intervals hold?", forecaster.calibration
    if not calibration:
        return Section(title, [forecaster.claim(LEVEL)])
    kinds = (STEPS, TOTALS, ALL)[: 2 + (len(calibration.keys) > 1)]
    sentences = [forecaster.claim(LEVEL, kind) for kind in kinds]
    factors = [f"{calibration.factor(kind, LEVEL):.2f}" for kind in (STEPS, TOTALS)]
    sentences.append(
        f"By the rehearsals intervals of steps are {factors[0]} times as wide as those of the paths, and "
        f"those of totals {factors[1]} times; they are never narrower."
    )
    found = forecaster.rehearsals(LEVEL)
    enough = calibration.windows(TOTALS) >= FEW_WINDOWS
    whole = calibration.inside(TOTALS, LEVEL)
    rows = []
    for step in range(1, min(forecaster.horizon, MOST_STEPS) + 1):
        own = np.where((found.step == step) & (found.number > 0), found.number, 0)
        loss, naive = (float(np.nansum(each * own)) for each in (found.loss, found.naive_loss))
        inside = float(np.nansum(found.inside * own))
        number, totals = int(own.sum()), whole[:, :, step - 1]
        of_totals = f"{np.nanmean(totals):.0%}" if enough and not np.isnan(totals).all() else "too few"
        share = f"{inside / number:.0%}" if number else "none came"
        rows.append(
            (str(step), str(number), share, number_to_text(loss / naive, 2) if naive else "", of_totals)
        )
    heads = (
        "Step ahead",
        "Outcomes",
        f"Inside {LEVEL:.0%} intervals",
        "Loss beside the last season's",
        "Totals up to it inside",
    )
    picture = draw("forecasts:picture_of_rehearsals", forecaster)
    return Section(title, sentences, [CardTable(heads, rows)], pictures=[picture] if picture else [])


def _chains(forecaster: Forecaster) -> Section:
    summary = forecaster.summary()
    return Section(
        "Would another fit say the same?", [f"Verdict: {summary.verdict.replace('_', ' ')}.", summary.text]
    )


def _limits(forecaster: Forecaster) -> Section:
    history, horizon = forecaster.history, forecaster.horizon
    seasonal = [each.member for each in forecaster.fitted if each.member.difference == "season"]
    short = int((~seasonal[0].suits(history)).sum()) if seasonal else 0
    sentences = [f"The history has {history.in_words}."]
    if short:
        sentences.append(
            f"Of {short} series members of seasons don't tell: there are fewer than two of these."
        )
    if history.asked.known:
        sentences.append(f"A forecast needs a plan of {', '.join(history.asked.known)} for each step.")
    sentences += [
        f"Steps without a row are {'0' if history.asked.gaps == 'zero' else 'missing, and not learnt'}.",
        f"It forecasts {counted(horizon, 'step')}, and nothing further; totals within these.",
        "Paths continue what the past has shown: what never happened there isn't in them.",
        "Reported outcomes move its start. Fit again when a horizon of new ones has come, or when they say "
        f"that intervals no longer hold. After {counted(2 * horizon, 'step')} without an outcome a series "
        "isn't forecast.",
    ]
    return Section("Limits", sentences)
