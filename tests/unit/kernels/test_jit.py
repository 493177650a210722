"""A cold start compiles only the needed kernels, reports progress, and stops on request."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sampler
from sampler import Settings, is_warm, warm
from sampler.kernels.groups import GROUPS, MOVES
from sampler.kernels.jit import _groups, _helper_code
from sampler.kernels.rows import shifted
from sampler.moves import MOVE_NAMES

SHOW = """
from sampler import is_warm, prepare, warm
from sampler.posterior.charts.fit_progress import progress_bars

def show(group, tell):
    training = prepare({"x": [*range(20)]}, [*range(20)], family="gaussian", num_chains=1).training
    with progress_bars(training, shown=True, cold=True) as (compiling, compiled, _):
        compiled(warm(group, lambda *done: (tell(*done), compiling(*done))))

"""
COLD = f"""{SHOW}
from sampler.kernels.jit_cache import is_complete
from sampler.kernels.groups import GROUPS

class Enough(Exception): pass

def stop(done, total):
    told.append((done, total))
    if done == 2: raise Enough

told = []
assert not is_warm("prediction")
try:
    warm("prediction", stop)
except Enough:
    pass
else:
    raise SystemExit("what progress raises must come through")
assert not is_warm("prediction")
told.clear()
show("prediction", lambda done, total: told.append((done, total)))
assert [done for done, _ in told] == sorted(done for done, _ in told) or told[-1][0] == told[-1][1]
assert told[-1][0] == told[-1][1] == told[0][1] > 5
print(",".join(name for name in GROUPS if is_complete(name)))
"""


WRITTEN_ANEW = f"""{SHOW}
from sampler.kernels.jit import _groups, _kernels

assert is_warm("prediction"), "another folder"
show("prediction", lambda done, total: None)
entries = [entry for name in _groups("prediction") for entry in _kernels(name)]
loaded = {{entry.inner for entry in entries if entry.compiled}}
assert loaded == {{False}}, "kernels that Python doesn't call were loaded"
"""


def test_python_calls_entries_alone():
    """A kernel without a Python entry point refuses a call from Python, compiled or not."""
    with pytest.raises(TypeError, match="only kernels call the kernel 'shifted'"):
        shifted(8, 0)
    warm("base")
    with pytest.raises(TypeError, match="only kernels call the kernel 'shifted'"):
        shifted(8, 0)


@pytest.mark.slow
def test_a_cold_start_compiles_only_what_is_needed(tmp_path):
    """An exception from progress ends a cold start; the next one continues and compiles that group only.

    A notebook shows how long compiling took. Sources with new time stamps and equal contents (after a
    checkout or a rebase) are not compiled again, and nothing is shown.
    """
    copy, cache = tmp_path / "sampler", tmp_path / "cache"
    shutil.copytree(Path(sampler.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(tmp_path)}

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert ("compiled in" in done.stderr) == (code is COLD), done.stderr
        return done.stdout.strip(), {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}

    output, compiled = run(COLD)
    assert output == "tree-sums,intervals,draws,prediction"
    assert compiled
    for number, path in enumerate(copy.rglob("*.py")):
        os.utime(path, (1e9 + number, 1e9 + number))
    assert run(WRITTEN_ANEW)[1] == compiled


TOGETHER = """
from sampler import warm
waited = []
warm("prediction", lambda done, total: waited.append(done))
print(len(waited))
"""


@pytest.mark.slow
def test_two_cold_starts_at_once_both_end(tmp_path):
    """Two processes with cold caches at the same time both end with every kernel."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", TOGETHER]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in "12"
    ]
    for process in both:
        out, error = process.communicate()
        assert process.returncode == 0, error.decode()
        assert int(out) > 2


@pytest.mark.parametrize("moves", ["default", "growprune", "cgm", "growprunechange"])
def test_groups_of_a_fit(moves):
    """A fit needs the groups of its moves and their dependencies, each after its dependencies."""
    settings = Settings.resolve(moves=moves)
    groups = _groups(settings)
    assert len(set(groups)) == len(groups)
    for place, name in enumerate(groups):
        assert set(GROUPS[name].needs) <= set(groups[:place])
    assert {"bart", "prediction"} <= set(groups)
    assert not {"shapley", "heavy-tails", "count-quantiles", "soft-prediction", "weights"} & set(groups)
    unused = {MOVES[name].group for name in MOVE_NAMES if name in MOVES and name not in settings.moves}
    needed = {group for name in groups for group in GROUPS[name].needs}
    assert not (unused - needed - {MOVES[n].group for n in settings.moves if n in MOVES}) & set(groups)


def test_compiled_kernels_are_reported_as_present():
    """Kernels compiled in this session are reported as present, by settings and by name."""
    warm()
    assert is_warm()
    assert is_warm("prediction")
    assert is_warm(Settings.resolve(moves="cgm"))


def test_the_helper_of_a_cold_start_runs():
    """The module that a second interpreter runs is found from any folder."""
    subprocess.run(
        [sys.executable, "-c", _helper_code([])], check=True, cwd=Path(sampler.__file__).parents[1]
    )
