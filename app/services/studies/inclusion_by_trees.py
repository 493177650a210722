"""Studies "inclusion_by_trees": the features' shares of the split rules, with few trees and with many."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from app.services.errors import Fault, InvalidRequestError
from app.services.fits.costs import check_memory, check_seconds
from app.services.request_bodies import Share, StrictBody
from app.services.studies import tuning
from app.services.studies.plan import StudyPlan, TrainingData
from app.services.studies.tuning import TuningBody
from app.services.views import schema_of
from app.store.tables import Json
from sampler import SettingsError
from sampler.host.fits import chain_seconds, prepare_seconds
from sampler.host.studies import NUMBERS_OF_TREES, FitShares, InclusionByTrees
from sampler.host.studies import check_numbers_of_trees as check_numbers

SHARE_BYTES = 88  # upper bound of the stored bytes of a share with its interval and spread


class InclusionByTreesBody(StrictBody):
    """A question about a model: which of its features the rules of few trees use, and those of many."""

    kind: Literal["inclusion_by_trees"] = Field(
        description="inclusion_by_trees: fit the model again with other numbers of trees, and compare the "
        "features' shares of the split rules (Chipman, George and McCulloch 2010, figure 5)."
    )
    num_trees: Annotated[list[int], Field(fail_fast=True)] = Field(
        default=[*NUMBERS_OF_TREES], description="Numbers of trees, up to 20."
    )
    folds: int | None = Field(
        default=None,
        description="Compare the numbers of trees by rows left out, too, with that many folds, from 2 to 20.",
    )
    level: Share = Field(default=0.9, description="The probability an interval holds.")


schema_of(
    InclusionByTrees,
    "InclusionByTreesView",
    "names num_trees mean lower upper between_chains level seconds reading scores",
)


def plan(request: InclusionByTreesBody, data: TrainingData, slots: int) -> StudyPlan:
    """Check a request and plan its fits; raises InvalidRequestError and those of a fit too large."""
    model, rows, columns = data.settings, data.num_rows, data.coded_columns
    try:
        numbers = check_numbers(request.num_trees, model)
    except SettingsError as error:
        raise InvalidRequestError(errors=[Fault.of_setting(error)]) from None
    chains, units = int(model["num_chains"]), []
    for number in numbers:
        settings: Mapping[str, Any] = {**model, "num_trees": number}
        check_memory(settings, rows, columns)
        each = chains * chain_seconds(settings, rows, columns)
        units.append(prepare_seconds(settings, rows, columns) + each)
    seconds, fits = max(*units, sum(units) / max(slots, 1)), [chains] * len(numbers)
    size = len(numbers) * data.num_features * (len(model.get("outcomes") or ()) or 1) * SHARE_BYTES
    wanted = {"num_trees": numbers, "level": request.level, "tuning": None}
    if request.folds is not None:
        tried: Any = [{"num_trees": number} for number in numbers]
        asked = TuningBody(kind="tuning", candidates=tried, folds=request.folds, seed=model.get("seed", 0))
        compared = tuning.plan(asked, data, slots)
        wanted["tuning"] = compared.request
        fits, seconds, size = fits + compared.fits, seconds + compared.seconds, size + compared.num_bytes
    check_seconds(seconds, "study", "Ask for fewer or smaller numbers of trees, or of a model of fewer rows.")
    return StudyPlan("inclusion_by_trees", wanted, fits, seconds, size)


def result(request: Json, statistics: Sequence[Json]) -> dict[str, InclusionByTrees]:
    """Put the units' shares together, by outcome."""
    numbers = request["num_trees"]
    own, folds = statistics[: len(numbers)], statistics[len(numbers) :]
    scores = tuning.result(request["tuning"], folds) if folds else None
    return {
        name: InclusionByTrees.of(
            numbers, [FitShares(**each[name]) for each in own], request["level"], scores
        )
        for name in own[0]
    }
