"""Cache of decoded posteriors: bounded in bytes, each loaded once, least recently used evicted first."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Object with a known size in memory."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class Cache(Generic[T]):
    """A thread-safe cache of at most `max_bytes`.

    A value larger than that is returned but not cached. A failed load raises in every waiting caller; the
    next call tries again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self.hits = self.misses = 0
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()  # with its size as it was counted
        self._loading: dict[str, Future[T]] = {}
        self._lock = threading.Lock()

    def get(self, key: str, load: Callable[[], T]) -> T:
        """Return the value of a key, loaded by `load` if absent; raises what `load` raises."""
        with self._lock:
            if key in self._kept:
                self.hits += 1
                self._kept.move_to_end(key)
                return self._kept[key][0]
            self.misses += 1
            loading = self._loading.get(key)
            first = loading is None
            if loading is None:
                loading = self._loading[key] = Future()
        if first:
            self._load(key, load, loading)
        return loading.result()

    def peek(self, key: str) -> T | None:
        """Return the value of a key if it is cached, else None; no hit is counted."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            return None

    def count_hit(self) -> None:
        """Count a hit: a value that `peek` returned is used."""
        with self._lock:
            self.hits += 1

    def drop(self, key: str) -> None:
        """Remove a value."""
        with self._lock:
            self.nbytes -= self._kept.pop(key, (None, 0))[1]

    def _load(self, key: str, load: Callable[[], T], loading: Future[T]) -> None:
        try:
            value = load()
            size = value.nbytes
        except BaseException as error:  # noqa: BLE001  every waiting caller must get the error, whatever it is
            with self._lock:
                self._loading.pop(key)
            loading.set_exception(error)
            return
        with self._lock:
            self._loading.pop(key)
            self._keep(key, value, size)
        loading.set_result(value)

    def _keep(self, key: str, value: T, size: int) -> None:
        if size > self.max_bytes:
            return
        while self.nbytes + size > self.max_bytes:
            self.nbytes -= self._kept.popitem(last=False)[1][1]
        self._kept[key] = value, size
        self.nbytes += size
