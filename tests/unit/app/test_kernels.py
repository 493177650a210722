"""Kernels in a container image: compiled for a baseline processor, copied to the cache folder."""

import os
import subprocess
import sys

import pytest

from app import cpu_baseline
from app.settings import Settings

FINGERPRINT = "from sampler.kernels import jit_cache; print(jit_cache.folder().name)"


@pytest.fixture
def _no_choice(monkeypatch):
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.setenv(name, "")  # so that monkeypatch restores it
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_no_choice")
def test_the_baseline_is_chosen_only_where_the_processor_has_it(monkeypatch):
    """The baseline's kernels are used on processors that support it; `native` always compiles its own."""
    monkeypatch.setattr(cpu_baseline.platform, "machine", lambda: "x86_64")
    needed = cpu_baseline.BASELINES["x86_64"].features
    baseline = Settings(kernels="baseline")

    monkeypatch.setattr(cpu_baseline, "host_features", lambda: needed - {"avx2"})
    assert cpu_baseline.choose(baseline) is None
    assert "NUMBA_CPU_NAME" not in os.environ

    monkeypatch.setattr(cpu_baseline, "host_features", lambda: needed | {"avx512f"})
    assert cpu_baseline.choose(Settings(kernels="native")) is None
    chosen = cpu_baseline.choose(baseline)
    assert chosen is not None
    assert os.environ["NUMBA_CPU_NAME"] == "x86-64-v3"
    assert "+avx2" in os.environ["NUMBA_CPU_FEATURES"]
    assert "avx512" not in os.environ["NUMBA_CPU_FEATURES"]


@pytest.mark.slow
def test_kernels_of_a_baseline_have_a_folder_of_their_own(tmp_path):
    """Baseline kernels are found on any machine, and not mixed with native ones."""

    def folder(**environment: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", FINGERPRINT],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)} | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    assert folder() != folder(NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="+avx2")


def test_seeded_kernels_are_copied_once_with_their_times(tmp_path, monkeypatch):
    """The image's kernels are copied into the cache folder with their times; existing files stay."""
    seed = tmp_path / "seed"
    (seed / "kernels-1").mkdir(parents=True)
    (seed / "kernels-1" / "code.nbc").write_bytes(b"code")
    os.utime(seed / "kernels-1" / "code.nbc", (1.7e9, 1.7e9))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = Settings(kernels_seed=seed)

    (copied,) = cpu_baseline.seed(settings)

    assert copied == tmp_path / "cache" / "bartserve" / "kernels-1"
    assert (copied / "code.nbc").read_bytes() == b"code"
    assert (copied / "code.nbc").stat().st_mtime == 1.7e9
    assert copied.stat().st_mode & 0o077 == 0
    assert cpu_baseline.seed(settings) == []
    assert [path.name for path in copied.parent.iterdir()] == ["kernels-1"]
    assert cpu_baseline.seed(Settings(kernels_seed=tmp_path / "absent")) == []
