"""Formatting of figures and states for pages."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sampler.host.data import ABSENT, number_to_text, range_to_text, scalars
from sampler.host.settings import labelled_text

STATES = {
    "not_converged": "not converged",
    "burn_in": "burn-in",
    "gone": "not heard of",
}
NOTHING = ABSENT
named_with = scalars.named_with
MOST_ROWS = 5  # named of a fault that several rows have
MINUTE, HOUR, DAY = 60, 3600, 86400


def state(name: str | None) -> str:
    """Return the display name of a state, phase or verdict."""
    return "" if name is None else STATES.get(name, name)


def number(value: Any, digits: int = 4) -> str:
    """Format a figure, and a cell of a table: words as they are."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else number_to_text(value, digits)


def cell(value: Any) -> str:
    """Format a cell of somebody's table: its digits stay together, since it may be an id or a code."""
    return number(value, 7).replace(scalars.GAP, "") if isinstance(value, int | float) else str(value)


def plain(value: Any) -> str:
    """Format a value of a table as text that reads back as the same value."""
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def fixed(value: float | None, places: int = 3) -> str:
    """Format a number with fixed decimal places."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.{places}f}"


def percent(value: float | None, places: int = 0) -> str:
    """Format a share as a percentage."""
    return NOTHING if value is None else f"{round(100 * value, places) + 0.0:.{places}f}%"  # never -0%


def bytes_(value: float | None) -> str:
    """Format a size in bytes."""
    if value is None:
        return NOTHING
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def duration(seconds: float | None) -> str:
    """Format a duration in seconds."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return "under a second"
    seconds = round(seconds)  # rounded first: 119.7 s are 2 min, not 1 min 60 s
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min {seconds % MINUTE} s"
    if seconds < DAY:
        return f"{seconds // HOUR} h {seconds % HOUR // MINUTE} min"
    return f"{seconds // DAY} d {seconds % DAY // HOUR} h"


def roughly(seconds: float | None) -> str:
    """Format an estimated duration without more digits than an estimate has."""
    if seconds is None:
        return NOTHING
    if seconds < 90:
        return f"{max(5, 5 * math.ceil(seconds / 5))} s"
    if seconds < 90 * MINUTE:
        return f"{round(seconds / MINUTE)} min"
    return f"{seconds / HOUR:.1f} h"


def moment(value: datetime | str | None) -> str:
    """Format a time in UTC, to the second."""
    when = _moment(value)
    return NOTHING if when is None else when.strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(value: datetime | str | None) -> str:
    """Format the approximate time since a moment."""
    when = _moment(value)
    if when is None:
        return "never"
    seconds = (datetime.now(UTC) - when).total_seconds()
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h ago"
    return f"{seconds // DAY:.0f} d ago"


def count(value: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def _moment(value: datetime | str | None) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value)


METHODS = {
    "bart": "a sum of many small trees",
    "bcart": "one tree (Bayesian CART)",
    "bcart-mean-variance": "one tree, each leaf with its own noise",
    "bcart-wu": "one tree, with radical restructure moves",
    "smc": "one tree, by a particle filter",
    "rjhmc-df": "one tree of soft splits, each by one column",
    "rjhmc-dfi": "one tree of soft splits, each by a weighted sum of columns",
    "dcc-tree": "the same, topology by topology, each with its evidence",
}


VERDICTS = {
    "converged": (
        "The chains agree",
        "Independent chains give the same answer, precisely enough to read means and credible intervals as "
        "they are.",
    ),
    "approximate": (
        "The chains nearly agree",
        "Means and credible intervals have some Monte Carlo error: differences of a tenth of an "
        "interval's width may be noise.",
    ),
    "not_converged": (
        "The chains don't agree yet",
        "Independent chains still give different answers, so credible intervals may be too narrow or in the "
        "wrong place.",
    ),
}
PHASES = {
    None: "Starting",
    "compiling": "Compiling (once per machine; a default fit takes about a quarter of a minute)",
    "burn_in": "Burn-in",
    "sampling": "Sampling",
    "finishing": "Chains done: judging convergence and scoring held-out rows",
    "judging": "Chains done: judging convergence",
    "recalibrating": "Chains done: making intervals hold by held-out rows",
    "scoring": "Chains done: scoring held-out rows",
    "calibrating": "Chains done: calibrating intervals by held-out rows",
}
ADVICE = {
    "data": "Check the dataset's page, correct the file, upload it again, and fit a new model.",
    "crashed": "Retry continues from the last slice. If it fails again, the workers have too little memory "
    "for this fit: choose fewer trees or fewer chains.",
}


def verdict(name: str) -> tuple[str, str]:
    """Return the heading and the explanation of a verdict."""
    return VERDICTS[name]


def noise_of(model: Any) -> str:
    """Say of what the noise of a model is, where that isn't the outcome itself: of its transform."""
    chosen = (model.diagnostics or {}).get("chosen") or {}
    transform = chosen.get("transform", model.settings.get("transform"))
    power = {"log": "logarithm", "yeo-johnson": "Yeo-Johnson power"}.get(str(transform))
    return "" if power is None else f" of the {power} of {model.target}"


def phase(state: str, name: str | None) -> str:
    """Return the heading of an open model's progress."""
    return "Waiting for a worker" if state == "queued" else PHASES[name]


def advice_on(error: Mapping[str, Any] | None) -> str:
    """Return advice on a failed model."""
    kind = str((error or {}).get("type", ""))
    return next(
        (advice for known, advice in ADVICE.items() if known in kind), "Retry continues where it ended."
    )


def labelled(text: str) -> str:
    """Replace settings and options of a request, as programs write them, by the words of forms."""
    for pattern in _REQUESTS:
        text = re.sub(pattern, "", text)
    text = re.sub(rf" [(](perhaps )?[?](?:{_OF_KIND}|(\w+)=([^()]*))[)]", _aside, text)
    text = re.sub(r"\bpass (?=[?])", "choose ", text)
    return labelled_text(re.sub(rf"[?](?:{_OF_KIND}|(\w+)=([\w-]+))", _option, text))


def _aside(found: re.Match[str]) -> str:
    perhaps, _, name, value = found.groups(default="")
    return f" ({perhaps}{value})" if name == "encoding" and value != "..." else ""


def _option(found: re.Match[str]) -> str:
    kind, name, value = found.groups(default="")
    label, choices = READING.get(name, (name, {}))
    return f"the kind {kind}" if kind else f"“{label}: {choices.get(value, value)}”"


def grouped(faults: Iterable[Any]) -> list[tuple[str | None, str]]:
    """Return column and text of each fault; equal faults of several rows are one, with the rows.

    Faults have `column`, `row` and `detail`, as attributes or as entries.
    """
    rows: dict[tuple[str | None, str], list[int]] = {}
    for fault in faults:
        column, row, detail = (
            fault[name] if isinstance(fault, Mapping) else getattr(fault, name)
            for name in ("column", "row", "detail")
        )
        rows.setdefault((column, detail), []).extend([] if row is None else [row])
    return [(column, labelled(detail) + _in_rows(numbers)) for (column, detail), numbers in rows.items()]


def _in_rows(rows: list[int]) -> str:
    if not rows:
        return ""
    named = ", ".join(number(row) for row in rows[:MOST_ROWS])
    return f" (row{'s' * (len(rows) > 1)} {named}{', …' if len(rows) > MOST_ROWS else ''})"


def severe_first(warnings: Iterable[str]) -> list[str]:
    """Order warnings: what makes predictions doubtful first, how the file was read last."""

    def rank(text: str) -> int:
        places = (k for k, phrases in enumerate(SEVERITY) if any(phrase in text for phrase in phrases))
        return next(places, 1)

    return sorted(warnings, key=rank)


_REQUEST = r"(?:GET|POST|PUT|PATCH|DELETE) /\S+"
_REQUESTS = (
    rf" [(]{_REQUEST}[^()]*[)]",
    rf"(?<=[.]) {_REQUEST}[^.]*[.]",
    rf"[:;,]? (?:by |as )?{_REQUEST}[^.;:()]*",
)
_OF_KIND = r"kind=.*?:(number|boolean|date|category|text)"
READING = {  # labels and choices of how a file is read, by the option of a request
    "decimal": ("Decimal sign", {"point": "a point", "comma": "a comma"}),
    "dates": ("1/2/2026 begins with", {"day-first": "the day", "month-first": "the month"}),
    "header": ("First row", {"true": "names the columns", "false": "is data"}),
    "totals": ("A last row of totals", {"keep": "is kept", "leave-out": "is left out"}),
    "wide": ("A column for each time", {"keep": "is kept", "long": "is made rows"}),
}
SEVERITY = (  # phrases of warnings, the gravest first; without one a warning is in the middle
    ("is a guess", "outside the training range", "never seen", "extrapolation", "no longer hold", "disagree"),
    (),
    ("is read as", "are read as", "left out", "leave it out"),
)
FILTERS: dict[str, Callable[..., Any]] = {
    "grouped": grouped,
    "labelled": labelled,
    "severe_first": severe_first,
    "number": number,
    "to": range_to_text,
    "in_unit": scalars.in_unit,
    "with_unit": named_with,
    "plain": plain,
    "cell": cell,
    "fixed": fixed,
    "percent": percent,
    "bytes": bytes_,
    "duration": duration,
    "roughly": roughly,
    "moment": moment,
    "ago": ago,
    "count": count,
    "state": state,
}
