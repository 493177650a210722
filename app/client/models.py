"""The client's calls about models."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from app.client.base import LOOK_FIRST, LOOK_LAST, Calls, address, id_of
from app.client.bodies import opened
from app.client.errors import FitError
from app.client.streams import events_of
from app.client.transport import Call
from app.client.views import Dataset, Event, Json, Model, without_none

ENDS = frozenset({"succeeded", "failed", "cancelled", "deleted"})  # the last of a stream is one of them
MODEL_FILE = "application/vnd.bartserve.model"


class Models(Calls):
    """Fit, wait, follow, stop, go on, remove, move."""

    def fit(self, dataset: str | Dataset, target: str, **settings: Any) -> Model:
        """Begin to fit a model; it is durably accepted when this returns.

        Parameters
        ----------
        dataset
            What `upload` gave, or an id.
        target
            The column to predict.
        **settings
            As in POST /models: name, features, holdout, num_trees, num_chains, num_draws, seed, ...
        """
        body = {"dataset_id": id_of(dataset), "target": target, **without_none(settings)}
        return Model.of(self._json(Call("POST", "/models", json=body, keyed=True)))

    def estimate(self, dataset: str | Dataset, target: str, **settings: Any) -> Json:
        """What `fit` with the same arguments would take: seconds, memory_bytes, slots, the settings resolved.

        Nothing is started; what `fit` refuses is refused.
        """
        body = {"dataset_id": id_of(dataset), "target": target, **without_none(settings)}
        return self._json(Call("POST", "/models/estimate", json=body, repeatable=True))

    def models(self) -> Iterator[Model]:
        """Your models, newest first."""
        return (Model.of(item) for item in self._pages("/models"))

    def model(self, model: str | Model) -> Model:
        """A model as it is now."""
        return Model.of(self._get(address("models", model)))

    def wait(
        self,
        model: str | Model,
        *,
        progress: Callable[[Model], None] | None = None,
        seconds: float | None = None,
    ) -> Model:
        """The model once it has succeeded; `progress` sees it at every look.

        Raises
        ------
        FitError
            It failed or was cancelled.
        WaitedTooLongError
            It took longer than `seconds`; it goes on.
        """

        def look() -> Model:
            nonlocal model
            model = self.model(model)  # from now on by its id: of a name there may be a newer one soon
            return model

        found = self._look(look, progress, seconds)
        if found.state != "succeeded":
            raise FitError(f"Model {found.id}", found.state, found.error)
        return found

    def cancel(self, model: str | Model) -> Model:
        """Stop it at its next slice; what was drawn is kept."""
        return Model.of(self._json(Call("POST", address("models", model, "cancel"))))

    def retry(self, model: str | Model) -> Model:
        """Continue a cancelled or failed one."""
        return Model.of(self._json(Call("POST", address("models", model, "retry"))))

    def extend(self, model: str | Model, num_draws: int) -> Model:
        """Continue a finished one for `num_draws` more kept draws of each chain."""
        path = address("models", model, "extend")
        return Model.of(self._json(Call("POST", path, json={"num_draws": num_draws}, keyed=True)))

    def delete_model(self, model: str | Model) -> None:
        """Remove it with its draws."""
        self._transport.send(Call("DELETE", address("models", model), repeatable=True))

    def events(self, model: str | Model) -> Iterator[Event]:
        """The log of a model, oldest first."""
        for item in self._pages(address("models", model, "events")):
            yield Event(item["sequence"], item["kind"], item["detail"], item["at"])

    def follow(self, model: str | Model, *, after: int | None = None) -> Iterator[Event]:
        """What happens to a model from event `after` on, and its progress, until it has ended.

        A stream that breaks is taken up again after the last event that was seen.
        """
        path, kind, pause = address("models", model, "events"), "", LOOK_FIRST
        while kind not in ENDS:
            call = Call("GET", path, accept="text/event-stream", last_event_id=after, repeatable=True)
            with self._transport.open(call) as answer, suppress(httpx.TransportError):
                if answer.status_code == httpx.codes.NO_CONTENT:
                    return  # its end was seen before
                told = answer.headers.get("Bartserve-Model-Id")  # a name may mean a newer model meanwhile
                path = address("models", told, "events") if told else path
                for event in events_of(answer.iter_lines()):
                    after = event.sequence if event.sequence is not None else after
                    kind, pause = event.kind, LOOK_FIRST
                    yield event
            if kind not in ENDS:  # the connection broke, or the service is being restarted
                time.sleep(pause)
                pause = min(LOOK_LAST, 2 * pause)

    def download(self, model: str | Model, path: str | Path) -> Path:
        """Write the model to a file that `sampler.load` reads and `upload_model` takes."""
        answer = self._transport.send(
            Call("GET", address("models", model, "file"), accept=MODEL_FILE, repeatable=True)
        )
        Path(path).write_bytes(answer.content)
        return Path(path)

    def upload_model(self, path: str | Path, *, name: str | None = None) -> Model:
        """Make a model file a finished model of the service."""
        with opened(path) as body:
            call = Call(
                "POST",
                "/models",
                query=without_none({"name": name}),
                content=body.content,
                content_type=MODEL_FILE,
                keyed=True,
            )
            return Model.of(self._json(call))
