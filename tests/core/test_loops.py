"""A scan over the first rows is `jax.lax.scan` over these alone; loops of one turn or none."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.loops import for_each, put, scan_first, when

T = 6


def body(carry, row):
    a, (b, c) = carry, row
    new = 2 * a + b
    return new, {"sum": new + c, "flag": new > 3}


@partial(jax.jit, static_argnums=3)
def run(carry, rows, count, reverse):
    return scan_first(body, carry, rows, count, reverse=reverse, rest=-1)


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("count", [-1, 0, 1, 4, T])
def test_only_the_first_rows_count(count, reverse):
    random = np.random.default_rng(count + 9)
    rows = random.normal(size=T), random.normal(size=(T, 3))
    start = jnp.asarray(random.normal())
    last, found = jax.device_get(run(start, rows, jnp.int32(count), reverse))
    kept = max(count, 0)
    some = jax.tree.map(lambda leaf: leaf[:kept], rows)
    wanted_last, wanted = jax.lax.scan(body, start, some, reverse=reverse)
    np.testing.assert_allclose(last, wanted_last, rtol=1e-6)
    for name, leaf in found.items():
        assert leaf.shape[0] == T and leaf.dtype == wanted[name].dtype
        np.testing.assert_allclose(leaf[:kept], wanted[name], rtol=1e-6)
        np.testing.assert_array_equal(leaf[kept:], np.full_like(leaf[kept:], -1))


def test_no_rows_at_all():
    rows = jnp.zeros(0), jnp.zeros((0, 3))
    last, found = scan_first(body, jnp.asarray(2.0), rows, jnp.int32(-1))
    assert last == 2 and found["sum"].shape == (0, 3)


def test_steps_are_taken_where_they_are_asked_for():
    """Of random flags, alone and of a batch; the order counts, since each step doubles."""
    flags = np.random.default_rng(0).random((5, 7)) < 0.5

    def marked(true):
        return for_each(true, lambda k, held: put(2 * held, k, jnp.ones(())), jnp.zeros(len(true)))

    wanted = np.zeros(flags.shape)
    for row, own in zip(wanted, flags, strict=True):
        for k in np.flatnonzero(own):
            row *= 2
            row[k] = 1
    np.testing.assert_array_equal(jax.vmap(marked)(flags), wanted)
    np.testing.assert_array_equal(jax.jit(marked)(flags[0]), wanted[0])
    assert [int(when(jnp.array(one), lambda held: held + 3, 4)) for one in (True, False)] == [7, 4]
