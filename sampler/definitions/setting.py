"""Definition of a setting: its kind, range, description and form field, and the check of a value."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sampler.errors import SettingsError, suggestion

SettingKind = Literal[
    "word",
    "whole",
    "number",
    "yes",
    "moves",
    "entries",
    "cuts",
    "column",
    "names",
    "features",
    "kinds",
    "levels",
    "directions",
    "parts",
]
SettingGroup = Literal["roles", "model", "chains", "prior", "search", "stop", "evaluation", "forecast"]

# Words of other packages (`sampler.definitions.other_names`), which a refusal answers with those here.
WORDS = {
    "binomial": "probit",
    "bernoulli": "probit",
    "binary": "probit",
    "logit": "probit",
    "logistic": "probit",
    "multinomial": "categorical",
    "multiclass": "categorical",
    "softmax": "categorical",
    "ordered": "ordinal",
    "ordered-probit": "ordinal",
    "cumulative": "ordinal",
    "normal": "gaussian",
    "continuous": "gaussian",
    "regression": "gaussian",
    "count": "poisson",
    "nb": "negative-binomial",
    "negbin": "negative-binomial",
    "zip": "zero-inflated-poisson",
    "homoscedastic": "constant",
    "homoskedastic": "constant",
    "heteroscedastic": "forest",
    "heteroskedastic": "forest",
    "student": "t",
    "student_t": "t",
    "ln": "log",
}


@dataclass(frozen=True)
class FormField:
    """Field of a setting in a form.

    Attributes
    ----------
    label
        Short name; also shown beside the setting of a fitted model.
    section
        Title of the section of the form; empty for a setting with a place of its own.
    default
        Description of the default.
    hint
        A sentence about it; empty for the setting's `about`.
    choices
        Values to choose from, with a text for each, except the default.
    kinds
        Kinds of the columns to choose from; empty for any.

    """

    label: str
    section: str = ""
    default: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Definition of a setting.

    Attributes
    ----------
    kind
        "word" (one of `choices`, if there are any), "whole" (an integer), "number", "yes" (true, false, or
        one of `choices`),
        "moves" (name of a set, or probabilities), "entries" (numbers by name), "cuts" (a scheme, or cut
        points by column), "column" (name of a column), "names" (of columns), "features" (names of columns,
        for all outcomes or by outcome), "kinds" (of columns, by name), "levels" (of a column, in order),
        "directions" (of features, by name) or "parts" (values by name).
    group
        Part of the fit that it belongs to.
    about
        Description for users, in sentences.
    default
        Default value; None where it depends on the method.
    choices
        Accepted words; empty for any.
    also
        Further words that are replaced by one of `choices` before the check.
    limits
        Smallest and largest accepted number.
    ends
        Whether the limits themselves are accepted: "[" and "]" for yes, "(" and ")" for no.
    requested
        Whether requests over HTTP may set it.
    sparing
        Whether it is omitted from stored settings while at its default, so that newer settings don't change
        stored documents and the fingerprints of checkpoints.
    rare
        Whether it is shown of a fitted model only where it differs from its default.
    form
        Its field in a form, or None.

    """

    kind: SettingKind
    group: SettingGroup
    about: str
    default: Any = None
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
    ends: Literal["[]", "[)", "(]", "()"] = "[]"
    requested: bool = True
    sparing: bool = False
    rare: bool = False
    form: FormField | None = None

    def check(self, name: str, value: Any) -> Any:
        """Check a value given under that name and return it; mappings are checked elsewhere.

        Raises
        ------
        SettingsError
            For a value that is not accepted.

        """
        label = name.replace(".", " ")
        if self.kind == "word" and self.choices:
            if not isinstance(value, str) or value not in self.choices:
                accepted = ", ".join((*self.choices, *self.also))
                raise SettingsError(
                    f"{label} must be one of {accepted}, not {value!r}{meant_word(value, self.choices)}",
                    field=name,
                    code="not_accepted",
                )
        elif self.kind == "yes":
            if not isinstance(value, bool) and value not in self.choices:
                accepted = "true, false or " + " or ".join(self.choices) if self.choices else "true or false"
                raise SettingsError(
                    f"{label} must be {accepted}, not {value!r}", field=name, code="not_accepted"
                )
        elif self.kind == "column" and not isinstance(value, str):
            message = f"{label} must be the name of a column, not {value!r}"
            raise SettingsError(message, field=name, code="not_accepted")
        elif self.limits is not None:
            return self._check_number(name, label, value)
        return value

    def _check_number(self, name: str, label: str, value: Any) -> float:
        assert self.limits is not None
        low, high = self.limits
        whole = self.kind == "whole"
        number = value if is_number(value) else math.nan
        above = low <= number if self.ends[0] == "[" else low < number
        below = number <= high if self.ends[1] == "]" else number < high
        if above and below and not (whole and number != int(number)):
            return int(number) if whole else float(number)
        if self.ends == "()":
            between = f"between {low:g} and {high:g}"
        else:
            between = f"from {low} up" if high == math.inf else f"from {low} to {high}"
        raise SettingsError(
            f"{label} must be a {'whole ' * whole}number {between}, not {value!r}",
            field=name,
            code="out_of_range",
        )


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def meant_word(value: object, known: Collection[str]) -> str:
    """Return "; did you mean k?" for a word of another package, or a misspelt one; else ""."""
    meant = WORDS.get(value.casefold()) if isinstance(value, str) else None
    return f"; did you mean {meant}?" if meant in known else suggestion(value, known)
