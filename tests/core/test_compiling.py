"""Programs: counted once a shape, their memory, what is donated and what is static."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import compiling
from jaxstruct.core.compiling import program, programs_traced, report_compiling_to


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


def test_arguments_are_donated():
    x, y = jnp.ones(5), jnp.ones(5)
    np.testing.assert_array_equal(program(_subtracted, donate_argnums=0)(x, y), [-1] * 5)
    assert x.is_deleted() and not y.is_deleted()


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
