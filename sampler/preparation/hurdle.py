"""Fit of a hurdle: that of the outcomes off its point, and what is beside it for the point."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from sampler.array_types import Floats
from sampler.definitions.design import Design
from sampler.preparation.design import RowsOfDesign
from sampler.preparation.fit_plan import FitPlan
from sampler.preparation.part import PartRows, parts_of
from sampler.prepared_fit import PreparedFit, reference_rows
from sampler.prior import HurdleConstants
from sampler.storage.model_header import need_values

POINT_SD = 1.5  # prior sd of the forest of the point, that of a probit with k = 2


def without_point(
    planned: FitPlan, y: Floats, design: Design, codes: NDArray[np.uint8]
) -> tuple[FitPlan, Floats, Design, NDArray[np.uint8]]:
    """Return the plan, outcomes and columns of a fit to the rows off the point; see `with_point`."""
    if planned.point is None:
        return planned, y, design, codes
    others = np.flatnonzero(y != planned.point)
    prior = {name: value for name, value in planned.prior.items() if name != "point"}
    settings = replace(planned.settings, family="gaussian")
    columns = np.ascontiguousarray(codes[:, others])
    return replace(planned, settings=settings, prior=prior), y[others], RowsOfDesign(design, others), columns


def learnt_beside_point(learnt: Floats, at_point: NDArray[np.bool_], offset: float) -> Floats:
    """Return what is learnt of outcomes [n], with the offset at the point, which may have no transform."""
    return np.where(at_point, offset, learnt)


def with_point(
    others: PreparedFit, point: float | None, y: Floats, design: Design, codes: NDArray[np.uint8]
) -> PreparedFit:
    """Make the fit of a hurdle out of that of its other outcomes.

    Parameters
    ----------
    others
        The fit of a gaussian family to the rows whose outcomes are not `point`.
    point
        The value that many outcomes have exactly; None where there is none: then the fit stays as it is.
    y, design, codes
        All outcomes, float64 [n], and coded columns before binning and after, [column, n].

    Returns
    -------
    PreparedFit
        The fit.

    """
    if point is None:
        return others
    from scipy.special import ndtri  # noqa: PLC0415  # slow to import

    training, at_point = others.training, y == point
    learnt = np.full(len(y), training.constants.offset)
    learnt[~at_point] = training.y
    rows = PartRows(training.settings, others.schema, codes, design, learnt, None, {}, facts=others.parts)
    constants = HurdleConstants(
        **asdict(training.constants),
        point=point,
        point_offset=float(ndtri(np.mean(at_point))),
        point_sd=POINT_SD / math.sqrt(training.settings.num_trees),
    )
    parts = parts_of(rows)
    of_all = replace(
        training,
        codes=parts.codes,
        y=learnt,
        constants=constants,
        settings=replace(training.settings, family="hurdle"),
        at_point=at_point,
        parts=parts.training,
    )
    values = design[:, reference_rows(len(y))] if need_values(others.parts) else None
    return replace(others, training=of_all, reference_values=values)
