"""Trainers of weights on inputs that are kernel values: random fields become kernel machines.

A kernel machine's weights are coefficients B on anchors, u_s = sum_j B[j, s] Phi(anchor_j), with
|u|^2 = tr(B' K B) (thesis 4.22). In B = R V with R of `kernels.gram_factor` it is |V|^2: V are
coordinates, in which the very same problem is one of features K R. What is trained is V; what
comes back is B, so that `predict` reads kernel values as it does for every kernel machine.

With Lambda of the classes, J = K L (4.12), B = R V S' with S the factor of L.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.chains.token_features import KernelTokens
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.contract import Problem, Space
from jaxstruct.core.problem import make_problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels.features import gram_factor
from jaxstruct.multiclass.structure import KernelInput, kernel_of_classes

_KINDS = (KernelTokens, KernelInput)
_COEFFICIENTS = ("emissions", "pairs", "coefficients")
"""The weights of a problem that are coefficients on anchors, where inputs are kernel values."""


class Coordinates(NamedTuple):
    """A problem on weights that are coordinates, and the way between them and the user's.

    Fields:
      problem: what is trained. lift: its weights -> those of the given problem. lower: the inverse,
        up to coefficients that no kernel value shows.
    """

    problem: Problem
    lift: Callable[[PyTree], PyTree]
    lower: Callable[[PyTree], PyTree]


class _Factors(NamedTuple):
    """R [m, r] of the anchors, and S [k, p] of the classes or None."""

    anchors: Array
    classes: Array | None


def _same(w: PyTree) -> PyTree:
    return w


def _is_kernel(node: Any) -> bool:
    return isinstance(node, _KINDS)


def _kernel_parts(inputs: Buckets) -> list[Any]:
    """The kernel values of every bucket."""
    nodes = [jax.tree.leaves(part, is_leaf=_is_kernel) for part in inputs.parts]
    return [node for found in nodes for node in found if _is_kernel(node)]


def _anchor_factor(parts: list[Any], m: int) -> np.ndarray:
    """R [m, r] of the anchors that are training points; zero rows for the others.

    Every training point is an anchor (the problem's own check says so), so that no other anchor
    has a coefficient.
    """
    rows = [np.asarray(part[0]) for part in parts]
    places = [np.asarray(part[1]) for part in parts]
    gram, seen = np.zeros((m, m), rows[0].dtype), np.zeros(m, bool)
    for row, place in zip(rows, places, strict=True):
        known = (place >= 0) & (place < m)
        gram[place[known]], seen[place[known]] = row[known], True
    own = gram[np.ix_(seen, seen)]
    factor = gram_factor((own + own.T) / 2)
    whole = np.zeros((m, factor.shape[1]), factor.dtype)
    whole[seen] = factor
    return whole


def _lift(factors: _Factors, w: PyTree) -> PyTree:
    def of_leaf(name: str, leaf: Array) -> Array:
        if name not in _COEFFICIENTS:
            return leaf
        raised = factors.anchors @ leaf
        return raised if factors.classes is None else raised @ factors.classes.T

    return {name: of_leaf(name, leaf) for name, leaf in w.items()}


def _inverse(factor: Array) -> Array:
    """The pseudo-inverse of a factor, whose columns are orthogonal."""
    return factor.T / jnp.sum(factor * factor, axis=0)[:, None]


def _lower(factors: _Factors, w: PyTree) -> PyTree:
    def of_leaf(name: str, leaf: Array) -> Array:
        if name not in _COEFFICIENTS:
            return leaf
        lowered = _inverse(factors.anchors) @ leaf
        return lowered if factors.classes is None else lowered @ _inverse(factors.classes).T

    return {name: of_leaf(name, leaf) for name, leaf in w.items()}


def _potentials(potentials: Callable, factors: _Factors, w: PyTree, x: PyTree) -> PyTree:
    return potentials(_lift(factors, w), x)


def in_coordinates(problem: Problem, inputs: Buckets) -> Coordinates:
    """The problem on weights whose squared norm is |w|^2; the same one where they are already.

    Args:
      problem: any. inputs: the training inputs, which its check has let pass.

    Raises:
      ValueError: kernel values are of no kernel.
    """
    parts = _kernel_parts(inputs)
    if not parts:
        return Coordinates(problem, _same, _same)
    zero = problem.initial_weights
    dtype = jnp.result_type(*jax.tree.leaves(zero))
    m = next(leaf.shape[0] for name, leaf in zero.items() if name in _COEFFICIENTS)
    classes = kernel_of_classes(problem) if isinstance(parts[0], KernelInput) else None
    factors = _Factors(
        jnp.asarray(_anchor_factor(parts, m), dtype),
        None if classes is None else jnp.asarray(gram_factor(np.asarray(classes)), dtype),
    )
    lower = Partial(_lower, factors)
    model, space = problem.model, problem.space
    moved = make_problem(
        lower(zero),
        model._replace(potentials=Partial(_potentials, model.potentials, factors)),
        problem.oracles,
        Space(plane_scores=space.plane_scores, combine=space.combine),
        problem.check,
        problem.padding,
    )
    return Coordinates(moved, Partial(_lift, factors), lower)


def lifted(callback: Callable | None, lift: Callable, *names: str) -> Callable | None:
    """A callback that sees these weights of its progress as the user's."""
    if callback is None or lift is _same:
        return callback

    def told(progress: Any) -> Any:
        return callback(
            progress._replace(**{name: lift(getattr(progress, name)) for name in names})
        )

    return told
