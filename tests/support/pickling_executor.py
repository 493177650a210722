"""An executor that stands for other processes: it runs a task at once, on what pickling leaves of it."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future


class PicklingExecutor(Executor):
    """Runs tasks here, when they are submitted, with arguments and results pickled; counts them."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def submit(self, fn, /, *args, **kwargs):
        """Run a task and return its future, which has ended."""
        self.tasks.append(fn.__name__)
        future: Future = Future()
        function, arguments, named = pickle.loads(pickle.dumps((fn, args, kwargs)))
        try:
            future.set_result(pickle.loads(pickle.dumps(function(*arguments, **named))))
        except Exception as error:  # noqa: BLE001  # the future has it
            future.set_exception(pickle.loads(pickle.dumps(error)))
        return future
