"""Client calls for studies: fits besides a model's own that answer a question about it."""

from collections.abc import Callable, Iterator
from typing import Any

from app.client.base import Calls, address
from app.client.errors import FitError
from app.client.transport import Call
from app.client.views import Model, Study, without_none


class Studies(Calls):
    """Calls that start, follow and end studies."""

    def select_features(self, model: str | Model, **options: Any) -> Study:
        """Start to find the features of a model that matter beyond chance; `wait_study` returns the result.

        Each feature's share of the split rules is compared with its share in fits to permuted outcomes.

        Parameters
        ----------
        model
            A succeeded model, its id, or a name, which means its newest that has succeeded.
        **options
            Fields of POST /models/{id}/studies: permutations, level, seed.
        """
        return self.start_study(model, "selection", **options)

    def tune(self, model: str | Model, **options: Any) -> Study:
        """Start to compare settings on the rows of a model; `wait_study` returns the result (`tuning`).

        Each candidate is fitted to all folds of the training rows but one, and scored on that one.
        ``client.fit(..., **found.tuning["best"])`` then fits with the chosen one.

        Parameters
        ----------
        model
            A succeeded model, its id, or a name, which means its newest that has succeeded.
        **options
            Fields of POST /models/{id}/studies: candidates ("model", "prior" or a list of settings), folds,
            score ("log_score" or "rmse"), parsimony, seed.
        """
        return self.start_study(model, "tuning", **options)

    def calibrate(self, model: str | Model) -> Study:
        """Start to calibrate a model's intervals by five fits to the other folds of its training rows.

        After `wait_study`, ``client.predict(model, rows, interval="calibrated")`` answers with them.
        """
        return self.start_study(model, "calibration")

    def placebo(self, model: str | Model, **options: Any) -> Study:
        """Start to fit a model again to treatments that did nothing; `wait_study` returns their effects.

        They are in `placebo` of the study: `average`, and of a panel `groups` by lag since an adoption some
        periods earlier. Intervals without 0 are a sign that the model takes something else for an effect.

        Parameters
        ----------
        model
            A succeeded model with a treatment, its id, or a name, which means its newest that has succeeded.
        **options
            Fields of POST /models/{id}/studies: seed, periods_earlier (of a panel; 2 by default), level.
        """
        return self.start_study(model, "placebo", **options)

    def inclusion_by_trees(self, model: str | Model, **options: Any) -> Study:
        """Start to fit a model again with few trees and with many; `wait_study` returns its features' shares.

        They are in the study's `document["inclusion_by_trees"]`, by outcome: `mean`, `lower` and `upper`, a
        list for each number of trees with the share of the split rules of each of the `names`.

        Parameters
        ----------
        model
            A succeeded model, its id, or a name, which means its newest that has succeeded.
        **options
            Fields of POST /models/{id}/studies: num_trees (a list), folds, level.
        """
        return self.start_study(model, "inclusion_by_trees", **options)

    def start_study(self, model: str | Model, kind: str, **options: Any) -> Study:
        """Start a study of any kind with the fields of POST /models/{id}/studies; None leaves one out."""
        body = {"kind": kind, **without_none(options)}
        return Study.of(self._json(Call("POST", address("models", model, "studies"), json=body, keyed=True)))

    def study(self, study: str | Study) -> Study:
        """Return the present state of a study."""
        return Study.of(self._get(address("studies", study)))

    def studies(self, model_id: str | None = None) -> Iterator[Study]:
        """Return an iterator over your studies (of one model, by its id), newest first, without results."""
        return map(Study.of, self._pages("/studies", model_id=model_id))

    def wait_study(
        self,
        study: str | Study,
        *,
        progress: Callable[[Study], None] | None = None,
        seconds: float | None = None,
    ) -> Study:
        """Return a study when it has succeeded; raises as `wait`."""
        ended = self._look(lambda: self.study(study), progress, seconds)
        if ended.state != "succeeded":
            raise FitError(f"Study {ended.id}", ended.state, ended.error)
        return ended

    def cancel_study(self, study: str | Study) -> Study:
        """Cancel a study; its finished fits are discarded."""
        return Study.of(self._json(Call("POST", address("studies", study, "cancel"), repeatable=True)))

    def delete_study(self, study: str | Study) -> None:
        """Delete a study with its result; a running one stops."""
        self._transport.send(Call("DELETE", address("studies", study), repeatable=True))
