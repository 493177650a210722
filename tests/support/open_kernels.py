"""Modules of kernels by name, with every kernel callable in plain Python."""

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

from sampler.kernels.groups import GROUPS

_PLACES = {
    module.rpartition(".")[2]: f"sampler.{module}"
    for group in reversed(GROUPS.values())
    for module in reversed(group.modules)
}


class _Opened:
    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return _entry(value) if isinstance(value, Dispatcher) else value


def __getattr__(name: str) -> _Opened:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Opened(import_module(_PLACES[name]))


@cache
def _entry(kernel: Any) -> Any:
    if not kernel.targetoptions["no_cpython_wrapper"]:
        return kernel

    @njit
    def call(*arguments: Any) -> Any:
        return kernel(*arguments)

    return call
