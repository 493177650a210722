"""Part of a study "inclusion_by_trees": shares of the rules by one number of trees, or scores of a fold."""

from collections.abc import Callable
from dataclasses import asdict, replace

from app.store.tables import Json
from sampler.host.data import Rows
from sampler.host.studies import fit_shares
from worker.fits.fit_spec import Spec, prepare_problem
from worker.studies import calibration, tuning


def settings_of(request: Json, spec: Spec, number: int) -> Json:
    """Return the settings of the unit's fits: the model's, but for the number of trees."""
    if (fold := number - len(request["num_trees"])) >= 0:
        return tuning.settings_of(request["tuning"], spec, fold)
    return calibration.settings_of(request, _spec_of(request, spec, number))


def run(request: Json, spec: Spec, rows: Rows, number: int, tell: Callable[[int], None]) -> Json:
    """Fit with one number of trees and return the shares by outcome; `tell` is as in `selection.run`.

    Numbers of units after those of trees are of the folds by which these are compared.
    """
    if (fold := number - len(request["num_trees"])) >= 0:
        return tuning.run(request["tuning"], spec, rows, fold, tell)
    problem = prepare_problem(_spec_of(request, spec, number), rows)
    found = fit_shares(
        problem, spec.outcomes, request["level"], num_threads=1, report=lambda chain, _: tell(chain)
    )
    return {name: asdict(each) for name, each in found.items()}


def _spec_of(request: Json, spec: Spec, number: int) -> Spec:
    """Return the model's specification with that number of trees, without a line that the rows chose."""
    spec = calibration.as_long_as(spec)
    own = {"num_trees": request["num_trees"][number], "linear": spec.settings.get("linear") is True}
    return replace(spec, settings=spec.settings | own)
