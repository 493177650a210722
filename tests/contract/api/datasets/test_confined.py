"""Files that exhaust their reader's memory or time, or kill it, are refused while others are served."""

import gzip
import io
import json
import os
import resource
import signal
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.services.errors import ServiceError, UnusableDataError
from app.services.readers.columnar import CELL_SECONDS, READ_SECONDS, _parquet
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.process.confined import Readers, readers
from app.services.readers.process.forkserver import confine
from sampler import interrupt
from tests.support.api_calls import CSV, places, post_csv, problem, table
from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.waiting import eventually

PARQUET = {"Content-Type": "application/vnd.apache.parquet"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def parquet_bomb(rows: int, columns: int) -> bytes:
    """Return constant columns in groups of a million rows: kilobytes that decode to rows x columns x 8."""
    sink = io.BytesIO()
    group = pa.table({f"x{j}": np.zeros(1_000_000) for j in range(columns)})
    with pq.ParquetWriter(sink, group.schema, compression="zstd") as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(group)
    return sink.getvalue()


def arrow_bomb() -> bytes:
    """Return a text of 9,000 characters that a dictionary repeats a million times."""
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int8)), ["x" * 9_000])
    batch = pa.record_batch([values, pa.array(np.zeros(1_000_000))], names=["a", "y"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def wide(columns: int) -> bytes:
    header = ",".join(f"c{number}" for number in range(columns))
    return f"{header}\n{','.join(['1'] * columns)}\n".encode()


BOMBS = {
    "a Parquet file of kilobytes, 1.44 GB decoded": (lambda: parquet_bomb(60_000_000, 3), PARQUET, {413}),
    "texts repeated by a dictionary": (arrow_bomb, ARROW, {413, 422}),
    "gzip of nothing but zeros": (lambda: gzip.compress(bytes(100 << 20)), CSV, {413}),
    "a header of too many columns": (lambda: wide(10_001), CSV, {422}),
    "a name of a megabyte": (lambda: b"a," + b"b" * (1 << 20) + b"\n1,2\n", CSV, {422}),
    "Parquet with a forged length": (
        lambda: b"PAR1" + b"\x15" * 200 + b"\xff\xff\xff\x7fPAR1",
        PARQUET,
        {422},
    ),
    "Arrow with a forged length": (lambda: b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(200), ARROW, {422}),
}


@pytest.mark.parametrize("case", BOMBS)
@only("sqlite")
def test_bombs_are_refused(client, case):
    """A decompression bomb gets a problem document with advice, and the next upload works."""
    make, headers, statuses = BOMBS[case]
    content = make()
    assert len(content) < 2_000_000

    response = client.post("/datasets", content=content, headers=headers, timeout=240)

    assert response.status_code in statuses, response.text
    problem(response, response.status_code)
    assert post_csv(client, table()).status_code == 201


@only("sqlite")
def test_the_service_answers_while_bombs_are_read(client):
    """While several bombs are read, other requests are answered and the API's memory doesn't grow."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    content = arrow_bomb()
    before = resident()
    statuses = []

    def send() -> None:
        response = plain_http.post(f"{client.base_url}/datasets", content=content, headers=ARROW, timeout=240)
        statuses.append(response.status_code)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    answers = 0
    while any(thread.is_alive() for thread in threads):
        assert client.get("/health/live", timeout=240).status_code == 200
        answers += 1
    for thread in threads:
        thread.join()

    assert answers > 0
    assert set(statuses) <= {413, 422, 503}
    assert resident() - before < 300 << 20


def run(content: bytes, limits: ReaderLimits, using: Readers = readers) -> dict:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        task = {"options": Options().to_json(), "block_rows": 1000}
        figures, out = using.run("dataset", file, limits, task)
        out.close()
        return figures


def test_a_reader_that_takes_too_much_memory_is_refused():
    """The kernel enforces the memory limit, and the error gives advice."""
    rows = pa.table({"x": np.random.default_rng(0).normal(size=4_000_000), "y": np.zeros(4_000_000)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)

    with pytest.raises(UnusableDataError, match="too much memory or time"):
        run(sink.getvalue(), ReaderLimits(memory=8 << 20))


def test_larger_uploads_may_take_more():
    """Twice the usual bytes may take twice the cells, memory and time; fewer bytes take no less of these."""
    usual = ReaderLimits()
    twice = ReaderLimits.of_uploads(2 * usual.bytes)
    assert (twice.bytes, twice.cells) == (2 * usual.bytes, 2 * usual.cells)
    assert (twice.memory, twice.seconds) == (2 * usual.memory, 2 * usual.seconds)
    assert ReaderLimits.of_uploads(1 << 20) == replace(usual, bytes=1 << 20)


def test_many_columns_take_no_more_room_than_their_cells():
    """Thousands of small columns are read in little memory, though Arrow reserves a block for each."""
    names = ",".join(f"c{number}" for number in range(1500))
    content = "\n".join(
        [names, *[",".join(str(row % 97) for _ in range(1500)) for row in range(80)]]
    ).encode()

    assert len(run(content, ReaderLimits(memory=256 << 20))["columns"]) == 1500


def test_a_reader_that_takes_too_long_is_refused():
    """The kernel ends a reader that exceeds its processor time."""
    content = b"a,b,c,d\n" + b"1.5,2.5,x,'y'\n" * 3_000_000

    with pytest.raises(UnusableDataError, match="too much memory or time"):
        run(content, ReaderLimits(seconds=1))


def test_the_fork_server_of_readers_restarts():
    """The fork server of readers restarts after a kill."""
    own = Readers()
    try:
        assert run(b"a,b\n1,2\n", ReaderLimits(), own)["num_rows"] == 1
        os.kill(own.pid, signal.SIGKILL)
        os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
        assert run(b"a,b\n1,2\n", ReaderLimits(), own)["num_rows"] == 1
    finally:
        own.close()


def test_few_are_read_at_once(monkeypatch):
    """A file beyond all places and the line gets a 503 with Retry-After."""
    monkeypatch.setattr("app.services.readers.process.confined.MAX_WAITING", 0)
    own = Readers(at_once=1)
    with own.places.place(1.0), pytest.raises(ServiceError) as caught:
        run(b"a,b\n1,2\n", ReaderLimits(), own)
    assert (caught.value.status, caught.value.retry_after is not None) == (503, True)
    own.close()


def test_a_bug_in_a_reader_is_logged_and_not_a_500(caplog):
    """A bug in a reader is a refusal for the sender and a traceback in the log."""
    with tempfile.TemporaryFile() as file, pytest.raises(UnusableDataError, match="logged"):
        readers.run("dataset", file, ReaderLimits(), {"options": {}, "block_rows": 1000})
    assert "Traceback" in caplog.text


@only("sqlite")
def test_gzip_by_its_header_or_by_its_first_bytes(client):
    """A body may be gzipped by transfer, as a file, or both; any other coding is a 415."""
    packed = gzip.compress(table().encode())
    plain = post_csv(client, table()).json()
    for content, headers in [
        (packed, CSV),
        (packed, {**CSV, "Content-Encoding": "gzip"}),
        (gzip.compress(packed), {**CSV, "Content-Encoding": "gzip"}),
        (packed, {"Content-Type": "application/gzip"}),
        (packed, {"Content-Type": "application/octet-stream"}),
    ]:
        response = client.post("/datasets", content=content, headers=headers)
        assert response.status_code == 201, response.text
        assert response.json()["columns"] == plain["columns"]
        assert response.json()["read_as"]["compression"] == "gzip"
    form = client.post("/datasets", files={"file": ("cars.csv.gz", packed)})
    assert form.json()["columns"] == plain["columns"]
    body = problem(client.post("/datasets", content=packed, headers={**CSV, "Content-Encoding": "br"}), 415)
    assert "gzip" in body["detail"]


def columnar() -> dict[str, tuple[bytes, dict[str, str]]]:
    rows = pa.table(
        {
            "n": pa.array([1, None, 3], pa.int32()),
            "x": pa.array([0.5, float("nan"), 2.5], pa.float32()),
            "town": pa.array(["a", "b", None]).dictionary_encode(),
            "day": pa.array(["2026-01-31", None, "9999-12-31"]).cast(pa.timestamp("us")).cast(pa.date32()),
            "ok": [True, False, None],
        }
    )
    stream, file, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    with pa.ipc.new_file(file, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    pq.write_table(rows, parquet)
    return {
        "arrow stream": (stream.getvalue(), ARROW),
        "arrow file": (file.getvalue(), {"Content-Type": "application/vnd.apache.arrow.file"}),
        "parquet": (parquet.getvalue(), PARQUET),
        "told by its first bytes": (parquet.getvalue(), {"Content-Type": "application/octet-stream"}),
        "compressed once more": (gzip.compress(parquet.getvalue()), PARQUET),
    }


@pytest.mark.parametrize("case", columnar())
@only("sqlite")
def test_columnar_files_become_datasets(client, case):
    """Parquet and Arrow files and streams may hold integers, narrow floats, categories, dates, booleans."""
    content, headers = columnar()[case]

    response = client.post("/datasets", content=content, headers=headers)

    assert response.status_code == 201, response.text
    assert [column["kind"] for column in response.json()["columns"]] == [
        *("number", "number", "category", "date", "boolean")
    ]
    assert [column["missing"] for column in response.json()["columns"]] == [1, 1, 1, 1, 1]
    rows = client.get(f"{response.headers['location']}/preview").json()["rows"]
    assert rows[0] == {"n": 1.0, "x": 0.5, "town": "a", "day": "2026-01-31", "ok": True}
    assert rows[2]["day"] == "9999-12-31"


@only("sqlite")
def test_columnar_files_that_cannot_be_used_are_refused_with_their_place(client):
    """Infinite values are reported by name and row, and so are types where no other column is; no Parquet."""

    def send(columns) -> dict:
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink)
        return problem(client.post("/datasets", content=sink.getvalue(), headers=PARQUET), 422)

    assert places(send({"a": [[1.0]], "b": [b"1"]})) == [("a", None), ("b", None)]
    assert places(send({"a": [1.0, float("inf")], "b": [1.0, 2.0]})) == [("a", 2)]
    assert places(send({"a\n": [1.0], "b": [1.0]})) == [(None, None)]
    body = problem(client.post("/datasets", content=b"a,b\n1,2\n", headers=PARQUET), 422)
    assert "not a Parquet file" in body["detail"]


@only("sqlite")
def test_dialect_and_kinds_can_be_given(client):
    """Dialect, spellings of missing values and kinds of columns can be given; typos are refused."""
    text = "zip;ja;preis;tag\n02134;ja;1.234;1/2/2026\n-9;nein;2;3/4/2026\n"
    options = {
        "separator": "semicolon",
        "decimal": "comma",
        "dates": "day-first",
        "missing": "-9",
        "kind": ["zip:category", "ja:text"],
    }
    options["encoding"] = "utf-16"
    response = client.post("/datasets", content=text.encode("utf-16"), headers=CSV, params=options)

    assert response.status_code == 201, response.text
    rows = client.get(f"{response.headers['location']}/preview").json()["rows"]
    assert rows[0] == {"zip": "02134", "ja": "ja", "preis": 1234.0, "tag": "2026-02-01"}
    assert rows[1] == {"zip": None, "ja": "nein", "preis": 2.0, "tag": "2026-04-03"}
    summary = response.json()["read_as"]["summary"]
    assert summary.startswith("read as: semicolons, UTF-16, decimal commas, 4 columns")
    for wrong, field in [
        ({"separator": "dot"}, "separator"),
        ({"seperator": "comma"}, "seperator"),
        ({"encoding": "klingon"}, "encoding"),
        ({"kind": "zip"}, "kind"),
        ({"kind": "zap:number"}, "zap"),
    ]:
        body = problem(client.post("/datasets", content=text, headers=CSV, params=wrong), 422)
        assert body["errors"][0]["column"] == field, json.dumps(body)
    body = problem(client.post("/datasets", content=text, headers=CSV, params={"kind": "ja:number"}), 422)
    assert places(body) == [("ja", 1), ("ja", 2)]


def open_full(mode):
    return Path("/dev/full").open(mode, 0)


@pytest.mark.parametrize("place", ["the upload", "the reader"])
@only("sqlite")
def test_a_full_disk_is_not_the_sender_s_fault(client, monkeypatch, place):
    """A full disk is a 503 with Retry-After, at whichever step it occurs."""
    if place == "the upload":
        monkeypatch.setattr("app.web.uploads.TemporaryFile", lambda: open_full("wb"))
    else:
        full = "app.services.readers.process.confined.TemporaryFile"
        monkeypatch.setattr(full, lambda: open_full("r+b"))

    response = client.post("/datasets", content=b"a,b\n" + b"1,2\n" * 10_000, headers=CSV)

    assert problem(response, 503, "busy")
    assert int(response.headers["retry-after"]) > 0


def test_the_time_of_a_parquet_file_is_bounded_by_its_cells():
    """However many pages hold them: a confined process gets seconds, and a fraction of one for its cells."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": np.zeros(50_000), "y": np.zeros(50_000)}), sink)
    child = os.fork()
    if child == 0:
        confine(1 << 30, 120)
        _parquet(sink, ReaderLimits())
        soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
        os._exit(0 if soft - time.process_time() < READ_SECONDS + CELL_SECONDS * 100_000 + 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
def test_a_reader_ends_with_its_client():
    """When nobody waits for the answer any more, the process that reads ends in mid-work."""
    own, began = Readers(1), threading.Event()
    own.start()
    flag = interrupt.StopFlag()
    errors = []

    def read() -> None:
        with tempfile.TemporaryFile() as file, interrupt.by(flag):
            file.write(b"a,b,c,d\n" + b"1.5,2.5,x,'y'\n" * 3_000_000)
            file.seek(0)
            began.set()
            try:
                own.run("dataset", file, ReaderLimits(), {"options": Options().to_json(), "block_rows": 1000})
            except interrupt.InterruptedWorkError as error:
                errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    began.wait()
    eventually(lambda: children_of(own.pid))
    flag.set()
    thread.join(20)
    assert errors
    eventually(lambda: not children_of(own.pid))
    own.close()


def test_readers_inherit_no_secrets(monkeypatch):
    """The processes that read strangers' files have no address of the database or broker."""
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", "postgresql://user:word@host/base")
    monkeypatch.setenv("PGPASSWORD", "word")
    own = Readers(1)
    own.start()
    environment = eventually(Path(f"/proc/{own.pid}/environ").read_bytes)  # empty until it is another program
    own.close()
    assert b"PATH=" in environment
    assert b"word" not in environment


def children_of(pid: int | None) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if Path(f"/proc/{child}/stat").read_text().split()[2] != "Z"]
