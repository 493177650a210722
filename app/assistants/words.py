"""Answers in words, short enough for a model to read, with the verdict first."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.client import Dataset, Model, Prediction, ProblemError, SeriesForecast

LENGTH = 6_000  # characters of an answer
NAME = 80  # characters of a name or value of the data
COLUMNS, LEVELS, WARNINGS, FEATURES, FAULTS = 40, 6, 5, 15, 10  # shown at most
VERDICTS = {
    "converged": "converged: intervals can be used as they are",
    "approximate": "nearly converged: read credible intervals roughly",
    "not_converged": "not converged: don't use intervals",
}
# Held-out rows judge intervals of new outcomes, whatever the chains say.
COVERED = "not converged: don't use credible intervals; held-out rows back predictive intervals alone"
INTERVALS = {
    "usable": "",
    "made_to_hold": "predictive intervals are made to hold by held-out rows, on average over rows",
    "unchecked": "predictive intervals are unchecked: no held-out rows say whether they hold",
    "not_usable": "don't use predictive intervals: outcomes say that they don't hold",
}
FLAGS = {
    "outside_range": "outside the range of training",
    "unseen_level": "a value not seen in training",
    "missing": "missing, never so in training",
    "few_draws": "mean or sd decided by a few draws: the median stands for the mean",
}


def line(value: Any) -> str:
    """Return a name or value of the data on one line, short: what it says is data, and looks like it."""
    text = f"{value:.5g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= NAME else text[: NAME - 1] + "…"


def joined(parts: Iterable[str]) -> str:
    """Join lines to an answer, and cut what is too long."""
    text = "\n".join(part for part in parts if part)
    return (
        text if len(text) <= LENGTH else text[:LENGTH] + "\n… cut: ask for less, or use the service's pages."
    )


def listed(items: Sequence[str], most: int, prefix: str = "") -> list[str]:
    """Return the first items, and how many more there are."""
    rest = [f"{prefix}… and {len(items) - most} more"] if len(items) > most else []
    return [f"{prefix}{' '.join(item.split())}" for item in items[:most]] + rest


def dataset_words(dataset: Dataset) -> str:
    """Return a dataset's columns with kinds and ranges."""
    columns = [_column(column) for column in dataset.columns]
    return joined(
        [
            f"Dataset {dataset.id} ({line(dataset.name)}): {dataset.num_rows} rows, {len(columns)} columns.",
            *listed(columns, COLUMNS, "- "),
            *listed(dataset.warnings, WARNINGS, "Warning: "),
        ]
    )


def _column(column: dict[str, Any]) -> str:
    missing = f", {column['missing']} missing" if column["missing"] else ""
    if column["levels"]:
        values = ", ".join(line(level) for level in column["levels"][:LEVELS])
        more = ", …" if len(column["levels"]) > LEVELS else ""
        return f"{line(column['name'])}: {column['kind']} ({values}{more}){missing}"
    ends = f" from {line(column['min'])} to {line(column['max'])}" if column["min"] is not None else ""
    return f"{line(column['name'])}: {column['kind']}{ends}{missing}"


def verdict_words(verdict: str | None, use: dict[str, Any] | None) -> str:
    """Return in one line what intervals may be used for."""
    intervals = (use or {}).get("intervals", "unchecked")
    effects = ((use or {}).get("effects") or {}).get("text", "")
    verdict = ((use or {}).get("chains") or {}).get("verdict", verdict)  # what is without effects
    chains = VERDICTS.get(verdict or "", "no verdict yet: don't use intervals")
    told = INTERVALS[intervals]
    if verdict == "not_converged" and (use or {}).get("predictions") == "usable":
        chains = COVERED if intervals == "usable" else "not converged: don't use credible intervals"
    elif verdict == "not_converged":
        told = ""
    refused = ((use or {}).get("held_out") or {}).get("refused") or ()
    if refused and intervals == "usable":
        where = (f"{each['where']} they are {each['code'].replace('_', ' ')}" for each in refused)
        told = f"use no predictive intervals for some rows: {', '.join(where)}"
    return f"Verdict: {'; '.join(filter(None, [chains, told]))}. {effects}".strip()


def _score_words(which: str, held: dict[str, Any]) -> str:
    figures = [f"{name} {held[name]:.5g}" for name in SCORES if held.get(name) is not None]
    return f"{which}{held.get('rows')} held-out rows: {', '.join(figures)}." if figures else ""


def model_words(model: Model) -> str:
    """Return a model's state, and of a finished one the verdict, scores and what to do."""
    name = f" ({line(model.name)})" if model.name else ""
    targets = ", ".join(map(line, model.settings.get("outcomes", [model.target])))
    head = f"Model {model.id}{name}, which predicts {targets}: {model.state}"
    if model.is_open:
        left = "" if model.eta_seconds is None else f", about {model.eta_seconds:.0f} s left"
        return f"{head}, {100 * model.fraction:.0f}% done{left}. Call wait again."
    if model.state != "succeeded":
        return f"{head}. {line(model.error or '')}"
    if claim := (model.diagnostics or {}).get("claim"):  # of a forecaster
        known = model.settings.get("known")
        plan = f"; known ahead must be {', '.join(map(line, known))}" if known else ""
        return joined([f"{head}.", claim, f"Call forecast{plan}.", *listed(model.warnings, WARNINGS)])
    held = model.holdout or {}
    scores = [_score_words("", held)]
    scores += [_score_words(f"{line(each)}: ", own) for each, own in (held.get("outcomes") or {}).items()]
    advice = (model.diagnostics or {}).get("advice") if model.verdict != "converged" else None
    text = (model.use or {}).get("text")
    return joined(
        [
            f"{head}.",
            verdict_words(model.verdict, model.use),
            text or "",
            *scores,
            advice or "",
            *listed(model.warnings, WARNINGS, "Warning: "),
        ]
    )


SCORES = (
    "rmse", "linear_rmse", "accuracy", "auc", "log_loss", "log_score", "crps", "concordance", "rps"
)  # fmt: skip


def forecast_words(answer: SeriesForecast) -> str:
    """Return the claim, the totals and the steps of a forecast."""
    columns = answer.to_dict()
    lines = [[line(value) for value in each] for each in zip(*columns.values(), strict=True)]
    told = [answer.claim]
    for total in answer.totals:
        told.append(f"Totals of steps {total['steps'][0]} to {total['steps'][-1]}. {total['claim']}")
        for k, figures in enumerate(zip(total["median"], total["lower"], total["upper"], strict=True)):
            of = ", ".join(line(values[k]) for values in total["sets"].values()) or "all series"
            told.append("- {}: {} ({} to {})".format(of, *map(line, figures)))
    told += [", ".join(columns), *(", ".join(each) for each in lines)]
    return joined([*told, *listed(answer.warnings, WARNINGS, "Warning: ")])


def prediction_words(answer: Prediction, use: dict[str, Any] | None) -> str:
    """Return a table of predictions, after the verdict and with unusual cells in words."""
    columns = answer.to_dict()
    cells = [[line(value.item()) for value in values] for values in columns.values()]
    rows = [", ".join([str(i + 1), *row]) for i, row in enumerate(zip(*cells, strict=True))]
    flags = [
        f"Row {i + 1}, {line(flag['column'])}: {FLAGS.get(flag['flag'], flag['flag'])}: rely less on it."
        for i, row in enumerate(answer.flags)
        for flag in row
    ]
    return joined(
        [
            verdict_words(answer.verdict, use),
            f"{answer.interval} intervals{MEANING.get(answer.interval, '')}:",
            ", ".join(["row", *columns]),
            *rows,
            *listed(flags, FAULTS),
            *listed([claim["text"] for claim in answer.claims if "text" in claim], WARNINGS),
            *listed(answer.warnings, WARNINGS, "Warning: "),
        ]
    )


MEANING = {
    "predictive": " (where a new outcome will fall)",
    "calibrated": " (where a new outcome will fall)",
    "credible": " (of the expectation, not of a new outcome)",
}


def problem_words(error: ProblemError) -> str:
    """Return a refusal in words, with the places at fault."""
    places = [
        ": ".join(filter(None, [line(each.column or ""), f"row {each.row}" if each.row else "", each.detail]))
        for each in error.errors
    ]
    told = [] if len(places) == 1 and error.errors[0].detail in error.detail else places
    return joined([f"The service refused ({error.status}): {error.detail}", *listed(told, FAULTS, "- ")])
