"""Programs and the compiler: counted, kept on disk, what is static, what JAX does not document."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import re
import warnings
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import jaxstruct as js
from jaxstruct.core import compiler, compiling
from jaxstruct.core import compiling as compile_clock
from jaxstruct.core.compiler import SWITCH, to_take_over
from jaxstruct.core.compiling import (
    COMPILING,
    CompileClock,
    Elapsed,
    program,
    programs_traced,
    report_compiling_to,
)
from jaxstruct.core.device import on_device, zeros_on_device
from jaxstruct.core.types import Static, static


def _subtracted(x, y):
    return x - 2 * y


def test_a_program_is_counted_and_reported_once_a_shape():
    of, before, said = program(_subtracted), programs_traced(), []
    with report_compiling_to(said.append):
        for size in (2, 3):
            for value in (1, 4):
                x = value * jnp.ones(size)
                np.testing.assert_array_equal(of(x, x), -x)
    assert programs_traced() - before == 2 and said == ["subtracted"] * 2


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


def test_a_static_argument_is_a_value_of_python():
    def chosen(x, way):
        return x + 1 if way == "up" else x - 1

    of, before = program(chosen, static_argnums=1), programs_traced()
    for way, wanted in (("up", 1), ("down", -1), ("up", 1)):
        assert of(jnp.zeros(()), way) == wanted
    assert programs_traced() - before == 2
    with pytest.raises(TypeError):
        program(chosen)(jnp.zeros(()), "up")


def test_the_compiler_says_what_a_program_holds_and_a_call_compiles_nothing_again():
    """A sorted table and its products are no smaller than they are."""

    def ranked(x):
        return jnp.sum(jnp.sort(x @ x) @ x)

    of, before = program(ranked), programs_traced()
    held = [of.peak_bytes(jax.ShapeDtypeStruct((n, n), np.float32)) for n in (8, 256)]
    assert held[1] >= 4 * 256**2 and held[1] > 100 * held[0]
    of(jnp.ones((256, 256)))
    assert programs_traced() - before == 2


def test_programs_are_let_go_before_the_system_has_no_room(monkeypatch, tmp_path):
    """Linux ends the process that asks for more memory maps than it may have."""
    count, limit = tmp_path / "maps", tmp_path / "limit"
    limit.write_text("100\n")
    monkeypatch.setattr(compiling, "MAPS", count)
    monkeypatch.setattr(compiling, "MOST_MAPS", limit)
    assert not compiling.maps_are_scarce()  # there is no such table
    monkeypatch.setattr(compiling, "EVERY", 1)
    add = program(lambda x: x + 1)
    count.write_text("map\n" * 70)
    add(np.zeros(3, np.float32))
    count.write_text("map\n" * 71)
    before = programs_traced()
    add(np.zeros(3, np.float32))  # no new program
    with pytest.warns(RuntimeWarning, match="vm.max_map_count"):
        add(np.zeros(4, np.float32))
    count.write_text("map\n")
    add(np.zeros(3, np.float32))
    assert programs_traced() == before + 2


@static
class Options:
    name: str
    most: int = 3


@pytest.mark.parametrize("one, other", [(Static(2), Static(3)), (Options("a"), Options("a", 4))])
def test_another_value_compiles_anew(one, other) -> None:
    assert not jax.tree.leaves(one)
    chex.clear_trace_counter()
    program = jax.jit(chex.assert_max_traces(lambda option, x: x + len(repr(option)), n=1))
    x = jnp.zeros(())
    program(one, x), program(dataclasses.replace(one), x)
    with pytest.raises(AssertionError, match="traced"):
        program(other, x)


def test_compiling_within_compiling_counts_once(monkeypatch):
    clock = CompileClock()
    now = {"wall": 100.0, "process": 50.0}
    monkeypatch.setattr(compile_clock.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(compile_clock.time, "process_time", lambda: now["process"])
    clock._last = Elapsed(90.0, 40.0)
    event = COMPILING + "jaxpr_trace_duration"
    clock._heard("/jax/something_else", 5.0)
    clock._heard(event, 2.0)
    now.update(wall=103.0, process=56.0)
    clock._heard(event, 6.0)
    assert clock.read().wall == pytest.approx(6.0)
    assert clock.read().process == pytest.approx(2 * 1.0 + 4 * 2.0)
    now.update(wall=110.0, process=57.0)
    clock._heard(event, 1.0)
    assert clock.read().wall == pytest.approx(7.0)


def test_a_program_counts_when_it_is_compiled():
    clock = compile_clock.compile_clock()
    assert clock is compile_clock.compile_clock()
    of, x = jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x)), jnp.ones(7)
    before = clock.read()
    of(x).block_until_ready()
    compiled = clock.read()
    of(x).block_until_ready()
    assert compiled.wall > before.wall and clock.read() == compiled


@pytest.fixture
def kept_cache_settings():
    names = [name for name in dir(jax.config) if "_cache" in name and name.startswith("jax_")]
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_compiled_programs_are_kept_in_the_folder_named_last(
    kept_cache_settings, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    first = js.keep_programs()
    assert first == tmp_path / "xdg" / "jaxstruct"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert js.keep_programs() == tmp_path / "home" / ".cache" / "jaxstruct"
    assert js.keep_programs(first) == first
    jax.jit(lambda x: x * 3 + 1)(1.0)
    count = len(list(first.iterdir()))
    assert count > 0
    second = js.keep_programs(tmp_path / "other")
    jax.jit(lambda x: x * 5 - 1)(1.0)
    assert list(second.iterdir()) and len(list(first.iterdir())) == count


def test_a_folder_that_nobody_can_write_to_is_refused(kept_cache_settings, monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda folder, mode: False)
    with pytest.raises(PermissionError, match="folder: nothing can be written to"):
        js.keep_programs(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        js.keep_programs(tmp_path / "file")


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


def test_the_options_reach_the_compiler(asked):
    wrong = {"xla_backend_optimization_level": "abc"}
    asked.setattr(compiling, "compiler_options", lambda: wrong)
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        program(jnp.cumsum)(jnp.ones(3))


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


@pytest.mark.parametrize("wide", [False, True])
def test_as_jax_would_make_them(wide: bool) -> None:
    """Rounded alike, infinite where the dtype ends, 64 bits only in x64 mode."""
    values = np.array([1 / 3, -1e300, 2.0**-149, np.inf])
    with jax.enable_x64(wide):
        for dtype in ("float32", "float64", None):
            found, own = on_device(values, dtype), dtype if wide else "float32"
            assert isinstance(found, jax.Array)
            assert found.dtype == ("float64" if wide and dtype != "float32" else "float32")
            with np.errstate(over="ignore"):
                expected = values.astype(own or "float64")
            np.testing.assert_array_equal(np.asarray(found), expected)
        assert on_device([[1, 2]], np.int32).dtype == jnp.int32
        zeros = zeros_on_device((2, 3), "float64")
        assert zeros.dtype == ("float64" if wide else "float32") and zeros.shape == (2, 3)
        assert not np.asarray(zeros).any()


@pytest.mark.parametrize("shift", [0, 16])
def test_zeros_that_a_program_takes_over(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    """It writes into their buffer, which NumPy has no part in, aligned as XLA wants it or not."""

    def zeros_at(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        room = bytes_of_zeros(4 * shape[0] * shape[1] + 128, np.uint8)
        start = -room.ctypes.data % 64 + shift
        return room[start : start + 4 * shape[0] * shape[1]].view(dtype).reshape(shape)

    bytes_of_zeros = np.zeros
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setattr(np, "zeros", zeros_at)
    zeros = to_take_over(np.zeros((64, 64), "float32"))
    monkeypatch.undo()
    place = zeros.unsafe_buffer_pointer()
    ones = jax.jit(lambda leaf: leaf.at[:].add(1), donate_argnums=0)(zeros)
    assert zeros.is_deleted() and ones.unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(ones, 1)
