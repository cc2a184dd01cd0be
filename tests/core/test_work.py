"""The work of functions whose every number is easy to count by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jaxstruct.core.work import repeated
from jaxstruct.core.work import work_of as work_and_size

A, B, D = 2, 3, 5


def work_of(function, *arguments):
    return work_and_size(function, *arguments).numbers


def _of(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _repeated(x, count=11):
    """`count` turns of one addition and one product."""
    return jax.lax.scan(lambda c, _: (c * c + x, None), x, None, length=count)[0]


def _of_unknown_length(x):
    """A turn: a comparison, an addition of integers, and a product of x."""
    return jax.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] * s[1]), (0, x))


def test_a_product_of_matrices_counts_its_multiplications():
    assert work_of(jax.lax.dot, _of(A, B), _of(B, D)) == A * B * D
    assert work_of(jax.lax.dot, _of(B), _of(B)) == B
    both = (((0, 2), (1, 0)), ((), ()))  # two axes contracted, the others side by side
    assert work_of(
        lambda x, y: jax.lax.dot_general(x, y, both), _of(A, B, D), _of(D, A, 7)
    ) == (A * D) * B * 7  # fmt: skip


def test_elementwise_operations_count_their_results():
    assert work_of(jnp.negative, _of(A, B)) == A * B
    assert work_of(lambda x: jnp.exp(x) * x, _of(A, B)) == 2 * A * B
    assert work_of(lambda x, y: x[:, None] * y[None], _of(B), _of(D)) == B + D + B * D
    assert work_of(lambda x: x, _of(B)) == 0


def test_a_loop_of_known_length_counts_every_turn():
    assert work_of(_repeated, _of(B)) == 11 * 2 * B
    assert work_of(lambda x: _repeated(x, 1000), _of(B)) == 1000 * 2 * B

    def nested(x):
        return jax.lax.scan(lambda c, _: (_repeated(c), None), x, None, length=7)[0]

    assert work_of(nested, _of(B)) == 7 * 11 * 2 * B


def test_a_loop_of_unknown_length_counts_one_turn():
    assert work_of(_of_unknown_length, _of(B)) == 1 + 1 + B


def test_a_body_counts_as_often_as_it_is_said_to_repeat():
    def stated(x):
        body = repeated(lambda s: (s[0] + 1, s[1] * s[1]), 40)
        return jax.lax.while_loop(lambda s: s[0] < 9, body, (0, x))

    assert work_of(stated, _of(B)) == 1 + 40 * (1 + B)
    assert stated(jnp.ones(B))[0] == 9
    assert work_and_size(stated, _of(B)).equations <= 6


def test_a_choice_counts_every_branch():
    def chosen(yes, x):
        return jax.lax.cond(yes, lambda x: x + x, lambda x: x * x * x, x)

    found = work_of(chosen, jax.ShapeDtypeStruct((), bool), _of(1000))
    assert 3000 <= found <= 3003  # the rest turns the flag into an index


def test_functions_inside_count_as_if_they_were_written_out():
    @jax.custom_vjp
    def squared(x):
        return x * x

    squared.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
    plain = lambda x: x * x  # noqa: E731
    for inner in (jax.jit(plain), jax.jit(jax.jit(plain)), jax.checkpoint(plain), squared):
        assert work_of(lambda x, inner=inner: inner(x) + inner(x), _of(B)) == 3 * B


@pytest.mark.parametrize("size", [1, 4, 9])
def test_a_batch_counts_once_an_example(size):
    assert work_of(jax.vmap(jax.lax.dot), _of(size, A, B), _of(size, B, D)) == size * A * B * D
    assert work_of(jax.vmap(_repeated), _of(size, B)) == size * work_of(_repeated, _of(B))
    shared = jax.vmap(jax.lax.dot, (0, None))
    assert work_of(shared, _of(size, A, B), _of(B, D)) == size * A * B * D


@pytest.mark.parametrize(
    "function, shape",
    [
        (_repeated, (1,)),
        (_of_unknown_length, (1,)),
        (jnp.cumsum, (1,)),
        (lambda x: x @ x.T, (1, 1)),
    ],
)
def test_more_to_compute_is_more_work(function, shape):
    found = [work_of(function, _of(*(n * of for of in shape))) for n in (3, 4, 40, 400)]
    assert all(one < next for one, next in zip(found[:-1], found[1:], strict=True))


def test_arrays_and_their_shapes_count_alike_and_nothing_runs():
    ran = []

    def watched(x):
        jax.debug.callback(lambda: ran.append(1))
        return x * x

    assert work_of(watched, jnp.ones(B)) == work_of(watched, _of(B)) >= B
    jax.effects_barrier()
    assert not ran


def test_equations_of_loops_and_inner_functions_count_once():
    """Whatever the sizes and the turns: that is what is compiled."""

    def size_of(function, *shape):
        return work_and_size(function, _of(*shape)).equations

    assert size_of(lambda x: x, B) == 0
    assert size_of(lambda x: jnp.exp(x) * x, B) == 2
    assert size_of(jax.jit(lambda x: jnp.exp(x) * x), B) == 1 + 2
    assert size_of(_repeated, B) == size_of(lambda x: _repeated(x, 1000), 100 * B) == 1 + 2
    assert size_of(_of_unknown_length, B) == 1 + 3
