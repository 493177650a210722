"""The internals of other packages that are overridden or read: each is there, and each package has a ceiling.

A release that moves one of them changes what the code beside it does, mostly without an error.
"""

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from billiard.pool import Pool
from celery.concurrency.prefork import TaskPool
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.dispatcher import Dispatcher
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ROOT = Path(__file__).parents[2]
# By package: what is overridden or read, and the names inside of it.
USED = {
    "numba": [
        (Compiler, ["compile_extra"]),
        (JITCodeLibrary, ["_optimize_functions", "_optimize_final_module", "_finalize_final_module"]),
        (JITCodeLibrary, ["_get_module_for_linking", "enable_object_caching"]),
        (Dispatcher, ["_compile_for_args", "_explain_matching_error"]),
    ],
    "uvicorn": [
        (HttpToolsProtocol, ["connection_made", "connection_lost", "data_received", "pause_writing"]),
        (HttpToolsProtocol, ["resume_writing", "send_400_response", "on_message_begin"]),
        (HttpToolsProtocol, ["on_headers_complete", "on_message_complete", "on_response_complete"]),
        (Server, ["shutdown"]),
    ],
    "celery": [(TaskPool, ["BlockingPool"])],
    "billiard": [(Pool, ["_setup_queues"])],
}
# Attributes that instances get while they work, by the source that sets them.
SET = [
    (Flags.__mro__[1], "_values"),
    (JITCodeLibrary.__mro__[1], "_finalized"),
    (JITCodeLibrary.__mro__[1], "_codegen"),
    (JITCodeLibrary, "_final_module"),
    (inspect.getmodule(JITCodeLibrary), "_tm"),
    (inspect.getmodule(JITCodeLibrary), "_data_layout"),
    (inspect.getmodule(JITCodeLibrary), "_create_empty_module"),
    (Pool, "_inqueue"),
    (Pool, "_outqueue"),
    (Pool, "_pool"),
    (HttpToolsProtocol, "connections"),
    (HttpToolsProtocol, "parser"),
]


@pytest.mark.parametrize("package", USED)
def test_what_is_overridden_is_there(package):
    """A name that a package no longer has would be a method that nobody calls."""
    missing = [
        f"{holder.__qualname__}.{name}"
        for holder, names in USED[package]
        for name in names
        if not hasattr(holder, name)
    ]
    assert not missing


@pytest.mark.parametrize(("source", "name"), SET, ids=lambda part: getattr(part, "__name__", str(part)))
def test_what_is_set_at_run_time_is_set_there(source, name):
    """The source still has the attribute."""
    assert re.search(rf"\b{name}\b", inspect.getsource(source))


@pytest.mark.parametrize("package", USED)
def test_ceilings(package):
    """A package with overridden internals is admitted up to the installed minor release, and no further."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["dependencies"] + project["optional-dependencies"]["service"]
    bound = next(re.search(r"<(\d+)\.(\d+)$", entry) for entry in listed if re.match(rf"{package}\b", entry))
    major, minor = map(int, version(package).split(".")[:2])
    assert bound is not None
    assert (int(bound[1]), int(bound[2])) == (major, minor + 1)


def test_no_other_private_names_are_used():
    """Each file that reads private names of other packages is one whose internals are listed here."""
    known = {"sampler/kernels/compilers.py", "sampler/kernels/jit.py", "worker/main.py", "worker/pool.py"}
    own = {"sampler/bart/families/probit.py", "sampler/posterior/parts/intercepts.py"}  # names of ours
    found = {
        file.relative_to(ROOT).as_posix()
        for package in ("app", "worker", "sampler", "bartserve")
        for file in (ROOT / package).rglob("*.py")
        if "noqa: SLF001" in file.read_text()
    }
    assert found == known | own
