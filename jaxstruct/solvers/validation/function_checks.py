"""The functions of a structure by their shapes: what each is called with, and what it returns.

Every function is traced by itself on one example; the first that fails, or returns something else
than its contract says, is named. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core import transposition
from jaxstruct.core.contract import Bounded, Contenders, Oracles, Problem, output_of
from jaxstruct.core.messages import MOST_SHOWN
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.validation.checks import outline

_NOT_TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerIntegerConversionError,
)


def returned(
    name: str,
    contract: str,
    function: Callable,
    given: tuple,
    like: Any,
    said: str = "",
    kind: Any = None,
) -> PyTree:
    """What a function returns, as shapes.

    Args:
      name, contract: what messages call it. given: its arguments.
      like: what it must return, by structure and shapes, with integers where this has some; or a
        function that says so of what it returned. said: the same in words. kind: of all leaves,
        where any numbers do not do.

    Raises:
      ValueError: it fails, or returns something else.
    """
    try:
        found = jax.eval_shape(function, *given)
    except Exception as error:
        arguments = ", ".join(map(outline, given))
        reason = " ".join(str(error).split(". ")[0].split())
        todo = ""
        if isinstance(error, _NOT_TRACED):
            reason = "it asks for the values of its arguments, as NumPy, int() and `if` do"
            todo = "; write it in jax.numpy, or call NumPy through jax.pure_callback"
        raise ValueError(
            f"{name} fails on ({arguments}): {type(error).__name__}: {reason[: 2 * MOST_SHOWN]}. "
            f"It must be {contract}{todo}"
        ) from error
    wanted = like(found) if callable(like) else like
    mine, right = map(jax.tree.leaves, (found, wanted))
    fits = jax.tree.structure(found) == jax.tree.structure(wanted) and all(
        np.shape(a) == np.shape(b) and jnp.issubdtype(a.dtype, kind or _kind_of(b))
        for a, b in zip(mine, right, strict=True)
    )
    if not fits:
        raise ValueError(
            f"{name} returns {outline(found)}, where {said or outline(wanted)} is expected: it "
            f"must be {contract}"
        )
    return found


def _kind_of(leaf: Any) -> Any:
    return jnp.integer if jnp.issubdtype(leaf.dtype, jnp.integer) else jnp.generic


def several(tree: PyTree, *axes: int) -> PyTree:
    """The tree with axes of so many in front."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*axes, *leaf.shape), leaf.dtype), tree)


def derived(function: Callable | None) -> bool:
    """Whether a function of a space is the one that transposition makes of a model."""
    func = getattr(function, "func", None)
    return getattr(func, "__module__", None) == transposition.__name__


def dtype_of(problem: Problem) -> jnp.dtype:
    """The dtype of the weights."""
    return jnp.result_type(*jax.tree.leaves(problem.initial_weights))


def an_output(y: PyTree) -> tuple[Callable, str]:
    """`like` and `said` of `returned`: an output shaped as y, or a Bounded of one."""

    def like(found: Any) -> PyTree:
        return Bounded(y, jnp.zeros(())) if isinstance(found, Bounded) else y

    return like, f"an output, {outline(y)},"


def _check_model(problem: Problem, x: PyTree, y: PyTree) -> PyTree:
    """theta, once the four functions keep their contract."""
    model, dtype, scalar = problem.model, dtype_of(problem), jnp.zeros(())
    name, contract = "model.potentials", "(w, x) -> theta, potentials of the dtype of w"
    given = problem.initial_weights, x
    linear = transposition.linear_part(model.potentials)
    theta = returned(name, contract, linear, given, lambda found: found)
    if model.known is not None:
        returned("model.known", "x -> k(x), shaped as theta", model.known, (x,), theta)
    potentials = transposition.linear_leaves(theta)
    if not potentials or any(leaf.dtype != dtype for leaf in potentials):
        raise ValueError(
            f"{name} returns {outline(theta)}, where floating-point leaves of {dtype} are expected"
            f": it must be {contract}"
        )
    name, contract, said = "model.score", "(theta, y) -> F, a scalar", "a floating-point scalar"
    truth, y = y, output_of(y)
    returned(name, contract, model.score, (theta, y), scalar, said, jnp.floating)
    contract = "theta -> argmax_y F, integers shaped as an output"
    returned("model.decode", contract, model.decode, (theta,), *an_output(y))
    contract = "(y_true, y) -> Delta, a scalar"
    returned("model.loss", contract, model.loss, (truth, y), scalar, "a scalar")
    return theta


def _check_oracles(oracles: Oracles, dtype: Any, theta: PyTree, y: PyTree) -> None:
    one = output_of(y)
    output, level = an_output(one), jax.ShapeDtypeStruct((), jnp.int32)
    scale = jax.ShapeDtypeStruct((), dtype)

    def check(field: str, contract: str, given: tuple, like: Any, said: str) -> Any:
        function = getattr(oracles, field)
        if function is not None:
            return returned(f"oracles.{field}", contract, function, given, like, said)
        return None

    def first_axis(leaf: Any) -> Any:
        return jnp.zeros(np.shape(leaf)[:1])

    def levels(found: Any) -> PyTree:
        if not isinstance(found, Contenders):
            return ()
        numbers = jax.tree.map(lambda _: first_axis(found.losses), found._replace(trace=None))
        return numbers._replace(trace=found.trace)

    def listed(found: PyTree) -> PyTree:
        return several(one, (*np.shape(jax.tree.leaves(found)[0]), 0)[0])

    check("best_wrong", "(theta, y_true) -> y", (theta, y), *output)
    check("loss_augmented_decode", "(theta, y_true, scale) -> y", (theta, y, scale), *output)
    contract = "(theta, y_true) -> jaxstruct.Contenders of levels"
    said = "losses [L], scores [L], bounds [L]"
    found = check("contenders", contract, (theta, y), levels, said)
    if found is not None:
        check("output", "(trace, level) -> y of that level", (found.trace, level), *output)
    if oracles.best_by_level is not None:
        said = "an array [L] of losses"
        losses = check("level_losses", "y_true -> Delta[L]", (y,), first_axis, said)
        given = jax.ShapeDtypeStruct(losses.shape, dtype)
        contract = "(theta, y_true, offsets[L], slopes[L]) -> y"
        check("best_by_level", contract, (theta, y, given, given), *output)
    contract = "y_true -> y[K], a leading axis before an output"
    check("all_outputs", contract, (y,), listed, "outputs [K, ...]")
    if (function := oracles.best_above) is not None:
        contract = "(theta, y_true, k, above) -> (y[k], bool[k])"
        wanted = several(one, 2), jax.ShapeDtypeStruct((2,), bool)

        def two_above(theta: PyTree, y: PyTree, above: Any) -> PyTree:
            return function(theta, y, 2, above)  # k is no array

        returned("oracles.best_above", contract, two_above, (theta, y, scale), wanted)


def _check_space(problem: Problem, x: PyTree, y: PyTree, theta: PyTree) -> None:
    w, one_x, two = problem.initial_weights, several(x, 1), several(y, 2)
    c = jax.ShapeDtypeStruct((2,), dtype_of(problem))
    planes, one_c = several(two, 1), several(c, 1)
    calls = {
        "add": ("(w, x[B], u[B]) -> w", (w, one_x, several(theta, 1)), w),
        "gram_action": ("(x, u) -> theta", (x, theta), theta),
        "plane_scores": ("(theta, y[K]) -> F[K]", (theta, two), c),
        "combine": ("(theta, y[K], c[K]) -> theta", (theta, two, c), theta),
        "plane_values": ("(w, x[B], y[B, K]) -> F[B, K]", (w, one_x, planes), one_c),
        "add_planes": ("(w, x[B], y[B, K], c[B, K]) -> w", (w, one_x, planes, one_c), w),
        "plane_gram": ("(x, y_true, y[K], y) -> [K]", (x, y, two, y), c),
        "plane_norms": ("(x, y_true, y[K]) -> [K]", (x, y, two), c),
    }
    for field, (contract, given, wanted) in calls.items():
        function = getattr(problem.space, field)
        if function is not None and not derived(function):
            returned(f"space.{field}", contract, function, given, wanted)


def check_functions(problem: Problem, x: PyTree, y: PyTree) -> None:
    """Raise ValueError where a function of a structure fails or returns something of another shape.

    Args:
      problem: the structure. x, y: one example, of which shapes and dtypes are seen.
    """
    x, y = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (x, y))
    theta = _check_model(problem, x, y)
    _check_oracles(problem.oracles, dtype_of(problem), theta, y)
    _check_space(problem, x, output_of(y), theta)
