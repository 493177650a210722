"""Preparation of a stored model's training data again, so that its chains can continue."""

from __future__ import annotations

from typing import Any

from sampler.data.encode import encode, encoded_again
from sampler.data.level_means import LevelOutcomes
from sampler.data.rows import censoring_roles, named, read_roles, read_roles_again
from sampler.data.table import read, read_column
from sampler.data.target import in_order
from sampler.errors import DataError
from sampler.families import FAMILIES
from sampler.methods import METHODS
from sampler.preparation.hurdle import learnt_beside_point
from sampler.preparation.outcomes import read_outcomes, transformed
from sampler.preparation.part import PartRows, parts_of
from sampler.preparation.propensity import num_codes_of
from sampler.prepared_fit import IN_HEADER, PreparedFit
from sampler.prior import Constants, HurdleConstants
from sampler.settings import Settings
from sampler.storage.model_header import Header
from sampler.training import Training


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
    table = read(X) if header.panel is None else header.panel.of_rows(read(X))
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
    weight = numbers.pop("weights", None)
    columns = header.schema, coded.codes, coded.values
    parts = parts_of(PartRows(settings, *columns, learnt, weight, numbers, coded.groups, header.parts))
    training = Training(
        codes=parts.codes,
        num_codes=num_codes_of(header.grid, parts.codes),
        y=learnt,
        weights=weight,
        constants=constants,
        settings=settings,
        limits=limits,
        by_role=numbers,
        at_point=at_point,
        parts=parts.training,
    )
    return PreparedFit(training, **{name: getattr(header, name) for name in IN_HEADER})


def _constants_again(header: Header, settings: Settings) -> Constants:
    """Read the constants of the method's class from the header, with tuples instead of JSON lists."""
    kind: type[Constants] = METHODS[settings.method].constants_of(settings.family)
    return kind.from_json({name: _tupled(value) for name, value in header.constants.items()})


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value
