"""Tasks of the confined process: a dataset's blocks, the rows of a prediction, the parts of a model."""

from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from app.services.errors import UnusableModelError
from app.services.readers.options import EVERY, Options, ReaderLimits
from app.services.readers.profile import summarise
from app.services.readers.table import kind_of, open_table
from app.store import column_codec
from app.store.column_codec import Spelling, unusual

Json = dict[str, Any]
VERDICTS = ("not_converged", "approximate", "converged")  # from worst to best
MAX_SAID = 500  # characters of an error on a model file, which may quote the file


def dataset(file: BinaryIO, out: BinaryIO, task: Json) -> Json:
    """Read a file, summarise its columns, and write their blocks to `out`, one after the other.

    Returns the columns in order, their profiles, the warnings, the report, their spellings, and for each
    block, in the order of `out`, its column, position in the column, length and checksum. Blocks of cells
    that their values don't give back follow as further columns.
    """
    described: dict[int, tuple[Json, Json]] = {}
    spellings: dict[int, Spelling] = {}
    index: list[tuple[bool, int, int, int, str]] = []

    def write(column: pa.ChunkedArray, position: int, *, is_kept: bool) -> None:
        for seq, data in enumerate(column_codec.cut(column, task["block_rows"])):
            out.write(data)
            index.append((is_kept, position, seq, len(data), column_codec.checksum(data)))

    with open_table(
        file, Options.from_json(task["options"]), ReaderLimits.from_json(task["limits"])
    ) as table:
        for position, name, values, note, text, decimal in table.columns():
            summary, profile = summarise(name, values, note)
            levels = tuple(table.spool.orders.get(name, ()))
            if summary.kind == "category" and {*summary.levels} <= {*levels}:
                summary = replace(summary, order=levels)
            described[position] = summary.to_json(), profile
            write(stored := column_codec.storable(name, values), position, is_kept=False)
            if text is not None:
                spelling, kept = unusual(stored, text)
                spellings[position] = replace(spelling, decimal=decimal)
                if kept is not None:
                    write(kept, position, is_kept=True)
    out.flush()
    places = sorted({(is_kept, position) for is_kept, position, *_ in index})
    order = {place: number for number, place in enumerate(places)}
    columns = [described[position][0] for is_kept, position in places if not is_kept]
    checksums = [known for is_kept, *_, known in sorted(index) if not is_kept]
    spelled = {
        described[position][0]["name"]: replace(spelling, place=order.get((True, position))).to_json()
        for position, spelling in sorted(spellings.items())
        if spelling != Spelling() or (True, position) in order
    }
    return {
        "num_rows": table.num_rows,
        "columns": columns,
        "profiles": [described[position][1] for is_kept, position in places if not is_kept],
        "warnings": table.warnings,
        "read_as": table.read_as | {"summary": table.summary([column["kind"] for column in columns])},
        "spellings": spelled,
        "blocks": [(order[is_kept, position], *block) for is_kept, position, *block in index],
        "sha256": column_codec.digest([column["name"] for column in columns], checksums),
    }


def rows(file: BinaryIO, out: BinaryIO, task: Json) -> Json:
    """Read a file and write its typed columns to `out` as an Arrow stream.

    The cells of those that are to be kept, as they were written, follow as further columns, which the report
    names.
    """
    with open_table(
        file, Options.from_json(task["options"]), ReaderLimits.from_json(task["limits"])
    ) as table:
        columns = sorted(table.columns(), key=lambda column: column.position)
        read = pa.table({column.name: column.values for column in columns})
        keep = read.column_names if EVERY in task["keep"] else task["keep"]
        texts = {each.name: each.text for each in columns if each.text is not None and each.name in keep}
    sent = pa.table([*read.columns, *texts.values()], names=[*read.column_names, *texts])
    with pa.ipc.new_stream(out, sent.schema) as writer:
        writer.write_table(sent)
    out.flush()
    summary = table.summary([kind_of(type_) for type_ in read.schema.types])
    return {
        "texts": [*texts],
        "warnings": [
            *table.warnings,
            *(f"{column.name}: {column.note}" for column in columns if column.note),
        ],
        "read_as": table.read_as | {"summary": summary, "as_in_model": table.as_in_model},
    }


def model(file: BinaryIO, out: BinaryIO, _task: Json) -> Json:
    """Decode and check a model file, and write its header and its blocks to `out`, one after the other.

    Returns the header's length, the draws and length of each chain's blocks, and the other stored data of a
    model: the settings with the columns and the constants, the statistics by chain, verdict, diagnostics and
    warnings. The verdict is computed again, since the file is not trusted.

    Raises
    ------
    UnusableModelError
        The file is damaged, foreign, of a newer version, or too large once unpacked.
    """
    # Imported here because only the process that reads models loads the kernels.
    from sampler import PackedError  # noqa: PLC0415
    from sampler.host.forecasts import is_forecaster  # noqa: PLC0415
    from sampler.host.posteriors import read_contents  # noqa: PLC0415
    from sampler.host.settings import Settings  # noqa: PLC0415

    data = file.read()
    try:
        if is_forecaster(data):
            return _forecaster(data, out)
        contents = read_contents(data)
    except PackedError as error:
        raise UnusableModelError(f"{str(error)[:MAX_SAID]}.".capitalize()) from None
    posterior, summary = contents.posterior, contents.summary
    settings = Settings.from_json(posterior.settings)
    columns, groups = posterior.schema.columns, posterior.schema.groups
    num_groups = sum(len(column.levels) for column in groups)
    slopes, arms, several = posterior.slopes_of_groups, posterior.header.arms, posterior.several
    out.write(contents.header)
    for chain in contents.chains:
        out.writelines(block.data for block in chain)
    out.flush()
    return {
        "header": len(contents.header),
        "chains": [[(block.num_draws, len(block.data)) for block in chain] for chain in contents.chains],
        "statistics": contents.statistics,
        "target": posterior.schema.target.name,
        "settings": settings.to_json()
        | {
            "features": [column.name for column in columns],
            "columns": {column.name: column.kind for column in columns},
            **posterior.header.roles,
            **({"groups": [column.name for column in groups], "num_groups": num_groups} if groups else {}),
            **({"slopes": list(slopes)} if slopes else {}),
            **({"num_arms": len(arms)} if len(arms) > 2 else {}),
            **({} if several is None else _of_several(several)),
            "constants": posterior.constants,
        },
        "calibration": table.summary() if (table := contents.posterior.conformal_table) else None,
        "verdict": summary.verdict,
        "diagnostics": summary.to_json()
        | ({"recalibrated_by": by} if (by := summary.recalibrated_by) else {}),
        "warnings": posterior.warnings,
        "iterations": settings.iterations,
    }


def _of_several(several: Any) -> Json:
    """Return the settings that a model of several outcomes has besides."""
    families = {name: several[name].settings["family"] for name in several.outcomes}
    mixed = {*families.values()} > {"gaussian"}
    own = {name: [column.name for column in several[name].schema.columns] for name in several.outcomes}
    kinds = {column.name: column.kind for column in several.inputs}
    differ = {"features": own, "columns": kinds} if len({*map(tuple, own.values())}) > 1 else {}
    return {"outcomes": list(several.outcomes), **({"families": families} if mixed else {}), **differ}


def _forecaster(data: bytes, out: BinaryIO) -> Json:
    """Read the file of a forecaster as `model` does: a chain is a member; raises PackedError."""
    from sampler.host.forecasts import FORECAST_SETTINGS, read_untrusted  # noqa: PLC0415

    forecaster, settings = read_untrusted(data)
    history, header = forecaster.history, forecaster.header_bytes()
    models = [each.posterior.to_bytes() for each in forecaster.fitted]
    out.write(header)
    out.writelines(models)
    out.flush()
    summary = forecaster.summary()
    own = {name: forecaster.settings[name] for name in FORECAST_SETTINGS if name in forecaster.settings}
    return {
        "header": len(header),
        "chains": [[(settings.num_draws, len(each))] for each in models],
        "statistics": [],
        "target": history.target,
        "settings": settings.to_json()
        | own
        | {"moves": dict(settings.moves), "family": str(forecaster.settings.get("family", "gaussian"))}
        | {"features": [*history.known, *history.static], "columns": {}, "holdout": 0.0}
        | {"num_series": len(history.keys), **history.asked.to_json()},
        "calibration": None,
        "verdict": summary.verdict,
        "diagnostics": forecaster.described()
        | {"agreement": summary.text, "checksum": column_codec.checksum(header)},
        "warnings": [],
        "iterations": 2 * settings.num_chains * settings.iterations,
    }


TASKS = {"dataset": dataset, "rows": rows, "model": model}
