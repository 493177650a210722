"""Client calls for predictions, explanations and draws."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from app.client.base import Calls, address, id_of, is_dataset_id
from app.client.bodies import is_frame, is_row, rows_json
from app.client.errors import FitError, NoHoldoutError
from app.client.transport import Call
from app.client.views import Dataset, Json, Model, ModelSet, Prediction, PredictionJob, without_none

EVERY = "*"  # all columns
FILES = ("csv", "xlsx", "parquet", "arrow")  # endings of files of predictions
IntervalKind = Literal["credible", "predictive", "calibrated"]


class Predictions(Calls):
    """Calls that predict rows at once or a dataset in the background, and explain models."""

    def predict(
        self,
        model: str | Model,
        rows: Any,
        *,
        level: float | Sequence[float] = 0.9,
        interval: IntervalKind | None = None,
        quantiles: Sequence[float] | None = None,
        **options: Any,
    ) -> Prediction:
        """Predict new rows with intervals.

        Parameters
        ----------
        model
            A model returned by `fit`, an id, or a name, which means its newest that has succeeded.
        rows
            A list of dicts, one row as a dict or a pandas series, a dict of lists or arrays, the path of a
            file, or a data frame.
        level
            The level of the intervals, or several levels.
        interval
            "predictive" for a new outcome, "credible" for its expectation; unless given, predictive for
            numbers, and for classes credible, of their probabilities. "calibrated", of a model fitted with
            calibrate: for a new outcome, with a stated coverage (`claims`); for classes, prediction `sets`.
        quantiles
            Further quantiles of the same distribution.
        **options
            Fields of POST /models/{id}/predict: draws, calibration, mcse, rhat, require, samples,
            samples_of, seed, target; and for a file the reading options of `upload`: separator, decimal,
            encoding, header, ...
        """
        path = address("models", model, "predict")
        levels = [level] if isinstance(level, (int, float)) else list(level)
        query = {"level": levels, "interval": interval, "quantiles": quantiles, **options}
        if is_row(rows) or not (is_frame(rows) or isinstance(rows, (str, Path, bytes))):
            body = without_none(query | rows_json(rows))
            return Prediction.of(self._json(Call("POST", path, json=body, repeatable=True)))
        with self._file_call(path, rows, query) as call:
            return Prediction.of(self._json(call), getattr(rows, "index", None) if is_frame(rows) else None)

    def predict_table(
        self,
        model: str | Model,
        rows: Any,
        *,
        keep: Sequence[str] = (EVERY,),
        level: float | Sequence[float] = 0.9,
        interval: IntervalKind | None = None,
        quantiles: Sequence[float] | None = None,
        **options: Any,
    ) -> Any:
        """Predict the rows of a file or data frame as a pyarrow table: columns of the rows, then the figures.

        `keep` names the columns to repeat, "*" all of them; these may be unknown to the model. The other
        arguments are those of `predict`, and `digits="rounded"` rounds the figures. The schema's metadata
        has, under b"bartserve", a JSON object with model_id, draws, interval, verdict, classes and warnings;
        of a model fitted to a delimited file also its `dialect` (separator, decimal sign, ...).
        """
        levels = [level] if isinstance(level, (int, float)) else list(level)
        query = {"level": levels, "interval": interval, "quantiles": quantiles, "keep": list(keep), **options}
        with self._file_call(address("models", model, "predict"), rows, query) as call:
            return self._table(call)

    def predict_file(
        self,
        model: str | Model | ModelSet,
        rows: Any,
        output: str | Path,
        *,
        keep: Sequence[str] = (EVERY,),
        **options: Any,
    ) -> None:
        """Predict the rows of a file, data frame or dataset, and write them with the figures to `output`.

        Its ending says what it becomes: .csv, .xlsx, .parquet or .arrow. With ``dialect="file"`` CSV is
        written as the file of the rows was, and its cells come back letter by letter.

        Parameters
        ----------
        model
            As of `predict`; or a set of models, for rows that are no dataset.
        rows
            The path of a file, a data frame, or a dataset or its id.
        output
            The path of the file to write.
        keep
            Columns to repeat before the figures, "*" all of them.
        **options
            Those of `predict`, of a dataset those of `predict_dataset`; and `dialect` and `digits`.

        Raises
        ------
        ValueError
            The ending of `output` is none of these.
        """
        output = Path(output)
        if (form := output.suffix.removeprefix(".").lower()) not in FILES:
            raise ValueError(f"{output.name}: the ending of a file of predictions is .{', .'.join(FILES)}")
        asked = {"format": form} | {
            name: options.pop(name) for name in ("dialect", "digits") if name in options
        }
        if isinstance(rows, Dataset) or is_dataset_id(rows):
            job = self.predict_dataset(id_of(model), rows, keep=list(keep), **options)
            path = f"{address('predictions', self._ended(job))}/result"
            output.write_bytes(self._bytes(Call("GET", path, query=asked, repeatable=True)))
            return
        kind = "model-sets" if id_of(model).startswith("set_") else "models"
        with self._file_call(
            address(kind, model, "predict"), rows, {**options, **asked, "keep": list(keep)}
        ) as call:
            output.write_bytes(self._bytes(call))

    def predict_dataset(self, model: str | Model, dataset: str | Dataset, **options: Any) -> PredictionJob:
        """Start to predict every row of a stored dataset; `options` as in POST /models/{id}/predictions.

        With ``aggregate={"by": "region"}`` figures of sets of its rows instead (`aggregate`).
        """
        body = {"dataset_id": id_of(dataset), **without_none(options)}
        return PredictionJob.of(self._json(Call("POST", address("models", model, "predictions"), json=body)))

    def wait_prediction(
        self,
        job: str | PredictionJob,
        *,
        progress: Callable[[PredictionJob], None] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Return the result of `predict_dataset` as a pyarrow table, in the order of the dataset's rows.

        Raises FitError and WaitedTooLongError as `wait` does.
        """
        return self._arrow(f"{address('predictions', self._ended(job, progress, seconds))}/result")

    def _ended(
        self,
        job: str | PredictionJob,
        progress: Callable[[PredictionJob], None] | None = None,
        seconds: float | None = None,
    ) -> PredictionJob:
        """Wait for a background prediction, and return it once it has succeeded."""
        path = address("predictions", job)
        ended = self._look(lambda: PredictionJob.of(self._get(path)), progress, seconds)
        if ended.state != "succeeded":
            raise FitError(f"Prediction {ended.id}", ended.state, ended.error)
        return ended

    def diagnostics(self, model: str | Model, **options: Any) -> Json:
        """Return R-hat, effective sample sizes, traces, moves, tree sizes and the verdict."""
        return self._get(address("models", model, "diagnostics"), **options)

    def compare(self, model: str | Model, other: str | Model) -> Json:
        """Compare two models on the rows that both held out: `differences` of scores with standard errors."""
        return self._get(address("models", model, "comparison", id_of(other)))

    def growth(self, model: str | Model, **options: Any) -> Json:
        """Return R-hat and effective sample sizes by number of draws, also during the fit."""
        return self._get(f"{address('models', model, 'diagnostics')}/growth", **options)

    def importance(self, model: str | Model, *, loss: str | None = None, outcome: str | None = None) -> Json:
        """Return the increase of a loss on the held-out rows when one feature at a time is shuffled.

        ``features`` is a list of name, mean, lower and upper, the most important first; ``loss``, "rmse" (in
        units of the target) or "log_loss", ``baseline`` and further entries say of what. `outcome` names one
        of several.

        Raises
        ------
        NoHoldoutError
            For a model without held-out rows.
        """
        document = self._get(address("models", model, "variable-importance"), loss=loss, outcome=outcome)
        if document["permutation"] is None:
            raise NoHoldoutError(
                f"Model {document['model_id']} has no importance on held-out rows: fit with holdout=0.2, say;"
                " inclusion() gives the shares of the split rules."
            )
        ranked: Json = document["permutation"]
        return ranked

    def inclusion(
        self,
        model: str | Model,
        level: float = 0.9,
        of: str = "mean",
        by: str = "rules",
        *,
        outcome: str | None = None,
    ) -> list[Json]:
        """Return each feature's share of the split rules, largest first: name, mean, lower, upper.

        `of` is "mean", or "noise" for the trees that make the noise differ by row. `by` "rows" counts a rule
        as often as one of up to 200 training rows reaches it. `outcome` names one of several.
        """
        path = address("models", model, "variable-importance")
        features: list[Json] = self._get(path, level=level, of=of, by=by, outcome=outcome)["features"]
        return features

    def linear_part(
        self, model: str | Model, level: float = 0.9, *, outcome: str | None = None
    ) -> list[Json] | None:
        """Return the slopes of the linear part beside the trees; None without one."""
        path = address("models", model, "variable-importance")
        terms: list[Json] | None = self._get(path, level=level, outcome=outcome)["linear"]
        return terms

    def groups(self, model: str | Model, level: float = 0.9, outcome: str | None = None) -> list[Json]:
        """Return intercepts and slopes of groups beside the trees, by column of groups; empty without any.

        Each has ``column``, ``standard_deviation``, ``share``, ``groups`` with mean and interval, and
        ``slopes`` by group of each feature that has such.
        """
        path = address("models", model, "groups")
        columns: list[Json] = self._get(path, level=level, outcome=outcome)["columns"]
        return columns

    def interactions(
        self,
        model: str | Model,
        features: Sequence[str] | None = None,
        level: float = 0.9,
        *,
        outcome: str | None = None,
    ) -> list[Json]:
        """Return how strongly each two features act together, the strongest first."""
        path = address("models", model, "interactions")
        pairs: list[Json] = self._get(path, feature=features, level=level, outcome=outcome)["pairs"]
        return pairs

    def partial_dependence(self, model: str | Model, features: Sequence[str], **options: Any) -> Json:
        """Return how predictions change with one to three features; `options` as in the route."""
        path = address("models", model, "partial-dependence")
        body = {"features": list(features), **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def accumulated_effects(self, model: str | Model, feature: str, rows: Any = None, **options: Any) -> Json:
        """Return how predictions change with a feature among rows like the data's.

        `rows` is as in `shap`, None for up to 200 training rows; `options` are those of
        POST .../accumulated-effects.
        """
        path = address("models", model, "accumulated-effects")
        of_rows = {} if rows is None else rows_json(rows)
        body = {"feature": feature, **of_rows, **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def shap(self, model: str | Model, rows: Any = None, **options: Any) -> Json:
        """Return how much each feature moves the prediction of each row; `options` as in POST .../shap.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame; None takes up to 200 training
        rows.
        """
        path = address("models", model, "shap")
        of_rows = {} if rows is None else rows_json(rows)
        body = {**of_rows, **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def survival(self, model: str | Model, rows: Any, **options: Any) -> Json:
        """Return survival curves of rows with bands, medians and restricted means.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame; `options` are `times` and
        `level`, as in POST .../survival.
        """
        path = address("models", model, "survival")
        return self._json(
            Call("POST", path, json={**rows_json(rows), **without_none(options)}, repeatable=True)
        )

    def distribution(self, model: str | Model, rows: Any, *, outcomes: Any = None, **options: Any) -> Json:
        """Return scores of outcomes under their rows' predictive distributions, probabilities and quantiles.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame; `outcomes` has a number for
        each; `options` are `at` (probabilities of at most these values) and `quantiles`, as in
        POST .../distribution.
        """
        path = address("models", model, "distribution")
        known = {} if outcomes is None else rows_json({"outcomes": outcomes})["columns"]
        body = {**rows_json(rows), **known, **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def joint(self, model: str | Model, rows: Any, **options: Any) -> Json:
        """Return predictions of several outcomes of rows together; `options` as in POST .../joint.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame: ``joint("pupils", rows,
        given=["read"])`` predicts the others of rows with a column `read`.
        """
        path = address("models", model, "joint")
        body = {**rows_json(rows), **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def aggregate(
        self, model: str | Model, rows: Any, *, weights: Any = None, observed: Any = None, **options: Any
    ) -> Json:
        """Return totals, means or quantiles of sets of rows; `options` as in POST .../aggregate.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame; `weights` and `observed` have a
        number for each, missing where an outcome is not known: ``aggregate("cars", rows, by="region")``.
        """
        columns = {"weights": weights, "observed": observed}
        beside = rows_json({name: values for name, values in columns.items() if values is not None})
        body = {**rows_json(rows), **beside["columns"], **without_none(options)}
        return self._json(Call("POST", address("models", model, "aggregate"), json=body, repeatable=True))

    def contrast(
        self,
        model: str | Model,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        rows: Any = None,
        **options: Any,
    ) -> Json:
        """Return how predictions differ between two settings; `options` as in POST .../contrast.

        `rows` is a list of dicts, a dict of lists or arrays, or a data frame; None takes up to 200 training
        rows.
        """
        path = address("models", model, "contrast")
        of_rows = {} if rows is None else rows_json(rows)
        body = {"first": dict(first), "second": dict(second), **of_rows, **without_none(options)}
        return self._json(Call("POST", path, json=body, repeatable=True))

    def effects(self, model: str | Model, rows: Any = None, **options: Any) -> Json:
        """Return what a treatment does; `options` as in POST .../effects.

        They are of, by, arm, against, measure, until, level and draws. `rows` is a list of dicts, a dict
        of lists or arrays, or a data frame, with the treatment's column; None takes those of the model's
        dataset.
        """
        body = {**({} if rows is None else rows_json(rows)), **without_none(options)}
        return self._json(Call("POST", address("models", model, "effects"), json=body, repeatable=True))

    def model_card(self, model: str | Model, form: Literal["html", "markdown"] = "html") -> str:
        """Return one page about a model: data, settings, verdicts, scores, importance, effects and limits."""
        return self._text(address("models", model, "card"), format=form)

    def draws(
        self, model: str | Model, *, f: bool = False, draws: int | None = None, outcome: str | None = None
    ) -> Any:
        """Return the posterior draws as a pyarrow table: chain, draw, scalars and, on request, f."""
        return self._arrow(address("models", model, "draws"), f=f, draws=draws, outcome=outcome)
