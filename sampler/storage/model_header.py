"""Header of a model: everything that predictions need besides the draws, encoded deterministically.

Layout, little-endian: the magic ``BARTHEAD``, format version (uint16), CRC-32 of all bytes after it (uint32),
length of the JSON text (uint32), the JSON text (UTF-8, keys sorted), then the arrays it lists, one after the
other: the cut points of each coded column (float64), the reference rows (uint8 [coded column, row]), of a
model with a linear part their values (float64 [coded column, row]), the reference rows' outcomes and what
belongs to them (float64 [role, row]), and of a calibrated model the scores of its calibration rows (float64
[row]).
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.binning import MAX_CUTS, Grid
from sampler.data.cut_points import GRID_POINTS
from sampler.data.groupings import Groupings
from sampler.data.linear_terms import LinearTerms
from sampler.data.schema import FeatureKind, Schema
from sampler.data.transform import IDENTITY, Transform
from sampler.data.treatment.design import ROLE, TWO, EffectDesign
from sampler.data.treatment.panel import Panel
from sampler.definitions.data import CENSORING, COLUMN_ROLES, LIMITS, OF_LIKELIHOOD, PREDICTED
from sampler.definitions.parts import PARTS, PartFacts, code_of_parts
from sampler.definitions.several import MAX_OUTCOMES
from sampler.engines import load_code
from sampler.errors import PackedError
from sampler.noise import NoiseChoice
from sampler.storage.calibration_size import MAX_ROWS
from sampler.storage.conformal_table import ConformalTable
from sampler.storage.file_dialect import FileDialect
from sampler.subgroups.declaration import Subgroup, refused
from sampler.subgroups.membership import kinds_of, quarter_points
from sampler.subgroups.table import SubgroupTable

MAGIC = b"BARTHEAD"
VERSION = 1
START = struct.Struct("<8sHII")
REFERENCE_ROWS = 200
OUTCOME = "outcome"
PART = "part "  # before the name of a part
RECALIBRATION = "recalibration"


@dataclass(frozen=True)
class Header:
    """Properties of a posterior besides its draws.

    Attributes
    ----------
    schema, grid
        Columns and cut points, by which rows become codes.
    constants, settings
        The engine's own, as JSON values; all absolute, in units of y.
    reference
        uint8 [coded column, row], up to 200 training rows at which the chains are compared.
    weighted
        Whether the training rows had weights.
    warnings
        Warnings given while the data were prepared.
    roles
        Names of the columns besides outcomes and weights that rows with outcomes need, by role.
    default_grid
        Up to 19 training values of each numeric or date column that divide the rows evenly, at which effects
        are shown by default; empty in models made before it was kept.
    num_rows
        Training rows that have a weight; None in models made before it was kept.
    typical_weight
        Geometric mean of these rows' weights; None without weights, and in models made before it was kept.
    reference_values
        Values of the reference rows before binning, float64 [coded column, row], of a model with a linear
        part, or with slopes that differ by group; None of others.
    reference_outcomes
        Outcomes of the reference rows (indices of classes), and what else their likelihood needs, float64
        [row], by role; empty in models made before they were kept.
    transform
        Transform of the outcome: what the model learns.
    calibration
        Table by which intervals are calibrated; None without one.
    dialect
        Dialect of the file of the training rows; None where these came as a table, and in models made before
        it was kept.
    noise_choice
        Evidence by which the data chose the kind of noise; None where the settings did.
    others
        Headers of the further outcomes, encoded, of a model of several; what else is here is the first one's.
    parts
        Facts of the parts beside the mean's trees, by their names in `sampler.definitions.parts.PARTS`.

    """

    schema: Schema
    grid: Grid
    constants: dict[str, Any]
    settings: dict[str, Any]
    reference: NDArray[np.uint8]
    weighted: bool
    warnings: list[str]
    default_grid: list[list[float]] = field(default_factory=list)
    num_rows: int | None = None
    typical_weight: float | None = None
    reference_values: NDArray[np.float64] | None = None
    reference_outcomes: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    transform: Transform = IDENTITY
    roles: dict[str, str] = field(default_factory=dict)
    calibration: ConformalTable | None = None
    dialect: FileDialect | None = None
    noise_choice: NoiseChoice | None = None
    others: tuple[bytes, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def linear(self) -> LinearTerms | None:
        """Terms of a linear part; None without one."""
        return self.parts.get("line")

    @property
    def groupings(self) -> Groupings | None:
        """Facts of the schema's columns of groups; None without any."""
        return self.parts.get("groups")

    @property
    def panel(self) -> Panel | None:
        """Facts of a panel, whose rows make the treatment; None of others."""
        return self.parts.get("panel")

    @property
    def effects(self) -> EffectDesign | None:
        """Design of the columns by which trees see a treatment; None without one."""
        return self.parts.get("treatment")

    @property
    def units(self) -> dict[str, str]:
        """Units that the file of the training rows had beside numbers ("EUR", "%"), by column."""
        return {} if self.dialect is None else self.dialect.units

    @property
    def subgroups(self) -> tuple[Subgroup, ...]:
        """Named subgroups in each of which calibrated intervals hold; none without."""
        table = None if self.calibration is None else self.calibration.subgroups
        return () if table is None else table.subgroups

    def quarters(self, name: str) -> NDArray[np.float64]:
        """Return the quarter points of a feature of numbers or dates; raise SettingsError for others."""
        names = [column.name for column in self.schema.columns]
        if name not in names or not self.default_grid:
            raise refused(f"{name!r} is no feature, whose quarters are known: give limits by where")
        return quarter_points(np.array(self.default_grid[names.index(name)]))

    @property
    def subgroup_kinds(self) -> dict[str, FeatureKind]:
        """Kinds of columns besides the features that tell to which subgroups a row belongs, by name."""
        known = self.schema.kinds
        return {name: kind for name, kind in kinds_of(self.subgroups).items() if name not in known}

    @property
    def beside(self) -> dict[str, str]:
        """Names of the columns beside the features that new rows may have, by role."""
        return {role: name for role, name in self.roles.items() if role in PREDICTED}

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms of a treatment; none of a dose, and without a treatment."""
        return () if self.effects is None else self.effects.arms

    @property
    def kinds_beside(self) -> dict[str, str]:
        """Kinds of the columns of `beside`, by name: arms of a treatment have names, a dose is a number."""
        own = {name: COLUMN_ROLES[role].cells for role, name in self.beside.items()}
        if ROLE in self.beside and self.arms != TWO:
            own[self.beside[ROLE]] = "number" if all(map(_is_number, self.arms)) else "category"
        return own

    @property
    def censoring(self) -> dict[str, str]:
        """Names of the columns that tell of censored outcomes, by role."""
        return {role: name for role, name in self.roles.items() if role in CENSORING}

    @property
    def needs_values(self) -> bool:
        """Whether predictions need rows' values before binning."""
        return need_values(self.parts)

    def to_bytes(self) -> bytes:
        """Encode the header; equal headers give equal bytes."""
        fields = {
            "constants": self.constants,
            "settings": self.settings,
            "schema": self.schema.to_json(),
            "weighted": self.weighted,
            "warnings": self.warnings,
            "num_cuts": [len(cuts) for cuts in self.grid.cuts],
            "num_reference": self.reference.shape[1],
            **({"reference_outcomes": [*self.reference_outcomes]} if self.reference_outcomes else {}),
            **({"default_grid": self.default_grid} if self.default_grid else {}),
            **({} if self.num_rows is None else {"num_rows": self.num_rows}),
            **({} if self.typical_weight is None else {"typical_weight": self.typical_weight}),
            **({"transform": self.transform.to_json()} if self.transform else {}),
            **self.beside,
            **({"calibration": self.calibration.to_json()} if self.calibration else {}),
            **({"censoring": self.censoring} if self.censoring else {}),
            **({} if self.dialect is None else {"dialect": self.dialect.to_json()}),
            **({} if self.noise_choice is None else {"noise_choice": self.noise_choice.to_json()}),
            **({"others": [len(other) for other in self.others]} if self.others else {}),
            **{PARTS[name].key or PART + name: facts.to_json() for name, facts in self.parts.items()},
        }
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        arrays = [cuts.astype("<f8").tobytes() for cuts in self.grid.cuts]
        arrays.append(self.reference.tobytes())
        if self.reference_values is not None:
            arrays.append(self.reference_values.astype("<f8").tobytes())
        arrays += [values.astype("<f8").tobytes() for values in self.reference_outcomes.values()]
        if self.calibration is not None:
            arrays.append(self.calibration.scores.astype("<f8").tobytes())
            if self.calibration.unit is not None:
                arrays.append(self.calibration.unit.astype("<i4").tobytes())
            if self.calibration.subgroups is not None:
                arrays += self.calibration.subgroups.arrays
        arrays += self.others
        body = struct.pack("<I", len(text)) + text + b"".join(arrays)
        return MAGIC + struct.pack("<HI", VERSION, zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes, longest_text: int | None = None) -> Header:
        """Decode a header.

        Parameters
        ----------
        data
            Bytes of `to_bytes`.
        longest_text
            Largest accepted length of the JSON text in bytes, checked before it is decoded; None for no
            limit.

        Returns
        -------
        Header
            The header.

        Raises
        ------
        PackedError
            For anything that is not a header, damaged headers and newer formats.

        """
        text, arrays = _checked(data, longest_text)
        try:
            fields = json.loads(text)
            calibration = fields.get("calibration")
            arrays, others = _others(arrays, fields.get("others", []))
            arrays, in_subgroups = _in_subgroups(arrays, calibration)
            arrays, scores, unit = _scores(arrays, calibration)
            schema = Schema.from_json(fields["schema"])
            arrays, outcomes = _reference_outcomes(
                arrays, fields.get("reference_outcomes"), fields["num_reference"], schema.target.levels
            )
            parts = _parts(fields, schema, (len(fields["num_cuts"]), fields["num_reference"]))
            grid, reference, values = _arrays(
                arrays, fields["num_cuts"], fields["num_reference"], with_values=need_values(parts)
            )
            header = cls(
                parts=parts,
                schema=schema,
                grid=grid,
                constants=dict(fields["constants"]),
                settings=dict(fields["settings"]),
                reference=reference,
                weighted=fields["weighted"],
                warnings=fields["warnings"],
                default_grid=_default_grid(fields.get("default_grid", [])),
                num_rows=_num_rows(fields.get("num_rows")),
                typical_weight=_typical_weight(fields.get("typical_weight")),
                reference_values=values,
                reference_outcomes=outcomes,
                transform=Transform.from_json(fields["transform"]) if "transform" in fields else IDENTITY,
                roles={role: str(fields[role]) for role in PREDICTED if fields.get(role) is not None}
                | _censoring(fields.get("censoring", {})),
                calibration=None
                if calibration is None
                else ConformalTable.from_json(
                    calibration,
                    scores,
                    unit,
                    of_classes=bool(schema.target.levels),
                    subgroups=in_subgroups,
                ),
                dialect=FileDialect.from_json(fields["dialect"]) if "dialect" in fields else None,
                noise_choice=NoiseChoice.from_json(fields["noise_choice"])
                if "noise_choice" in fields
                else None,
                others=others,
            )
        except PackedError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise PackedError(f"the model's header can't be read: {error}") from error
        except RecursionError:
            raise PackedError("the model's header can't be read: it is nested too deeply") from None
        if not all(_is_finite(header.constants.get(name)) for name in ("offset", "step")):
            raise PackedError("the model's header can't be read: it has no offset or no step")
        if len(header.schema.coded) != len(grid.cuts):
            raise PackedError("the model's header can't be read: its grid doesn't fit its columns")
        if len(header.default_grid) not in {0, len(header.schema.columns)}:
            raise PackedError("the model's header can't be read: its default grid doesn't fit its columns")
        return header


def _is_number(text: str) -> bool:
    """Tell whether an arm is named by a number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def need_values(parts: Mapping[str, PartFacts]) -> bool:
    """Tell whether facts of parts, by name, need rows' values before binning."""
    return any(facts.needs_values for facts in parts.values())


def with_counts(header: bytes, *, num_draws: int, num_chains: int) -> bytes:
    """Return the stored header of the same fit with other numbers of draws per chain and of chains.

    It has no calibration, which is that of some draws. Raises PackedError as `Header.from_bytes` does.
    """
    read = Header.from_bytes(header)
    counts = {"num_draws": num_draws, "num_chains": num_chains}
    return replace(read, settings=read.settings | counts, calibration=None).to_bytes()


def with_part(header: bytes, name: str, facts: Any) -> bytes:
    """Return the stored header with other facts of a part, None for without it; raises PackedError."""
    read = Header.from_bytes(header)
    parts = {own: each for own, each in read.parts.items() if own != name}
    return replace(read, parts=parts if facts is None else {**parts, name: facts}).to_bytes()


def with_calibration(header: bytes, calibration: ConformalTable | None) -> bytes:
    """Return the stored header of the same fit with another calibration.

    Raises PackedError as `Header.from_bytes` does.
    """
    return replace(Header.from_bytes(header), calibration=calibration).to_bytes()


def _censoring(names: Any) -> dict[str, str]:
    if (
        not isinstance(names, dict)
        or names.keys() - {*CENSORING}
        or not all(isinstance(n, str) for n in names.values())
    ):
        raise ValueError("its columns of censored outcomes are not those of any fit")
    return dict(names)


def _others(arrays: bytes, sizes: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """Take the headers of further outcomes off the end of the arrays."""
    sound = isinstance(sizes, list) and len(sizes) < MAX_OUTCOMES
    if not sound or any(type(size) is not int or size <= 0 for size in sizes) or sum(sizes) > len(arrays):
        raise ValueError("the sizes of its further outcomes are out of range")
    ends = np.cumsum([len(arrays) - sum(sizes), *sizes]).tolist()
    return arrays[: ends[0]], tuple(arrays[start:end] for start, end in pairwise(ends))


def _parts(fields: Mapping[str, Any], schema: Schema, shape: tuple[int, ...]) -> dict[str, Any]:
    """Decode the facts of parts; raise PackedError for a part that isn't installed."""
    codecs = {PARTS[name].key or PART + name: (name, code) for name, code in code_of_parts("header").items()}
    for key in fields:
        if key.startswith(PART) and key not in codecs:
            name = key.removeprefix(PART)
            raise PackedError(f"the model has the part {name!r}, which no installed package has")
    parts = {
        name: resolve_name(code).from_json(fields[key], schema, shape)
        for key, (name, code) in codecs.items()
        if key in fields
    }
    if schema.groups and "groups" not in parts:
        raise ValueError("it has columns of groups without their figures")
    return parts


def _default_grid(grid: Any) -> list[list[float]]:
    grids: list[list[float]] = [[float(value) for value in points] for points in grid]
    if any(len(points) > GRID_POINTS or not all(map(math.isfinite, points)) for points in grids):
        raise ValueError("its default grid has too many points, or infinite ones")
    return grids


def _num_rows(number: Any) -> int | None:
    if number is not None and (type(number) is not int or not 0 < number < 2**63):
        raise ValueError("its number of rows is invalid")
    num_rows: int | None = number
    return num_rows


def _typical_weight(weight: Any) -> float | None:
    if weight is None:
        return None
    if not _is_finite(weight) or not weight > 0:
        raise ValueError("its typical weight is invalid")
    return float(weight)


def _is_finite(value: Any) -> bool:
    # An integer too large for a float has no `math.isfinite`.
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _checked(data: bytes, longest_text: int | None) -> tuple[bytes, bytes]:
    if len(data) < START.size or not data.startswith(MAGIC):
        raise PackedError("this is not a model header")
    _, version, checksum, length = START.unpack_from(data)
    if version > VERSION:
        raise PackedError(f"the model's header has format {version}; this version reads up to {VERSION}")
    if longest_text is not None and length > longest_text:
        raise PackedError(f"the text of the model's header is longer than {longest_text} bytes")
    if zlib.crc32(data[START.size - 4 :]) != checksum or START.size + length > len(data):
        raise PackedError("the model's header is damaged: its checksum doesn't match")
    return data[START.size : START.size + length], data[START.size + length :]


def _in_subgroups(data: bytes, calibration: dict[str, Any] | None) -> tuple[bytes, SubgroupTable | None]:
    """Cut the subgroups of the calibration rows off the end of the arrays."""
    if calibration is None or "subgroups" not in calibration:
        return data, None
    rows = calibration["rows"]
    if type(rows) is not int or not 0 < rows <= MAX_ROWS:
        raise ValueError("its calibration has no rows, or too many")
    return SubgroupTable.read(calibration["subgroups"], rows, data)


def _scores(
    data: bytes, calibration: dict[str, Any] | None
) -> tuple[bytes, NDArray[np.float64], NDArray[np.int32] | None]:
    """Cut the scores of the calibration rows, and their groups, off the end of the arrays."""
    rows = 0 if calibration is None else calibration["rows"]
    if calibration is not None and (type(rows) is not int or not 0 < rows <= MAX_ROWS):
        raise ValueError("its calibration has no rows, or too many")
    with_units = calibration is not None and calibration.get("units") is True
    if rows * (12 if with_units else 8) > len(data):
        raise ValueError("its arrays don't have the sizes it states")
    unit = None
    if with_units:
        data, units = data[: -rows * 4], data[-rows * 4 :]
        unit = np.frombuffer(units, "<i4").astype(np.int32)
    end = len(data) - rows * 8
    return data[:end], np.frombuffer(data[end:], "<f8").astype(np.float64), unit


def _reference_outcomes(
    data: bytes, roles: Any, num_reference: int, levels: Sequence[str]
) -> tuple[bytes, dict[str, NDArray[np.float64]]]:
    """Cut the outcomes of the reference rows, and what belongs to them, off the end of the arrays."""
    if type(num_reference) is not int or num_reference < 0:
        raise ValueError("its sizes are out of range")
    if num_reference > REFERENCE_ROWS:
        raise ValueError(f"it has {num_reference} reference rows, where up to {REFERENCE_ROWS} are allowed")
    if not roles:
        return data, {}
    known = isinstance(roles, list) and roles[0] == OUTCOME and {*roles[1:]} <= {*OF_LIKELIHOOD, *LIMITS}
    known = known and len({*LIMITS} & {*roles}) in {0, len(LIMITS)}
    end = len(data) - 8 * num_reference * len(roles)
    if not known or len({*roles}) < len(roles) or end < 0:
        raise ValueError("the outcomes of its reference rows are out of place")
    values = np.frombuffer(data[end:], "<f8").astype(np.float64).reshape(len(roles), num_reference)
    found = dict(zip(roles, values, strict=True))
    for role in found.keys() & {*OF_LIKELIHOOD}:
        load_code(COLUMN_ROLES[role].reader)(found[role], num_reference)
    y = found[OUTCOME]
    unknown = bool(levels) and not np.all(np.isin(y, np.arange(len(levels))))
    if unknown or not np.all(np.isfinite(y)) or np.any(np.isnan(values)):
        raise ValueError("the outcomes of its reference rows are out of range")
    return data[:end], found


def _arrays(
    data: bytes, num_cuts: list[int], num_reference: int, *, with_values: bool
) -> tuple[Grid, NDArray[np.uint8], NDArray[np.float64] | None]:
    if any(type(count) is not int or count < 0 for count in num_cuts) or max(num_cuts, default=0) > MAX_CUTS:
        raise ValueError("its sizes are out of range")
    ends = np.cumsum([0, *num_cuts])
    size = int(ends[-1]) * 8
    cells = num_reference * len(num_cuts)
    if len(data) != size + cells * (9 if with_values else 1):
        raise ValueError("its arrays don't have the sizes it states")
    cuts = np.frombuffer(data[:size], "<f8").astype(np.float64)
    reference = np.frombuffer(data[size : size + cells], np.uint8).reshape(len(num_cuts), num_reference)
    values = None
    if with_values:
        values = np.frombuffer(data[size + cells :], "<f8").astype(np.float64).reshape(reference.shape)
        if np.any(np.isinf(values)):
            raise ValueError("its reference rows have infinite values")
    return Grid(tuple(cuts[a:b] for a, b in pairwise(ends))), reference, values
