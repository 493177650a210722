"""Threads that share passes over the rows of one chain: a leader, and others that do a part of each pass.

The leader publishes a pass with a number, does its own part and waits until every other thread has done that
number. A word of each thread is written by that thread alone, so that loads and stores that are seen in order
suffice. Who waits spins for some microseconds, then lets others run (`sched_yield`), then sleeps: the threads
may well be more than the cores that are free. Parts are whole blocks of LANES rows, and what they yield are
whole numbers, so that no result depends on the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from sampler.kernels.arrays import LANES, Bool, Int, Longs, Longs2, i8, numba_type
from sampler.kernels.function_pointers import call_step
from sampler.kernels.jit import kernel
from sampler.kernels.shared.words import clock, give_way, nap, rest, seen, show

LINE = 16  # words: what one thread writes lies on lines of memory of its own
CALL, STEP, PLACE, ROWS = 0, 1, 2, 3  # number of the pass (LEAVE: go), its code, its arguments, its rows
MEMBERS, PASSES, WORKED, WAITED, LOSS, MOST_LOSS = range(LINE, LINE + 6)  # the leader's; nanoseconds
DONE = 2 * LINE  # + k LINE: number of the last pass that thread k + 1 has done
LEAVE = -1
# Looks before others may run, and before sleeping. A look takes 25 to 60 ns, as processors' pauses differ: 50
# to 120 us, and half a millisecond if nobody else runs.
SPINS, YIELDS = 2_000, 1_000

# parts of passes, by their places in Team.steps
GROWN, PRUNED, CODES, MOVED, PAIR, BY_CODE = 0, 1, 2, 3, 4, 5
NUM_STEPS = 6


class Team(NamedTuple):
    """Threads of a chain, and their room."""

    words: Longs  # [DONE + threads LINE], as named above; MEMBERS 1: nothing is shared
    steps: Longs  # addresses of the parts of passes
    sums: Longs2  # [threads, 32], what a part of a pass sums up


@kernel(inline=True, allocates=False)
def wait_a_little(looks: Int) -> None:
    """Wait after the look of that number was in vain."""
    if looks < SPINS:
        rest()
    elif looks < SPINS + YIELDS:
        give_way()
    else:
        nap()


@kernel(inline=True, allocates=False)
def is_shared(team: Team) -> Bool:
    """Whether there are threads to share passes with."""
    return team.words[MEMBERS] > 1


@kernel(inline=True, allocates=False)
def begin_of_part(rows: Int, number: Int, members: Int) -> Int:
    """Find the first row of a thread's part; `rows` is a multiple of LANES."""
    return rows // LANES * number // members * LANES


@kernel(allocates=False, entry=True)
def dismiss(words: Longs) -> None:
    """Let the other threads leave; from then on nothing is shared."""
    words[MEMBERS] = 1
    show(words, CALL, LEAVE)


@kernel(allocates=False)
def share(team: Team, which: Int, place: Int, rows: Int) -> Int:
    """Do a pass over `rows` rows together, by that step with the arguments at `place`; return how many did.

    The others are dismissed once waiting for them has taken MOST_LOSS longer than what they saved.
    """
    words = team.words
    members, call, step = words[MEMBERS], words[CALL] + 1, team.steps[which]
    words[STEP], words[PLACE], words[ROWS] = step, place, rows
    began = clock()
    show(words, CALL, call)
    call_step(step, (place, 0, 0, begin_of_part(rows, 1, members)))
    ended = clock()
    for k in range(members - 1):
        looks = 0
        while seen(words, DONE + k * LINE) != call:
            wait_a_little(looks)
            looks += 1
    worked, waited = ended - began, clock() - ended
    words[PASSES] += 1
    words[WORKED] += worked
    words[WAITED] += waited
    words[LOSS] = max(words[LOSS] + waited - (members - 1) * worked, 0)
    if words[LOSS] > words[MOST_LOSS]:
        dismiss(words)
    return members


def part_signature(arguments: type) -> Any:
    """Signature of a part of a pass: place of the arguments, number of the thread, its rows from and to."""
    pointer: Any = types.CPointer
    return i8(pointer(numba_type(arguments)), i8, i8, i8)
