"""Recipes: the settings of a published method by one word, where a fit doesn't state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_RECIPE = "none"
METHOD = "bart"  # that the publications are about
PLAIN: Mapping[str, Any] = {"num_trees": 200, "noise": "constant", "transform": "none", "linear": False}


@dataclass(frozen=True)
class Recipe:
    """The settings of a published method.

    Attributes
    ----------
    text
        Description in a form.
    settings
        Settings by name.
    prior
        Entries of the prior by name, for each family that the publication has.

    """

    text: str
    settings: Mapping[str, Any]
    prior: Mapping[str, Mapping[str, Any]]

    def is_for(self, method: object, family: object) -> bool:
        """Tell whether the publication has a method and a family; None stands for the defaults."""
        return method in (None, METHOD) and (family or "gaussian") in self.prior

    def fill(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Add the recipe's settings to those given, which may be None, where it is for these."""
        if not self.is_for(given.get("method"), given.get("family")):
            return dict(given)  # which is refused
        stated = {
            each: value
            for each, value in given.items()
            if value is not None and not (each == "moves" and value == "default")
        }
        return dict(given) | dict(self.settings) | stated


_CGM_PRIOR: Mapping[str, Mapping[str, Any]] = {
    "gaussian": {"k": 2.0, "nu": 3.0, "q": 0.9, "alpha": 0.95, "beta": 2.0, "sigma_estimate": "linear"},
    "probit": {"k": 2.0, "alpha": 0.95, "beta": 2.0, "offset": 0.0},
}
RECIPES: dict[str, Recipe] = {
    "cgm10": Recipe("cgm10: Chipman, George and McCulloch (2010)", {**PLAIN, "moves": "cgm"}, _CGM_PRIOR),
    "pg-bart": Recipe(
        "pg-bart: Lakshminarayanan, Roy and Teh (2015)",
        {**PLAIN, "moves": "pg", "particles": 10},
        _CGM_PRIOR,
    ),
}


def prior_of_recipe(recipe: str, family: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add the entries of a recipe's prior, if there is a recipe, to those given.

    k_df and leaf_sd stand for k.
    """
    stated = dict(given or {})
    if recipe == NO_RECIPE:
        return stated
    entries = dict(RECIPES[recipe].prior[family])
    if stated.keys() & {"k_df", "leaf_sd"}:
        entries.pop("k", None)
    return entries | stated
