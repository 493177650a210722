"""Recipes: the settings of a published method by one word, where a fit doesn't state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sampler.errors import SettingsError

NO_RECIPE = "none"
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

    def fill(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Add the recipe's settings to those given, which may be None for "not given".

        Raises
        ------
        SettingsError
            For a method or a family that the publication `name` doesn't have.

        """
        family = given.get("family") or "gaussian"
        if (given.get("method") or "bart") != "bart" or family not in self.prior:
            families = " and ".join(self.prior)
            raise SettingsError(
                f"recipe {name} is for method bart with family {families}: leave recipe out",
                field="recipe",
                code="not_applicable",
            )
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
