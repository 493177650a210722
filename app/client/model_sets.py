"""Client calls for sets of models, one for each group of a dataset's rows."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from app.client.base import Calls, address, id_of
from app.client.bodies import is_frame, rows_json
from app.client.errors import FitError
from app.client.predictions import EVERY, IntervalKind
from app.client.transport import Call
from app.client.views import Dataset, GroupModel, ModelSet, Prediction, without_none


class ModelSets(Calls):
    """Calls that fit, follow, ask, cancel and delete sets of models."""

    def fit_many(
        self,
        dataset: str | Dataset,
        target: str | Sequence[str],
        *,
        by: str | Sequence[str],
        name: str | None = None,
        **settings: Any,
    ) -> ModelSet:
        """Start to fit a model to each group of a dataset's rows; it is durably accepted when this returns.

        Each model is that of `fit` to the group's rows alone. A group whose fit is refused or fails is listed
        with the reason (`models_of_set`), and the others go on.

        Parameters
        ----------
        dataset
            A dataset returned by `upload`, or an id.
        target
            The column to predict.
        by
            The column that tells a row's group (shop, product, site), or up to four.
        name
            A name for people.
        **settings
            Settings of all fits, as of `fit`.
        """
        columns = by if isinstance(by, str) else list(by)
        body = {"dataset_id": id_of(dataset), "target": target, "by": columns, "name": name, **settings}
        return ModelSet.of(self._json(Call("POST", "/model-sets", json=without_none(body), keyed=True)))

    def model_set(self, model_set: str | ModelSet) -> ModelSet:
        """Return the present state of a set."""
        return ModelSet.of(self._get(address("model-sets", model_set)))

    def model_sets(self) -> Iterator[ModelSet]:
        """Return an iterator over your sets of models, newest first."""
        return map(ModelSet.of, self._pages("/model-sets"))

    def wait_many(
        self,
        model_set: str | ModelSet,
        *,
        progress: Callable[[ModelSet], None] | None = None,
        seconds: float | None = None,
    ) -> ModelSet:
        """Return a set when all of its models have ended.

        Raises
        ------
        FitError
            None has succeeded; `models_of_set` lists the reasons.
        WaitedTooLongError
            It takes longer than `seconds`, and continues.
        """
        ended = self._look(lambda: self.model_set(model_set), progress, seconds)
        if ended.state != "succeeded":
            first = next((each.error for each in self.models_of_set(ended, state="failed")), None)
            raise FitError(f"Each model of {ended.id}", ended.state, first)
        return ended

    def models_of_set(
        self,
        model_set: str | ModelSet,
        *,
        search: str | None = None,
        state: Literal["queued", "running", "succeeded", "failed", "cancelled"] | None = None,
    ) -> Iterator[GroupModel]:
        """Return an iterator over the models of a set, in the order in which the groups come in the data.

        `search` is a part of the group's name.
        """
        path = address("model-sets", model_set, "models")
        return map(GroupModel.of, self._pages(path, **without_none({"search": search, "state": state})))

    def predict_many(
        self,
        model_set: str | ModelSet,
        rows: Any,
        *,
        level: float | Sequence[float] = 0.9,
        interval: IntervalKind | None = None,
        quantiles: Sequence[float] | None = None,
        draws: int | None = None,
        unknown: Literal["refuse", "flag"] = "refuse",
        **reading: Any,
    ) -> Prediction:
        """Predict rows, each by the model of its group, which columns of the rows tell.

        Parameters
        ----------
        model_set
            A set, its id, or its name, which means the newest.
        rows
            A list of dicts, one row as a dict, a dict of lists or arrays, the path of a file, or a data
            frame.
        level, interval, quantiles, draws
            As of `predict`.
        unknown
            Rows of groups without a model: "refuse" them, or "flag" them, with NaN for their figures.
        **reading
            For a file the reading options of `upload`: separator, decimal, encoding, header, ...
        """
        levels = [level] if isinstance(level, (int, float)) else list(level)
        asked: Any = {"level": levels, "interval": interval, "quantiles": quantiles, "draws": draws}
        asked |= {"unknown": unknown, **reading}
        path = address("model-sets", model_set, "predict")
        if isinstance(rows, (str, Path, bytes)):
            with self._file_call(path, rows, asked) as call:
                document = self._json(call)
        else:
            body = without_none(asked | rows_json(rows))
            document = self._json(Call("POST", path, json=body, repeatable=True))
        labels = getattr(rows, "index", None) if is_frame(rows) else None
        return Prediction.of(document | {"model_id": document["set_id"], "verdict": None}, labels)

    def predict_many_table(
        self, model_set: str | ModelSet, rows: Any, *, keep: Sequence[str] = (EVERY,), **options: Any
    ) -> Any:
        """Predict the rows of a file or data frame as a pyarrow table, each by the model of its group.

        `keep` and the form of the table are those of `predict_table`, the other `options` of `predict_many`.
        """
        path = address("model-sets", model_set, "predict")
        with self._file_call(path, rows, {"keep": list(keep), **options}) as call:
            return self._table(call)

    def cancel_model_set(self, model_set: str | ModelSet) -> ModelSet:
        """Cancel the models of a set that have not ended; the others stay, and answer for their groups."""
        return ModelSet.of(
            self._json(Call("POST", address("model-sets", model_set, "cancel"), repeatable=True))
        )

    def delete_model_set(self, model_set: str | ModelSet) -> None:
        """Delete a set with all of its models; running fits stop."""
        self._transport.send(Call("DELETE", address("model-sets", model_set), repeatable=True))
