"""Uploads of one owner leave temporary disk and memory to others (raw sockets, a small disk)."""

import contextlib
import errno
import gzip
import os
import random
import re
import tempfile

import pytest

from app.services.errors import BusyError
from app.services.readers.options import Options, ReaderLimits
from app.services.readers.process.confined import Readers
from app.services.readers.scratch import Scratch, free_bytes
from app.services.request_context import Actor, OwnerLimits, acting
from tests.contract.api.operation.test_slow import listening, read_to_end, talking
from tests.support.api_calls import bearer, make_key, post_csv, table
from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.processes.small_disk import small_disk
from tests.support.waiting import eventually

MIB = 1 << 20
CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Make temporary files on a disk of 64 MiB."""
    place = tmp_path / "disk"
    with small_disk(place, 64 * MIB):
        monkeypatch.setenv("TMPDIR", str(place))
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        yield place


@pytest.fixture
def team_settings(settings):
    """Return the settings of a service that asks for keys, and is patient."""
    patient = {
        "host": "0.0.0.0",
        "body_seconds": 1000.0,
        "body_memory_bytes": 64 * MIB,
        "max_body_bytes": 512 * MIB,
    }
    return settings.model_copy(update=patient)


def header(key: dict[str, str], path: str, kind: str, length: int) -> bytes:
    sent = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
    return f"{sent}Authorization: {key['Authorization']}\r\n\r\n".encode()


@only("sqlite")
def test_stalled_uploads_leave_the_disk_to_others(team_settings, database, disk):
    """An owner's stalled files hold half of the disk at most, others' files are read, and room comes back."""
    ann, bob = (bearer(make_key(database, name)) for name in ("ann", "bob"))
    whole = free_bytes()
    with serving(team_settings) as address, contextlib.ExitStack() as stack:
        place = listening(address)
        large = header(ann, "/datasets", "text/csv", 30 * MIB)
        held = stack.enter_context(talking(place, large + b"x,y\n" + b"1,2\n" * (7 * MIB)))
        eventually(lambda: free_bytes() < whole - 26 * MIB)
        with talking(place, large) as second:
            refusal_of_quota(read_to_end(second))
        undeclared = large.replace(b"Content-Length: %d" % (30 * MIB), b"Transfer-Encoding: chunked")
        with talking(place, undeclared + b"%x\r\n" % (30 * MIB)) as third:
            with contextlib.suppress(OSError):
                third.sendall(b"1,2\n" * (7 * MIB))
            refusal_of_quota(read_to_end(third))
        assert whole - free_bytes() <= whole // 2
        with plain_http.Client(base_url=address, timeout=60, headers=bob) as client:
            assert post_csv(client, b"x,y\n" + b"1,2\n" * (2 * MIB)).status_code == 201
            assert client.post("/datasets", content=bytes(25 * MIB), headers=CSV).status_code == 503
        held.close()
        with plain_http.Client(base_url=address, timeout=60, headers=ann) as client:
            eventually(lambda: post_csv(client, table(10)).status_code == 201)
            assert free_bytes() > whole - 2 * MIB


def refusal_of_quota(reply: bytes) -> None:
    assert reply.startswith(b"HTTP/1.1 429 "), reply
    assert b"/problems/quota" in reply
    assert b"of the temporary disk" in reply


@only("sqlite")
def test_stalled_bodies_leave_the_memory_to_others(team_settings, database):
    """An owner's stalled bodies hold half of the room in memory at most, and others' are read."""
    ann, bob = (bearer(make_key(database, name)) for name in ("ann", "bob"))
    with serving(team_settings) as address, contextlib.ExitStack() as stack:
        place = listening(address)
        head = header(ann, "/models/mdl_1/predict", "application/json", 16 * MIB)
        for _ in range(2):
            stack.enter_context(talking(place, head + b" " * (16 * MIB - 1)))

        def third() -> bytes:
            with talking(place, head) as connection:
                connection.settimeout(1)
                with contextlib.suppress(TimeoutError):
                    return connection.recv(65536)
                return b""

        eventually(lambda: b"/problems/quota" in third())
        with plain_http.Client(base_url=address, timeout=60, headers=bob) as client:
            body = b'{"rows": [' + b" " * (15 * MIB) + b'{"x": 1}]}'
            sent = client.post(
                "/models/mdl_1/predict", content=body, headers={"Content-Type": "application/json"}
            )
            assert sent.status_code == 404


def test_readers_leave_a_part_of_the_disk(disk):
    """A reader leaves a fourth of the disk free where other owners use it too."""
    cells = random.Random(0).randbytes(MIB // 2).hex().encode()
    rows = re.sub(rb"(.{7})(.{8})", rb"\1,\2\n", cells)
    packed = gzip.compress(b"x,y\n" + rows * 30, 1)
    own = Readers(1)
    task = {"options": Options().to_json(), "block_rows": 1000}
    with tempfile.TemporaryFile() as file, acting(Actor("key", "ann", limits=OwnerLimits(shared=True))):
        file.write(packed)
        with contextlib.closing(own), pytest.raises(BusyError, match="no room"):
            own.run("dataset", file, ReaderLimits(), task)
    with Scratch(leave=free_bytes() // 4) as scratch:
        file = scratch.file()
        for _ in range(47):
            file.write(bytes(MIB))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file.write(bytes(2 * MIB))
        assert free_bytes() >= 16 * MIB
