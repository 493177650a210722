"""Events of a model's log in sentences."""

from collections.abc import Callable, Mapping
from typing import Any

from app.dashboard.formatting import NOTHING, VERDICTS, count, labelled, number, state
from sampler.host.settings import FIELD_LABELS

Detail = Mapping[str, Any]
ENDED_BY = {
    "rules": "the stop rules are met",
    "max_seconds": "its time is over",
    "max_draws": "it has as many draws as it may have",
}


def sentence(kind: str, detail: Detail) -> str:
    """Say what happened; of kinds that a later version logs the name and the details."""
    if kind in SAID:
        return " ".join(filter(None, (part.strip() for part in SAID[kind](detail))))
    details = (f"{_words(name)} {_shown(value)}" for name, value in detail.items() if value is not None)
    return " ".join([_words(kind).capitalize(), *details])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(str(name))} {_shown(each)}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return state(value) if isinstance(value, str) else number(value)


def _chain(detail: Detail) -> str:
    return f"Chain {number(detail['chain'] + 1)}"


def _verdict(detail: Detail) -> str:
    name = detail.get("verdict")
    return f"{VERDICTS[name][0]}." if name in VERDICTS else ""


def _looked(detail: Detail) -> str:
    """Say which rules a fit was looked at for, and which of them it doesn't meet yet."""
    open_ = [name for name, holds in (detail.get("held") or {}).items() if not holds]
    rules = " or ".join(f"“{FIELD_LABELS.get(f'stop.{name}', _words(name))}”" for name in open_)
    seen = f"The chains {state(detail.get('verdict')) or 'were looked at'}"
    if detail.get("rhat") is not None:
        seen += f", R-hat {number(detail['rhat'])}"
    if detail.get("ess") is not None:
        seen += f", {number(detail['ess'], 3)} effective draws"
    return f"{seen}.{f' It goes on: {rules} is not met yet.' if rules else ''}"


def _of_champion(detail: Detail) -> str:
    return labelled(str(detail.get("text") or ""))


SAID: dict[str, Callable[[Detail], tuple[str, ...]]] = {
    "created": lambda d: (f"Created, with {count(d.get('chains', 0), 'chain')}.",),
    "started": lambda _: ("A worker started on it.",),
    "chain_finished": lambda d: (f"{_chain(d)} ended, with {count(d.get('draws') or 0, 'draw')}.",),
    "chain_recovered": lambda d: (
        f"{_chain(d)} lost its worker and goes on from its last slice"
        f" (attempt {number(d.get('attempt', 2))}).",
    ),
    "cancel_requested": lambda _: ("Somebody asked to cancel it.",),
    "cancelled": lambda d: ("Cancelled.", _verdict(d)),
    "failed": lambda d: (f"Failed: {labelled(str(d.get('detail') or NOTHING))}",),
    "retried": lambda _: ("Somebody asked to try it again.",),
    "extended": lambda d: (
        f"Somebody asked for {count(d['num_draws'], 'more draw', 'more draws')} of each chain."
        if d.get("num_draws")
        else "Somebody asked for more draws.",
    ),
    "looked": lambda d: (f"After {count(d.get('draws', 0), 'draw')} per chain:", _looked(d)),
    "stopped": lambda d: (
        f"It ended after {count(d.get('draws', 0), 'draw')} per chain: "
        f"{ENDED_BY.get(d.get('by', ''), _words(str(d.get('by'))))}.",
    ),
    "promoted": lambda d: (
        "Predictions by the name come from this model now.",
        "Somebody asked for that." if d.get("by") == "request" else _of_champion(d),
    ),
    "refused": lambda d: ("The name was not given to this model.", _of_champion(d)),
    "kept": lambda d: ("The name stays with the model before.", _of_champion(d)),
    "rolled_back": lambda d: (
        f"Predictions by the name come from {d.get('to') or 'the model before'} again.",
    ),
    "recalibrated": lambda d: (f"Intervals were calibrated anew by {count(d.get('rows', 0), 'row')}.",),
    "recalibrated_weekly": lambda d: (
        f"Intervals were moved by the {count(d.get('outcomes', 0), 'outcome')} of a week.",
    ),
    "weekly_recalibration_ended": lambda _: (
        "Intervals no longer follow the outcomes week by week: they were calibrated anew.",
    ),
    "intervals_no_longer_hold": lambda d: (_of_champion(d),),
    "rows_drifted": lambda d: (_of_champion(d),),
    "succeeded": lambda d: ("The fit ended.", _verdict(d)),
}
