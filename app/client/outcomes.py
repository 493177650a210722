"""Client calls for what happened later: outcomes of predicted rows, recalibration and refit by them."""

from pathlib import Path
from typing import Any

from app.client.base import Calls, address, id_of
from app.client.bodies import is_frame, is_row, open_body, rows_json
from app.client.transport import Call
from app.client.views import Json, Model, PredictionJob, without_none


class Outcomes(Calls):
    """Calls that report outcomes to a model and act on them."""

    def report_outcomes(
        self,
        model: str | Model,
        rows: Any,
        *,
        key: str | None = None,
        at: str | None = None,
        prediction: str | PredictionJob | None = None,
        row: str | None = None,
        repeated: str | None = None,
        **reading: Any,
    ) -> Json:
        """Report what happened: rows with the target's column, which the model scores on arrival.

        Parameters
        ----------
        model
            A model, its id, or a name, which means its newest that has succeeded.
        rows
            A list of dicts, one row as a dict, a dict of lists or arrays, the path of a file, or a frame.
        key
            The column with a name for each row, by which it is known again.
        at
            The column with the time of each row; default: now.
        prediction, row
            A background prediction whose rows these are, and the column with their numbers, from 1; without
            `row` they are found by `key`. Then `rows` need no features.
        repeated
            What happens to a row whose key has an outcome: "refuse" (the default), "replace" or "skip".
        **reading
            For a file the reading options of `upload`: separator, decimal, encoding, header, ...

        Returns
        -------
        dict
            The number of ``rows`` stored, ``replaced`` and ``skipped``; the ``verdict`` and its ``text``.
        """
        path = address("models", model, "outcomes")
        prediction_id = None if prediction is None else id_of(prediction)
        options = {"key": key, "at": at, "prediction_id": prediction_id, "row": row, "repeated": repeated}
        if is_row(rows) or not (is_frame(rows) or isinstance(rows, (str, Path, bytes))):
            return self._json(Call("POST", path, json=without_none(options | rows_json(rows)), keyed=True))
        with open_body(rows) as body:
            query = without_none(options | reading)
            file, kind = body.content, body.content_type
            return self._json(Call("POST", path, query=query, content=file, content_type=kind, keyed=True))

    def outcomes(self, model: str | Model) -> Json:
        """Return what a model's outcomes say of its intervals.

        ``verdict`` is "holds", "too_few" or "no_longer_hold", ``text`` says it in a sentence; ``weeks`` has
        coverage, PIT and log score with the ranges that chance allows.
        """
        outcomes: Json = self._get(address("models", model, "outcomes"))
        return outcomes

    def drift(self, model: str | Model, *, weeks: int | None = None) -> Json:
        """Compare the rows that a model predicted for, by week, with its training rows.

        ``verdict`` is "resembles", "too_few", "drifted" or "not_watched", ``text`` says it in a sentence;
        ``parts`` have the counts of each feature and of the predictions, of the last 13 `weeks` by default.
        """
        drift: Json = self._get(address("models", model, "drift"), weeks=weeks)
        return drift

    def recalibrate(self, model: str | Model, *, since: str | None = None) -> Json:
        """Calibrate a model's intervals by its outcomes, from a date's week on; returns what they claim.

        Unless `since` is given, all outcomes count, or while the intervals no longer hold those since then.
        """
        path = address("models", model, "outcomes", "recalibrate")
        return self._json(Call("POST", path, json=without_none({"since": since}), keyed=True))

    def outcomes_policy(self, model: str | Model, recalibrate: str) -> Json:
        """Let outcomes move a model's calibrated intervals each week ("weekly"), or end that ("off").

        Returns what is promised then: ``policy`` with its ``text``, the tables in force and when.
        """
        path = address("models", model, "outcomes", "policy")
        return self._json(Call("POST", path, json={"recalibrate": recalibrate}, keyed=True))

    def refit_with_outcomes(
        self,
        model: str | Model,
        *,
        name: str | None = None,
        holdout: float | None = None,
        since: str | None = None,
        promote: str | None = None,
    ) -> Model:
        """Fit a new model, as the old one, to its rows and its outcomes; by default under the same name.

        `promote` as in `refit`; unless given, the name moves in any case.
        """
        body = without_none({"name": name, "holdout": holdout, "since": since, "promote": promote})
        path = address("models", model, "outcomes", "refit")
        return Model.of(self._json(Call("POST", path, json=body, keyed=True)))

    def set_schedule(
        self,
        model: str | Model,
        *,
        every: str | None = None,
        on_alarm: bool = False,
        promote: str = "auto",
        holdout: float | None = None,
        dataset: str | None = None,
    ) -> Json:
        """Fit the model of a name again by itself, whenever there are new data, and return the schedule.

        Parameters
        ----------
        model
            A model with a name, its id, or the name.
        every
            How often, in hours or days: "12h", "7d".
        on_alarm
            Also when outcomes say that the intervals no longer hold.
        promote, holdout
            As in `refit`.
        dataset
            The name of the datasets whose newest is fitted to; default: that of the model's own.
        """
        body: Json = {"every": every, "on_alarm": on_alarm, "promote": promote}
        body |= {"holdout": holdout, "dataset": dataset}
        path = address("models", model, "schedule")
        return self._json(Call("PUT", path, json=without_none(body), repeatable=True))

    def schedule(self, model: str | Model) -> Json:
        """Return the schedule of a model's name, with what came of its last time as ``text``."""
        schedule: Json = self._get(address("models", model, "schedule"))
        return schedule

    def delete_schedule(self, model: str | Model) -> None:
        """Delete the schedule of a model's name."""
        self._transport.send(Call("DELETE", address("models", model, "schedule"), repeatable=True))

    def delete_outcomes(self, model: str | Model) -> None:
        """Delete all outcomes of a model."""
        self._transport.send(Call("DELETE", address("models", model, "outcomes"), repeatable=True))
