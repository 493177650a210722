"""A file system of a few megabytes, and a file that fills it."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOM = 96 << 20


@contextlib.contextmanager
def small_disk(place: Path, room: int = ROOM) -> Iterator[None]:
    """Mount a file system with little room."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system to fill")
    place.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(place: Path) -> Path:
    """Write a file that takes all remaining room."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:  # buffered data would fail again at close
        for size in (1 << 20, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return ballast
