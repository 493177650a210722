"""The one part of a study "placebo": effects of treatments that did nothing, by the same fit."""

from collections.abc import Callable
from dataclasses import asdict

from app.store.tables import Json
from sampler.host.data import Rows
from sampler.host.studies import placebo_fit
from worker.fits.fit_spec import Spec, prepare_problem
from worker.studies.calibration import as_long_as


def run(request: Json, spec: Spec, rows: Rows, _number: int, tell: Callable[[int], None]) -> Json:
    """Fit the placebo and return its average effects; `tell` is as in `selection.run`."""
    problem = prepare_problem(as_long_as(spec), rows)
    earlier = request.get("periods_earlier")
    fitted = placebo_fit(
        problem, request["seed"], earlier, num_threads=1, report=lambda chain, _: tell(chain)
    )
    answer = fitted.effects(level=request["level"])
    return {
        "difference": answer.difference,
        "average": asdict(answer.average),
        "groups": {name: asdict(each) for name, each in answer.groups.items()},
        "warnings": answer.warnings,
    }
