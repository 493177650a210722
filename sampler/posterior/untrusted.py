"""Checks of model files from untrusted sources, before they are decoded and used.

`load` trusts a file whose checksums are right. For files from others, `read_contents` first bounds every
length and count, then checks that all names are text that can be stored and displayed, all figures are
finite, and the settings are known to this version. A bounded file may still need hundreds of times its size
in memory, so a service should read it in a process with limited memory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.groupings import may_group
from sampler.data.level_sets import NAME, SETS
from sampler.data.schema import Column, name_fault
from sampler.definitions.parts import PART_SETTINGS
from sampler.errors import NotFittedError, PackedError, SettingsError
from sampler.families import FAMILIES, takes
from sampler.methods import METHODS
from sampler.noise import AUTO
from sampler.posterior.posterior import Posterior
from sampler.posterior.several.stored import least_settled, outcomes_of, posterior_of
from sampler.posterior.verdict.summary import Summary
from sampler.settings import LIMITS, Settings
from sampler.storage import draw_codec
from sampler.storage.model_file import read_parts
from sampler.storage.model_header import RECALIBRATION, Header

MAX_INDEX = 2 << 20  # bytes: two bytes or more for each block, and statistics of `MAX_TEXT`
MAX_HEADER_TEXT = 8 << 20  # bytes: some 30,000 columns, or hundreds of thousands of levels
MAX_DEPTH = 16  # nesting of lists and objects in settings, constants and statistics
MAX_NODES = 20_000_000  # in all trees, twenty times a default model: 40 bytes each while they are arranged
MAX_DRAWS = 50_000  # in all chains; the verdict evaluates each of them at 200 rows
MAX_SHARES = 50_000_000  # draws times features: a count is kept for each
MAX_TEXT = 1 << 20  # characters of all warnings and statistics, which are displayed or stored unchanged
# Exceptions that Python raises for parts that contradict each other where no earlier check did.
MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)
LARGEST = 1e150  # largest prediction or sigma: its square is still finite


@dataclass(frozen=True)
class PackedBlock:
    """Consecutive draws of a chain, packed."""

    num_draws: int
    data: bytes


@dataclass(frozen=True)
class Contents:
    """Parts of a model file: header, blocks and statistics by chain (none, or one entry per chain)."""

    header: bytes
    chains: list[list[PackedBlock]]
    statistics: list[dict[str, Any]]
    posterior: Posterior
    summary: Summary


def read_contents(data: bytes) -> Contents:
    """Take a model file apart, decode it and judge its draws.

    Raises
    ------
    PackedError
        For anything that is not a model file, and for files that are damaged, of a newer format, too large,
        or contradictory.

    """
    try:
        return _read(data)
    except PackedError:
        raise
    except NotFittedError:
        raise PackedError("the model file holds no draws") from None
    except MISFITS as error:  # the file is at fault even where no check above caught it
        raise _wrong(f"its parts don't fit each other ({type(error).__name__}: {error})") from error


def _read(data: bytes) -> Contents:
    header, blocks, statistics, _ = read_parts(data, MAX_INDEX)
    _check_count(len(blocks))
    heads = [[draw_codec.sizes(block) for block in chain] for chain in blocks]
    known = Header.from_bytes(header, MAX_HEADER_TEXT)
    _check_sizes(known, [head for chain in heads for head in chain])
    _check_header(known)
    _check_others(known)
    _check_statistics(statistics, len(blocks))
    posterior = posterior_of(header, blocks, statistics)
    for part in outcomes_of(posterior):
        _check_draws(part)
    if posterior.several is not None and not _are_correlations(posterior.several.correlations):
        raise _wrong("the correlations of its outcomes are out of range")
    chains = [
        [PackedBlock(draws, block) for (draws, _, _), block in zip(of_chain, chain, strict=True)]
        for of_chain, chain in zip(heads, blocks, strict=True)
    ]
    return Contents(header, chains, statistics, posterior, least_settled(posterior).summary())


def _check_draws(posterior: Posterior) -> None:
    """Check the draws of a model, or of one outcome of several."""
    for sigma in (posterior.law.draws.sigma, posterior.sigma):  # the latter is None for classes
        if sigma is not None and not (float(sigma.min()) > 0 and float(sigma.max()) <= LARGEST):
            raise _wrong("its draws of sigma are out of range")
    if posterior.num_trees != posterior.settings.get("num_trees"):
        raise _wrong("its blocks of draws don't fit its settings")
    with np.errstate(over="ignore", invalid="ignore"):
        f = posterior.law.draws_by_figure(posterior.reference)
    if not float(np.abs(f).max()) <= LARGEST:
        raise _wrong("its predictions are out of range")


def _are_correlations(draws: NDArray[np.float64]) -> bool:
    """Tell whether all matrices [.., outcome, outcome] with diagonals of 1 are of errors' correlations."""
    return bool(np.abs(draws).max() <= 1 and np.linalg.eigvalsh(draws).min() > 0)


def _check_count(num_chains: int) -> None:
    most = LIMITS["num_chains"][1]
    if num_chains > most:
        raise PackedError(f"the model is too large: {num_chains} chains, where up to {most} are accepted")


def _check_sizes(header: Header, heads: Sequence[tuple[int, int, int]]) -> None:
    """Check the numbers of draws, trees per draw and nodes in the heads of all blocks, and beside them."""
    beside = header.effects.propensities if header.effects else ()
    every = [*heads, *(draw_codec.sizes(each.trees) for each in beside)]
    draws, nodes = sum(head[0] for head in every), sum(head[2] for head in every)
    if not all(head[0] for head in heads) or len({head[1] for head in heads}) > 1:
        raise _wrong("its blocks of draws don't fit each other")
    if nodes > MAX_NODES or draws > MAX_DRAWS:
        raise PackedError(
            f"the model is too large: {draws} draws of {nodes} nodes in all, where up to "
            f"{MAX_DRAWS} of {MAX_NODES} are accepted"
        )
    features = sum(len(each.schema.columns) for each in (header, *_others_of(header)))
    if draws * features > MAX_SHARES:
        raise PackedError(f"the model is too large: {draws} draws of {features} features")


def _check_header(header: Header) -> None:
    schema = header.schema
    check_plain(
        [
            header.settings,
            header.constants,
            schema.to_json(),
            header.warnings,
            header.roles,
            header.dialect.to_json() if header.dialect else None,
        ]
    )
    if not schema.columns:
        raise _wrong("it has no column")
    try:
        settings = Settings.from_json(header.settings)
    except (SettingsError, TypeError) as error:
        raise PackedError(f"this version doesn't accept the model's settings: {error}") from None
    _check_texts(header)
    for column in (*schema.inputs, schema.target):
        _check_column(column)
    names = [column.name for column in schema.inputs]
    if len(set(names)) < len(names):
        raise _wrong("two of its columns have the same name")
    family = FAMILIES[settings.family]
    if family.target == "two" and len(schema.target.levels) != 2:
        raise _wrong("its target doesn't have two classes")
    if family.has_classes != (len(schema.target.levels) > 1):
        raise _wrong("the levels of its target don't fit its family")
    _check_parts(header, settings)
    offset, step = float(header.constants["offset"]), float(header.constants["step"])
    if step <= 0 or abs(offset) + step * 2**40 > LARGEST:
        raise _wrong("its offset and step are out of range")
    if not header.reference.shape[1]:
        raise _wrong("it has no reference rows")


def _check_others(header: Header) -> None:
    """Check the headers of a model's further outcomes; a column of several of them has one kind."""
    others, kinds = _others_of(header), dict(header.schema.kinds)
    for other in others:
        _check_header(other)
        kinds |= {name: kind for name, kind in other.schema.kinds.items() if name not in kinds}
        alike = kinds | other.schema.kinds == kinds
        if other.others or other.settings["num_trees"] != header.settings["num_trees"] or not alike:
            raise _wrong("the trees of its outcomes, or the kinds of a column, are not the same")
    targets = [each.schema.target.name for each in (header, *others)]
    families = [each.settings["family"] for each in (header, *others)]
    sound = sorted(families) in ([*["gaussian"] * len(others), last] for last in ("gaussian", "probit"))
    if others and (len({*targets}) < len(targets) or not sound):
        raise _wrong("its outcomes can't be those of one model")


def _others_of(header: Header) -> list[Header]:
    """Decode the headers of a model's further outcomes."""
    return [Header.from_bytes(other, MAX_HEADER_TEXT) for other in header.others]


def _check_parts(header: Header, settings: Settings) -> None:
    """Check that the header has no parts that its settings have no place for."""
    of_trees, family = METHODS[settings.method].engine.forests, FAMILIES[settings.family]
    for name, there, may_be in (
        ("linear", "line" in header.parts, settings.linear),
        ("transform", bool(header.transform), settings.transform != "none"),
        ("noise", settings.noise == AUTO, False),
        ("choice of noise", header.noise_choice is not None, family.noise and of_trees),
        *((role, True, takes(settings.family, role)) for role in header.beside),
        ("groups", "groups" in header.parts, may_group(settings)),
        ("sets of levels", NAME in header.parts, of_trees and header.settings.get(NAME) == SETS),
        *(
            (f"part {name}", (name in header.parts) != (name in settings.parts), False)
            for name in PART_SETTINGS
        ),
        (
            "recalibration",
            RECALIBRATION in header.parts,
            of_trees and settings.family == "gaussian" and not {"treatment", "groups"} & {*header.parts},
        ),
        ("censoring", bool(header.censoring), of_trees and settings.family == "gaussian"),
    ):
        if there and not may_be:
            raise _wrong(f"its {name} doesn't fit its settings")


def _check_texts(header: Header) -> None:
    if not isinstance(header.warnings, list) or not isinstance(header.weighted, bool):
        raise _wrong("its warnings or weights have the wrong type")
    schema, table = header.schema, header.calibration
    for column, points in zip(schema.columns, header.default_grid, strict=False):
        if not points and column.kind in ("number", "date"):
            raise _wrong(f"it has no values at which to show column {column.name!r}")
    whys = [item.why for item in schema.left_out]
    others = [*schema.ignored, *(item.name for item in schema.left_out)]
    if not all(isinstance(text, str) for text in [*header.warnings, *others, *whys]):
        raise _wrong("a warning or a name is not text")
    names = [column.name for column in (*schema.inputs, schema.target)] + [*header.roles.values()]
    names += [*header.subgroup_kinds, *([] if table is None else table.new_rows.columns)]
    for name in [*names, *filter(None, others)]:  # a column of no interest may have none
        if fault := name_fault(name):
            raise _wrong(f"the name of its column {name[:40]!r} {fault}, and fit again")
    if sum(map(len, header.warnings)) > MAX_TEXT:
        raise _wrong("its warnings are too long")


def _check_column(column: Column) -> None:
    counts = isinstance(column.missing, int) and column.missing >= 0
    ends = all(end is None or _is_number(end) for end in (column.min, column.max))
    levels = len(set(column.levels)) == len(column.levels)
    encoded = len(column.levels) if column.kind == "encoded" else 0
    levels = levels and len(column.means) == encoded and all(map(_is_number, column.means))
    if not (counts and ends and levels and isinstance(column.from_text, bool)):
        raise _wrong(f"column {column.name[:100]!r} has an invalid description")


def _check_statistics(statistics: Sequence[Mapping[str, Any]], num_chains: int) -> None:
    if len(statistics) not in (0, num_chains):
        raise _wrong("it doesn't have statistics for each chain")
    check_plain(list(statistics))
    if len(repr(statistics)) > MAX_TEXT:
        raise _wrong("its statistics are too long")
    for chain in statistics:
        moves = chain.get("moves", {})
        if not isinstance(moves, dict) or not all(_are_counts(move) for move in moves.values()):
            raise _wrong("its counts of moves are not all non-negative integers")


def _are_counts(move: Any) -> bool:
    if not isinstance(move, dict) or not {"proposed", "accepted"} <= set(move):
        return False
    return all(type(count) is int and count >= 0 for count in move.values())


def check_plain(value: Any) -> None:
    """Refuse values that JSON or database text can't hold: NaN, NUL, unpaired surrogates."""
    for scalar in _scalars(value):
        if isinstance(scalar, str):
            fine = "\0" not in scalar and not any("\ud800" <= letter <= "\udfff" for letter in scalar)
        else:
            fine = scalar is None or isinstance(scalar, bool) or _is_number(scalar)
        if not fine:
            raise _wrong("a text or number in it can't be stored")


def _scalars(value: Any) -> Iterator[Any]:
    """Yield every scalar and key; raise PackedError beyond `MAX_DEPTH` levels of nesting."""
    left: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in left:
            if isinstance(item, dict):
                inner += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple):
                inner += item
            else:
                yield item
        left = inner
    if left:
        raise PackedError("the model file can't be read: it is nested too deeply")


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return whole or (isinstance(value, float) and math.isfinite(value))


def _wrong(detail: str) -> PackedError:
    return PackedError(f"the model file can't be used: {detail}")
