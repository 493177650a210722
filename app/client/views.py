"""Typed views of the service's responses; `document` holds the complete response, including new fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]
Floats = NDArray[np.float64]
PRINTED_ROWS, PRINTED_COLUMNS = 5, 6  # of a prediction's text
OPEN_STATES = frozenset({"queued", "running"})


@dataclass(frozen=True)
class Dataset:
    """An uploaded table."""

    id: str
    name: str
    num_rows: int
    columns: list[Json] = field(repr=False)  # name, kind, missing, distinct, min, max, levels, note
    warnings: list[str]
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        names = ("id", "name", "num_rows", "columns", "warnings")
        return cls(**{name: document[name] for name in names}, document=document)


@dataclass(frozen=True)
class Chain:
    """Progress of a chain; `phase` is compiling, burn_in or sampling, or None before the start."""

    number: int
    state: str
    phase: str | None
    iteration: int
    iterations: int


@dataclass(frozen=True)
class Model:
    """A model: fitted, being fitted, or ended early."""

    id: str
    name: str | None
    state: str  # queued, running, succeeded, failed, cancelled
    dataset_id: str | None
    target: str
    draws: int  # kept draws per chain so far
    verdict: str | None  # converged, approximate, not_converged
    fraction: float  # share of iterations done
    iterations_per_second: float | None
    eta_seconds: float | None
    chains: list[Chain] = field(repr=False)
    settings: Json = field(repr=False)
    diagnostics: Json | None = field(repr=False)
    holdout: Json | None = field(repr=False)
    error: str | None
    warnings: list[str]
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        same = (
            "id",
            "name",
            "state",
            "dataset_id",
            "target",
            "draws",
            "verdict",
            "settings",
            "diagnostics",
            "holdout",
            "warnings",
        )
        progress = document["progress"]
        return cls(
            **{name: document[name] for name in same},
            fraction=progress["fraction"],
            iterations_per_second=progress["iterations_per_second"],
            eta_seconds=progress["eta_seconds"],
            chains=[
                Chain(chain["chain"], chain["state"], chain["phase"], chain["iteration"], chain["iterations"])
                for chain in progress["chains"]
            ],
            error=None if document["error"] is None else document["error"]["detail"],
            document=document,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is queued or running."""
        return self.state in OPEN_STATES

    @property
    def use(self) -> Json | None:
        """Uses of the model, with ``text`` in sentences; None before the verdict."""
        return self.document.get("use")


@dataclass(frozen=True)
class ModelSet:
    """A set of models, one for each group of a dataset's rows; `succeeded` and `failed` count models."""

    id: str
    name: str | None
    state: str  # queued, running, succeeded (where a model has), failed, cancelled
    dataset_id: str | None
    target: str
    by: list[str]  # columns that tell the group
    groups: int
    fraction: float  # share of models that have ended
    succeeded: int
    failed: int
    settings: Json = field(repr=False)
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        same = ("id", "name", "state", "dataset_id", "target", "by", "groups", "settings")
        counts = {name: document["progress"][name] for name in ("fraction", "succeeded", "failed")}
        return cls(**{name: document[name] for name in same}, **counts, document=document)

    @property
    def is_open(self) -> bool:
        """Whether some of its models have not ended."""
        return self.state in OPEN_STATES


@dataclass(frozen=True)
class GroupModel:
    """The model of a group in a set; `group` has the values that tell it."""

    group: list[str]
    id: str
    state: str
    rows: int | None
    verdict: str | None
    seconds: float | None
    error: str | None
    warnings: list[str]
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        same = ("group", "state", "rows", "verdict", "seconds", "warnings")
        return cls(
            **{name: document[name] for name in same},
            id=document["model_id"],
            error=None if document["error"] is None else document["error"]["detail"],
            document=document,
        )


@dataclass(frozen=True)
class Event:
    """An event of a model; `sequence` is None for progress, which the log doesn't keep."""

    sequence: int | None
    kind: str
    detail: Json
    at: str | None = None  # RFC 3339, UTC


@dataclass(frozen=True)
class Interval:
    """Equal-tailed intervals at one level, with one bound per row."""

    level: float
    lower: Floats
    upper: Floats


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predictions, one value per row (for more than two classes, one value per row and class).

    `interval` is the kind of the intervals: of a new outcome ("predictive", or "calibrated" with what the
    `claims` say) or of its expectation ("credible"). Ends that are not finite are NaN. `sets` are the
    prediction sets of classes: by level, the classes in the set of each row. `labels` are those of the rows
    of a pandas data frame (its index).
    """

    model_id: str
    draws: int
    interval: str
    mean: Floats
    sd: Floats | None
    intervals: list[Interval]
    quantiles: dict[float, Floats]
    classes: list[str] | None
    verdict: str | None
    flags: list[list[Json]]
    warnings: list[str]
    claims: list[Json]
    sets: dict[float, list[list[str]]]
    document: Json
    labels: Any = field(default=None, compare=False)

    @classmethod
    def of(cls, document: Json, labels: Any = None) -> Self:
        """Make it from the service's document, and the rows' labels."""
        return cls(
            labels=labels,
            claims=document.get("claims") or [],
            sets={part["level"]: part["classes"] for part in document.get("sets") or []},
            model_id=document["model_id"],
            draws=document["draws"],
            interval=document["interval"],
            mean=floats_of(document["mean"]),
            sd=None if document["sd"] is None else floats_of(document["sd"]),
            intervals=[
                Interval(part["level"], floats_of(part["lower"]), floats_of(part["upper"]))
                for part in document["intervals"]
            ],
            quantiles={part["q"]: floats_of(part["values"]) for part in document["quantiles"]},
            classes=document["classes"],
            verdict=document["verdict"],
            flags=document["flags"],
            warnings=document["warnings"],
            document=document,
        )

    @property
    def cumulative(self) -> Floats:
        """Probabilities of each class or a lower one, [row, class], of ordered classes."""
        p = self.mean if self.mean.ndim == 2 else np.stack([1 - self.mean, self.mean], axis=1)
        return np.cumsum(p, axis=1)

    @property
    def lower(self) -> Floats:
        """Lower bounds at the first requested level."""
        return self.intervals[0].lower

    @property
    def upper(self) -> Floats:
        """Upper bounds at the first requested level."""
        return self.intervals[0].upper

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        named = dict(list(self.to_dict().items())[:PRINTED_COLUMNS])
        columns = [[name, *(f"{each:.5g}" for each in part[:PRINTED_ROWS])] for name, part in named.items()]
        lines = [f"<Prediction of {len(self)} rows by {self.model_id}, {self.interval} intervals>"]
        lines += ["".join(f"{cell:>14}" for cell in row) for row in zip(*columns, strict=True)]
        lines += [f"... and {len(self) - PRINTED_ROWS} more"] * (len(self) > PRINTED_ROWS)
        return "\n".join([*lines, *([f"{len(self.warnings)} in .warnings"] * bool(self.warnings))])

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return columns by name: mean, sd, lower_90, upper_90, set_90_setosa, ..., as in its tables."""
        wide = {"mean": self.mean}
        if self.sd is not None:
            wide["sd"] = self.sd
        for part in self.intervals:
            name = f"{100 * part.level:.10g}"
            wide |= {f"lower_{name}": part.lower, f"upper_{name}": part.upper}
        wide |= {f"quantile_{100 * q:.10g}": values for q, values in self.quantiles.items()}
        columns: dict[str, NDArray[Any]] = {}
        for name, values in wide.items():
            if values.ndim == 1:
                columns[name] = values
            else:  # [row, class]
                labels = self.classes or [str(k) for k in range(values.shape[1])]
                columns |= {f"{name}_{label}": values[:, k] for k, label in enumerate(labels)}
        for level, classes in self.sets.items():
            columns |= {
                f"set_{100 * level:.10g}_{label}": np.array([label in row for row in classes])
                for label in self.classes or []
            }
        return columns

    def to_pandas(self) -> Any:
        """Return the columns as a data frame, with the labels of a pandas frame's rows; requires pandas."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.to_dict(), index=self.labels)


@dataclass(frozen=True)
class PredictionJob:
    """A background prediction of a stored dataset."""

    id: str
    model_id: str
    dataset_id: str | None
    state: str
    fraction: float
    error: str | None
    warnings: list[str]
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        return cls(
            **{name: document[name] for name in ("id", "model_id", "dataset_id", "state", "warnings")},
            fraction=document["progress"]["fraction"],
            error=None if document["error"] is None else document["error"]["detail"],
            document=document,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is queued or running."""
        return self.state in OPEN_STATES


@dataclass(frozen=True)
class Study:
    """A study of a model; `features` is the result of kind "selection", the largest share first.

    Each feature has a `name`, its `share` of the split rules, `thresholds` and `selected_by`, by rule; of
    several outcomes they are the first one's. `tuning` is the result of kind "tuning": `trials`, the place of
    the `chosen` one, `folds`, and `best`; `placebo` that of kind "placebo": `average`, `groups` and `level`.
    """

    id: str
    model_id: str
    kind: str
    state: str
    fraction: float
    fits_done: int
    fits: int
    features: list[Json] | None
    tuning: Json | None
    placebo: Json | None
    error: str | None
    document: Json = field(repr=False)

    @classmethod
    def of(cls, document: Json) -> Self:
        """Make it from the service's document."""
        selection = document["selection"]
        return cls(
            **{name: document[name] for name in ("id", "model_id", "kind", "state")},
            **{name: document["progress"][name] for name in ("fraction", "fits_done", "fits")},
            features=None if selection is None else selection["features"],
            tuning=document.get("tuning"),
            placebo=document.get("placebo"),
            error=None if document["error"] is None else document["error"]["detail"],
            document=document,
        )

    @property
    def is_open(self) -> bool:
        """Whether it is queued or running."""
        return self.state in OPEN_STATES

    @property
    def names(self) -> list[str]:
        """Names of the features, the largest share first; none before the study has succeeded."""
        return [feature["name"] for feature in self.features or []]

    @property
    def others(self) -> dict[str, list[Json]]:
        """Features of each further outcome, of a selection for several; else empty."""
        others: dict[str, list[Json]] = (self.document["selection"] or {}).get("others", {})
        return others

    def selected(self, rule: str = "max") -> list[str]:
        """Return the names of the features selected by a rule: "max", "se" or "local"."""
        features = self.features or []
        if features and rule not in features[0]["thresholds"]:
            raise ValueError(f"rule must be one of {', '.join(features[0]['thresholds'])}, not {rule!r}")
        return [feature["name"] for feature in features if rule in feature["selected_by"]]


def without_none(values: Mapping[str, Any]) -> Json:
    """Return the given values without None, for which the service has defaults."""
    return {name: value for name, value in values.items() if value is not None}


def floats_of(values: Sequence[Any]) -> Floats:
    return np.array(values, dtype=np.float64)  # null becomes NaN
