"""Client calls for forecasts: plans, forecasts with totals, and what rehearsals showed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.client.base import Calls, address, id_of, is_dataset_id
from app.client.bodies import is_frame, rows_json
from app.client.datasets import Datasets
from app.client.transport import Call
from app.client.views import (
    Dataset,
    Floats,
    Json,
    Model,
    ModelSet,
    PredictionJob,
    floats_of,
    without_none,
)


@dataclass(frozen=True)
class SeriesForecast:
    """A forecast of the next steps of series.

    Attributes
    ----------
    series
        Columns of series, a value for each series.
    time, time_name
        Times of the steps of each series, and the name of their column.
    median, lower, upper
        float64 [series, step].
    paths
        Whole paths, if asked for, float64 [path, series, step].
    flags
        What is unusual about each series.
    claim
        What is known of how often the intervals hold.
    group
        The values that tell the group of a forecast by a set's model, by column; {} for others.
    totals
        Totals that were asked for, as the service's documents.
    document
        The service's document.

    """

    model_id: str
    series: dict[str, list[Any]]
    time: list[list[Any]]
    time_name: str
    median: Floats
    lower: Floats
    upper: Floats
    paths: Floats | None
    flags: list[list[str]]
    level: float
    interval: str
    claim: str
    totals: list[Json]
    warnings: list[str]
    document: Json = field(repr=False)
    _ask: Callable[[Json], Json] = field(repr=False, compare=False)
    group: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, document: Json, ask: Callable[[Json], Json], group: dict[str, str] | None = None
    ) -> "SeriesForecast":
        """Make it from the service's document; `ask` asks for totals of the same series and plan."""
        figures: Any = {name: floats_of(document[name]) for name in ("median", "lower", "upper")}
        same = (
            "model_id",
            "series",
            "time",
            "time_name",
            "flags",
            "level",
            "interval",
            "claim",
            "totals",
            "warnings",
        )
        paths = None if document["paths"] is None else floats_of(document["paths"])
        return cls(
            **{name: document[name] for name in same}, **figures, paths=paths, document=document, _ask=ask,
            group=group or {},
        )  # fmt: skip

    def total(self, steps: int | Sequence[int] | None = None, by: str | Sequence[str] | None = None) -> Json:
        """Ask for the total over steps, such as a lead time ``(1, 6)``, and the series of sets.

        Returns its ``sets``, each with ``median``, ``lower`` and ``upper``, and the ``claim``.
        """
        asked = without_none({"steps": _listed(steps), "by": _listed(by)})
        total: Json = self._ask({"totals": [asked]})["totals"][0]
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return the columns by name, a line for each series and step."""
        count, horizon = self.median.shape
        named: dict[str, Any] = {name: [value] * (count * horizon) for name, value in self.group.items()}
        named |= {
            name: [each for each in values for _ in range(horizon)] for name, values in self.series.items()
        }
        steps = {
            self.time_name: [each for times in self.time for each in times],
            "step": [*range(1, horizon + 1)] * count,
        }
        figures = {name: getattr(self, name).reshape(-1) for name in ("median", "lower", "upper")}
        return named | steps | figures | {"flags": [", ".join(e) for e in self.flags for _ in range(horizon)]}

    def to_pandas(self) -> Any:
        """Return a pandas data frame with a line for each series and step."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.to_dict())


class Forecasts(Datasets, Calls):
    """Calls that ask forecasters, which are fitted with time and horizon."""

    def plan_template(self, model: str | Model | ModelSet) -> dict[str, list[Any]]:
        """Return the columns of a plan with a row for each step to forecast, None where values are needed.

        For a set of forecasters it has the columns that tell a row's group.
        """
        of_set = isinstance(model, ModelSet) or (isinstance(model, str) and model.startswith("set_"))
        return self._get(address("model-sets" if of_set else "models", model, "forecast", "template"))

    def forecast(
        self,
        model: str | Model,
        plan: Any = None,
        *,
        level: float = 0.9,
        interval: str | None = None,
        series: Sequence[Any] | None = None,
        at: Any = None,
        totals: Sequence[Json] = (),
        paths: int = 0,
    ) -> SeriesForecast:
        """Forecast the next steps of series.

        Parameters
        ----------
        model
            A model fitted with time and horizon, its id, or a name.
        plan
            Columns known ahead for these steps with times and series, as `plan_template` has them: a dict of
            lists, a list of dicts, a data frame, the path of a file, or the id of a dataset.
        level, interval
            Probability of the intervals; "calibrated" by rehearsals or "predictive".
        series
            Those to forecast, values of the column of series; None for all.
        at
            The present, by which series are stale.
        totals
            Totals such as ``{"steps": [1, 6], "by": "region"}``; `SeriesForecast.total` asks for one later.
        paths
            Number of whole paths to return.
        """
        body = {
            "level": level,
            "interval": interval,
            "series": _listed(series),
            "at": at,
        }
        asked = {"totals": [*totals], "paths": paths}

        def ask(more: Json) -> Json:
            return self._asked(address("models", model, "forecast"), plan, without_none(body | more))

        return SeriesForecast.of(ask(asked), ask)

    def forecast_dataset(
        self, model: str | Model, plan: str | Dataset | None = None, **options: Any
    ) -> PredictionJob:
        """Start to forecast any number of series in the background; `wait_prediction` returns the table.

        `plan` is a dataset with what is known ahead, or its id; `options` are ``level``, ``interval``,
        ``series``, ``at``, ``totals`` and ``paths`` of `forecast`.
        """
        asked = without_none({**options, "known": None if plan is None else id_of(plan)})
        call = Call("POST", address("models", model, "predictions"), json={"forecast": asked})
        return PredictionJob.of(self._json(call))

    def forecast_datasets(
        self, model_set: str | ModelSet, plan: str | Dataset | None = None, **options: Any
    ) -> list[PredictionJob]:
        """Start to forecast any number of series of a set's groups: a job each, which has its `group`.

        `plan` is a dataset of all groups, or its id; `options` are ``groups`` and `forecast_dataset`'s.
        """
        asked = without_none({**options, "known": None if plan is None else id_of(plan)})
        call = Call("POST", address("model-sets", model_set, "predictions"), json={"forecast": asked})
        return [PredictionJob.of(each) for each in self._json(call)["predictions"]]

    def forecast_many(
        self,
        model_set: str | ModelSet,
        plan: Any = None,
        *,
        groups: Sequence[Any] | None = None,
        totals: Sequence[Json] = (),
        **options: Any,
    ) -> list[SeriesForecast]:
        """Forecast the series of groups, each by the forecaster of its group in a set.

        Parameters
        ----------
        model_set
            A set of models fitted with time and horizon, its id, or its name.
        plan
            As of `forecast`, with the columns that tell a row's group too.
        groups
            Those to forecast: values of the column that tells it, lists where there are several; None: all.
        totals
            Totals over the series of each group.
        **options
            ``level``, ``interval``, ``series``, ``at`` and ``paths`` of `forecast`.

        Returns
        -------
        list of SeriesForecast
            Each with its `group`.
        """
        path = address("model-sets", model_set, "forecast")

        def ask(more: Json) -> Json:
            return self._asked(path, plan, without_none({**options, **more}))

        answer = ask({"totals": [*totals], "groups": None if groups is None else [*groups]})

        def of_group(group: list[str]) -> Callable[[Json], Json]:
            return lambda more: ask(more | {"groups": [group]})["forecasts"][0]

        return [
            SeriesForecast.of(
                each, of_group(each["group"]), dict(zip(answer["by"], each["group"], strict=True))
            )
            for each in answer["forecasts"]
        ]

    def rehearsals(self, model: str | Model, *, level: float = 0.9) -> Json:
        """Return what rehearsals forecast and what came: lists by line of origin and step, and the claim."""
        return self._get(address("models", model, "forecast", "rehearsals"), level=level)

    def _asked(self, path: str, plan: Any, body: Json) -> Json:
        """Send a request with a plan; a file or data frame is a dataset for as long as it takes."""
        if plan is None or is_dataset_id(plan):
            known = {} if plan is None else {"known": plan}
            return self._json(Call("POST", path, json=body | known, repeatable=True))
        if is_frame(plan) or isinstance(plan, (str, Path, bytes)):
            dataset = self.upload(plan, name="plan")
            try:
                return self._asked(path, dataset.id, body)
            finally:
                self.delete_dataset(dataset)
        sent = rows_json(plan)
        rows = sent.get("rows")
        if rows is None:
            columns = sent["columns"]
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return self._json(Call("POST", path, json=body | {"known": rows}, repeatable=True))


def _listed(value: Any) -> list[Any] | None:
    return value if value is None else [value] if isinstance(value, (str, int)) else [*value]
