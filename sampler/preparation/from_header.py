"""Preparation of a stored model's training data again, so that its chains can continue."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampler.data.censoring.outcomes import censoring_roles
from sampler.data.encode import Coded, encode, encoded_again
from sampler.data.level_means import LevelOutcomes
from sampler.data.rows import named, read_roles, read_roles_again
from sampler.data.table import read, read_column
from sampler.data.target import in_order
from sampler.data.treatment.design import ROLE
from sampler.errors import DataError, DataProblem
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.posterior.parts.effects import EffectColumns
from sampler.preparation.hurdle import learnt_beside_point
from sampler.preparation.outcomes import read_outcomes, transformed
from sampler.preparation.part import PartRows, parts_of
from sampler.preparation.propensity import effect_prior, num_codes_of
from sampler.prepared_fit import IN_HEADER, PreparedFit
from sampler.prior import Constants, HurdleConstants
from sampler.settings import Settings
from sampler.storage.model_header import Header
from sampler.training import GroupTraining, LinearTraining, Training


def prepare_one_again(header: Header, X: Any, y: Any, weights: Any = None) -> PreparedFit:
    """Prepare the training data of a fitted model of one outcome again, from its header and training rows.

    Parameters
    ----------
    header
        Header of the model.
    X, y, weights
        Training rows, outcomes and weights of the fit.

    Returns
    -------
    PreparedFit
        The training data as they were in the fit, bit for bit.

    Raises
    ------
    DataError
        For rows that don't fit the model, and for weights that are missing or superfluous.

    """
    settings = Settings.from_json(header.settings)
    table = read(X)
    beside = {*header.beside.values(), *named(weights)} - {*header.schema.kinds}
    coded = encode(table, header.schema, header.grid, keep_values=header.needs_values, beside=beside)
    roles = read_roles_again(table, y, weights, header.roles, weighted=header.weighted)
    name = header.schema.target.name
    if FAMILIES[settings.family].has_order:
        y = in_order(read_column(y, name), header.schema.target.levels, settings.family)
    _, outcome, censored = read_outcomes(y, name, coded.num_rows, settings.family, censoring_roles(roles))
    if weights is not None and not header.weighted:
        raise DataError("the model was fitted without weights: leave them out")
    numbers = read_roles(roles, coded.num_rows, header.arms)
    coded = encoded_again(coded, table, header.schema, header.grid, LevelOutcomes.of(outcome, numbers))
    learnt, limits = transformed(header.transform, outcome, censored)
    constants, at_point = _constants_again(header, settings), None
    if isinstance(constants, HurdleConstants):
        at_point = outcome == constants.point
        learnt = learnt_beside_point(learnt, at_point, constants.offset)
    linear = None
    if header.linear is not None and coded.values is not None:
        linear = LinearTraining(header.linear, header.linear.of(coded.values))
    codes = coded.codes
    if header.effects is not None:
        codes = EffectColumns(header.effects, len(codes)).add(codes, numbers[ROLE])
    weight = numbers.pop("weights", None)
    rows = PartRows(settings, header.schema, coded.codes, coded.values, learnt, weight, numbers)
    training = Training(
        codes=codes,
        num_codes=num_codes_of(header.grid, codes),
        y=learnt,
        weights=weight,
        constants=constants,
        settings=settings,
        linear=linear,
        groups=_groups_again(header, coded, linear),
        limits=limits,
        by_role=numbers,
        effect=effect_prior(
            header.effects, header.schema, counts=FAMILIES[settings.family].target == "counts"
        ),
        at_point=at_point,
        parts=parts_of(rows, header.parts).training,
    )
    return PreparedFit(training, **{name: getattr(header, name) for name in IN_HEADER})


def _groups_again(header: Header, coded: Coded, linear: LinearTraining | None) -> GroupTraining | None:
    """Return the groups of the training rows; raise DataError for others than those of the fit."""
    if header.groupings is None or coded.groups is None:
        return None
    for column, places in zip(header.schema.groups, coded.groups, strict=True):
        if np.any(places < 0):
            row = int(np.argmax(places < 0)) + 1
            raise DataError(
                [DataProblem(column.name, row, "the fit had no such group, so this row was not in it")]
            )
    return GroupTraining.of(header.groupings, coded.groups, linear, coded.values)


def _constants_again(header: Header, settings: Settings) -> Constants:
    """Read the constants of the method's class from the header, with tuples instead of JSON lists."""
    kind: type[Constants] = METHODS[settings.method].constants_of(settings.family)
    return kind.from_json({name: _tupled(value) for name, value in header.constants.items()})


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value
