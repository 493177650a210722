"""Memory that a posterior holds: found by looking, so that no part of it can be forgotten."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

APART = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)  # of no one posterior


def held_bytes(*objects: Any) -> int:
    """Add up the bytes of all that some objects hold, each once; of views that of the whole array."""
    seen: set[int] = set()
    total, waiting = 0, list(objects)
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen or isinstance(each, APART):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        if isinstance(each, np.ndarray):
            if each.base is not None:  # whose memory it is
                waiting.append(each.base)
            if each.dtype == object:
                waiting += each.ravel().tolist()
        elif isinstance(each, memoryview):
            waiting.append(each.obj)
        elif isinstance(each, dict):
            waiting += each.keys()
            waiting += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        elif hasattr(each, "__dict__"):
            waiting.append(vars(each))
    return total
