"""The contract between structures and solvers: a problem is a NamedTuple of pure functions.

F(x, y; w) = <w, Psi(x, y)> = score(theta, y) with theta = potentials(w, x), both maps linear in
their first argument. A solver sees nothing else of a structure (thesis 3.5.1: "a very general and
well-defined interface independent of the choice of Psi").

theta may carry integers beside its potentials, such as the length of a sequence: they pass through
every linear map as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.tree_util import Partial

from jaxstruct.core.types import Array, PyTree


class Contenders(NamedTuple):
    """The best wrong output at every loss level of one example.

    Fields:
      losses: [L] Delta(y_i, .) of each level.
      scores: [L] best F among the outputs y != y_i of that level, -inf where there is none.
      trace: whatever `output` needs to build the output of one level.
    """

    losses: Array
    scores: Array
    trace: PyTree


class Problem(NamedTuple):
    """Pure functions of ONE example; build it with `make_problem`.

    Every field but `initial_weights` is a `jax.tree_util.Partial`, so that a problem is itself a
    pytree: tables bound to the functions are arguments of a compiled solver, not constants in it,
    and two problems of equal shapes share one compiled program.

    Fields:
      initial_weights: the zero weights w, a pytree; its dtype is the dtype of the whole run.
      potentials: (w, x) -> theta, linear in w.
      score: (theta, y) -> F, linear in theta; y are padded integers.
      decode: theta -> argmax_y F, ties to the lowest index.
      loss: (y_true, y) -> Delta >= 0, with Delta(y, y) = 0.
      contenders: (theta, y_true) -> Contenders, over all y != y_true.
      output: (trace, level) -> y of that level.
      add: (w, x[B], u[B]) -> w + sum_b A_b' u_b over a batch; A_x is the map potentials(., x).
      gram_action: (x, u) -> A_x A_x' u, the potentials of x after u was added at x.
      plane_scores: (theta, y[K]) -> F[K].
      combine: (theta, y[K], c[K]) -> sum_k c_k d score(., y_k) / d theta, shaped as theta.
      plane_values: (w, x[B], y[B, K]) -> F[B, K] straight from the weights, up to a constant an
        example (only differences of F within an example are used).
      add_planes: (w, x[B], y[B, K], c[B, K]) -> w + sum_b sum_k c_bk Psi(x_b, y_bk).
      plane_gram: (x, y_true, y[K], y) -> [K] <delta Psi(y_k), delta Psi(y)>.
      plane_norms: (x, y_true, y[K]) -> [K] |delta Psi(y_k)|^2.
      all_outputs: y_true -> y[K], every output with the true one first, or None where the output
        space is too large to enumerate.
      augmented: (theta, y_true, scale) -> argmax_y F + scale Delta over all y, y_true included, or
        None; where the loss is additive, one plain decode serves margin re-scaling.
      best_wrong: (theta, y_true) -> argmax of F over y != y_true (y_true itself where it is the
        only output), or None; the oracle of the formulations without a loss.
      level_losses: y_true -> Delta[L] of the levels of `best_level`, or None.
      best_level: (theta, y_true, offsets[L], slopes[L]) -> the best output y != y_true of the level
        that maximises offsets + slopes F (y_true itself where there is none), or None; contenders
        and traceback in one program.
      squared_norm: (w, x) -> |w|^2, or None; it may also return None for inputs x (kernel values)
        under which w are no orthonormal coordinates.
      narrowed: (x[B], y[B, K]) -> (x'[B], fits[B]), or None; inputs x' that plane_values and
        add_planes take in place of x for these planes alone, at less cost, and whether an example
        fits them (if not, x must be used). Combinations have coefficients that sum to 0.
      check: (inputs, outputs) -> None, on the host before anything compiles; raises ValueError.
    """

    initial_weights: PyTree
    potentials: Partial
    score: Partial
    decode: Partial
    loss: Partial
    contenders: Partial | None
    output: Partial | None
    add: Partial
    gram_action: Partial
    plane_scores: Partial
    combine: Partial
    plane_values: Partial
    add_planes: Partial
    plane_gram: Partial
    plane_norms: Partial
    all_outputs: Partial | None
    augmented: Partial | None
    best_wrong: Partial | None
    level_losses: Partial | None
    best_level: Partial | None
    squared_norm: Partial | None
    narrowed: Partial | None
    check: Partial


def _no_check(inputs: PyTree, outputs: PyTree) -> None:
    del inputs, outputs


def _partial(function: Callable) -> Partial:
    return function if isinstance(function, Partial) else Partial(function)


def _optional(function: Callable | None) -> Partial | None:
    return None if function is None else _partial(function)


def sum_of_squares(w: PyTree, x: PyTree) -> Array:
    """|w|^2 of weights that are coordinates; x plays no part."""
    del x
    return sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(w))


def _is_linear(leaf: Array) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def _linear_leaves(tree: PyTree) -> list[Array]:
    """The floating-point leaves of theta: the part that is linear in w."""
    return [leaf for leaf in jax.tree.leaves(tree) if _is_linear(leaf)]


def _transposed_add(potentials: Partial, weights: PyTree, inputs: PyTree, u: PyTree) -> PyTree:
    """w + sum_b A_b' u_b through the transpose of the batched potentials."""

    def batched(w: PyTree) -> PyTree:
        return _linear_leaves(jax.vmap(potentials, (None, 0))(w, inputs))

    (change,) = jax.linear_transpose(batched, weights)(_linear_leaves(u))
    return jax.tree.map(jnp.add, weights, change)


def _default_gram_action(
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


def _default_plane_scores(score: Partial, theta: PyTree, outputs: PyTree) -> Array:
    return jax.vmap(score, (None, 0))(theta, outputs)


def _default_combine(
    plane_scores: Partial, theta: PyTree, outputs: PyTree, coefficients: Array
) -> PyTree:
    leaves, structure = jax.tree.flatten(theta)
    linear = [_is_linear(leaf) for leaf in leaves]

    def filled(parts: list[Array]) -> PyTree:
        given = iter(parts)
        whole = [next(given) if flag else x for flag, x in zip(linear, leaves, strict=True)]
        return jax.tree.unflatten(structure, whole)

    (u,) = jax.linear_transpose(
        lambda parts: plane_scores(filled(parts), outputs), _linear_leaves(theta)
    )(coefficients)
    return filled(u)


def _default_plane_values(
    parts: tuple[Partial, Partial], w: PyTree, x: PyTree, outputs: PyTree
) -> Array:
    potentials, plane_scores = parts
    theta = jax.vmap(potentials, (None, 0))(w, x)
    return jax.vmap(plane_scores)(theta, outputs)


def _zero_potentials(potentials: Partial, w: PyTree, x: PyTree) -> PyTree:
    """Zeros shaped as theta, its integers in place: where linear maps are transposed."""
    theta = potentials(w, x)  # only the integers of it are computed
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if _is_linear(leaf) else leaf, theta)


def _default_add_planes(
    parts: tuple[Partial, Partial, Partial],
    w: PyTree,
    inputs: PyTree,
    outputs: PyTree,
    coefficients: Array,
) -> PyTree:
    potentials, combine, add = parts

    def of_one(x: PyTree, y: PyTree, c: Array) -> PyTree:
        return combine(_zero_potentials(potentials, w, x), y, c)

    return add(w, inputs, jax.vmap(of_one)(inputs, outputs, coefficients))


def _default_plane_gram(
    parts: tuple[Partial, Partial, Partial, Partial],
    zero_weights: PyTree,
    x: PyTree,
    y_true: PyTree,
    outputs: PyTree,
    y: PyTree,
) -> Array:
    """One column of the Gram block of an example through A_x A_x' u."""
    potentials, gram_action, plane_scores, combine = parts
    theta = _zero_potentials(potentials, zero_weights, x)
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), y_true, y)
    dtype = jnp.result_type(*_linear_leaves(theta))
    action = gram_action(x, combine(theta, pair, jnp.asarray([1, -1], dtype)))
    one = jax.tree.map(lambda leaf: leaf[None], y_true)
    return plane_scores(action, one)[0] - plane_scores(action, outputs)


def _default_plane_norms(plane_gram: Partial, x: PyTree, y_true: PyTree, outputs: PyTree) -> Array:
    def norm(y: PyTree) -> Array:
        return plane_gram(x, y_true, jax.tree.map(lambda leaf: leaf[None], y), y)[0]

    return jax.lax.map(norm, outputs)


def make_problem(
    *,
    initial_weights: PyTree,
    potentials: Callable,
    score: Callable,
    decode: Callable,
    loss: Callable,
    contenders: Callable | None,
    output: Callable | None,
    add: Callable | None = None,
    gram_action: Callable | None = None,
    plane_scores: Callable | None = None,
    combine: Callable | None = None,
    plane_values: Callable | None = None,
    add_planes: Callable | None = None,
    plane_gram: Callable | None = None,
    plane_norms: Callable | None = None,
    all_outputs: Callable | None = None,
    augmented: Callable | None = None,
    best_wrong: Callable | None = None,
    level_losses: Callable | None = None,
    best_level: Callable | None = None,
    squared_norm: Callable | None = None,
    narrowed: Callable | None = None,
    check: Callable = _no_check,
) -> Problem:
    """Gather the functions of a structure in a `Problem`.

    The first seven are what a structure must say; the next eight follow from them by transposition
    and are only given where a structure knows a faster way (see `Problem` for their equations);
    `all_outputs` may be given for a small output space; `augmented`, `best_wrong` and the pair
    `level_losses`, `best_level` are faster oracles for some formulations; `squared_norm` (which
    follows where neither `add` nor `gram_action` is given) and `narrowed` make sweeps cheaper;
    `check` looks at the values of the examples before a run. contenders and output may both be
    None where augmented is given, for a loss of too many levels.
    Functions should be module-level (or Partials of such), so that a second problem made of them
    does not compile anew.

    Raises:
      TypeError: an argument is not callable, or initial_weights holds no floating-point array.
      ValueError: one of level_losses and best_level is given without the other.
    """
    functions = dict(
        potentials=potentials,
        score=score,
        decode=decode,
        loss=loss,
        contenders=contenders,
        output=output,
    )
    without_levels = contenders is None and output is None and augmented is not None
    for name, function in functions.items():
        if without_levels and function is None:
            continue
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    leaves = jax.tree.leaves(initial_weights)
    if not leaves or not all(
        jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves
    ):
        raise TypeError("initial_weights must be a pytree of floating-point arrays (zeros)")
    if (level_losses is None) != (best_level is None):
        raise ValueError("level_losses and best_level go together: give both or neither")
    given = {name: _optional(function) for name, function in functions.items()}
    zero = jax.tree.map(jnp.zeros_like, initial_weights)
    euclidean = add is None and gram_action is None
    add = _partial(add or Partial(_transposed_add, given["potentials"]))
    scores = _partial(plane_scores or Partial(_default_plane_scores, given["score"]))
    combine = _partial(combine or Partial(_default_combine, scores))
    action = gram_action or Partial(_default_gram_action, add, given["potentials"], zero)
    parts = (given["potentials"], _partial(action), scores, combine)
    values = plane_values or Partial(_default_plane_values, (given["potentials"], scores))
    planes = add_planes or Partial(_default_add_planes, (given["potentials"], combine, add))
    gram = _partial(plane_gram or Partial(_default_plane_gram, parts, zero))
    return Problem(
        initial_weights=zero,
        **given,
        add=add,
        plane_scores=scores,
        gram_action=_partial(action),
        combine=combine,
        plane_values=_partial(values),
        add_planes=_partial(planes),
        plane_gram=gram,
        plane_norms=_partial(plane_norms or Partial(_default_plane_norms, gram)),
        all_outputs=_optional(all_outputs),
        augmented=_optional(augmented),
        best_wrong=_optional(best_wrong),
        level_losses=_optional(level_losses),
        best_level=_optional(best_level),
        squared_norm=_optional(squared_norm or (sum_of_squares if euclidean else None)),
        narrowed=_optional(narrowed),
        check=_partial(check),
    )


def difference(problem: Problem, theta: PyTree, y_true: PyTree, y: PyTree) -> PyTree:
    """d [score(theta, y_true) - score(theta, y)] / d theta: delta Psi_i(y) seen from theta."""
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), y_true, y)
    dtype = jnp.result_type(*_linear_leaves(theta))
    return problem.combine(theta, pair, jnp.asarray([1, -1], dtype))


def scaled(u: PyTree, factor: Array) -> PyTree:
    """factor u, the integers of a theta-shaped u left as they are."""
    return jax.tree.map(lambda leaf: leaf * factor if _is_linear(leaf) else leaf, u)


def joint_feature(problem: Problem, x: PyTree, y: PyTree) -> PyTree:
    """Psi(x, y), shaped as the weights: A_x' d score(theta, y) / d theta (thesis 3.1).

    Args:
      problem: the structure.
      x: one input.
      y: one output.

    Returns:
      A pytree like the weights with F(x, y; w) = <w, Psi(x, y)>.
    """
    zero = problem.initial_weights
    theta = problem.potentials(zero, x)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], y)
    dtype = jnp.result_type(*_linear_leaves(theta))
    u = problem.combine(theta, one, jnp.ones(1, dtype))
    return problem.add(zero, *jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (x, u)))
