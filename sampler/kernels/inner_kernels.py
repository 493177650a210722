"""Compilation of the kernels that kernels alone call.

Their callers contain them, so machine code of their own, an eighth of a cold start, would never run.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen as _codegen
from numba.core import compiler as _compiler

codegen: Any = _codegen
compiler: Any = _compiler


class InnerLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Library of one kernel for its callers to link; its machine code defines the environments alone."""

    def _finalize_final_module(self) -> None:
        self._finalized = True
        module = self._get_module_for_linking()
        empty = str(self._codegen._create_empty_module(self.name))  # noqa: SLF001
        names = [str(value) for value in module.global_variables if value.name.startswith("_ZN08NumbaEnv")]
        self._final_module = llvm.parse_assembly("\n".join([empty, *names]))
        super()._finalize_final_module()


class InnerCompiler(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler of a function into an `InnerLibrary`."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)
