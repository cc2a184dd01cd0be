"""Functions marked as one kernel: the same values, alone, under vmap, in loops, in both dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.one_kernel import SWITCH, one_kernel, read_inputs


def _cumulated_rows(x, turns):
    """A loop that reads and writes rows in place."""

    def body(t, total):
        row = jax.lax.dynamic_slice_in_dim(total, t, 1) + x[t % x.shape[0]][None]
        return jax.lax.dynamic_update_slice_in_dim(total, row, t, 0)

    return jax.lax.fori_loop(0, turns, body, jnp.zeros_like(x)), jnp.max(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_are_those_of_the_function(dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 7, 5)), dtype)
        turns = jnp.int32(6)
        expected = jax.vmap(_cumulated_rows, (0, None))(x, turns)
        marked = jax.vmap(one_kernel(_cumulated_rows), (0, None))
        for found in (marked(x, turns), jax.jit(marked)(x, turns)):
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


def test_the_program_has_one_call_for_the_function(monkeypatch):
    if jax.default_backend() != "cpu":
        pytest.skip("the mark is for CPUs")
    x, turns = jnp.ones((7, 5)), jnp.int32(6)

    def marks(function):
        compiled = jax.jit(lambda x, turns: function(x, turns)[0] * 2).lower(x, turns).compile()
        return 'inlineable="false",xla_cpu_small_call="true"' in compiled.as_text()

    assert marks(one_kernel(_cumulated_rows))
    assert not marks(_cumulated_rows)
    monkeypatch.setenv(SWITCH, "0")
    assert not marks(one_kernel(_cumulated_rows))


def _reads_some(rows, unread, empty, carried, number):
    """Of its arguments it reads rows and number; the loop carries one that nothing asks for."""

    def body(t, state):
        total, idle = state
        return total + rows[t] * number + 0 * jnp.sum(empty), idle + unread

    return jax.lax.fori_loop(0, rows.shape[0], body, (jnp.zeros(rows.shape[1]), carried))[0]


def test_what_is_not_read_stays_outside():
    """A kernel that is given what it does not read would end the process."""
    rows, ones = jnp.arange(12.0).reshape(4, 3), jnp.ones(5)
    given = rows, ones, jnp.zeros((4, 0)), ones, 2.0
    closed = jax.make_jaxpr(_reads_some)(*given)
    assert read_inputs(closed.jaxpr, [True]) == [True, False, True, False, True]

    @jax.jit
    def outer(rows, ones):
        return one_kernel(_reads_some)(rows, ones, jnp.zeros((4, 0)), ones, jnp.float32(2))

    np.testing.assert_array_equal(outer(rows, ones), 2 * rows.sum(axis=0))
    np.testing.assert_array_equal(one_kernel(_reads_some)(*given), 2 * rows.sum(axis=0))
