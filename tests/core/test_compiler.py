"""What JAX does not document: asked for by name, left out where it is unknown or not wanted."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import compiler, compiling
from jaxstruct.core.compiling import program

PACKAGE = pathlib.Path(compiler.__file__).parents[1]
UNDOCUMENTED = r"jaxpr|jax\._src|jax\.extend|xla_|compiler_options=\{|malloc_trim|set_xla_metadata"


@pytest.fixture
def asked(monkeypatch):
    """Nothing is known of the compiler yet, and the switch is off."""
    monkeypatch.setenv(compiler.SWITCH, "0")
    compiler._known_options.cache_clear()
    compiler.warn_of_untried_version.cache_clear()
    yield monkeypatch
    compiler._known_options.cache_clear()
    compiler.warn_of_untried_version.cache_clear()


def test_it_stands_in_one_file():
    """Nothing else in the package names what JAX does not document."""
    named = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(UNDOCUMENTED, path.read_text(encoding="utf-8"))
    }
    assert named == {"core/compiler.py"}


def test_options_are_asked_for_one_by_one_and_once(asked):
    """An unknown one goes alone, and programs compile with the others."""
    tried, knows = [], compiler.knows
    asked.setattr(compiler, "knows", lambda *option: tried.append(option) or knows(*option))
    known = "xla_backend_optimization_level", 1
    asked.setattr(compiler, "OPTIONS", {"xla_no_option_of_this_name": True, known[0]: known[1]})
    assert compiler.compiler_options() == compiler.compiler_options() == dict([known])
    assert len(tried) == 2
    np.testing.assert_array_equal(program(jnp.cumsum)(jnp.ones(3)), [1, 2, 3])
    asked.setenv(compiler.SWITCH, "1")
    assert compiler.compiler_options() is None


def test_a_wrong_value_is_not_known():
    assert not compiler.knows("xla_backend_optimization_level", "abc")


def test_the_options_reach_the_compiler(asked):
    wrong = {"xla_backend_optimization_level": "abc"}
    asked.setattr(compiling, "compiler_options", lambda: wrong)
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        program(jnp.cumsum)(jnp.ones(3))


@pytest.mark.parametrize(
    "version, numbers",
    [("0.12.0.1", (0, 12, 0, 1)), ("0.13.0.dev20270101", (0, 13, 0)), ("1", (1,))],
)
def test_numbers_of_versions(version, numbers):
    assert compiler.numbers_of(version) == numbers


def test_a_newer_jax_is_named_once_until_the_self_test_has_passed(asked, tmp_path):
    asked.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked.setattr(compiler, "NEWEST_TRIED", "0.1")
    with pytest.warns(compiler.UntriedVersion, match="run python -m jaxstruct") as said:
        for _ in range(2):
            program(jnp.cumsum)(jnp.ones(3))
    assert len(said) == 1
    compiler.warn_of_untried_version.cache_clear()
    record = compiler.record_of_passing()
    record.parent.mkdir()
    record.touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program(jnp.cumsum)(jnp.ones(3))


@pytest.mark.skipif(compiler._trim is None, reason="of the C library of GNU alone")
def test_free_pages_of_the_heap_are_given_back(asked):
    """Of many blocks, each below the size that the C library takes from the system by itself."""

    def resident_pages():
        return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])

    libc, size, count = ctypes.CDLL(None), 100_000, 2_000
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(block)
    before = resident_pages()
    compiler.give_back_memory()
    assert (before - resident_pages()) * os.sysconf("SC_PAGE_SIZE") > 0.8 * size * count
    libc.free(blocks[-1])
