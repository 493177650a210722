"""Studies "selection": the features that matter beyond chance, by a permutation null."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from app.services.errors import Fault, InvalidRequestError
from app.services.fits.costs import check_memory, check_seconds
from app.services.request_bodies import StrictBody
from app.services.studies.plan import OF_COSTS, StudyKind, StudyPlan, TrainingData
from app.services.views import SHOWN, filled, schema_of
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
from sampler.host.studies import SelectedFeature, Selection

UNIT_SECONDS, MOST_AT_ONCE = 2.0, 10  # duration of a unit, and most permutations in one
MAX_SHARES = 500_000  # permutations times features
SHARE_BYTES = 22  # upper bound of the stored bytes per share
_CHECKED: dict[str, Setting] = {"permutations": PERMUTATIONS, "level": LEVEL, "seed": SETTINGS["seed"]}


def _check_kind(kind: Any) -> Any:
    """Refuse a kind that doesn't exist; a body without a known one is read as a selection."""
    if kind != "selection":
        *kinds, last = map(repr, get_args(StudyKind))
        raise PydanticCustomError("kind", f"Input should be {', '.join(kinds)} or {last}")
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


SelectedFeatureView = schema_of(SelectedFeature, "SelectedFeatureView", "name share thresholds selected_by")
SelectionView: Any = schema_of(
    Selection,
    "SelectionView",
    "level features others",
    "The result of a selection, the largest share first.",
    others=Annotated[
        dict[str, Annotated[list[SelectedFeature], SHOWN]],
        Field(description="Of several outcomes the features of each further one; else empty."),
    ],
)


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


def result(request: Json, statistics: Sequence[Json]) -> Any:
    """Put the units' shares together."""
    own, *permuted = statistics

    def of(share: Sequence[float], null: Sequence[Sequence[Sequence[float]]]) -> Selection:
        rows = np.array([row for part in null for row in part])
        return Selection(own["names"], np.array(share), rows, request["level"])

    others = {
        each: of(share, [part["others"][each] for part in permuted]).features
        for each, share in own.get("others", {}).items()
    }
    return filled(SelectionView, of(own["share"], [part["null"] for part in permuted]), others=others)


def _settings(data: TrainingData, chosen: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of the fits, as the estimates of costs take them."""
    resolved = Settings.resolve(family=data.settings.get("family"), method="bart", thin=1, **chosen)
    return resolved.to_json() | {name: data.settings.get(name) for name in OF_COSTS}
