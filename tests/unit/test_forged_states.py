"""States of chains with any of their numbers changed, under right checksums, neither crash nor hang."""

import os
import random
import resource
import signal
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from sampler.bart.checkpoint import HEADER
from sampler.chains import resume_chain
from sampler.errors import PackedError, SamplerError
from sampler.storage.tree_checkpoint import HEAD
from tests.support import fit_digests

QUICK = ["bart-default-prior", "group-slopes", "classes-with-drawn-k", "bcart", "rjhmc-df"]
SECONDS = 60  # of processor, far more than all of a kind takes
WHOLE = [-1, 0, 1, 2, 7, 255, 1000, 100_000, 2**31 - 1, -(2**31)]
REAL = [float("nan"), float("inf"), -1e300, 1e300, 0.0, -1.0, 0.5, 1e-300]


def state_of(name: str) -> tuple:
    """Return what a kind of chain runs on, with some more draws to make, and its state."""
    posterior = fit_digests.fitted(name)
    training = posterior.origin.problem.training
    more = replace(training.settings, num_draws=training.settings.num_draws + 4)
    return replace(training, settings=more), posterior.origin.checkpoints[0]


def forged(state: bytes, dice: random.Random) -> bytes:
    """Change one to four places of a state, and seal it anew."""
    sums = state.startswith(b"BSC")
    head = HEADER if sums else HEAD
    fields, body = list(head.unpack_from(state)), bytearray(zlib.decompress(state[head.size :]))
    for _ in range(dice.choice([1, 1, 2, 4])):
        at, kind = 4 * dice.randrange(len(body) // 4), dice.randrange(5)
        if kind == 0:
            body[at] ^= 1 << dice.randrange(8)
        elif kind in (1, 2):
            body[at : at + 4] = struct.pack("<i", dice.choice(WHOLE))
        elif kind == 3:
            body[at : at + 8] = struct.pack("<d", dice.choice(REAL))[: len(body) - at]
        elif sums:
            fields[dice.choice([4, 5, 6])] = dice.choice([*WHOLE, 2**40])
        else:
            place = dice.randrange(len(body))
            body[place] = dice.randrange(256)
    packed = zlib.compress(bytes(body), 1)
    if not sums:
        rest = struct.pack("<II", *fields[2:])
        return state[:4] + struct.pack("<I", zlib.crc32(rest + packed)) + rest + packed
    fields[1] = 0
    fields[1] = zlib.crc32(head.pack(*fields) + packed)
    return head.pack(*fields) + packed


def attempt(training: object, states: list[bytes], tell: int) -> None:
    """Let chains go on from states, each told by its number as it begins; only errors of ours may come."""
    np.seterr(all="ignore")
    for number, state in enumerate(states):
        os.write(tell, struct.pack("<H", number))
        try:
            chain = resume_chain(training, state)
            chain.run(8)
            chain.take()
        except SamplerError:
            continue


def check(name: str, count: int) -> None:
    """Fork a process that continues chains from forged states: it ends well, within its time."""
    training, state = state_of(name)
    dice = random.Random(name)
    states = [forged(state, dice) for _ in range(count)]
    resume_chain(training, state).run(8)  # compiles nothing later
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            attempt(training, states, write)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  the parent says it
            os.write(write, f" ({error!r}"[:2000].encode())
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        said = told.read()
    status = os.waitpid(child, 0)[1]
    signalled = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
    last = len(said.split(b" (")[0]) // 2 - 1
    assert status == 0, f"{name}: {signalled or said[2 * last + 2 :]} at state {last}"


@pytest.mark.parametrize("name", QUICK)
def test_forged_states(name):
    """Chains of some kinds go on from forged states, or refuse them."""
    check(name, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in fit_digests.GOING_ON if name not in QUICK])
@pytest.mark.sampled(slow=12)
def test_forged_states_of_every_kind(name):
    """Chains of every kind go on from forged states, or refuse them."""
    check(name, 12)


@pytest.mark.long
@pytest.mark.parametrize("name", fit_digests.GOING_ON)
def test_many_forged_states_of_every_kind(name):
    """Chains of every kind go on from many forged states, or refuse them."""
    check(name, 200)


def test_a_state_of_other_draws_is_refused():
    """A genuine state is refused where its fit has made another number of draws."""
    training, state = state_of("bart")
    sealed = list(HEADER.unpack_from(state))
    sealed[5] += 1
    sealed[1] = 0
    sealed[1] = zlib.crc32(HEADER.pack(*sealed) + state[HEADER.size :])
    with pytest.raises(PackedError, match="iterations"):
        resume_chain(training, HEADER.pack(*sealed) + state[HEADER.size :])
