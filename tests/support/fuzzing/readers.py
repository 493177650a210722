"""Coverage-guided fuzzing of every reader of files.

    python -m tests.support.fuzzing.readers [--inputs 100000] [--seed 0] [--reader csv parquet ...]

Inputs are mutated from a corpus; an input with a new line-to-line step joins it. Each must be read as a table
or refused; any other result is printed with the input, and the command fails. The readers run in forks with
limited memory, as in the service; one that ends by a signal, or takes too long, has failed. Model files are
mutated by `tests.support.fuzzing.model_files`, which knows their format, those of each kind of model by
themselves ("model poisson+exposure"); an accepted one must answer all questions, or refuse them.
"""

import argparse
import gzip
import io
import os
import pickle
import random
import signal
import struct
import sys
import traceback
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from app.services.errors import ServiceError
from app.services.readers import table as tables
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.process.forkserver import confine
from app.services.readers.process.tasks import dataset
from sampler.posterior import untrusted
from tests.support import workbooks
from tests.support.fuzzing import model_files as fuzz_models
from tests.support.models import kinds

LIMITS = ReaderLimits(bytes=1 << 22, cells=1 << 18)
BATCH = 200  # inputs per fork
MEMORY, SECONDS = 512 << 20, 60  # seconds of processor time for one input
ROWS = pa.table(
    {
        "x": [1.5, None, -3.0],
        "town": ["a", "b", None],
        "day": pa.array([0, 1, None], pa.timestamp("us")),
        "ok": [True, None, False],
    }
)
WORDS = [
    b",",
    b";",
    b"\t",
    b'"',
    b"'",
    b"\n",
    b"\r",
    b"\\",
    b"NA",
    b"1,5",
    b"1.234",
    b"1e999",
    b"inf",
    b"\xff",
]
WORDS += [
    b"\xef\xbb\xbf",
    b"\xe9",
    b"31/12/2026",
    b"2026-01-31",
    b"sep=;\n",
    b"# ",
    b" ",
    b"\0",
    b"PAR1",
    b"true",
]


def _columnar(write) -> bytes:
    sink = io.BytesIO()
    write(ROWS, sink)
    return sink.getvalue()


def _stream(table: pa.Table, sink: io.BytesIO, compression: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)


CSV = [
    b"a,b,c\n1,x,2026-01-31\n2,y,\n",
    b"a;b\r\n1,5;NA\r\n2,25;none\r\n",
    b'"a"\t"b"\n"1"\t"x ""q"""\n',
    b"sep=;\na;b\n1.234,5;31/12/2026\n",
    b"# made by hand\na b\n1 2\n3 4\n",
    '"a" "b"\n"r1" 1 "é"\n'.encode(),
    "a,b\ncafé,1\n".encode("cp1252"),
    ",a,b\n0,1,2\n1,2,3\n".encode("utf-16"),
    b"'a','b'\n'x,y','1'\n",
    b'a,b\n"say \\"hi\\"",1\n',
]


@dataclass(frozen=True)
class Reader:
    """A reader to fuzz: first inputs, their mutation, the reading function, and the folder to trace."""

    seeds: Callable[[], list[bytes]]
    mutated: Callable[[list[bytes], random.Random], bytes]
    read: Callable[[bytes], object]
    folder: str


def mutated(corpus: list[bytes], dice: random.Random) -> bytes:
    """Return one of the corpus with a few changes."""
    data = bytearray(dice.choice(corpus))
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << dice.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
        elif kind == 2:
            data[at:at] = dice.choice(WORDS)
        elif kind == 3:
            del data[at : at + dice.choice([1, 4, 64])]
        elif kind == 4:
            data[at:at] = data[at : at + dice.choice([1, 8, 64])] * dice.choice([1, 2, 50])
        else:
            other = dice.choice(corpus)
            data[at:] = other[dice.randrange(len(other) + 1) :]
    return bytes(data[: 1 << 16])


def _read_table(data: bytes) -> None:
    dataset(
        io.BytesIO(data),
        io.BytesIO(),
        {"options": Options().to_json(), "limits": LIMITS.to_json(), "block_rows": 1000},
    )


def _of_tables(seeds: Callable[[], list[bytes]]) -> Reader:
    return Reader(seeds, mutated, _read_table, str(Path(tables.__file__).parent))


def _of_archive(corpus: list[bytes], dice: random.Random) -> bytes:
    """Return a workbook one of whose files is changed, or changed itself."""
    if dice.randrange(4) == 0:
        return mutated(corpus, dice)
    try:
        with zipfile.ZipFile(io.BytesIO(dice.choice(corpus))) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError, struct.error):
        return mutated(corpus, dice)
    changed = dice.choice([*files])
    files[changed] = mutated([files[changed]], dice)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return sink.getvalue()


def _workbooks() -> list[bytes]:
    rows = [
        ["Sales", None, None],
        ["town", "day", "x"],
        ["é", datetime.fromisoformat("2026-01-05"), 1.5],
        ["b", None, True],
    ]
    return [workbooks.xlsx({"A": rows}, ((0, 0, 0, 2), (2, 0, 3, 0))), workbooks.ods({"A": rows, "B": rows})]


READERS = {
    "csv": _of_tables(lambda: CSV),
    "gzip": _of_tables(lambda: [gzip.compress(text) for text in CSV]),
    "workbook": Reader(_workbooks, _of_archive, _read_table, str(Path(tables.__file__).parent)),
    "json": _of_tables(
        lambda: [b'[{"a": 1, "b": "x"}, {"a": null, "b": "007"}]', b'{"a": 1.5, "b": true}\n{"b": false}\n']
    ),
    "parquet": _of_tables(
        lambda: [
            _columnar(pq.write_table),
            _columnar(lambda t, s: pq.write_table(t, s, compression="none")),
        ]
    ),
    "arrow": _of_tables(
        lambda: [
            _columnar(_stream),
            _columnar(lambda t, s: _stream(t, s, "zstd")),
            _columnar(feather.write_feather),
            _columnar(lambda t, s: feather.write_feather(t, s, compression="uncompressed")),
        ]
    ),
    "model": Reader(
        fuzz_models.seeds, fuzz_models.mutated, fuzz_models.read, str(Path(untrusted.__file__).parent)
    ),
    **{
        f"model {name}": Reader(
            partial(fuzz_models.seed_of, name),
            fuzz_models.mutated,
            partial(fuzz_models.read, name=name),
            str(Path(untrusted.__file__).parent),
        )
        for name in kinds.KINDS
    },
}


def reached(reader: Reader, data: bytes) -> tuple[frozenset, str | None]:
    """Return the line-to-line steps that reading takes, and the error."""
    steps: set[tuple[str, int, int]] = set()
    before: dict[object, int] = {}

    def trace(frame, event, _argument):
        if not frame.f_code.co_filename.startswith(reader.folder):
            return None
        if event == "line":
            steps.add((frame.f_code.co_name, before.get(frame, 0), frame.f_lineno))
            before[frame] = frame.f_lineno
        return trace

    sys.settrace(trace)
    try:
        reader.read(data)
    except (ServiceError, MemoryError, pa.ArrowMemoryError):
        return frozenset(steps), None
    except BaseException:  # noqa: BLE001  any error is reported
        return frozenset(steps), traceback.format_exc()
    finally:
        sys.settrace(None)
    return frozenset(steps), None


def _batch(reader: Reader, inputs: list[bytes], seen: set) -> list[tuple[int, frozenset, str | None]]:
    """Return the new or wrong results of some inputs, run in a fork; a signal ends it and is one of them."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as out:
            confine(MEMORY, SECONDS * len(inputs))
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, data in enumerate(inputs):
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                pickle.dump(number, out)
                out.flush()
                steps, wrong = reached(reader, data)
                if wrong or not steps <= seen:
                    seen |= steps
                    pickle.dump((number, steps, wrong), out)
            pickle.dump(len(inputs), out)
        os._exit(0)
    os.close(write)
    outcomes, last = [], 0
    with os.fdopen(read, "rb") as results:
        while True:
            try:
                found = pickle.load(results)
            except (EOFError, pickle.UnpicklingError):
                break
            if isinstance(found, int):
                last = found
            else:
                outcomes.append(found)
    _, status = os.waitpid(child, 0)
    if status != 0 or last < len(inputs):
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
        outcomes.append((last, frozenset(), f"the reader ended by {name}"))
    return outcomes


def fuzz(name: str, inputs: int, seed: int, batch: int = BATCH) -> int:
    """Feed a reader, `batch` inputs per fork, and return the number of failures."""
    dice, reader = random.Random(f"{name} {seed}"), READERS[name]
    corpus, seen, wrong = list(reader.seeds()), set(), 0
    fed: list[bytes] = list(corpus)
    for _ in range(0, inputs, batch):
        for number, steps, fault in _batch(reader, fed, seen):
            if fault:
                wrong += 1
                print(f"{name}: {fed[number]!r}\n{fault}")
            elif not steps <= seen:
                corpus.append(fed[number])
                seen |= steps
        fed = [reader.mutated(corpus, dice) for _ in range(batch)]
    print(f"{name}: {inputs} inputs, {len(corpus)} in the corpus, {len(seen)} steps, {wrong} wrong")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", nargs="*", default=[name for name in READERS if " " not in name])
    chosen = parser.parse_args()
    sys.exit(sum(fuzz(reader, chosen.inputs, chosen.seed) for reader in chosen.reader) > 0)


if __name__ == "__main__":
    main()
