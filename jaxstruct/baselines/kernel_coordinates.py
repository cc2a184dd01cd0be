"""Trainers of weights on inputs that are kernel values: random fields become kernel machines.

A kernel machine's weights are coefficients B on anchors, u_s = sum_j B[j, s] Phi(anchor_j), with
|u|^2 = tr(B' K B) (thesis 4.22). In B = R V with R of `kernels.features` it is |V|^2: V are
coordinates, in which the very same problem is one of the features K R. What is trained is V; what
comes back is B, so that `predict` reads kernel values as it does for every kernel machine.

With class features, J = K L (4.12), B = R V S' with S the factor of L, and F = K R V (L S)'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.baselines.examples import without_gram
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


class SquaredNorm(NamedTuple):
    """w -> |w|^2 in float64: tr(B' K B L) of coefficients, the sum of squares of coordinates.

    Fields:
      gram: K [m, m] of the anchors, None where weights are coordinates. classes: L, None: identity.
    """

    gram: np.ndarray | None = None
    classes: np.ndarray | None = None

    def __call__(self, w: PyTree) -> float:
        """|w|^2."""
        if self.gram is None:
            return float(sum(np.vdot(leaf, leaf) for leaf in jax.tree.leaves(_in_float64(w))))
        return sum(self._of_leaf(name, leaf) for name, leaf in _in_float64(w).items())

    def _of_leaf(self, name: str, leaf: np.ndarray) -> float:
        if name not in _COEFFICIENTS:
            return float(np.vdot(leaf, leaf))
        seen = self.gram @ leaf
        return float(np.vdot(leaf, seen if self.classes is None else seen @ self.classes))

    def of_terms(self, w: PyTree) -> float:
        """The absolute terms that |w|^2 is the sum of, added up: |B|' |K| |B| |L|."""
        return SquaredNorm(*(None if leaf is None else np.abs(leaf) for leaf in self))(
            jax.tree.map(np.abs, w)
        )

    def off(self, w: PyTree, eps: float) -> float:
        """By how much |w|^2 may be off where kernel values are by eps of themselves."""
        return float((np.finfo(np.float64).eps if self.gram is None else eps) * self.of_terms(w))


def _in_float64(w: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), w)


class Coordinates(NamedTuple):
    """A problem on weights that are coordinates, its inputs, and the way to the user's weights.

    Fields:
      problem, inputs: what is trained. lift: its weights -> those of the given problem.
      lower: the inverse, up to coefficients that no kernel value shows.
      squared_norm: of the weights of the given problem.
    """

    problem: Problem
    inputs: Buckets
    lift: Callable[[PyTree], PyTree]
    lower: Callable[[PyTree], PyTree]
    squared_norm: SquaredNorm


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


def _anchor_gram(parts: list[Any], m: int) -> tuple[np.ndarray, np.ndarray]:
    """(K [m, m], [m] which anchors are training points); zero rows for the others."""
    rows = [np.asarray(part[0]) for part in parts]
    places = [np.asarray(part[1]) for part in parts]
    gram, seen = np.zeros((m, m), rows[0].dtype), np.zeros(m, bool)
    for row, place in zip(rows, places, strict=True):
        known = (place >= 0) & (place < m)
        gram[place[known]], seen[place[known]] = row[known], True
    return gram, seen


def _anchor_factor(gram: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """R [m, r] of the anchors that are training points; zero rows for the others.

    Every training point is an anchor (the problem's own check says so), so that no other anchor
    has a coefficient.
    """
    own = gram[np.ix_(seen, seen)]
    factor = gram_factor((own + own.T) / 2)
    whole = np.zeros((len(gram), factor.shape[1]), factor.dtype)
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


def _class_scores(features: Array | None, w: PyTree, x: KernelInput) -> Array:
    """[k] scores of the classes, x.row being features."""
    scores = x.row @ w["coefficients"]
    return scores if features is None else scores @ features.T


def _of_classes(problem: Problem, factors: _Factors) -> Problem:
    """The problem of classes on features in the place of kernel values."""
    class_kernel, space = kernel_of_classes(problem), problem.space
    shown = None if factors.classes is None else jnp.asarray(class_kernel) @ factors.classes
    return make_problem(
        problem.initial_weights,
        problem.model._replace(potentials=Partial(_class_scores, shown)),
        problem.oracles,
        Space(plane_scores=space.plane_scores, combine=space.combine),
        inference=problem.inference,
    )


def _in_features(part: PyTree, factor: np.ndarray) -> PyTree:
    """The inputs of a bucket with K R in the place of kernel values; without Gram matrices."""

    def of_node(node: Any) -> Any:
        if isinstance(node, KernelTokens):
            return np.asarray(node.rows) @ factor
        return node._replace(row=np.asarray(node.row) @ factor) if _is_kernel(node) else node

    return jax.tree.map(of_node, without_gram(part), is_leaf=_is_kernel)


def in_coordinates(problem: Problem, inputs: Buckets) -> Coordinates:
    """The problem on weights whose squared norm is |w|^2; the same one where they are already.

    Args:
      problem: any. inputs: the training inputs, which its check has let pass.

    Raises:
      ValueError: kernel values are of no kernel.
    """
    parts = _kernel_parts(inputs)
    if not parts:
        return Coordinates(problem, inputs, _same, _same, SquaredNorm())
    zero = problem.initial_weights
    dtype = jnp.result_type(*jax.tree.leaves(zero))
    m = next(leaf.shape[0] for name, leaf in zero.items() if name in _COEFFICIENTS)
    of_classes = isinstance(parts[0], KernelInput)
    classes = kernel_of_classes(problem) if of_classes else None
    gram, seen = _anchor_gram(parts, m)
    factor = _anchor_factor(gram, seen)
    factors = _Factors(
        jnp.asarray(factor, dtype),
        None if classes is None else jnp.asarray(gram_factor(np.asarray(classes)), dtype),
    )
    lower = Partial(_lower, factors)
    moved = _of_classes(problem, factors) if of_classes else problem
    shown = tuple(_in_features(part, factor) for part in inputs.parts)
    return Coordinates(
        moved._replace(initial_weights=lower(zero)), Buckets(shown, inputs.index),
        Partial(_lift, factors), lower, SquaredNorm(*_in_float64((gram, classes))),
    )  # fmt: skip


def lifted(callback: Callable | None, lift: Callable, *names: str) -> Callable | None:
    """A callback that sees these weights of its progress as the user's."""
    if callback is None or lift is _same:
        return callback

    def called(progress: Any) -> Any:
        return callback(
            progress._replace(**{name: lift(getattr(progress, name)) for name in names})
        )

    return called
