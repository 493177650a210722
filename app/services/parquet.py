"""Parquet, read in a process of its own whose memory and time are limited.

A file of a megabyte may decode to gigabytes, and its metadata may be forged (784 KB gave 1.4 GB while they
declared 0.7 MB). So no process that serves others decodes it.
"""

import io
import subprocess
import sys

import pyarrow as pa

from app.services.errors import TooLargeError, UnusableDataError

MEMORY_BYTES = 2 << 30  # of address space, of which pyarrow's libraries take a good part
SECONDS = 20
ANSWER_BYTES = 256 << 20
TOO_MUCH = "The Parquet file takes too much memory or time to read: send fewer rows, or another format."

# The child reads the file from its standard input and writes an Arrow stream.
_CHILD = """
import io, resource, sys
most_rows, memory, seconds, answer = (int(word) for word in sys.argv[1:])
import pyarrow as pa, pyarrow.parquet as pq
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
pa.set_cpu_count(1); pa.set_io_thread_count(1)
try:
    file = pq.ParquetFile(io.BytesIO(sys.stdin.buffer.read()))
    if file.metadata.num_rows > most_rows:
        sys.stderr.write(f"rows {file.metadata.num_rows}"); sys.exit(3)
    batches, rows, size = [], 0, 0
    for batch in file.iter_batches(batch_size=1024, use_threads=False):
        rows += batch.num_rows; size += batch.nbytes
        if rows > most_rows or size > answer:
            sys.stderr.write("large"); sys.exit(3)
        batches.append(batch)
    schema = file.schema_arrow
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema.remove_metadata()) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(None))
    sys.stdout.buffer.write(sink.getbuffer())
except MemoryError:
    sys.exit(4)
except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
    sys.stderr.write((str(error).splitlines() or ["it is damaged"])[0][:200]); sys.exit(2)
"""


def read_parquet(body: bytes, max_rows: int) -> pa.Table:
    """The table of a Parquet file.

    Raises
    ------
    UnusableDataError
        It can't be read, or not within the limits.
    TooLargeError
        It has more than `max_rows`.
    """
    limits = [str(number) for number in (max_rows, MEMORY_BYTES, SECONDS, ANSWER_BYTES)]
    try:
        child = subprocess.run(  # noqa: S603  our own interpreter and program
            [sys.executable, "-I", "-c", _CHILD, *limits],
            input=body,
            capture_output=True,
            timeout=2 * SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnusableDataError(TOO_MUCH) from None
    said = child.stderr.decode("utf-8", "replace")
    if child.returncode == 3:
        raise TooLargeError(f"The file has more than the {max_rows} rows of one request, or long texts.")
    if child.returncode == 2:
        raise UnusableDataError(f"The body is no Parquet file that can be read: {said}.")
    if child.returncode != 0:
        raise UnusableDataError(TOO_MUCH)
    return pa.ipc.open_stream(io.BytesIO(child.stdout)).read_all()
