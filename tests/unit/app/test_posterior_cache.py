"""`app.services.predictions.posterior_cache`: bounded in bytes, each value loaded once.

The least recently used value is evicted first.
"""

import threading
import time
from dataclasses import dataclass

import pytest

from app.services.predictions.posterior_cache import Cache


@dataclass
class Thing:
    nbytes: int


def test_the_longest_unused_goes_first():
    """The total size never exceeds the bound; the least recently used value is evicted first."""
    cache = Cache(100)
    loads: list[str] = []

    def ask(key: str) -> None:
        cache.get(key, lambda: loads.append(key) or Thing(40))

    for key in ("a", "b", "a", "c", "a", "b"):
        ask(key)
        assert cache.nbytes <= 100

    assert loads == ["a", "b", "c", "b"]
    assert (cache.hits, cache.misses) == (2, 4)


def test_a_value_too_large_is_returned_and_not_kept():
    """A value larger than the cache evicts nothing."""
    cache = Cache(100)
    cache.get("small", lambda: Thing(60))

    assert cache.get("large", lambda: Thing(101)).nbytes == 101
    assert cache.nbytes == 60
    assert cache.get("small", lambda: pytest.fail("loaded again")).nbytes == 60


def test_concurrent_requests_share_one_load():
    """Concurrent requests for one key share a single load and receive the same object."""
    cache = Cache(100)
    loads: list[int] = []
    start = threading.Barrier(8)
    things: list[Thing] = []

    def load() -> Thing:
        loads.append(1)
        time.sleep(0.05)
        return Thing(1)

    def ask() -> None:
        start.wait()
        things.append(cache.get("a", load))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(loads) == 1
    assert len({id(thing) for thing in things}) == 1


def test_a_failed_load_is_repeated():
    """When a load fails, waiting callers get its error, and the next request loads again."""
    cache = Cache(100)

    def fail() -> Thing:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        cache.get("a", fail)
    assert cache.get("a", lambda: Thing(1)).nbytes == 1


def test_a_dropped_value_is_loaded_again():
    """A dropped value is loaded again, and its bytes are freed."""
    cache = Cache(100)
    cache.get("a", lambda: Thing(70))
    cache.drop("a")
    cache.drop("never there")

    assert cache.nbytes == 0
    assert cache.get("a", lambda: Thing(30)).nbytes == 30
