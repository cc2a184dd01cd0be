"""Programs of four efforts: one value, one count each, and a compiler that knows none of them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import compiling
from jaxstruct.core.compiling import EFFORTS, program, programs_traced

UNKNOWN = {"xla_no_option_of_this_name": True}
WRONG = {"xla_backend_optimization_level": "abc"}


def _walked(a, x, steps):
    """x after some steps of a contraction: a loop, a product and transcendental functions."""
    return jax.lax.fori_loop(0, steps, lambda _, x: jnp.tanh(a @ x) + jnp.cumsum(x) / 9, x)


def _subtracted(x, y):
    return x - 2 * y


def resident_pages():
    """Of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])


@pytest.fixture
def efforts(monkeypatch):
    """Sets the options of the compiler in an effort."""
    monkeypatch.setattr(compiling, "EFFORTS", {effort: {} for effort in EFFORTS})

    def name_effort(effort, options):
        monkeypatch.setitem(compiling.EFFORTS, effort, options)

    return name_effort


def test_every_effort_has_the_same_value():
    random = np.random.default_rng(0)
    a, x = random.normal(size=(6, 6)).astype(np.float32) / 4, np.ones(6, np.float32)
    of = program(_walked, static_argnums=2)
    wanted = x
    for _ in range(5):
        wanted = np.tanh(a @ wanted) + np.cumsum(wanted) / 9
    np.testing.assert_allclose(of(a, x, 5), wanted, rtol=1e-5)
    for effort in EFFORTS:
        np.testing.assert_allclose(of(a, x, 5, effort=effort), wanted, rtol=1e-5)
        np.testing.assert_allclose(of(a, x, 0, effort=effort), x)


def test_a_program_is_counted_once_a_shape_and_effort():
    of, before, wanted = program(_subtracted), programs_traced(), 0
    for size in (2, 3):
        for effort in EFFORTS:
            wanted += 1
            for value in (1, 4):
                x = value * jnp.ones(size)
                np.testing.assert_array_equal(of(x, x, effort=effort), -x)
                assert programs_traced() - before == wanted


def test_what_compiling_leaves_is_given_back_once_a_program(monkeypatch):
    """After each compiling, one that fails too, and after no other call."""
    given = []
    monkeypatch.setattr(compiling, "give_back_memory", lambda: given.append(programs_traced()))
    of, before = program(_subtracted), programs_traced()
    for size in (2, 2, 3, 2):
        of(jnp.ones(size), jnp.ones(size))
    with pytest.raises(TypeError, match="shapes"):
        of(jnp.ones(2), jnp.ones(3))
    assert [count - before for count in given] == [1, 2, 3]


@pytest.mark.skipif(compiling._trim is None, reason="of the C library of GNU alone")
def test_free_pages_of_the_heap_are_given_back():
    """Of many blocks, each below the size that the C library takes from the system by itself."""
    libc, size, count = ctypes.CDLL(None), 100_000, 2_000
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(block)
    before = resident_pages()
    compiling.give_back_memory()
    assert (before - resident_pages()) * os.sysconf("SC_PAGE_SIZE") > 0.8 * size * count
    libc.free(blocks[-1])


def test_full_is_the_effort_of_a_call_that_names_none():
    of, before = program(_subtracted), programs_traced()
    for _ in range(2):
        np.testing.assert_array_equal(of(jnp.ones(2), jnp.ones(2)), [-1, -1])
        of(jnp.ones(2), jnp.ones(2), effort="full")
    assert programs_traced() - before == 1


def test_an_effort_reaches_the_compiler(efforts):
    """A value that the compiler refuses: in its own effort, and in no other."""
    efforts("fair", WRONG)
    of = program(_subtracted)
    for effort in ("quick", "full", "fair", "quick"):
        if effort == "fair":
            with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
                of(jnp.ones(2), jnp.ones(2), effort=effort)
        else:
            np.testing.assert_array_equal(of(jnp.ones(2), jnp.ones(2), effort=effort), [-1, -1])


@pytest.mark.parametrize("effort", EFFORTS)
def test_arguments_are_donated_in_every_effort(effort):
    of = program(_subtracted, donate_argnums=0)
    x, y = jnp.ones(5), jnp.ones(5)
    np.testing.assert_array_equal(of(x, y, effort=effort), [-1] * 5)
    assert x.is_deleted() and not y.is_deleted()


@pytest.mark.parametrize("effort", EFFORTS)
def test_a_static_argument_is_a_value_of_python(effort):
    def chosen(x, way):
        return x + 1 if way == "up" else x - 1

    of, before = program(chosen, static_argnums=1), programs_traced()
    for way, wanted in (("up", 1), ("down", -1), ("up", 1)):
        assert of(jnp.zeros(()), way, effort=effort) == wanted
    assert programs_traced() - before == 2
    with pytest.raises(TypeError):
        program(chosen)(jnp.zeros(()), "up", effort=effort)


def test_this_compiler_names_an_option_that_it_does_not_know():
    """In the words that the guard of programs looks for; it would stand idle otherwise."""
    refused = jax.jit(_subtracted, compiler_options=UNKNOWN)
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        refused(jnp.ones(2), jnp.ones(2))


def test_a_compiler_that_does_not_know_an_option_compiles_as_usual(efforts):
    efforts("quick", UNKNOWN)
    of = program(_subtracted, donate_argnums=0)
    for size in (3, 3, 4):  # the first call meets the refusal
        x, y = jnp.ones(size), jnp.ones(size)
        np.testing.assert_array_equal(of(x, y, effort="quick"), [-1] * size)
        assert x.is_deleted()
    before = programs_traced()
    for effort in ("quick", "full"):
        of(jnp.ones(3), jnp.ones(3), effort=effort)
    assert programs_traced() == before  # the usual program serves both


def test_the_compiler_is_not_asked_again(efforts, monkeypatch):
    jit, asked = jax.jit, []

    def watched(function, compiler_options, **rest):
        compiled = jit(function, compiler_options=compiler_options, **rest)
        return lambda *arguments: asked.append(compiler_options) or compiled(*arguments)

    monkeypatch.setattr(jax, "jit", watched)
    efforts("quick", UNKNOWN)
    of = program(_subtracted)
    for _ in range(3):
        of(jnp.ones(2), jnp.ones(2), effort="quick")
    assert asked == [UNKNOWN, None, None, None]


def test_no_other_error_is_swallowed(efforts):
    """Neither the compiler's, nor the function's own, nor one that the usual program has, too."""
    efforts("quick", WRONG)
    of, before = program(_subtracted), programs_traced()
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid"):
            of(jnp.ones(2), jnp.ones(2), effort="quick")
    assert programs_traced() - before == 1  # never tried in another effort

    with pytest.raises(TypeError, match="shapes"):
        of(jnp.ones(2), jnp.ones(3), effort="fair")

    efforts("full", UNKNOWN)
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        program(_subtracted)(jnp.ones(2), jnp.ones(2), effort="full")
