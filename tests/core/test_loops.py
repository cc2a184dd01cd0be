"""Loops of the first rows alone, work where it is needed, one kernel for every batch."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import batch_last
from jaxstruct.core.batch_last import in_column_blocks, of_one_example
from jaxstruct.core.in_turn import where_needed
from jaxstruct.core.loops import for_each, put, scan_first, when
from tests.lib.refusals import refused

T = 6


def body(carry, row):
    a, (b, c) = carry, row
    new = 2 * a + b
    return new, {"sum": new + c, "flag": new > 3}


@partial(jax.jit, static_argnums=3)
def run(carry, rows, count, reverse):
    return scan_first(body, carry, rows, count, reverse=reverse, rest=-1)


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("count", [-1, 0, 4, T])
def test_only_the_first_rows_count(count, reverse):
    random = np.random.default_rng(count + 9)
    a, b, start = (random.normal(size=size).astype(np.float32) for size in (T, (T, 3), ()))
    last, found = jax.device_get(run(start, (a, b), np.int32(count), reverse))
    wanted_last, kept = start, max(count, 0)
    wanted = {"sum": np.full((T, 3), -1, np.float32), "flag": np.full(T, True)}
    for t in range(kept)[:: -1 if reverse else 1]:
        wanted_last, row = body(wanted_last, (a[t], b[t]))
        wanted["sum"][t], wanted["flag"][t] = row["sum"], row["flag"]
    np.testing.assert_allclose(last, wanted_last, rtol=1e-6)
    for name, leaf in found.items():
        assert leaf.shape == wanted[name].shape and leaf.dtype == wanted[name].dtype
        np.testing.assert_allclose(leaf, wanted[name], rtol=1e-6)
        np.testing.assert_array_equal(leaf[kept:], np.full_like(leaf[kept:], -1))


def test_steps_are_taken_where_they_are_asked_for():
    """Of random flags, alone and of a batch; the order counts, since each step doubles."""
    flags = np.random.default_rng(0).random((5, 7)) < 0.5

    def marked(true):
        return for_each(true, lambda k, held: put(2 * held, k, jnp.ones(())), jnp.zeros(len(true)))

    wanted = np.zeros(flags.shape)
    for i, k in np.argwhere(flags):
        wanted[i] *= 2
        wanted[i, k] = 1
    np.testing.assert_array_equal(jax.jit(jax.vmap(marked))(flags), wanted)
    np.testing.assert_array_equal(jax.jit(marked)(flags[0]), wanted[0])
    added = jax.jit(lambda one: when(one, lambda held: held + 3, 4))
    assert [int(added(one)) for one in (True, False)] == [7, 4]


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
    x, need = np.arange(24, dtype=np.float32).reshape(*shape, 2), NEED.reshape(shape)
    run = lambda need, x: one([], need, x)  # noqa: E731
    for _ in shape:
        run = jax.vmap(run)
    found = (jax.jit(run) if jitted else run)(need, x)
    np.testing.assert_array_equal(found["a"], np.where(need[..., None], x + 1, x))
    np.testing.assert_array_equal(found["b"][0], np.where(need[..., None], 2 * x, x))


@pytest.mark.parametrize("batched", ["need", "x", "both"])
def test_what_is_shared_by_a_batch(batched):
    need = NEED if batched != "x" else np.True_
    x = np.ones((12, 2) if batched != "need" else 2, np.float32)
    axes = None if batched == "x" else 0, None if batched == "need" else 0
    found = jax.vmap(lambda need, x: one([], need, x), axes)(need, x)
    np.testing.assert_array_equal(found["a"][:, 0], 1 + np.broadcast_to(need, 12))


@pytest.mark.parametrize("needed", [False, True])
def test_a_batch_that_needs_nothing_does_no_work(needed):
    for run in (one, lambda count, *row: jax.vmap(lambda *row: one(count, *row))(*row)):
        count = []
        need, x = np.array([False, needed]), np.ones((2, 3), np.float32)
        given = (need, x) if run is not one else (need[1], x[1])
        jax.block_until_ready(jax.jit(lambda *row, run=run, count=count: run(count, *row))(*given))
        jax.effects_barrier()
        assert bool(count) == needed


class Pair(NamedTuple):
    """A pytree argument with a part that may be shared or absent."""

    table: jax.Array
    row: jax.Array | None = None


seen: list[tuple] = []


def _kernel(pair: Pair, factor: jax.Array) -> dict[str, jax.Array]:
    """Results [3, B] and [B]; the shapes that it is given are kept in `seen`."""
    seen.append(jax.tree.map(jnp.shape, (pair, factor)))
    row = 0 if pair.row is None else pair.row
    product = jnp.sum(pair.table * (factor + row)[None, None], axis=0)
    return {"rows": product, "sum": jnp.sum(product, axis=0) + factor}


function = of_one_example(_kernel)


def _traced_anew() -> Callable:
    """The function without what JAX keeps of earlier traces, so that `seen` is of the next call."""
    return of_one_example(functools.partial(_kernel))


def _truth(pair: Pair, factor: np.ndarray) -> dict[str, np.ndarray]:
    row = 0 if pair.row is None else pair.row
    product = np.sum(np.asarray(pair.table) * (factor + row), axis=0)
    return {"rows": product, "sum": product.sum() + factor}


def _check(found: dict[str, jax.Array], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables [4, 5, 2, 3], rows [4] and factors [5]."""
    random = np.random.default_rng(0)
    sizes = ((4, 5, 2, 3), (4,), (5,))
    seen.clear()
    return tuple(random.normal(size=size).astype(np.float32) for size in sizes)


@pytest.mark.parametrize("jit", [False, True])
def test_one_example(data: tuple, jit: bool) -> None:
    table, row, factor = data
    call = jax.jit(_traced_anew()) if jit else function
    _check(call(Pair(table[0, 0], row[0]), factor[0]), _truth(Pair(table[0, 0], row[0]), factor[0]))
    assert seen[-1] == (Pair((2, 3, 1), (1,)), (1,))


NESTED = {
    "all in the inner": ((Pair(0, 0), None), (Pair(0, None), 0), (Pair((2, 3, 20), (20,)), (20,))),
    "table shared": ((Pair(None, 0), None), (Pair(None, None), 0), (Pair((2, 3, 1), (20,)), (20,))),
    "row absent": ((Pair(0), None), (Pair(0), 0), (Pair((2, 3, 20), None), (20,))),
    "row shared": ((Pair(0, None), None), (Pair(0, None), 0), (Pair((2, 3, 20), (1,)), (20,))),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_batches_are_one_call_of_the_kernel(data: tuple, name: str) -> None:
    """Outer axis of 4 (tables, rows), inner axis of 5 (tables, factors)."""
    table, row, factor = data
    outer, inner, shapes = NESTED[name]
    given = Pair(
        table if outer[0].table == 0 else table[0, 0],
        {"row absent": None, "row shared": row[0]}.get(name, row),
    )
    for jit in (False, True) if name == "row shared" else (True,):
        call = jax.vmap(jax.vmap(_traced_anew(), inner), outer)
        found = jax.device_get((jax.jit(call) if jit else call)(given, factor))
        assert seen[-1] == shapes
        for i, j in np.ndindex(4, 5):
            own = Pair(
                table[i, j] if outer[0].table == 0 else table[0, 0],
                {"row absent": None, "row shared": row[0]}.get(name, row[i]),
            )
            expected = _truth(own, factor[j])
            _check(jax.tree.map(lambda leaf, at=(i, j): leaf[at], found), expected)


def test_order_of_nested_axes(data: tuple) -> None:
    """The same batch nested the other way round, with in_axes and out_axes that are not 0."""
    table, row, factor = data
    straight = jax.vmap(jax.vmap(function, (Pair(0, None), 0)), (Pair(0, 0), None))
    turned = jax.vmap(jax.vmap(function, (Pair(0, 0), None)), (Pair(1, None), 0), out_axes=1)
    _check(jax.jit(turned)(Pair(table, row), factor), jax.jit(straight)(Pair(table, row), factor))


def test_shared_argument_under_a_batch_of_one_then_many(data: tuple) -> None:
    """A leaf of width 1 that belongs to an inner batch of one is not mistaken for a shared one."""
    table, row, factor = data
    inner = jax.vmap(function, (Pair(0, None), None))
    call = jax.jit(jax.vmap(inner, (Pair(0, 0), None)))
    found = jax.device_get(call(Pair(table[:, :1], row), factor[0]))
    for i in range(4):
        expected = _truth(Pair(table[i, 0], row[i]), factor[0])
        _check(jax.tree.map(lambda leaf, i=i: leaf[i, 0], found), expected)


@pytest.mark.parametrize("batch", [1, 3, 4, 5, 8, 11])
def test_blocks_of_columns_change_nothing(batch):
    """Shared arguments stay shared, a last block that is not full is filled up and cut off."""

    def kernel(table, rows):
        assert rows["a"].shape[-1] <= 4
        return {"sum": jnp.sum(table * rows["a"], axis=0), "rows": rows["b"] + 1}

    random = np.random.default_rng(0)
    table = random.normal(size=(3, 1))
    rows = {"a": random.normal(size=(3, batch)), "b": random.integers(0, 9, (2, 2, batch))}
    found = jax.jit(in_column_blocks(kernel, 4))(table, rows)
    wanted = np.sum(table * rows["a"], axis=0, dtype=np.float32)
    np.testing.assert_allclose(found["sum"], wanted, rtol=1e-5)
    np.testing.assert_array_equal(found["rows"], rows["b"] + 1)


def test_an_accelerator_has_no_blocks_but_of_memory(monkeypatch):
    widths = []

    def kernel(rows):
        widths.append(rows.shape[-1])
        return rows

    monkeypatch.setattr(batch_last, "runs_on_cpu", lambda: False)
    for options, wanted in (({}, 8), ({"of_memory": True}, 4)):
        in_column_blocks(kernel, 4, **options)(np.zeros((2, 8)))
        assert widths.pop() == wanted


def _best_kernel(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The largest entry of each column, and where it is."""
    return jnp.max(rows, axis=0), jnp.argmax(rows, axis=0)


def _entry(found: tuple[jax.Array, jax.Array], rows: jax.Array) -> jax.Array:
    return rows[found[1]]


best = of_one_example(_best_kernel, _entry)
ROWS = np.array([[3.0, 1.0, 3.0], [0.0, -np.inf, 5.0], [-np.inf] * 3], np.float32)


def test_the_derivative_is_that_of_the_output_held_fixed() -> None:
    """Of equal entries the first has it, alone; nothing moves -inf; integers have none."""
    wanted = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0]], np.float32)

    def total(rows: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(best)(rows)[0])

    alone = jax.vmap(jax.grad(lambda row: best(row)[0]))
    for gradient in (jax.jit(alone), jax.jit(jax.grad(total))):
        np.testing.assert_array_equal(gradient(ROWS), wanted)
    (value, place), (slope, none) = jax.jvp(best, (ROWS[1],), (jnp.arange(3.0),))
    assert (value, place, slope) == (5, 2, 2) and none.dtype == jax.dtypes.float0
    assert not jax.jit(jax.hessian(lambda row: best(row)[0]))(ROWS[0]).any()


def test_without_a_derivative_nothing_else_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is that of the kernel alone, under vmap and not."""
    monkeypatch.setattr(batch_last, "_differentiable", lambda function, *_: function)
    bare = of_one_example(_best_kernel)
    for call, plain in ((best, bare), (jax.vmap(best), jax.vmap(bare))):
        rows = ROWS if call is not best else ROWS[0]
        texts = [jax.jit(f).lower(rows).compile().as_text() for f in (call, plain)]
        operations = [re.findall(r" = (\S+ [a-z-]+)\(", text) for text in texts]
        assert operations[0] == operations[1] and len(operations[0]) > 3


def test_an_oracle_without_scores_says_what_to_do() -> None:
    with refused("test_loops .* no derivative .*score_labels", error=TypeError):
        jax.grad(lambda factor: function(Pair(np.ones((2, 3), np.float32)), factor)["sum"])(2.0)
    place = of_one_example(lambda rows: jnp.argmax(rows, axis=0))
    assert not jax.grad(lambda row: row[place(row)] * 0)(ROWS[0]).any()  # integers have none
