"""Client calls for models."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import httpx

from app.client.base import LOOK_FIRST, LOOK_LAST, Calls, address, id_of
from app.client.bodies import open_body
from app.client.errors import FitError
from app.client.streams import events_of
from app.client.transport import Call
from app.client.views import Dataset, Event, Json, Model, without_none

ENDS = frozenset({"succeeded", "failed", "cancelled", "deleted"})  # kinds of the last event of a stream
MODEL_FILE = "application/vnd.bartserve.model"


class Models(Calls):
    """Calls that fit, follow, continue, cancel, delete and transfer models."""

    def fit(
        self,
        dataset: str | Dataset,
        target: str | Sequence[str],
        *,
        name: str | None = None,
        features: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        columns: Mapping[str, str] | None = None,
        weights: str | None = None,
        treatment: str | None = None,
        propensity: str | None = None,
        adoption: str | None = None,
        period: str | None = None,
        exposure: str | None = None,
        offset: str | None = None,
        levels: Sequence[str | float] | None = None,
        groups: Sequence[str] | None = None,
        slopes: Sequence[str] | None = None,
        event: str | None = None,
        lower: str | None = None,
        upper: str | None = None,
        time: str | None = None,
        series: str | Sequence[str] | None = None,
        horizon: int | None = None,
        known: str | Sequence[str] | None = None,
        step: str | None = None,
        season: int | Sequence[int] | None = None,
        difference: str | None = None,
        gaps: str | None = None,
        missing_target: Literal["refuse", "leave_out"] | None = None,
        holdout: float | None = None,
        calibrate: Literal["none", "holdout", "folds"] | None = None,
        new_rows: str | Mapping[str, Any] | None = None,
        subgroups: Sequence[str | Mapping[str, Any]] | None = None,
        family: str | None = None,
        method: str | None = None,
        noise: str | None = None,
        transform: str | None = None,
        linear: bool | Literal["auto"] | None = None,
        categories: Literal["indicators", "sets"] | None = None,
        effects: Literal["bcf", "ps-bart", "plain"] | None = None,
        assignment: Literal["observed", "random"] | None = None,
        monotone: Mapping[str, str] | None = None,
        parts: Mapping[str, Any] | None = None,
        num_trees: int | None = None,
        num_chains: int | None = None,
        num_burnin: int | None = None,
        num_draws: int | None = None,
        thin: int | None = None,
        seed: int | None = None,
        stop: Mapping[str, Any] | None = None,
        prior: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> Model:
        """Start to fit a model; it is durably accepted when this returns.

        None leaves a setting to the service, whose defaults suit most tables (docs/settings).

        Parameters
        ----------
        dataset
            A dataset returned by `upload`, or an id.
        target
            The column to predict, or several whose errors may have correlations (`joint`).
        name
            Name that can replace the model's id; it then means the newest that has succeeded.
        features, columns
            Columns to learn from, and kinds that override the detected ones, by column: "number", "boolean",
            "category", "date", "encoded" (names as means of the outcome at each). Features of several targets
            may be by target: ``{"mpg": ["weight"], "horsepower": ["displacement"]}``.
        weights, treatment, propensity, adoption, period, exposure, offset, groups, slopes
            Names of columns with these roles.
        event, lower, upper
            Names of columns with these roles.
        levels
            Ordered classes (family "ordinal") from the lowest to the highest; numbers need none.
        time, series, horizon, known, step, season, difference, gaps
            For forecasts (docs/forecasts.md): column of times, columns that tell a row's series, steps ahead,
            features whose later values are known; the step between times, and steps until a season returns.
        missing_target
            "leave_out" leaves out rows without a target, which are refused otherwise.
        holdout, calibrate
            Share of the rows held out for scores, and whether intervals are calibrated ("holdout", "folds").
        new_rows
            How the rows to predict will differ: ``{"groups": "subject"}``, ``{"later": "date"}`` or both.
        subgroups
            Subgroups in each of which calibrated intervals hold: columns,
            ``{"name": "old", "where": [{"column": "age", "at_least": 65}]}``, "missing" or "by_class".
        family, method, noise, transform, linear
            Kind of outcome ("auto" chooses by the target), method, and what is learnt how.
        categories
            What rules part a category by: one level from the others ("indicators") or any set ("sets").
        effects, assignment
            With a treatment: how its effect is learnt, and whether it was assigned by chance ("random").
        monotone
            Features with which the mean only rises ("increasing") or falls ("decreasing"), by name.
        parts
            What further parts are told, by name: ``{"spatial": ["east", "north"]}``.
        num_trees, num_chains, num_burnin, num_draws, thin, seed, stop
            Size of the sum of trees, length of the chains, and rules by which they end.
        prior
            Hyperparameters by name.
        **others
            Further fields of POST /models: moves, particles, start, search, recipe, recalibrate.

        """
        given = {name: value for name, value in locals().items() if name not in ("self", "dataset", "others")}
        body = {"dataset_id": id_of(dataset), **without_none(given | others)}
        return Model.of(self._json(Call("POST", "/models", json=body, keyed=True)))

    def estimate(self, dataset: str | Dataset, target: str | Sequence[str], **settings: Any) -> Json:
        """Estimate the cost of `fit` with the same arguments: seconds, memory_bytes, slots, settings.

        Nothing is started; arguments that `fit` refuses are refused.
        """
        body = {"dataset_id": id_of(dataset), "target": target, **without_none(settings)}
        return self._json(Call("POST", "/models/estimate", json=body, repeatable=True))

    def models(self) -> Iterator[Model]:
        """Return an iterator over your models, newest first."""
        return (Model.of(item) for item in self._pages("/models"))

    def model(self, model: str | Model) -> Model:
        """Return the present state of a model."""
        return Model.of(self._get(address("models", model)))

    def wait(
        self,
        model: str | Model,
        *,
        progress: Callable[[Model], None] | None = None,
        seconds: float | None = None,
    ) -> Model:
        """Wait until a model has succeeded and return it; `progress` is called with it at every poll.

        Raises
        ------
        FitError
            The model failed or was cancelled.
        WaitedTooLongError
            The fit took longer than `seconds`; it continues.
        """

        def look() -> Model:
            nonlocal model
            model = self.model(model)  # from now on by id, since a newer model may get the name
            return model

        fitted = self._look(look, progress, seconds)
        if fitted.state != "succeeded":
            raise FitError(f"Model {fitted.id}", fitted.state, fitted.error)
        return fitted

    def cancel(self, model: str | Model) -> Model:
        """Cancel a model at its next slice; its draws are kept."""
        return Model.of(self._json(Call("POST", address("models", model, "cancel"))))

    def retry(self, model: str | Model) -> Model:
        """Continue a cancelled or failed model."""
        return Model.of(self._json(Call("POST", address("models", model, "retry"))))

    def extend(
        self, model: str | Model, num_draws: int | None = None, *, stop: Mapping[str, Any] | None = None
    ) -> Model:
        """Continue a finished model: `num_draws` more kept draws per chain, or until stop rules hold.

        `stop` has rules of POST /models, such as ``{"verdict": "converged"}``.
        """
        body = without_none({"num_draws": num_draws, "stop": stop})
        return Model.of(self._json(Call("POST", address("models", model, "extend"), json=body, keyed=True)))

    def refit(
        self,
        model: str | Model,
        dataset: str | Dataset | None = None,
        *,
        holdout: float | None = None,
        name: str | None = None,
        promote: str | None = None,
    ) -> Model:
        """Fit a new model with the settings of another, by default to all its rows and under the same name.

        Parameters
        ----------
        model
            A model, its id or its name.
        dataset
            A newer dataset with the same columns; then as many rows are held out as before.
        holdout
            The fraction of rows held out.
        name
            The name of the new model; default: that of the old.
        promote
            Whether the name moves to it: "auto" (if its scores and its verdict are no worse; the default with
            a dataset), "always" or "never". ``refit`` of the new model's document has the decision.
        """
        dataset_id = None if dataset is None else id_of(dataset)
        body = {"dataset_id": dataset_id, "holdout": holdout, "name": name, "promote": promote}
        path = address("models", model, "refit")
        return Model.of(self._json(Call("POST", path, json=without_none(body), keyed=True)))

    def promote(self, model: str | Model) -> Model:
        """Let a model's name mean it from now on."""
        return Model.of(self._json(Call("POST", address("models", model, "promote"), repeatable=True)))

    def roll_back(self, model: str | Model) -> Model:
        """Let a name mean the model before the present one again, and return that one."""
        return Model.of(self._json(Call("POST", address("models", model, "rollback"), keyed=True)))

    def estimate_extension(
        self, model: str | Model, num_draws: int | None = None, *, stop: Mapping[str, Any] | None = None
    ) -> Json:
        """Estimate `extend` with the same arguments: seconds, most_seconds, expected_draws."""
        body = without_none({"num_draws": num_draws, "stop": stop})
        path = address("models", model, "extend", "estimate")
        return self._json(Call("POST", path, json=body, repeatable=True))

    def delete_model(self, model: str | Model) -> None:
        """Delete a model with its draws."""
        self._transport.send(Call("DELETE", address("models", model), repeatable=True))

    def events(self, model: str | Model) -> Iterator[Event]:
        """Yield the events in a model's log, oldest first."""
        for item in self._pages(address("models", model, "events")):
            yield Event(item["sequence"], item["kind"], item["detail"], item["at"])

    def follow(self, model: str | Model, *, after: int | None = None) -> Iterator[Event]:
        """Yield the events of a model after number `after`, and its progress, until it has ended.

        A broken stream is resumed after the last event received.
        """
        path, kind, pause = address("models", model, "events"), "", LOOK_FIRST
        while kind not in ENDS:
            call = Call("GET", path, accept="text/event-stream", last_event_id=after, repeatable=True)
            with self._transport.open(call) as answer, suppress(httpx.TransportError):
                if answer.status_code == httpx.codes.NO_CONTENT:
                    return  # its last event was received before
                # a newer model may get the name meanwhile
                followed_id = answer.headers.get("Bartserve-Model-Id")
                path = address("models", followed_id, "events") if followed_id else path
                for event in events_of(answer):
                    after = event.sequence if event.sequence is not None else after
                    kind, pause = event.kind, LOOK_FIRST
                    yield event
            if kind not in ENDS:  # the connection broke, or the service is being restarted
                time.sleep(pause)
                pause = min(LOOK_LAST, 2 * pause)

    def download(self, model: str | Model, path: str | Path) -> Path:
        """Write a model to a file for `bartserve.load` and `upload_model`."""
        answer = self._transport.send(
            Call("GET", address("models", model, "file"), accept=MODEL_FILE, repeatable=True)
        )
        Path(path).write_bytes(answer.content)
        return Path(path)

    def upload_model(self, path: str | Path, *, name: str | None = None) -> Model:
        """Import a model file as a finished model of the service."""
        with open_body(path) as body:
            call = Call(
                "POST",
                "/models",
                query=without_none({"name": name}),
                content=body.content,
                content_type=MODEL_FILE,
                keyed=True,
            )
            return Model.of(self._json(call))
