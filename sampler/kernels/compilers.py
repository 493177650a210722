"""Numba's compiler with less of the work that kernels don't need, which is a quarter of a cold start.

The kernels that kernels alone call are contained in their callers, where they are optimised once more. So
machine code of their own would never run, quick passes before the thorough ones gain nothing, and loops
unrolled or vectorised before would only be more to read.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen as _codegen
from numba.core import compiler as _compiler

codegen: Any = _codegen
compiler: Any = _compiler


class KernelFlags(compiler.Flags):  # type: ignore[misc]
    """Numba's flags, compared as they were given.

    Each look for an implementation compares them, a quarter of a million times in a cold start; numba's own
    comparison fills in every default first.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelFlags) and self._values == other._values

    def __hash__(self) -> int:
        return len(self._values)


class KernelCompiler(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler of a kernel that Python calls."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = KernelFlags(self.state.flags)


class InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Library of one kernel for its callers to link; its machine code defines the environments alone."""

    any_order = False  # of sums: the order is settled here, so that it is the same in every caller

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001

    def _optimize_final_module(self) -> None:
        tuning = llvm.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = self.any_order
        builder = llvm.create_pass_builder(self._codegen._tm, tuning)  # noqa: SLF001
        builder.getModulePassManager().run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True
        module = self._get_module_for_linking()
        empty = str(self._codegen._create_empty_module(self.name))  # noqa: SLF001
        names = [str(value) for value in module.global_variables if value.name.startswith("_ZN08NumbaEnv")]
        self._final_module = llvm.parse_assembly("\n".join([empty, *names]))
        super()._finalize_final_module()


class InnerCompiler(KernelCompiler):
    """Numba's compiler of a function into an `InnerLibrary`."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.any_order = bool(self.state.flags.fastmath)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)
