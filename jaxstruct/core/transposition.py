"""How planes are summed, derived from a model by transposition.

A_x is the map potentials(., x), linear in w. What a structure does not say of its space follows
from A_x, from its transpose A_x', and from score and its transpose. theta may carry integers beside
its potentials, such as the length of a sequence: they pass through every linear map as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.tree_util import Partial

from jaxstruct.core.types import Array, PyTree


def is_linear(leaf: Array) -> bool:
    """Whether a leaf of theta is a potential: a floating-point array, hence linear in w."""
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def linear_leaves(tree: PyTree) -> list[Array]:
    """The floating-point leaves of theta: the part that is linear in w."""
    return [leaf for leaf in jax.tree.leaves(tree) if is_linear(leaf)]


def with_linear_leaves(theta: PyTree, leaves: list[Array]) -> PyTree:
    """theta with these floating-point leaves and its own integers."""
    given, (own, structure) = iter(leaves), jax.tree.flatten(theta)
    return jax.tree.unflatten(structure, [next(given) if is_linear(x) else x for x in own])


def scaled(u: PyTree, factor: Array) -> PyTree:
    """factor u, the integers of a theta-shaped u left as they are."""
    return jax.tree.map(lambda leaf: leaf * factor if is_linear(leaf) else leaf, u)


def with_known(potentials: Partial, known: Partial, w: PyTree, x: PyTree) -> PyTree:
    """theta = A_x w + k(x)."""

    def of_leaf(leaf: Array, more: Array) -> Array:
        return leaf + jnp.asarray(more, leaf.dtype) if is_linear(leaf) else leaf

    return jax.tree.map(of_leaf, potentials(w, x), known(x))


def linear_part(potentials: Any) -> Any:
    """(w, x) -> A_x w of the potentials of a model."""
    return potentials.args[0] if potentials.func is with_known else potentials


def sum_of_squares(w: PyTree, x: PyTree) -> Array:
    """|w|^2 of weights that are coordinates; x plays no part."""
    del x
    return jnp.asarray(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(w)))


def no_coordinates(w: PyTree, x: PyTree) -> None:
    """|w|^2 of weights that are no coordinates, such as coefficients of kernel values: unknown."""
    del w, x


def add(potentials: Partial, weights: PyTree, inputs: PyTree, u: PyTree) -> PyTree:
    """w + sum_b A_b' u_b through the transpose of the batched potentials."""

    def batched(w: PyTree) -> PyTree:
        return linear_leaves(jax.vmap(potentials, (None, 0))(w, inputs))

    (change,) = jax.linear_transpose(batched, weights)(linear_leaves(u))
    return jax.tree.map(jnp.add, weights, change)


def gram_action(
    add: Partial, potentials: Partial, zero_weights: PyTree, x: PyTree, u: PyTree
) -> PyTree:
    """A_x A_x' u by adding u to zero weights and evaluating x again, O(size of w).

    Under vmap it runs one example after the other, so that memory stays that of one w.
    """

    @sequential_vmap
    def action(functions: tuple[Partial, Partial], zero: PyTree, x: PyTree, u: PyTree) -> PyTree:
        add, potentials = functions  # arguments: nested vmaps do not see into a closure
        one = jax.tree.map(lambda leaf: leaf[None], (x, u))
        return potentials(add(zero, *one), x)

    return action((add, potentials), zero_weights, x, u)


def plane_scores(score: Partial, theta: PyTree, outputs: PyTree) -> Array:
    """F(x, y_k; w) = score(theta, y_k) of K outputs, [K]."""
    return jax.vmap(score, (None, 0))(theta, outputs)


def combine(plane_scores: Partial, theta: PyTree, outputs: PyTree, coefficients: Array) -> PyTree:
    """sum_k c_k d score(., y_k) / d theta, shaped as theta, by the transpose of score."""
    (u,) = jax.linear_transpose(
        lambda parts: plane_scores(with_linear_leaves(theta, parts), outputs), linear_leaves(theta)
    )(coefficients)
    return with_linear_leaves(theta, u)


def plane_values(parts: tuple[Partial, Partial], w: PyTree, x: PyTree, outputs: PyTree) -> Array:
    """[B, K] F(x_b, y_bk; w) through the potentials; parts: (potentials, plane_scores)."""
    potentials, plane_scores = parts
    theta = jax.vmap(potentials, (None, 0))(w, x)
    return jax.vmap(plane_scores)(theta, outputs)


def zero_potentials(potentials: Callable, w: PyTree, x: PyTree) -> PyTree:
    """Zeros shaped as theta, its integers in place: where linear maps are transposed."""
    theta = potentials(w, x)  # only the integers of it are computed
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if is_linear(leaf) else leaf, theta)


def add_planes(
    parts: tuple[Partial, Partial, Partial],
    w: PyTree,
    inputs: PyTree,
    outputs: PyTree,
    coefficients: Array,
) -> PyTree:
    """w + sum_b sum_k c_bk Psi(x_b, y_bk); parts: (potentials, combine, add)."""
    potentials, combine, add = parts

    def of_one(x: PyTree, y: PyTree, c: Array) -> PyTree:
        return combine(zero_potentials(potentials, w, x), y, c)

    return add(w, inputs, jax.vmap(of_one)(inputs, outputs, coefficients))


def _difference_seen(
    parts: tuple[Partial, Partial, Partial, Partial],
    zero_weights: PyTree,
    x: PyTree,
    y_true: PyTree,
    y: PyTree,
) -> tuple[PyTree, Array]:
    """(A_x delta Psi(y) of one example, [2] the scores of y_true and y at it).

    Scores at it are inner products with delta Psi(y).
    """
    potentials, gram_action, plane_scores, combine = parts
    theta = zero_potentials(potentials, zero_weights, x)
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), y_true, y)
    dtype = jnp.result_type(*linear_leaves(theta))
    seen = gram_action(x, combine(theta, pair, jnp.asarray([1, -1], dtype)))
    return seen, plane_scores(seen, pair)


def plane_gram(
    parts: tuple[Partial, Partial, Partial, Partial],
    zero_weights: PyTree,
    x: PyTree,
    y_true: PyTree,
    outputs: PyTree,
    y: PyTree,
) -> Array:
    """[K] <delta Psi(y_k), delta Psi(y)> of one example, through A_x A_x' u.

    parts: (potentials, gram_action, plane_scores, combine).
    """
    seen, own = _difference_seen(parts, zero_weights, x, y_true, y)
    return own[0] - parts[2](seen, outputs)


def gram_columns(gram: Partial, x: PyTree, y_true: PyTree, y: PyTree) -> tuple[Array, Callable]:
    """([B] |delta Psi(y_b)|^2; outputs [B, J] -> [B, J] <delta Psi(y_bj), delta Psi(y_b)>).

    What all J share comes once.

    Args:
      gram: Space.plane_gram of a problem. x, y_true, y: [B].
    """
    if gram.func is not plane_gram:
        one = jax.tree.map(lambda leaf: leaf[:, None], y)
        squared = jax.vmap(gram)(x, y_true, one, y)[:, 0]
        return squared, lambda outputs: jax.vmap(gram)(x, y_true, outputs, y)
    parts, zero = gram.args
    seen, own = jax.vmap(partial(_difference_seen, parts, zero))(x, y_true, y)
    return own[:, 0] - own[:, 1], lambda outputs: own[:, :1] - jax.vmap(parts[2])(seen, outputs)


def plane_norms(plane_gram: Partial, x: PyTree, y_true: PyTree, outputs: PyTree) -> Array:
    """[K] |delta Psi(y_k)|^2, one column of the Gram block after the other."""

    def norm(y: PyTree) -> Array:
        return plane_gram(x, y_true, jax.tree.map(lambda leaf: leaf[None], y), y)[0]

    return jax.lax.map(norm, outputs)
