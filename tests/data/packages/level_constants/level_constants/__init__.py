"""A part of somebody else's: a constant for each level of a category, beside the mean's trees."""

from sampler.definitions.parts import Part
from sampler.definitions.setting import FormField, Setting

NAME = "level-constants"
LEVEL_CONSTANTS = Part(
    setting=Setting(
        "column",
        "model",
        "A feature, a category, each of whose levels has a constant beside the trees.",
        rare=True,
        form=FormField("Constants by level", "Noise, transform and line", "None", kinds=("category",)),
    ),
    design="level_constants.design:LevelDesign",
    header="level_constants.design:Levels",
    chain="level_constants.chain:LevelConstants",
    law="level_constants.law:LevelLaw",
    cost="level_constants.report:LevelCost",
    card="level_constants.report:sections",
    asked_by=(f"parts.{NAME}",),
)
