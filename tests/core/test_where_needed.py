"""Work done where it is needed: the same answers under jit and vmap, none where none needs it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.in_turn import where_needed

NEED = np.arange(12) % 3 == 1


def one(count, need, x):
    """(x + 1, 2 x) where it is needed, and (x, x) else; `count` grows by work."""

    def compute(x):
        jax.debug.callback(lambda _: count.append(1), x)
        return {"a": x + 1, "b": (2 * x,)}

    return where_needed(compute, need, x, {"a": x, "b": (x,)})


@pytest.mark.parametrize(
    "shape, jitted", [((12,), False), ((12,), True), ((3, 4), True), ((2, 2, 3), True)]
)
def test_every_vmap_gives_what_each_alone_gives(shape, jitted):
    x, need = jnp.arange(24.0).reshape(*shape, 2), NEED.reshape(shape)
    run = lambda need, x: one([], need, x)  # noqa: E731
    for _ in shape:
        run = jax.vmap(run)
    found = (jax.jit(run) if jitted else run)(need, x)
    np.testing.assert_array_equal(found["a"], np.where(need[..., None], x + 1, x))
    np.testing.assert_array_equal(found["b"][0], np.where(need[..., None], 2 * x, x))


@pytest.mark.parametrize("batched", ["need", "x", "both"])
def test_what_is_shared_by_a_batch(batched):
    need = NEED if batched != "x" else np.True_
    x = jnp.ones((12, 2)) if batched != "need" else jnp.ones(2)
    axes = None if batched == "x" else 0, None if batched == "need" else 0
    found = jax.vmap(lambda need, x: one([], need, x), axes)(need, x)
    np.testing.assert_array_equal(found["a"][:, 0], 1 + np.broadcast_to(need, 12))


@pytest.mark.parametrize("needed", [False, True])
def test_a_batch_that_needs_nothing_does_no_work(needed):
    for run in (one, lambda count, *row: jax.vmap(lambda *row: one(count, *row))(*row)):
        count = []
        need, x = np.array([False, needed]), jnp.ones((2, 3))
        given = (need, x) if run is not one else (need[1], x[1])
        jax.block_until_ready(jax.jit(lambda *row, run=run, count=count: run(count, *row))(*given))
        jax.effects_barrier()
        assert bool(count) == needed
