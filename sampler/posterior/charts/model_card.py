"""Model cards: what a model is, what it was fitted to, how good it is and what it can't do, on one page.

After Mitchell et al. (2019), "Model cards for model reporting".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import numpy as np

from sampler.data.scalars import (
    days_to_text,
    estimate_to_text,
    in_unit,
    named_with,
    number_to_text,
    range_to_text,
)
from sampler.data.schema import OF_LEVELS, Column
from sampler.definitions.data import COLUMN_ROLES
from sampler.definitions.parts import code_of_parts
from sampler.definitions.prior import PRIOR
from sampler.definitions.tree_laws import DEPTH, OF_DEPTH, TREE_LAWS
from sampler.families import FAMILIES
from sampler.posterior.assessment.class_scores import THRESHOLDS
from sampler.posterior.charts.cards import noise_in_words, score_rows, trees_in_words
from sampler.posterior.charts.effects import dependence
from sampler.posterior.charts.one_row import curves_of_arms
from sampler.posterior.charts.style import ChartStyle, svg_element
from sampler.posterior.posterior import Posterior
from sampler.posterior.results.card_document import CardTable, ModelCard, Section
from sampler.posterior.results.effects import FeatureRows, PartialDependence
from sampler.settings import SETTINGS, labelled
from sampler.storage.calibration_size import rows_needed

MOST_ROWS = 20  # rows of a table
MOST_CLASSES = 10  # in a confusion matrix
MOST_EFFECTS = 4  # features whose effects are shown
POINTS = 5  # points in an effect's table
LEVEL = 0.9  # level of all intervals
PICTURE = ChartStyle(width=3.6, height=2.2, narrow=True)
MAX_WORK = 2e9  # tree evaluations for one effect: a fifth of a second of a core
NOISE = {
    "constant": "The noise is taken as normal, with one standard deviation for all rows.",
    "forest": "The noise is taken as normal, with a standard deviation that differs by row.",
    "t": "The noise is taken as t distributed, with one scale for all rows.",
    "t-forest": "The noise is taken as t distributed, with a scale that differs by row.",
    "mixture": "The noise is taken as a mixture of up to ten normals, the same one for all rows.",
}
TRANSFORMED = {
    "log": "The trees learn the logarithm of the target, and the noise is the logarithm's; answers are about "
    "the target itself.",
    "yeo-johnson": "The trees learn a power of the target (Yeo and Johnson's), and the noise is the power's; "
    "answers are about the target itself.",
}


def model_card(
    posterior: Posterior,
    scores: Mapping[str, Any] | None,
    importance: Mapping[str, Any] | None,
    facts: Mapping[str, str],
) -> ModelCard:
    """Describe a posterior.

    Parameters
    ----------
    posterior
        The posterior.
    scores
        Scores on rows that it was not fitted to, as `Posterior.score` returns them; None where there are
        none.
    importance
        Importance on such rows, as `PermutationImportance.to_json` returns it; None where there is none.
    facts
        Further facts for the first section, by name: where the model is stored, when it was fitted.

    Returns
    -------
    ModelCard
        The card.

    """
    return ModelCard(
        f"Model of {posterior.schema.target.name}",
        [
            _model(posterior, facts),
            Section("What can be used?", [posterior.use(scores).text]),
            _held_out(scores, posterior.classes or (), posterior.unit),
            *_calibrated(posterior),
            _chains(posterior),
            _importance(posterior, importance),
            _effects(posterior, importance),
            *_treatment(posterior),
            *(each for place in code_of_parts("card").values() for each in resolve_name(place)(posterior)),
            _data(posterior),
            _limits(posterior, scores),
            _settings(posterior),
        ],
    )


def _treatment(posterior: Posterior) -> list[Section]:
    """Return a section about the effect of the model's treatment, if it has one."""
    if "treatment" not in posterior.header.parts:
        return []
    effects = posterior.effects(level=LEVEL)
    rows = [
        (name, str(each.rows), number_to_text(each.mean, 3), range_to_text(each.lower, each.upper, 3))
        for name, each in effects.named_estimates().items()
    ]
    sentences = [f"{effects.difference}.", *effects.notes]
    heads = ("Averaged over", "Rows", "Effect", f"{LEVEL:.0%} interval")
    curves = effects.curves
    picture = curves and svg_element(PICTURE, curves_of_arms, curves, (effects.arm, effects.against))
    pictures = [picture] if picture else []
    return [Section("What does the treatment do?", sentences, [CardTable(heads, rows)], pictures=pictures)]


def _model(posterior: Posterior, facts: Mapping[str, str]) -> Section:
    settings, target, leaves = posterior.settings, posterior.schema.target, posterior.leaf_counts
    in_words = f"a number in {posterior.unit}" if posterior.unit else "a number"
    outcome = f"{target.name}, {in_words}" if posterior.classes is None else target.name
    if posterior.classes is not None:
        outcome += f", one of {len(posterior.classes)} classes: {', '.join(posterior.classes)}"
    rows = [
        *facts.items(),
        ("Target", outcome),
        ("Method", f"{settings.get('method', 'bart')}, family {posterior.family}"),
        (
            "Trees",
            f"{trees_in_words(posterior, posterior.num_trees)} in each draw, "
            f"{number_to_text(leaves.sum() / max(np.sum(leaves > 0), 1))} leaves each",
        ),
        ("Draws", f"{posterior.num_chains} chains of {posterior.num_draws}"),
    ]
    if (noise := noise_in_words(posterior)) is not None:
        whose = ", at weight 1" if posterior.header.weighted else ""
        rows.append((f"Noise{whose}", noise))
    return Section("Model", tables=[CardTable(("", ""), rows)])


def _data(posterior: Posterior) -> Section:
    header = posterior.header
    features = posterior.schema.columns
    count = "an unknown number of" if header.num_rows is None else number_to_text(header.num_rows)
    weighted = ", with weights" if header.weighted else ""
    sentences = [f"Fitted to {count} rows with {len(features)} features{weighted}."]
    panel, beside = header.panel, posterior.beside
    if panel is not None:
        sentences.append(f"It is a panel: {panel.adoption} has the {panel.period} in which units adopted.")
    named = {role: name for role, name in beside.items() if panel is None or name != panel.treatment}
    sentences += [COLUMN_ROLES[role].sentence.format(name=name) for role, name in named.items()]
    sentences += [
        f"Each of the {number_to_text(len(each.levels))} groups of the column {each.name} has an intercept."
        for each in posterior.schema.groups
    ]
    if posterior.censoring:
        roles = ", ".join(f"{role}: {name}" for role, name in posterior.censoring.items())
        sentences.append(
            f"Outcomes may be censored, as columns tell ({roles}); answers are of uncensored ones."
        )
    if len(features) > MOST_ROWS:
        sentences.append(f"The first {MOST_ROWS} features:")
    rows = [
        (each.name, each.kind, _range(each), number_to_text(each.missing)) for each in features[:MOST_ROWS]
    ]
    tables = [CardTable(("Feature", "Kind", "Values", "Missing"), rows)]
    if posterior.schema.left_out:
        left_out = [(each.name, each.why) for each in posterior.schema.left_out[:MOST_ROWS]]
        tables.append(CardTable(("Column left out", "Why"), left_out))
    return Section("Data", sentences, tables)


def _settings(posterior: Posterior) -> Section:
    """Name the settings as the form of a fit does, and the entries of the prior as its literature."""
    settings, constants = posterior.settings, posterior.constants
    named = [
        f"{setting.form.label.lower()} {_value(settings[name])}"
        for name, setting in SETTINGS.items()
        if setting.form is not None
        and settings.get(name) is not None
        and not (setting.rare and settings[name] == setting.default)
    ]
    named_prior = [name for name, entry in PRIOR.items() if entry.form and entry.form.section == "Prior"]
    constants = {**constants, **(trees := constants.get("trees") or {})}
    if not TREE_LAWS.get(trees.get("trees", DEPTH), TREE_LAWS[DEPTH]).by_depth:
        named_prior = [name for name in named_prior if name not in OF_DEPTH]
    prior = [f"{name} {_value(constants[name])}" for name in named_prior if constants.get(name) is not None]
    sentences = [f"{', '.join(named)[:1].upper()}{', '.join(named)[1:]}."]
    sentences += [f"Prior: {', '.join(prior)}."] if prior else []
    return Section("Settings", sentences)


def _chains(posterior: Posterior) -> Section:
    summary = posterior.summary()
    sentences = [f"Verdict: {summary.verdict.replace('_', ' ')}.", *(f"{each}." for each in summary.reasons)]
    if summary.precision is not None:
        sentences.append(summary.precision.text)
    sentences.append(labelled(summary.advice))
    f, sigma = summary.f, summary.sigma["rhat"]
    if f["rhat_median"] is not None:
        of_sigma = "" if sigma is None else f"; of sigma {sigma:.3f}"
        sentences.append(
            f"R-hat of f {f['rhat_median']:.3f} in the median row, {f['rhat_p95']:.3f} at 95% of the rows"
            f"{of_sigma}. Effective draws of f {estimate_to_text(f['ess_bulk_median'], 3)}, of its tails "
            f"{estimate_to_text(f['ess_tail_median'], 3)}."
        )
    return Section("Do the chains agree?", list(filter(None, sentences)))


def _calibrated(posterior: Posterior) -> list[Section]:
    table = posterior.conformal_table
    if table is None or table.count < rows_needed(LEVEL):
        return []
    claimed = table.at(LEVEL)
    claims = [claimed.text, *(labelled(each.text) for each in claimed.subgroups)]
    things = "intervals" if posterior.classes is None else "prediction sets"
    return [Section(f"Calibrated {things} of {LEVEL:.0%}", claims)]


def _held_out(scores: Mapping[str, Any] | None, classes: Sequence[str], unit: str | None) -> Section:
    title = "Scores on held-out rows"
    if scores is None:
        return Section(title, ["No scores: no row was held out, so nothing here was measured on new rows."])
    rows = score_rows(scores, unit)
    columns = 3 if any(row[2] for row in rows) else 2
    heads = ("Score", "Value", "95% interval")
    tables = [CardTable(heads[:columns], [tuple(row[:columns]) for row in rows])]
    censored = f", {number_to_text(scores['censored'])} of them censored" if scores.get("censored") else ""
    sentences = [f"Of {number_to_text(scores['rows'])} rows that the model was not fitted to{censored}."]
    sentences += [scores["judged_by"]] if scores.get("judged_by") else []
    verdict = scores.get("intervals_verdict")
    if verdict is not None and verdict.get("verdict") == "made_to_hold":
        sentences.append("The same rows then made the intervals hold: scores of new rows are a little worse.")
    if verdict is not None:
        sentences += [labelled(each) for each in map(verdict.get, ("text", "others", "advice")) if each]
    if scores.get("coverage"):
        cells = [
            (
                f"{each['level']:.0%} {each['interval']}",
                f"{each['coverage']:.1%}",
                f"{each['lower']:.1%} to {each['upper']:.1%}",
            )
            for each in scores["coverage"]
        ]
        tables.append(CardTable(("Intervals", "Outcomes inside", "95% interval of that share"), cells))
    if scores.get("confusion_by_threshold"):
        tables.append(_by_threshold(scores["confusion_by_threshold"], classes[1]))
    elif scores.get("confusion") and len(scores["confusion"]) == len(classes) <= MOST_CLASSES:
        counts = zip(classes, scores["confusion"], strict=True)
        lines = [(name, *map(number_to_text, line)) for name, line in counts]
        tables.append(CardTable(("Rows of class, taken for", *classes), lines))
    return Section(title, sentences, tables)


def _by_threshold(counts: Sequence[Mapping[str, float]], name: str) -> CardTable:
    """Tabulate what is found of the second class, and what is taken for it, by threshold."""

    def share(part: float, other: float) -> str:
        return f"{part / (part + other):.1%}" if part + other else "none"

    heads = (f"{name} from", f"Of {name} found", "Of the others left", f"Right where {name} is said")
    lines = []
    for each in counts:
        found, wrong = each["true_positives"], each["false_positives"]
        missed, passed = each["false_negatives"], each["true_negatives"]
        if each["threshold"] in THRESHOLDS:
            cells = (share(found, missed), share(passed, wrong), share(found, wrong))
            lines.append((f"{each['threshold']:.0%}", *cells))
    return CardTable(heads, lines)


def _importance(posterior: Posterior, importance: Mapping[str, Any] | None) -> Section:
    shares = posterior.inclusion(LEVEL)
    of_rules = {
        name: (f"{mean:.1%}", f"{low:.1%} to {high:.1%}")
        for name, mean, low, high in zip(shares.names, shares.mean, shares.lower, shares.upper, strict=True)
    }
    if importance is None:
        order = [shares.names[j] for j in np.argsort(-shares.mean, kind="stable")[:MOST_ROWS]]
        table = CardTable(("Feature", "Share", "Interval"), [(name, *of_rules[name]) for name in order])
        sentence = "Share of the split rules that use each feature, with 90% intervals over draws."
        return Section("Importance", [sentence], [table])
    rmse, baseline = importance["loss"] == "rmse", number_to_text(importance["baseline"])
    of = "root mean square error" if rmse else "log loss"
    baseline = in_unit(baseline, posterior.unit if rmse else None)
    sentence = (
        f"By how much the {of} on held-out rows ({baseline}) grows when a "
        "feature is shuffled, with 90% intervals over draws and permutations; and the share of the split "
        "rules that use the feature, with 90% intervals over draws."
    )
    heads = ("Feature", "Increase", "Interval", "Share of rules", "Interval")
    rows = [
        (
            name,
            number_to_text(each["mean"], 3),
            range_to_text(each["lower"], each["upper"], 3),
            *of_rules[name],
        )
        for each in importance["features"][:MOST_ROWS]
        if (name := each["name"]) in of_rules
    ]
    return Section("Importance", [sentence], [CardTable(heads, rows)])


def _effects(posterior: Posterior, importance: Mapping[str, Any] | None) -> Section:
    if importance is not None:
        chosen = [each["name"] for each in importance["features"] if each["mean"] > 0][:MOST_EFFECTS]
    else:
        shares = posterior.inclusion(LEVEL)
        order = np.argsort(-shares.mean, kind="stable")[:MOST_EFFECTS]
        chosen = [shares.names[j] for j in order if shares.mean[j] > 0]
    if not chosen:
        return Section("Effects", ["No feature matters."])
    target, units = named_with(posterior.schema.target.name, posterior.unit), posterior.header.units
    effects = [posterior.partial_dependence([name], level=LEVEL, max_work=MAX_WORK) for name in chosen]
    tables = [_effect(effect, posterior.unit) for effect in effects]
    pictures = [
        svg_element(PICTURE, dependence, effect, target, [FeatureRows(unit=units.get(name))])
        for name, effect in zip(chosen, effects, strict=True)
    ]
    figure = "prediction" if posterior.classes is None else "probability"
    sentence = (
        f"Mean {figure} over training rows when the feature takes a value and the others stay as they are, "
        "with 90% intervals: of the features that matter most. Effects on predictions, not causes."
    )
    return Section("Effects", [sentence], pictured=tables, pictures=list(filter(None, pictures)))


def _effect(effect: PartialDependence, unit: str | None) -> CardTable:
    (name,), (points,), classes = effect.features, effect.grid, effect.classes
    places = np.unique(np.rint(np.linspace(0, len(points) - 1, min(len(points), POINTS))).astype(int))
    ((_, lower, upper),) = effect.intervals
    several = effect.mean.ndim == 2
    names = list(classes[:MOST_EFFECTS]) if several and classes else [""]
    if several and classes:
        heads = (name, *names)
    else:
        heads = (name, named_with("Mean", unit) if classes is None else f"Mean of {classes[1]}")
    rows = []
    for i in places:
        cells = (
            f"{number_to_text(mean)} ({range_to_text(low, high)})"
            for mean, low, high in zip(
                np.atleast_1d(effect.mean[i])[: len(names)],
                np.atleast_1d(lower[i])[: len(names)],
                np.atleast_1d(upper[i])[: len(names)],
                strict=True,
            )
        )
        rows.append((_value(points[i]), *cells))
    return CardTable(heads, rows)


def _limits(posterior: Posterior, scores: Mapping[str, Any] | None) -> Section:
    sentences = [
        "Predictions are about rows like those it was fitted to. Outside the ranges above trees continue "
        "with the value at the edge, and a level never seen counts as none of the known ones; answers flag "
        "such rows.",
    ]
    if posterior.classes is None and FAMILIES[posterior.family].target != "counts":
        sentences.append(NOISE[str(posterior.settings.get("noise", "constant"))])
        if transform := posterior.header.transform:
            sentences.append(TRANSFORMED[transform.kind])
    if scores is None:
        sentences.append("How often its intervals contain outcomes was not measured.")
    if posterior.summary().verdict == "not_converged":
        sentences.append("Its chains disagree: credible intervals are probably too narrow.")
    sentences.append(
        "Importance and effects describe the model: they are effects of causes only where nothing that moves "
        "both the feature and the target is missing among the features."
    )
    return Section("Limits", sentences + [f"{labelled(warning)}." for warning in posterior.warnings])


def _range(column: Column) -> str:
    if column.kind in OF_LEVELS:
        levels = ", ".join(column.levels[:POINTS])
        more = len(column.levels) - POINTS
        return f"{levels} and {more} more" if more > 0 else levels
    if column.min is None or column.max is None:
        return "none"
    if column.kind == "date":
        return f"{days_to_text(column.min)} to {days_to_text(column.max)}"
    return f"{number_to_text(column.min)} to {number_to_text(column.max)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(each)}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return number_to_text(value)
