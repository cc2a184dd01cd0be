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
from jaxstruct.core.checks import MOST_SHOWN, text_of
from jaxstruct.core.contract import Bounded, Contenders, Oracles, Problem
from jaxstruct.core.types import PyTree
from jaxstruct.solvers.validation.checks import outline

_NOT_TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerIntegerConversionError,
)


def call(name: str, contract: str, function: Callable, *arguments: PyTree) -> PyTree:
    """What a function returns, as shapes.

    Raises:
      ValueError: it fails.
    """
    try:
        return jax.eval_shape(lambda function, given: function(*given), function, arguments)
    except Exception as error:
        given = ", ".join(map(outline, arguments))
        reason = " ".join(str(error).split(". ")[0].split())
        todo = ""
        if isinstance(error, _NOT_TRACED):
            reason = "it asks for the values of its arguments, as NumPy, int() and `if` do"
            todo = "; write it in jax.numpy, or call NumPy through jax.pure_callback"
        raise ValueError(
            f"{name} fails on ({given}): {type(error).__name__}: {reason[: 2 * MOST_SHOWN]}. It "
            f"must be {contract}{todo}"
        ) from error


def check_shapes(
    name: str, contract: str, found: PyTree, wanted: PyTree, kind: Any, said: str
) -> None:
    """Raise ValueError unless `found` has the structure and shapes of `wanted`, and leaves of a
    kind."""

    def shapes(tree: PyTree) -> tuple:
        return jax.tree.structure(tree), [np.shape(leaf) for leaf in jax.tree.leaves(tree)]

    alike = shapes(found) == shapes(wanted)
    if not alike or not all(jnp.issubdtype(x.dtype, kind) for x in jax.tree.leaves(found)):
        raise ValueError(
            f"{name} returns {outline(found)}, where {said} is expected: it must be {contract}"
        )


def check_output(name: str, contract: str, found: PyTree, y: PyTree) -> None:
    """An output, or a Bounded of one."""
    if isinstance(found, Bounded):
        check_shapes(name, contract, found.bound, jnp.zeros(()), jnp.floating, "a scalar bound")
        found = found.output
    check_shapes(name, contract, found, y, jnp.integer, f"an output, {outline(y)},")


def _check_model(problem: Problem, x: PyTree, y: PyTree) -> PyTree:
    """theta, once the four functions keep their contract."""
    model, dtype = problem.model, jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    name, contract = "model.potentials", "(w, x) -> theta, potentials of the dtype of w"
    theta = call(name, contract, model.potentials, problem.initial_weights, x)
    potentials = transposition.linear_leaves(theta)
    if not potentials or any(leaf.dtype != dtype for leaf in potentials):
        raise ValueError(
            f"{name} returns {outline(theta)}, where floating-point leaves of {dtype} are expected"
            f": it must be {contract}"
        )
    name, contract = "model.score", "(theta, y) -> F, a scalar"
    found = call(name, contract, model.score, theta, y)
    check_shapes(name, contract, found, jnp.zeros(()), jnp.floating, "a floating-point scalar")
    name, contract = "model.decode", "theta -> argmax_y F, integers shaped as an output"
    check_output(name, contract, call(name, contract, model.decode, theta), y)
    name, contract = "model.loss", "(y_true, y) -> Delta, a scalar"
    found = call(name, contract, model.loss, y, y)
    check_shapes(name, contract, found, jnp.zeros(()), jnp.generic, "a scalar")
    return theta


def _check_oracles(part: str, oracles: Oracles, dtype: Any, theta: PyTree, y: PyTree) -> None:
    scalar, level = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((), jnp.int32)
    if oracles.contenders is not None:
        name, contract = f"{part}.contenders", "(theta, y_true) -> jaxstruct.Contenders of levels"
        found = call(name, contract, oracles.contenders, theta, y)
        if not isinstance(found, Contenders):
            raise ValueError(f"{name} returns {text_of(found)}: it must be {contract}")
        sizes = found._replace(trace=None)
        wanted = jax.tree.map(lambda _: jnp.zeros(np.shape(found.losses)[:1]), sizes)
        check_shapes(
            name, contract, sizes, wanted, jnp.number, "losses [L], scores [L], bounds [L]"
        )
        name, contract = f"{part}.output", "(trace, level) -> y of that level"
        check_output(name, contract, call(name, contract, oracles.output, found.trace, level), y)
    for field, contract, extra in (
        ("best_wrong", "(theta, y_true) -> y", ()),
        ("loss_augmented_decode", "(theta, y_true, scale) -> y", (scalar,)),
    ):
        function = getattr(oracles, field)
        if function is not None:
            name = f"{part}.{field}"
            check_output(name, contract, call(name, contract, function, theta, y, *extra), y)
    if oracles.best_by_level is not None:
        name, contract = f"{part}.level_losses", "y_true -> Delta[L]"
        losses = call(name, contract, oracles.level_losses, y)
        wanted = jnp.zeros(np.shape(losses)[:1])
        check_shapes(name, contract, losses, wanted, jnp.number, "an array [L] of losses")
        name, contract = f"{part}.best_by_level", "(theta, y_true, offsets[L], slopes[L]) -> y"
        given = jax.ShapeDtypeStruct(losses.shape, dtype)
        found = call(name, contract, oracles.best_by_level, theta, y, given, given)
        check_output(name, contract, found, y)
    if oracles.all_outputs is not None:
        name, contract = f"{part}.all_outputs", "y_true -> y[K], a leading axis before an output"
        found = call(name, contract, oracles.all_outputs, y)
        count = (np.shape(jax.tree.leaves(found)[0]) or (0,))[0]
        check_shapes(name, contract, found, several(y, count), jnp.integer, "outputs [K, ...]")
    if oracles.cheap is not None:
        _check_oracles(f"{part}.cheap", oracles.cheap, dtype, theta, y)


def several(tree: PyTree, *axes: int) -> PyTree:
    """The tree with axes of so many in front."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*axes, *leaf.shape), leaf.dtype), tree)


def derived(function: Callable | None) -> bool:
    """Whether a function of a space is the one that transposition makes of a model."""
    func = getattr(function, "func", None)
    return getattr(func, "__module__", None) == transposition.__name__


def _check_space(problem: Problem, x: PyTree, y: PyTree, theta: PyTree) -> None:
    w, dtype = problem.initial_weights, jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    one_x, one_theta, two = several(x, 1), several(theta, 1), several(y, 2)
    values = jax.ShapeDtypeStruct((2,), dtype)
    calls = {
        "add": ("(w, x[B], u[B]) -> w", (w, one_x, one_theta), w),
        "gram_action": ("(x, u) -> theta", (x, theta), theta),
        "plane_scores": ("(theta, y[K]) -> F[K]", (theta, two), values),
        "combine": ("(theta, y[K], c[K]) -> theta", (theta, two, values), theta),
        "plane_values": (
            "(w, x[B], y[B, K]) -> F[B, K]", (w, one_x, several(two, 1)), several(values, 1),
        ),
        "add_planes": (
            "(w, x[B], y[B, K], c[B, K]) -> w",
            (w, one_x, several(two, 1), several(values, 1)), w,
        ),
        "plane_gram": ("(x, y_true, y[K], y) -> [K]", (x, y, two, y), values),
        "plane_norms": ("(x, y_true, y[K]) -> [K]", (x, y, two), values),
    }  # fmt: skip
    for field, (contract, arguments, wanted) in calls.items():
        function = getattr(problem.space, field)
        if function is not None and not derived(function):
            name = f"space.{field}"
            found = call(name, contract, function, *arguments)
            check_shapes(name, contract, found, wanted, jnp.number, outline(wanted))


def check_functions(problem: Problem, x: PyTree, y: PyTree) -> None:
    """Raise ValueError where a function of a structure fails or returns something of another shape.

    Args:
      problem: the structure. x, y: one example, of which shapes and dtypes are seen.
    """
    x, y = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (x, y))
    theta = _check_model(problem, x, y)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    _check_oracles("oracles", problem.oracles, dtype, theta, y)
    _check_space(problem, x, y, theta)
