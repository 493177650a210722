"""Studies "tuning": the settings that predict unseen rows best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.services.errors import MAX_DETAIL, Fault, InvalidRequestError, TooLargeError
from app.services.fits.costs import check_memory, check_seconds
from app.services.fits.fit_request import CandidateSettings
from app.services.fits.requests import LENGTHS
from app.services.request_bodies import StrictBody
from app.services.studies.plan import OF_COSTS, StudyPlan, TrainingData
from app.services.views import filled, schema_of
from app.store.tables import Json
from sampler import Settings, SettingsError
from sampler.host.data import check_cuts, folds_of
from sampler.host.fits import chain_seconds, check_several, checked_prior, prepare_seconds
from sampler.host.settings import FAMILIES, SETTINGS, VALUES_OF_OLD_MODELS
from sampler.host.studies import TUNING_FOLDS as FOLDS
from sampler.host.studies import TUNING_SCORES as SCORES
from sampler.host.studies import (
    FoldScores,
    TriedSettings,
    Tuning,
    candidates_of,
    check_score,
    merged,
    of_fold,
    settings_in_words,
)
from sampler.host.studies import compare_settings as compare

MAX_CANDIDATES = 50
MAX_SCORES = 500_000  # candidates times rows
SCORE_BYTES = 60  # upper bound of the stored bytes per row and candidate
OF_DATA = ("family", "method")  # the model's, for all candidates


def _is_list(value: Any) -> str:
    return "kind-list" if isinstance(value, list) else "kind-grid"


class TuningBody(StrictBody):
    """A question about a model: which settings predict unseen rows best."""

    kind: Literal["tuning"] = Field(description="tuning: compare settings by K-fold cross-validation.")
    candidates: Annotated[
        Annotated[str, Tag("kind-grid")]
        | Annotated[
            list[CandidateSettings], Field(fail_fast=True, max_length=MAX_CANDIDATES), Tag("kind-list")
        ],
        Discriminator(_is_list),
    ] = Field(
        default="model",
        description="Settings to compare, simpler ones first, at most 50; all share those in which the model "
        "differs from the defaults. Or a grid: model (noise, transform, linear part; of numbers) or prior "
        "(k, the noise's prior, number of trees). Fits have two chains of 100 draws unless a candidate says "
        "otherwise.",
    )
    folds: int = Field(default=5, description=f"{FOLDS.about} From 2 to 20.")
    score: str = Field(
        default="log_score",
        json_schema_extra={"enum": list(SCORES)},
        description="What is compared: log_score, which judges means and noise together, or rmse of the "
        "means alone, of numbers.",
    )
    parsimony: bool = Field(
        default=False,
        description="Choose the first candidate that is at most one standard error behind the best.",
    )
    seed: int = Field(default=0, description="Seed of the folds and of all fits.")


schema_of(
    TriedSettings,
    "TrialView",
    "settings log_score error behind behind_error rmse coverage seconds refused",
)
TuningView: Any = schema_of(
    Tuning,
    "TuningView",
    "trials chosen folds score best",
    "The result of a tuning.",
    chosen=Annotated[
        int | None, Field(description="Place of the chosen one, from 0; null if no candidate can be fitted.")
    ],
    best=Annotated[
        dict[str, Any] | None,
        Field(
            description="Settings to fit with, as fields of POST /models: the chosen candidate's, "
            "and those that all share."
        ),
    ],
)


def plan(request: TuningBody, data: TrainingData, slots: int) -> StudyPlan:
    """Check a request and resolve its settings; raises InvalidRequestError and those of a fit too large.

    Raises TooLargeError for more scores than are stored.
    """
    tried = _checked(request, data)
    common = _common(data.settings)
    resolved = _resolved(request, tried, common, data)
    if (scores := data.num_rows * len(tried)) > MAX_SCORES:
        raise TooLargeError(
            f"{len(tried)} candidates scored on {data.num_rows:,} rows give {scores:,} scores; the maximum "
            f"is {MAX_SCORES:,}. Ask for fewer candidates, or tune a model of fewer rows, such as one with a "
            "larger holdout."
        )
    rows, columns = data.num_rows, data.coded_columns
    fits, units = [], []
    for settings in resolved:
        check_memory(settings, rows, columns)
        each = settings["num_chains"] * chain_seconds(settings, rows, columns)
        fits += [settings["num_chains"]] * request.folds
        units.append(prepare_seconds(settings, rows, columns) + each)
    seconds = max(*units, request.folds * sum(units) / max(slots, 1))
    check_seconds(seconds, "study", "Ask for fewer candidates or folds, or tune a model of fewer rows.")
    others = request.model_dump(exclude={"kind", "candidates"})
    if data.settings.get("families"):  # each outcome has its own
        common["family"] = "auto"
    stored = {"candidates": tried, **others, "common": common}
    return StudyPlan("tuning", stored, fits, seconds, scores * SCORE_BYTES)


def result(request: Json, statistics: Sequence[Json]) -> Any:
    """Compare the candidates by the units' scores."""
    tried, folds, score = request["candidates"], request["folds"], request.get("score", "log_score")
    scores = [_scores_of(each) for each in statistics]
    parts = [scores[first : first + folds] for first in range(0, len(scores), folds)]
    try:
        judged = compare(tried, parts, parsimony=request["parsimony"], common=request["common"], score=score)
    except SettingsError:
        refusals = [next((each for each in of_one if isinstance(each, str)), "") for of_one in parts]
        refused = [why or "no score is finite" for why in refusals]
        trials = [TriedSettings(one, refused=why) for one, why in zip(tried, refused, strict=True)]
        return filled(TuningView, Tuning(trials, 0, folds, score=score), chosen=None, best=None)
    shown = replace(judged, trials=[_finite(trial) for trial in judged.trials])
    return filled(TuningView, shown, chosen=judged.chosen, best=judged.best)


def in_words(settings: Json) -> str:
    """Say in words how a candidate differs from the settings that all share."""
    return settings_in_words(settings)


def _checked(request: TuningBody, data: TrainingData) -> list[Json]:
    """Return the candidates; raise InvalidRequestError with all faults that need no settings of fits."""
    faults, tried, grid = [], [], request.candidates
    named = grid if isinstance(grid, str) else [each.given() for each in grid]
    try:
        tried = candidates_of(named, data.settings.get("family") or "gaussian", _families_of(data))
    except SettingsError as error:
        faults.append(Fault.of_setting(error))
    try:
        check_score(request.score, _family_of(data))
    except SettingsError as error:
        faults.append(Fault.of_setting(error))
    if len(tried) > MAX_CANDIDATES:
        message = f"{len(tried)} candidates; at most {MAX_CANDIDATES} are accepted"
        faults.append(Fault("candidates", None, message, "too_large"))
    try:
        SETTINGS["seed"].check("seed", request.seed)
    except SettingsError as error:
        faults.append(Fault.of_setting(error))
    try:
        folds_of(data.num_rows, FOLDS.check("folds", request.folds), 0)
    except SettingsError as error:
        faults.append(Fault.of_setting(error))
    if faults:
        raise InvalidRequestError(errors=faults)
    return tried


def _families_of(data: TrainingData) -> list[str]:
    """Return the families of a model's outcomes, where it has several, else none."""
    of_numbers = dict.fromkeys(data.settings.get("outcomes") or (), "gaussian")
    return [*(data.settings.get("families") or of_numbers).values()]


def _family_of(data: TrainingData) -> str:
    """Return the model's family, of several outcomes that of one of numbers, if there is one."""
    families = _families_of(data) or [data.settings.get("family") or "gaussian"]
    return next((each for each in families if not FAMILIES[each].has_classes), families[0])


def _resolved(request: TuningBody, tried: Sequence[Json], common: Json, data: TrainingData) -> list[Json]:
    """Resolve the settings of each candidate's fits, as the estimates of costs take them.

    Raises InvalidRequestError where given ones contradict each other, and where all of a grid do. The others
    of a grid are left out, as the library does, and the cost of their fits is that of the model's settings.
    """
    faults: list[Fault] = []

    def resolved(candidate: Json, place: int) -> Json | None:
        try:
            return _resolve(merged(common, candidate), request.seed, data)
        except SettingsError as error:
            message = f"candidate {place + 1}: {error}"[:MAX_DETAIL]
            faults.append(Fault("candidates", None, message, error.code, f"candidates.{place}.{error.field}"))
            return None

    alone = [resolved(candidate, place) for place, candidate in enumerate(tried)]
    if faults and (len(faults) == len(tried) or not isinstance(request.candidates, str)):
        raise InvalidRequestError(errors=faults)
    return [each or _resolve(common, request.seed, data) for each in alone]


def _resolve(settings: Json, seed: int, data: TrainingData) -> Json:
    """Resolve the settings of a fold's fit and check its prior; raise SettingsError."""
    if data.settings.get("outcomes"):
        check_several(settings | {"families": _families_of(data)})
    chosen = of_fold(settings, seed)
    prior = dict(chosen.pop("prior", None) or {})
    cuts = prior.pop("cuts", {})
    resolved = Settings.resolve(**chosen)
    checked_prior(prior, resolved)
    check_cuts(cuts, data.settings.get("columns") or {})
    return resolved.to_json() | {name: data.settings.get(name) for name in OF_COSTS}


def _common(model: Mapping[str, Any]) -> Json:
    """Return the settings in which a model differs from the defaults: those that all candidates share.

    A candidate with another setting gets the defaults that go with it.
    """
    stored = VALUES_OF_OLD_MODELS | {name: model[name] for name in SETTINGS if model.get(name) is not None}
    of_data = {name: stored[name] for name in OF_DATA if name in stored}
    usual = asdict(Settings.resolve(**of_data))
    others = {name: value for name, value in stored.items() if name not in (*LENGTHS, "transform", "linear")}
    settings = of_data | {name: value for name, value in others.items() if value != usual[name]}
    goes_with = asdict(Settings.resolve(**settings))
    settings |= {name: stored[name] for name in VALUES_OF_OLD_MODELS if goes_with[name] != stored[name]}
    of_model = model.get("prior") or {}
    defaults = checked_prior(None, Settings.resolve(**settings))
    prior = {name: value for name, value in of_model.items() if defaults.get(name) != value}
    if "k_scale" in prior:
        prior["k_df"] = of_model["k_df"]  # one has no meaning without the other
    return settings | ({"prior": prior} if prior else {})


def _scores_of(statistics: Json) -> FoldScores | str:
    """Read what a unit stored; a score that JSON can't hold is that of an outcome without density."""
    if "refused" in statistics:
        return str(statistics["refused"])
    scores = [-math.inf if value is None else value for value in statistics["log_score"]]
    return FoldScores(**statistics | {"log_score": scores})


def _finite(trial: TriedSettings) -> TriedSettings:
    """Return a candidate with None for figures that are not finite."""
    figures = vars(trial).items()
    lost: dict[str, Any] = {
        name: None for name, each in figures if isinstance(each, float) and not math.isfinite(each)
    }
    return replace(trial, **lost)
