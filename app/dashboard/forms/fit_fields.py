"""Form fields for the settings of a fit: label, default and hint of each."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.services.fits.requests import DEFINITIONS

# Sections that are folded: title, and a sentence about it.
SECTIONS = {
    "Noise, transform and line": "How outcomes vary around what is learnt. If intervals are too wide in one "
    "part of the table and too narrow in another, let the noise differ by row.",
    "Iterations and moves": "How each chain samples. The defaults did best in benchmarks.",
    "When to stop": "Draw until all given rules are met. They are checked when the draws above are kept, "
    "then at half as many more, and so on.",
    "Prior": "What is plausible before seeing the data. Scaled by the data, so it suits most tables.",
    "Hyperpriors": "Let the data determine how smooth f is, and which columns matter (bart only).",
    "Search over topologies": "For dcc-tree: the length of the search for topologies, and draws for each.",
    "Prior in absolute figures": "In units of the target, instead of scaling by the data. For experts.",
}
SHOWN_SECTION = "How"  # never folded


@dataclass(frozen=True)
class Knob:
    """A field; `name` is the field of `POST /models`, with a dot inside `prior`, `search` and `stop`.

    An empty field keeps its default, which `default` describes.
    """

    name: str
    kind: str
    label: str
    default: str
    hint: str
    choices: tuple[tuple[str, str], ...]

    @property
    def id(self) -> str:
        """Id of the HTML element, one word."""
        return self.name.replace(".", "-")


@dataclass(frozen=True)
class FieldGroup:
    """Fields that are folded together."""

    title: str
    about: str
    knobs: tuple[Knob, ...]


def _section(title: str) -> tuple[Knob, ...]:
    return tuple(
        Knob(name, setting.kind, form.label, form.default, form.hint or setting.about, form.choices)
        for name, setting in DEFINITIONS.items()
        if (form := setting.form) is not None and form.section == title
    )


SHOWN = _section(SHOWN_SECTION)
FOLDED = tuple(FieldGroup(title, about, _section(title)) for title, about in SECTIONS.items())
LABELS = {name: setting.form.label for name, setting in DEFINITIONS.items() if setting.form is not None}


def every() -> Iterator[Knob]:
    """Yield all fields."""
    yield from SHOWN
    for group in FOLDED:
        yield from group.knobs


def facts(settings: dict[str, object]) -> list[tuple[str, str, object]]:
    """Name, label and value of the settings of a fitted model that are numbers, words and columns."""
    return [
        (name, LABELS[name], ", ".join(value) if isinstance(value := settings[name], list) else value)
        for name, setting in DEFINITIONS.items()
        if name in LABELS
        and setting.kind in {"word", "whole", "number", "column", "names"}
        and settings.get(name) is not None
        and not (setting.rare and settings[name] == setting.default)
    ]
