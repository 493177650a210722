"""Answers and posteriors as cards of HTML for notebooks, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sampler.data.scalars import counted, in_unit, number_to_text, numbers_to_text, range_to_text
from sampler.noise import CONSTANT
from sampler.posterior.results.answer import Answer
from sampler.posterior.results.columns import by_class
from sampler.posterior.results.comparison import ModelComparison
from sampler.posterior.results.interactions import Interactions
from sampler.posterior.results.prediction import Prediction, prediction_columns
from sampler.posterior.results.rankings import Inclusion, PermutationImportance
from sampler.posterior.results.scores import Convergence

if TYPE_CHECKING:
    from sampler.posterior.posterior import Posterior
    from sampler.posterior.results.contrasts import Contrast
    from sampler.posterior.results.treatment_effects import TreatmentEffects

SHOWN_ROWS = 20  # rows in a prediction's card
PRINTED_ROWS, PRINTED_COLUMNS, PRINTED_LINES = 5, 6, 10  # of texts
SHOWN_FEATURES = 30  # features in other cards
ACCENT = "#0b6b72"
SCORES = {
    "rmse": "Root mean square error of the posterior mean",
    "rmse_se": "Standard error of the RMSE, by groups",
    "linear_rmse": "The same of least squares without trees",
    "accuracy": "Accuracy of the most probable class",
    "majority_rate": "Accuracy of always naming the most frequent class",
    "auc": "Area under the ROC curve",
    "log_score": "Mean log density of the outcomes",
    "crps": "Continuous ranked probability score",
    "deviance": "Mean Poisson deviance",
    "concordance": "Concordance of times and predictions (Harrell's C)",
    "integrated_brier": "Integrated Brier score",
    "base_integrated_brier": "The same of the Kaplan-Meier curve without features",
    "log_loss": "Log loss",
    "base_log_loss": "Log loss of the classes' shares alone",
    "brier": "Brier score",
    "rps": "Ranked probability score",
    "base_rps": "Ranked probability score of the classes' shares alone",
}
OF_UNIT = {"rmse", "rmse_se", "linear_rmse", "crps"}  # scores in the unit of the outcome
COLOURS = {"converged": ACCENT, "approximate": "#b8600b", "not_converged": "#a5343f"}


def posterior_card(posterior: Posterior) -> str:
    """Describe a posterior in HTML: its data, its draws and whether its chains agree."""
    schema, settings, summary = posterior.schema, posterior.settings, posterior.summary()
    trees = trees_in_words(posterior, posterior.leaf_counts.shape[2])
    kinds = [f"{column.name} ({column.kind})" for column in schema.columns]
    more = f" and {len(kinds) - SHOWN_FEATURES} more" if len(kinds) > SHOWN_FEATURES else ""
    rows = [
        ("features", escape(", ".join(kinds[:SHOWN_FEATURES]) + more)),
        ("method", escape(f"{settings.get('method', 'bart')}, {posterior.family}, {trees} trees a draw")),
        ("draws", f"{posterior.num_chains} chains of {posterior.num_draws}"),
    ]
    if (noise := noise_in_words(posterior)) is not None:
        rows.append(("noise", escape(noise)))
    verdict = f'<b style="color:{COLOURS[summary.verdict]}">{escape(summary.verdict.replace("_", " "))}</b>'
    reasons = "; ".join(map(str, summary.reasons))
    rows.append(("use", escape(posterior.use().text)))
    rows.append(
        ("verdict", ". ".join([verdict, *(escape(text) for text in (reasons, summary.advice) if text)]))
    )
    rows += [("warning", escape(warning)) for warning in posterior.warnings]
    body = "".join(f'<tr><th style="text-align:left">{name}</th>{_left(cell)}</tr>' for name, cell in rows)
    return f"<div><b>Posterior of {escape(schema.target.name)}</b><table>{body}</table></div>"


def trees_in_words(posterior: Posterior, most: int) -> str:
    """Say how many trees a draw has: `most`, or how many where their number is drawn."""
    if (drawn := posterior.summary().num_trees) is None:
        return str(most)
    return "{mean:.0f} ({lower:.0f} to {upper:.0f} in 90% of draws, {most} at most)".format(
        **drawn, most=most
    )


def noise_in_words(posterior: Posterior) -> str | None:
    """Say how large the noise's standard deviation is, of what, and how it was chosen; None for classes."""
    if posterior.sigma is None:
        return None
    size = _size_of_noise(posterior, float(posterior.sigma.mean()))
    choice = posterior.header.noise_choice
    chosen = "" if choice is None else f"; {choice.in_words(posterior.settings.get('noise', CONSTANT))}"
    return size + chosen


def _size_of_noise(posterior: Posterior, sd: float) -> str:
    transform = posterior.header.transform
    if not transform:
        return f"standard deviation {in_unit(number_to_text(sd), posterior.unit)}"
    name = posterior.schema.target.name
    of = f"standard deviation {number_to_text(sd)} of {transform.of(name)}"
    if transform.kind != "log" or posterior.degrees() is not None:
        return of
    return f"{of}, about {number_to_text(100 * np.sqrt(np.expm1(sd * sd)), 2)}% of {name}"


def prediction_card(prediction: Prediction) -> str:
    """Show the first rows of a prediction in HTML, with the kind of its intervals and its warnings."""
    named = by_class(prediction_columns(prediction), prediction.classes)
    count = len(prediction)
    flagged = any(prediction.flags)
    heads = ["row", *named, *(["flags"] if flagged else [])]
    rows = []
    columns = [_cells(values[:SHOWN_ROWS]) for values in named.values()]
    for i, figures in enumerate(zip(*columns, strict=True)):
        cells = [str(i), *figures]
        marks = "; ".join(f"{flag.column}: {flag.flag.replace('_', ' ')}" for flag in prediction.flags[i])
        rows.append([*cells, *([marks] if flagged else [])])
    hidden = f"<p>... and {number_to_text(count - SHOWN_ROWS)} more rows</p>" if count > SHOWN_ROWS else ""
    notes = [*prediction.warnings, *(each.text for each in prediction.claims)]
    warnings = "".join(f"<p>{escape(text)}</p>" for text in notes)
    title = f"{number_to_text(count)} predictions, {prediction.interval} intervals"
    return f"<div><b>{title}</b>{_table(heads, rows)}{hidden}{warnings}</div>"


def prediction_text(prediction: Prediction) -> str:
    """Show the first rows of a prediction as text of about ten lines, with the number of its warnings."""
    named = by_class(prediction_columns(prediction), prediction.classes)
    lines = _printed(
        f"Prediction of {counted(len(prediction), 'row')}, {prediction.interval} intervals", named
    )
    lines += [f"{counted(len(prediction.warnings), 'warning')} in .warnings"] if prediction.warnings else []
    return "\n".join(lines)


def answer_text(answer: Answer | Convergence) -> str:
    """Show the first lines of an answer: of its own text, or of its columns."""
    if type(answer).__str__ is object.__str__:
        named = answer.columns()
        return "\n".join(_printed(f"{type(answer).__name__}, {counted(_length(named), 'row')}", named))
    return first_lines(str(answer))


def first_lines(text: str) -> str:
    """Return the first lines of a text, and how many more it has."""
    lines = text.splitlines()
    more = len(lines) - PRINTED_LINES
    return "\n".join(
        [*lines[:PRINTED_LINES], *([f"... {counted(more, 'more line')} in print()"] * (more > 0))]
    )


def answer_card(answer: Answer) -> str:
    """Show the first rows of an answer's columns in HTML."""
    named = answer.columns()
    rows = zip(*(_cells(values[:SHOWN_ROWS]) for values in named.values()), strict=True)
    more = _length(named) - SHOWN_ROWS
    notes = [f"... and {counted(more, 'more row')}"] if more > 0 else []
    return table_card(type(answer).__name__, [*named], rows, notes)


def _printed(title: str, named: Mapping[str, Any]) -> list[str]:
    """Write a title and the first rows of columns as lines."""
    shown, count = list(named)[:PRINTED_COLUMNS], _length(named)
    more = (
        f", {counted(len(named) - len(shown), 'more column')} in to_pandas()"
        if len(named) > len(shown)
        else ""
    )
    columns = [["", *map(str, range(min(count, PRINTED_ROWS)))]]
    columns += [[name, *_cells(named[name][:PRINTED_ROWS])] for name in shown]
    widths = [max(map(len, column)) for column in columns]
    lines = [f"<{title}{more}>"]
    lines += [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in zip(*columns, strict=True)
    ]
    left = count - PRINTED_ROWS
    return lines + ([f"... and {counted(left, 'more row')}"] if left > 0 else [])


def _length(named: Mapping[str, Any]) -> int:
    return len(next(iter(named.values()), ()))


def _cells(values: Any) -> list[str]:
    """Write values of one column: figures with equal decimal places, words as they are."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        return numbers_to_text(values, 5)
    return [
        number_to_text(each, 5)
        if isinstance(each, float | int) and not isinstance(each, bool)
        else _word(each)
        for each in (values.tolist() if isinstance(values, np.ndarray) else values)
    ]


def _word(value: Any) -> str:
    return "missing" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)


def contrast_card(contrast: Contrast) -> str:
    """Show the averages of a contrast in HTML: what is subtracted from what, and its warnings."""
    several = contrast.classes is not None and np.ndim(contrast.average.mean)
    rows = []
    for name, estimate in contrast.named_estimates().items():
        for k, ends in enumerate(np.stack(np.atleast_1d(*estimate[:3]), axis=-1).tolist()):
            label = [contrast.classes[k]] if several and contrast.classes is not None else []
            rows.append([name, *label, number_to_text(estimate.rows), *numbers_to_text(ends)])
    ends = [f"{end} {contrast.level:.0%}" for end in ("lower", "upper")]
    heads = ["", *(["class"] if several else []), "rows", "difference", *ends]
    return table_card(contrast.difference, heads, rows, contrast.warnings)


def effects_card(effects: TreatmentEffects) -> str:
    """Show average effects in HTML: what is subtracted from what, and what must hold."""
    rows = [
        [
            name,
            number_to_text(each.rows),
            *numbers_to_text([each.mean, each.lower, each.upper]),
            f"{each.positive:.0%}",
        ]
        for name, each in effects.named_estimates().items()
    ]
    ends = [f"{end} {effects.level:.0%}" for end in ("lower", "upper")]
    heads = ["", "rows", "effect", *ends, f"above {effects.neutral:g}"]
    return table_card(effects.difference, heads, rows, effects.notes)


def pairs_card(interactions: Interactions) -> str:
    """Show the strongest interactions in HTML."""
    rows = [
        [
            f"{a} and {b}",
            *numbers_to_text((part[i] for part in (
                interactions.strength, interactions.strength_lower, interactions.strength_upper,
            )), 3),
            *(number_to_text(float(part[i]), 3) for part in (
                interactions.h, interactions.inclusion, interactions.expected,
            )),
        ]
        for i, (a, b) in enumerate(interactions.pairs[:SHOWN_ROWS])
    ]  # fmt: skip
    ends = [f"{end} {interactions.level:.0%}" for end in ("lower", "upper")]
    title = f"Interactions; strength is the standard deviation over rows, of {interactions.scale}"
    return table_card(title, ["features", "strength", *ends, "H", "share", "expected"], rows)


def scores_card(scores: Mapping[str, Any]) -> str:
    """Show scores in HTML in words, with the coverage of intervals and the verdict on them."""
    rows = score_rows(scores)
    rows += [
        [f"Outcomes inside {each['level']:.0%} intervals", f"{each['coverage']:.1%}", _share_ends(each)]
        for each in scores.get("coverage") or ()
    ]
    verdict = scores.get("intervals_verdict") or {}
    notes = [text for text in map(verdict.get, ("text", "others", "advice")) if text]
    title = f"Scores on {number_to_text(scores['rows'])} rows"
    return table_card(title, ["", "", "95% interval"], rows, notes)


def score_rows(scores: Mapping[str, Any], unit: str | None = None) -> list[list[str]]:
    """Name the known scores in words, each with its value and, where it has one, its 95% interval.

    `unit` is that of the outcome, which some of them have too.
    """
    rows = []
    for key, label in SCORES.items():
        if (score := scores.get(key)) is None:
            continue
        plain = isinstance(score, float | int)
        ends = "" if plain else range_to_text(score["lower"], score["upper"])
        value = number_to_text(score if plain else score["value"])
        rows.append([label, in_unit(value, unit) if key in OF_UNIT else value, ends])
    return rows


def scores_text(scores: Mapping[str, Any]) -> str:
    """Show the first scores in words, as text."""
    rows = [f"{label:56}{value}{f' ({ends})' if ends else ''}" for label, value, ends in score_rows(scores)]
    return first_lines("\n".join([f"<Scores on {counted(scores['rows'], 'row')}>", *rows]))


def _share_ends(share: Mapping[str, float]) -> str:
    return f"{share['lower']:.1%} to {share['upper']:.1%}"


def comparison_card(comparison: ModelComparison) -> str:
    """Show the differences of two models' scores, with their standard errors."""
    heads = ["score", "first", "second", "difference", "standard error", "better"]
    rows = [
        [
            each.score,
            number_to_text(each.first),
            number_to_text(each.second),
            number_to_text(each.difference),
            number_to_text(each.error, 2),
            each.better or "no clear difference",
        ]
        for each in comparison.differences
    ]
    return table_card(f"{counted(comparison.rows, 'row')}: first less second", heads, rows)


def table_card(
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    chosen: int | None = None,
) -> str:
    """Write a table in HTML under a title, with notes below; the row `chosen` is bold."""
    lines = []
    for place, (first, *others) in enumerate(rows):
        cells = [escape(cell) for cell in (first, *others)]
        cells = [f"<b>{cell}</b>" for cell in cells] if place == chosen else cells
        lines.append(f"<tr>{_left(cells[0])}{''.join(map(_right, cells[1:]))}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><b>{escape(title)}</b><table><tr>{head}</tr>{''.join(lines)}</table>{below}</div>"


def ranking_card(ranked: PermutationImportance | Inclusion) -> str:
    """Show importances in HTML, the largest first, with bars."""
    most, order, title = max(float(np.max(ranked.mean, initial=0.0)), 1e-300), ranked.order, ranked.headline
    rows = []
    for j in order[:SHOWN_FEATURES]:
        share = max(0.0, float(ranked.mean[j])) / most
        bar = f'<div style="background:{ACCENT};height:0.7em;width:{100 * share:.0f}px"></div>'
        figures = numbers_to_text(part[j] for part in (ranked.mean, ranked.lower, ranked.upper))
        rows.append(f"<tr>{_left(escape(ranked.names[j]))}{''.join(map(_right, figures))}{_left(bar)}</tr>")
    heads = "".join(f"<th>{name}</th>" for name in ("feature", "mean", "lower", "upper", ""))
    more = len(order) - SHOWN_FEATURES
    hidden = f"<p>... and {more} more features</p>" if more > 0 else ""
    return f"<div><b>{escape(title)}</b><table><tr>{heads}</tr>{''.join(rows)}</table>{hidden}</div>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(_right(escape(cell)) for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _left(cell: str) -> str:
    return f'<td style="text-align:left">{cell}</td>'


def _right(cell: str) -> str:
    return f'<td style="text-align:right">{cell}</td>'
