"""Which processor the compiled kernels are for, decided before numba is loaded.

A container image carries kernels compiled for a baseline that nearly every server has. Where the processor
has it they are used at once; where it has not, or where `kernels` says native, they are compiled for this
very processor, once, into the cache folder.
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
    """A processor as LLVM names it, and what it must have."""

    name: str
    features: frozenset[str]

    @property
    def flags(self) -> str:
        """As LLVM takes them."""
        return ",".join(f"+{feature}" for feature in sorted(self.features))


# x86-64-v3 is what servers have had since about 2015; more (AVX-512) is left to native kernels.
V3 = (
    "avx avx2 bmi bmi2 cmov cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt "
    "sse sse2 sse3 ssse3 sse4.1 sse4.2 xsave"
)
BASELINES = {
    "x86_64": Baseline("x86-64-v3", frozenset(V3.split())),
    "aarch64": Baseline("generic", frozenset({"neon", "fp-armv8"})),
}


def choose(settings: Settings) -> Baseline | None:
    """Set up this process, and its children, for the kernels of the settings; None: native ones."""
    baseline = BASELINES.get(platform.machine())
    if settings.kernels == "native" or baseline is None or not baseline.features <= host_features():
        return None
    os.environ["NUMBA_CPU_NAME"] = baseline.name
    os.environ["NUMBA_CPU_FEATURES"] = baseline.flags
    return baseline


def host_features() -> AbstractSet[str]:
    """What this processor has, as LLVM names it."""
    import llvmlite.binding as llvm  # noqa: PLC0415  only here; it is not numba

    return {name for name, has in llvm.get_host_cpu_features().items() if has}


def seed(settings: Settings) -> list[Path]:
    """Copy the kernels that came with the image to where they are looked for, unless they are there.

    The root of a container is read-only, and kernels are only loaded from a folder of one's own.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bartserve"
    if settings.kernels_seed is None or not settings.kernels_seed.is_dir():
        return []
    made = []
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in sorted(settings.kernels_seed.glob("kernels-*")):
        if not (cache / folder.name).exists():
            partial = cache / f".{folder.name}.{os.getpid()}"
            shutil.copytree(folder, partial)  # with its times, which numba compares
            partial.chmod(0o700)
            with contextlib.suppress(OSError):  # another process was quicker
                partial.rename(cache / folder.name)
                made.append(cache / folder.name)
            shutil.rmtree(partial, ignore_errors=True)
    return made
