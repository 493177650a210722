"""Choice of the processor that kernels are compiled for, made before numba is loaded.

A container image contains kernels compiled for a baseline that nearly every server supports. If the processor
supports it, they are used at once; if not, or if `kernels` is `native`, kernels are compiled for this very
processor, once, into the cache folder.
"""

import contextlib
import os
import platform
import shutil
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from app.settings import Settings


class Baseline(NamedTuple):
    """A processor in LLVM's terms: its name and required features."""

    name: str
    features: frozenset[str]

    @property
    def flags(self) -> str:
        """The features as LLVM's flags."""
        return ",".join(f"+{feature}" for feature in sorted(self.features))


# Servers have supported x86-64-v3 since about 2015; AVX-512 and the like are left to native kernels.
V3 = (
    "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt "
    "sse sse2 sse3 ssse3 sse4.1 sse4.2 xsave"
)
BASELINES = {
    "x86_64": Baseline("x86-64-v3", frozenset(V3.split())),
    "aarch64": Baseline("generic", frozenset({"neon", "fp-armv8"})),
}


def choose(settings: Settings) -> Baseline | None:
    """Configure this process and its children for the kernels of the settings; None for native ones."""
    baseline = BASELINES.get(platform.machine())
    if settings.kernels == "native" or baseline is None or not baseline.features <= host_features():
        return None
    os.environ["NUMBA_CPU_NAME"] = baseline.name
    os.environ["NUMBA_CPU_FEATURES"] = baseline.flags
    return baseline


def host_features() -> AbstractSet[str]:
    """Return this processor's features under LLVM's names."""
    import llvmlite.binding as llvm  # noqa: PLC0415  needed only here; doesn't load numba

    return {name for name, has in llvm.get_host_cpu_features().items() if has}


def seed(settings: Settings) -> list[Path]:
    """Copy the kernels of the image to the cache folder, unless they are there; return the new folders.

    The root of a container is read-only, and kernels are only loaded from a folder that belongs to the user.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bartserve"
    if settings.kernels_seed is None or not settings.kernels_seed.is_dir():
        return []
    seeded = []
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in sorted(settings.kernels_seed.glob("kernels-*")):
        if not (cache / folder.name).exists():
            partial = cache / f".{folder.name}.{os.getpid()}"
            shutil.copytree(folder, partial)  # keeps modification times, which numba compares
            partial.chmod(0o700)
            with contextlib.suppress(OSError):  # another process was first
                partial.rename(cache / folder.name)
                seeded.append(cache / folder.name)
            shutil.rmtree(partial, ignore_errors=True)
    return seeded
