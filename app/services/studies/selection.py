"""Studies "selection": the features that matter beyond chance, by a permutation null."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from app.services.errors import Fault, InvalidRequestError
from app.services.fits.costs import check_memory, check_seconds
from app.services.request_bodies import StrictBody
from app.services.studies.plan import OF_COSTS, StudyPlan, TrainingData
from app.store.tables import Json
from sampler import Settings, SettingsError
from sampler.host.fits import chain_seconds, prepare_seconds
from sampler.host.settings import SETTINGS, Setting
from sampler.host.studies import SELECTION_LEVEL as LEVEL
from sampler.host.studies import SELECTION_NUM_BURNIN as NUM_BURNIN
from sampler.host.studies import SELECTION_NUM_CHAINS as NUM_CHAINS
from sampler.host.studies import SELECTION_NUM_DRAWS as NUM_DRAWS
from sampler.host.studies import SELECTION_NUM_PERMUTATIONS as NUM_PERMUTATIONS
from sampler.host.studies import SELECTION_NUM_TREES as NUM_TREES
from sampler.host.studies import SELECTION_PERMUTATIONS as PERMUTATIONS
from sampler.host.studies import SELECTION_RULES as RULES
from sampler.host.studies import Selection

UNIT_SECONDS, MOST_AT_ONCE = 2.0, 10  # duration of a unit, and most permutations in one
MAX_SHARES = 500_000  # permutations times features
SHARE_BYTES = 22  # upper bound of the stored bytes per share
_CHECKED: dict[str, Setting] = {"permutations": PERMUTATIONS, "level": LEVEL, "seed": SETTINGS["seed"]}


def _check_kind(kind: Any) -> Any:
    """Refuse a kind that doesn't exist; a body without a known one is read as a selection."""
    if kind != "selection":
        raise PydanticCustomError("kind", "Input should be 'selection', 'tuning' or 'calibration'")
    return kind


class SelectionBody(StrictBody):
    """A question about a model: which of its features matter beyond chance."""

    kind: Annotated[Literal["selection"], BeforeValidator(_check_kind)] = Field(
        default="selection",
        description="selection: compare each feature's share of the split rules with its share in fits to "
        "permuted outcomes (Bleich et al. 2014).",
    )
    permutations: int = Field(default=NUM_PERMUTATIONS, description=PERMUTATIONS.about)
    level: float = Field(default=0.05, description=LEVEL.about)
    seed: int = Field(default=0, description="Seed of the permutations and of all chains.")


@dataclass(frozen=True, kw_only=True)
class SelectedFeatureView:
    """A feature's share of the split rules, compared with what unrelated outcomes would give."""

    name: str
    share: float
    thresholds: Annotated[
        dict[str, float],
        Field(
            description="The share that the feature must exceed, by rule: local, from the feature's own null "
            "shares; max, from the largest of all features; se, in standard deviations of its own."
        ),
    ]
    selected_by: Annotated[list[str], Field(description="The rules by which it is selected.")]


@dataclass(frozen=True, kw_only=True)
class SelectionView:
    """The result of a selection, the largest share first."""

    level: Annotated[
        float,
        Field(
            description="Probability that each rule allows for a feature (local), or for any (max, se), to "
            "be selected though nothing is related to the outcome."
        ),
    ]
    features: list[SelectedFeatureView]
    others: Annotated[
        dict[str, list[SelectedFeatureView]],
        Field(description="Of several outcomes the features of each further one; else empty."),
    ]


def plan(request: SelectionBody, data: TrainingData, slots: int) -> StudyPlan:
    """Check a request and resolve its settings; raises InvalidRequestError and those of a fit too large."""
    faults = []
    for name, setting in _CHECKED.items():
        try:
            setting.check(name, getattr(request, name))
        except SettingsError as error:
            faults.append(Fault.of_setting(error))
    outcomes = len(data.settings.get("outcomes") or ()) or 1
    features = data.num_features * outcomes
    if not faults and (shares := request.permutations * features) > MAX_SHARES:
        of_several = f" for {outcomes} outcomes" if outcomes > 1 else ""
        message = (
            f"{request.permutations} permutations of {data.num_features} features{of_several} give "
            f"{shares:,} shares; the maximum is {MAX_SHARES:,}"
        )
        faults.append(Fault("permutations", None, message))
    if faults:
        raise InvalidRequestError(errors=faults)
    chosen = {
        "num_chains": NUM_CHAINS,
        "num_trees": NUM_TREES,
        "num_burnin": NUM_BURNIN,
        "num_draws": NUM_DRAWS,
    }
    settings = _settings(data, chosen)
    check_memory(settings, data.num_rows, data.coded_columns)
    prepare = prepare_seconds(settings, data.num_rows, data.coded_columns)
    chain = chain_seconds(settings, data.num_rows, data.coded_columns)
    observed, permuted = prepare + NUM_CHAINS * chain, request.permutations * (prepare + chain)
    seconds = max(observed, (observed + permuted) / max(slots, 1))
    check_seconds(seconds, "study", "Ask for fewer permutations, or study a model of fewer rows.")
    at_once = max(1, min(MOST_AT_ONCE, int(UNIT_SECONDS / (prepare + chain))))
    firsts = range(0, request.permutations, at_once)
    fits = [NUM_CHAINS, *(min(at_once, request.permutations - first) for first in firsts)]
    size = request.permutations * features * SHARE_BYTES
    return StudyPlan(
        "selection", request.model_dump(exclude={"kind"}) | chosen | {"at_once": at_once}, fits, seconds, size
    )


def result(request: Json, statistics: Sequence[Json]) -> SelectionView:
    """Put the units' shares together."""
    own, *permuted = statistics

    def features(
        share: Sequence[float], null: Sequence[Sequence[Sequence[float]]]
    ) -> list[SelectedFeatureView]:
        rows = np.array([row for part in null for row in part])
        return _features(Selection(own["names"], np.array(share), rows, request["level"]))

    return SelectionView(
        level=request["level"],
        features=features(own["share"], [part["null"] for part in permuted]),
        others={
            each: features(share, [part["others"][each] for part in permuted])
            for each, share in own.get("others", {}).items()
        },
    )


def _features(chosen: Selection) -> list[SelectedFeatureView]:
    """List the features of an outcome, the largest share first."""
    thresholds = {rule: chosen.threshold(rule) for rule in RULES}
    return [
        SelectedFeatureView(
            name=chosen.names[j],
            share=float(chosen.share[j]),
            thresholds={rule: float(values[j]) for rule, values in thresholds.items()},
            selected_by=[rule for rule, values in thresholds.items() if chosen.share[j] > values[j]],
        )
        for j in np.argsort(-chosen.share, kind="stable")
    ]


def _settings(data: TrainingData, chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of the fits, as the estimates of costs take them."""
    resolved = Settings.resolve(family=data.settings.get("family"), method="bart", thin=1, **chosen)
    return resolved.to_json() | {name: data.settings.get(name) for name in OF_COSTS}
