"""Multiclass classification, with or without output features (thesis 4.2, 4.3).

Psi(x, y) = Phi(x) (x) Lambda(y): F(x, y; w) = sum_r lambda_r(y) <w_r, Phi(x)> (4.4, 4.13). The
potentials of an example are the scores of its k classes, so the contenders are the classes.

What a class can be asked besides training is multinomial logistic regression,

    P(y | x) = exp(F(x, y; w)) / sum_r exp(F(x, r; w))

with Psi(x, y) = Phi(x) (x) Lambda(y), as the slides have it ("Multi-class logistic regression").
theta is the scores [k] of the classes. The losses raised by Delta follow from the list of classes.

Visits to single examples read their planes as they are: these differ in all that they are, a class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.buckets import rows_at
from jaxstruct.core.checks import check_record, checked_dtype, checked_size, text_of
from jaxstruct.core.contract import (
    Contenders,
    Differences,
    Inference,
    Marginals,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    Truth,
    output_of,
)
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.device import on_device, zeros_on_device
from jaxstruct.core.feature_scores import add_to_rows, sum_of_rows
from jaxstruct.core.loops import put
from jaxstruct.core.loss_functions import cheapest
from jaxstruct.core.problem import make_problem
from jaxstruct.core.scores import draw, largest
from jaxstruct.core.spec import array, costs, features, refuse
from jaxstruct.core.transposition import no_coordinates, sum_of_squares
from jaxstruct.core.types import Array, PyTree, SparseFeatures
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.multiclass import losses as loss_matrices


def _values(w: PyTree, inputs: PyTree, outputs: Array, index: Array) -> Array:
    def of_one(at: Array) -> Array:
        return sum_of_rows(w["weights"], rows_at(inputs, at))[outputs[at]]

    return jax.lax.map(of_one, index)


def _add(w: PyTree, inputs: PyTree, outputs: Array, index: Array, coefficients: Array) -> PyTree:
    classes = w["weights"].shape[1]

    def of_one(number: Array, table: Array) -> Array:
        at, c = index[number], coefficients[number]

        def count(k: Array, u: Array) -> Array:
            y = outputs[at, k]
            return put(u, y, u[y] + c[k])

        u = jax.lax.fori_loop(0, outputs.shape[1], count, jnp.zeros(classes, c.dtype))
        return add_to_rows(table, rows_at(inputs, at), u)

    return {"weights": jax.lax.fori_loop(0, index.shape[0], of_one, w["weights"])}


CLASS_DIFFERENCES = Differences(None, None, _values, _add, None, None)
"""Of classes with weights of their own."""


def _log_loss(theta: Array, y: Array) -> Array:
    """-log P(y | x) = log sum_r exp(F(x, r) - F(x, y)), >= 0 and convex in theta."""
    return jax.nn.logsumexp(theta - jnp.take(theta, y))


def _marginals(theta: Array) -> Marginals:
    """[k] the probability of each class."""
    return Marginals(jax.nn.softmax(theta), jax.nn.logsumexp(theta))


def _k_best(theta: Array, k: int) -> tuple[Array, Array]:
    scores, classes = largest(theta, k)
    return or_padding(classes, scores), scores


def _sample(theta: Array, key: Array) -> Array:
    return draw(key, theta)


CLASS_INFERENCE = Inference(_log_loss, _marginals, _k_best, _sample)


_PADDING = Padding(price=1_000_000)
"""A position is one feature of one input, of little work."""


class KernelInput(NamedTuple):
    """One input of a kernel machine: its kernel values against the anchors.

    Fields:
      row: [m] K(x, anchor_j).
      anchor: scalar int32, the position of x among the anchors; m (out of range) if it is none.
      self_kernel: scalar K(x, x).
    """

    row: Array
    anchor: Array
    self_kernel: Array


def _features_to_scores(weights: Array, x: PyTree) -> Array:
    """W' Phi(x) for dense [d] or sparse inputs; W is [d, p]."""
    if isinstance(x, SparseFeatures):
        return x.values @ weights.at[x.indices].get(mode="fill", fill_value=0)
    return x @ weights


def _linear_potentials(output_features: Array | None, w: PyTree, x: PyTree) -> Array:
    scores = _features_to_scores(w["weights"], x)
    return scores if output_features is None else scores @ output_features.T


def _linear_add(output_features: Array | None, w: PyTree, x: PyTree, u: Array) -> PyTree:
    u = u if output_features is None else u @ output_features
    if isinstance(x, SparseFeatures):
        rows = x.values[..., None] * u[:, None, :]
        return {"weights": w["weights"].at[x.indices].add(rows, mode="drop")}
    return {"weights": w["weights"] + x.T @ u}


def _squared_norm(x: PyTree) -> Array:
    values = x.values if isinstance(x, SparseFeatures) else x
    values = values.astype(jnp.result_type(values.dtype, jnp.float32))  # bytes would wrap
    # behind a barrier the sum stays a loop, and calls no library for a product of vectors
    return jnp.sum(jax.lax.optimization_barrier(values * values))


def _few(w: PyTree, outputs: Array) -> bool:
    """Whether reading single entries of W is faster than reading a row for each feature."""
    return 4 * outputs.shape[-1] < w["weights"].shape[1]


def _sparse_plane_values(w: PyTree, x: PyTree, outputs: Array) -> Array:
    """F of a few classes, canonical output features: sum_j values_j W[indices_j, y_k]."""

    def of_one(x: PyTree, y: Array) -> Array:
        if isinstance(x, SparseFeatures) and _few(w, y):
            entries = w["weights"].at[x.indices[:, None], y].get(mode="fill", fill_value=0)
            return x.values @ entries
        return _linear_potentials(None, w, x)[y]

    return jax.vmap(of_one)(x, outputs)


def _sparse_add_planes(w: PyTree, x: PyTree, outputs: Array, coefficients: Array) -> PyTree:
    if isinstance(x, SparseFeatures) and _few(w, outputs):
        entries = x.values[..., None] * coefficients[:, None, :]
        at = (x.indices[..., None], outputs[:, None, :])
        return {"weights": w["weights"].at[at].add(entries, mode="drop")}
    theta = jnp.zeros(w["weights"].shape[1], coefficients.dtype)
    u = jax.vmap(_combine, (None, 0, 0))(theta, outputs, coefficients)
    return _linear_add(None, w, x, u)


def _self_kernel(x: PyTree) -> Array:
    return x.self_kernel if isinstance(x, KernelInput) else _squared_norm(x)


def _gram_action(class_kernel: Array | None, x: PyTree, u: Array) -> Array:
    return _self_kernel(x) * (u if class_kernel is None else class_kernel @ u)


def _similarity(class_kernel: Array | None, y: Array, z: Array) -> Array:
    return (y == z).astype(jnp.int32) if class_kernel is None else class_kernel[y, z]


def _plane_gram(
    class_kernel: Array | None, x: PyTree, y_true: Array, outputs: Array, y: Array
) -> Array:
    """K(x, x) (L(t, t) - L(t, y) - L(y_k, t) + L(y_k, y)) with t = y_true."""
    alike = partial(_similarity, class_kernel)
    difference = alike(y_true, y_true) - alike(y_true, y) - alike(outputs, y_true)
    return _self_kernel(x) * (difference + alike(outputs, y))


def _plane_norms(class_kernel: Array | None, x: PyTree, y_true: Array, outputs: Array) -> Array:
    alike = partial(_similarity, class_kernel)
    difference = alike(y_true, y_true) - 2 * alike(outputs, y_true) + alike(outputs, outputs)
    return _self_kernel(x) * difference


def _all_outputs(classes: Array, y_true: Array | Truth) -> Array:
    """The classes with y_true swapped to the front."""
    y = output_of(y_true)
    first = jnp.where(classes == y, classes[0], classes)
    return first.at[0].set(y.astype(classes.dtype))


def _kernel_potentials(class_kernel: Array | None, w: PyTree, x: KernelInput) -> Array:
    scores = x.row @ w["coefficients"]
    return scores if class_kernel is None else scores @ class_kernel


def kernel_of_classes(problem: Problem) -> Array | None:
    """L [k, k] = Lambda Lambda' of a problem of `kernel_multiclass`; None where it is the identity.

    Raises:
      ValueError: the problem is of another kind.
    """
    if problem.model.potentials.func is not _kernel_potentials:
        raise ValueError("problem must be made by jaxstruct.multiclass.kernel_multiclass")
    return problem.model.potentials.args[0]


def _kernel_add(w: PyTree, x: KernelInput, u: Array) -> PyTree:
    return {"coefficients": w["coefficients"].at[x.anchor].add(u, mode="drop")}


def _score(theta: Array, y: Array) -> Array:
    return theta[y]


def _plane_scores(theta: Array, outputs: Array) -> Array:
    return theta[outputs]


def _combine(theta: Array, outputs: Array, coefficients: Array) -> Array:
    return jnp.zeros_like(theta).at[outputs].add(coefficients)


def _decode(theta: Array) -> Array:
    return jnp.argmax(theta, axis=-1).astype(jnp.int32)


def _row(loss_matrix: Array, y_true: Array | Truth) -> Array:
    """[k] what each class costs; of several possible true ones the cheapest counts."""
    if isinstance(y_true, Truth):
        return cheapest(loss_matrix, y_true.numbers)
    return loss_matrix[y_true]


def _loss(loss_matrix: Array, y_true: Array | Truth, y: Array) -> Array:
    return _row(loss_matrix, y_true)[y] if isinstance(y_true, Truth) else loss_matrix[y_true, y]


def _contenders(loss_matrix: Array, theta: Array, y_true: Array | Truth) -> Contenders:
    wrong = jnp.arange(theta.shape[-1]) != output_of(y_true)
    return Contenders(_row(loss_matrix, y_true), jnp.where(wrong, theta, -jnp.inf), ())


def _restrict(theta: Array, possible: Array) -> Array:
    return jnp.where(possible, theta, -jnp.inf)


def _output(trace: PyTree, level: Array) -> Array:
    del trace
    return level.astype(jnp.int32)


def check_classes(k: int, outputs: np.ndarray | Truth) -> None:
    """Raise ValueError unless outputs are [n] integers in 0..k-1, and of a `Truth` possible."""
    if isinstance(outputs, Truth):
        check_classes(k, outputs.output)
        sizes = {"n": len(outputs.output), "k": k}
        possible = array("outputs.numbers", outputs.numbers, "n k", "bools", sizes)
        wrong = np.flatnonzero(~possible[np.arange(sizes["n"]), outputs.output])
        if wrong.size:
            raise ValueError(f"outputs[{wrong[0]}] is none of its possible classes: allow one")
        return
    advice = "; encode labels with jaxstruct.core.labels, or raise number_of_classes"
    array("outputs", outputs, "n", within=(range(k), "the classes"), advice=advice)


def _check_linear(d: int, k: int, inputs: PyTree, outputs: np.ndarray | None = None) -> None:
    if not hasattr(inputs, "shape") and not isinstance(inputs, SparseFeatures):
        raise ValueError(
            f"inputs must be one array [n, number_of_features = {d}] or SparseFeatures, got "
            f"{type(inputs).__name__}: numpy.stack makes an array of rows"
        )
    features("inputs", inputs, "n", {"number_of_features": d})
    if outputs is not None:
        check_classes(k, outputs)


def _check_anchors(m: int, inputs: KernelInput) -> None:
    """Raise ValueError unless every input is an anchor whose kernel value is its own.

    An input that is no anchor has no coefficient that training could change.
    """
    row, anchor, self_kernel = map(np.asarray, inputs)
    refuse(
        "inputs.anchor", anchor, (anchor < 0) | (anchor >= m),
        f"one of the {m} anchors, since training could not change the scores of others: make "
        "training inputs of the square Gram matrix, kernel_inputs(gram), or take rows of those; "
        "self_kernel is for prediction",
    )  # fmt: skip
    own = row[np.arange(len(row)), anchor]
    off = np.abs(own - self_kernel) > 1e-3 * np.abs(self_kernel)
    if off.any():
        i = int(np.argmax(off))
        raise ValueError(
            f"inputs.self_kernel[{i}] is {self_kernel[i]:g}, but inputs.row[{i}] at its anchor "
            f"{anchor[i]} is {own[i]:g}: give values of one kernel, with the anchors in one order"
        )


def _check_kernel(m: int, k: int, inputs: KernelInput, outputs: np.ndarray | None = None) -> None:
    check_record("inputs", inputs, KernelInput, "kernel_inputs")
    sizes = {"anchors": m}
    array("inputs.row", inputs.row, "n anchors", None, sizes)
    array("inputs.anchor", inputs.anchor, "n", "integers", sizes)
    array("inputs.self_kernel", inputs.self_kernel, "n", None, sizes)
    if outputs is not None:
        _check_anchors(m, inputs)
        check_classes(k, outputs)


def _checked_tables(
    number_of_classes: int, output_features: np.ndarray | None, loss: np.ndarray | None, dtype: str
) -> tuple[Array | None, Array]:
    k, dtype = checked_size("number_of_classes", number_of_classes, 2), checked_dtype(dtype)
    features = None
    if output_features is not None:
        advice = ": one row Lambda(y) a class"
        sizes = {"number_of_classes": k}
        rows = array("output_features", output_features, f"{[*sizes][0]} p", "numbers", sizes,
                     advice=advice)  # fmt: skip
        refuse("output_features", rows, ~np.isfinite(rows), "finite numbers")
        features = on_device(rows, dtype)
    matrix = loss_matrices.zero_one_loss(k)
    if loss is not None:
        matrix = costs("loss", loss, "k k", {"k": k}, ": one row a class; add a constant to gains")
    return features, on_device(matrix, dtype)


def _outputs_side(
    loss_matrix: Array, class_kernel: Array | None
) -> tuple[Callable, Oracles, Space]:
    """(loss, oracles, the part of the space that classes decide)."""
    classes = on_device(np.arange(loss_matrix.shape[0], dtype=np.int32))
    oracles = Oracles(
        contenders=Partial(_contenders, loss_matrix),
        output=_output,
        all_outputs=Partial(_all_outputs, classes),
    )
    space = Space(
        gram_action=Partial(_gram_action, class_kernel),
        plane_scores=_plane_scores,
        combine=_combine,
        plane_gram=Partial(_plane_gram, class_kernel),
        plane_norms=Partial(_plane_norms, class_kernel),
    )
    return Partial(_loss, loss_matrix), oracles, space


def multiclass(
    number_of_features: int,
    number_of_classes: int,
    *,
    output_features: np.ndarray | None = None,
    loss: np.ndarray | None = None,
    dtype: str = "float32",
) -> Problem:
    """Multiclass problem with explicit weights W [d, p], w = {"weights": W}.

    F(x, y; w) = sum_r lambda_r(y) <w_r, Phi(x)> (thesis 4.4 canonical, 4.13 with output features).

    Args:
      number_of_features: d. Inputs are dense [d] or `SparseFeatures` padded with index d.
      number_of_classes: k >= 2; outputs are int32 in 0..k-1 (see `core.labels.LabelCodec`).
      output_features: Lambda [k, p], or None for the canonical Lambda^c (4.1), where p = k.
      loss: [k, k] matrix Delta(y_true, y), or None for zero-one.
      dtype: "float32" or "float64" (the latter needs jax's x64 mode, which is the caller's).

    Returns:
      A Problem whose levels are the classes. Ties go to the lowest class.

    Raises:
      ValueError: a shape, a size or a value does not fit.
    """
    checked_size("number_of_features", number_of_features)
    features, matrix = _checked_tables(number_of_classes, output_features, loss, dtype)
    p = number_of_classes if features is None else features.shape[1]
    class_kernel = None if features is None else features @ features.T
    loss_function, oracles, space = _outputs_side(matrix, class_kernel)
    return make_problem(
        {"weights": zeros_on_device((number_of_features, p), dtype)},
        Model(
            Partial(_linear_potentials, features),
            _score,
            _decode,
            loss_function,
            restrict=_restrict,
        ),
        oracles,
        space._replace(
            add=Partial(_linear_add, features),
            plane_values=_sparse_plane_values if features is None else None,
            add_planes=_sparse_add_planes if features is None else None,
            squared_norm=sum_of_squares,
            differences=CLASS_DIFFERENCES if features is None else None,
        ),
        Partial(_check_linear, number_of_features, number_of_classes),
        _PADDING,
        CLASS_INFERENCE,
        tested=True,
    )


def kernel_multiclass(
    number_of_anchors: int,
    number_of_classes: int,
    *,
    output_features: np.ndarray | None = None,
    loss: np.ndarray | None = None,
    dtype: str = "float32",
) -> Problem:
    """Multiclass problem with a kernel: weights are coefficients B [m, k] on m anchors.

    J((x, y), (x', y')) = K(x, x') L(y, y') (thesis 4.12) and F(x, .; w) = K[x, :] B L, where
    L = Lambda Lambda' (identity for canonical output features).

    Args:
      number_of_anchors: m, the training inputs.
      number_of_classes, output_features, loss, dtype: as in `multiclass`.

    Returns:
      A Problem on `KernelInput`s (see `kernel_inputs`), w = {"coefficients": B}.
    """
    checked_size("number_of_anchors", number_of_anchors)
    features, matrix = _checked_tables(number_of_classes, output_features, loss, dtype)
    class_kernel = None if features is None else features @ features.T
    zeros = zeros_on_device((number_of_anchors, number_of_classes), dtype)
    loss_function, oracles, space = _outputs_side(matrix, class_kernel)
    return make_problem(
        {"coefficients": zeros},
        Model(
            Partial(_kernel_potentials, class_kernel),
            _score,
            _decode,
            loss_function,
            restrict=_restrict,
        ),
        oracles,
        space._replace(add=_kernel_add, squared_norm=no_coordinates),
        Partial(_check_kernel, number_of_anchors, number_of_classes),
        inference=CLASS_INFERENCE,
        tested=True,
    )


def check_canonical(problem: Problem) -> int:
    """Returns k of a problem of this module with canonical output features (4.1).

    Raises:
      ValueError: it is of another structure, or has output features.
    """
    potentials = problem.model.potentials if isinstance(problem, Problem) else None
    known = (_linear_potentials, _kernel_potentials)
    if potentials is None or potentials.func not in known or potentials.args[0] is not None:
        raise ValueError(
            "problem must be one of multiclass or kernel_multiclass without output_features, got "
            f"{text_of(type(problem).__name__ if potentials is None else potentials.func)}"
        )
    return jax.tree.leaves(problem.initial_weights)[0].shape[1]


def kernel_inputs(gram: Array, *, self_kernel: Array | None = None) -> KernelInput:
    """Inputs of `kernel_multiclass` from kernel values.

    Args:
      gram: [n, m] K(x_i, anchor_j). Where self_kernel is None the inputs ARE the anchors (n = m),
        and their matrix must be that of a kernel, up to rounding in float32.
      self_kernel: [n] K(x_i, x_i) of inputs that are no anchors, for prediction.

    Returns:
      KernelInput with a leading axis of n.

    Raises:
      ValueError: gram is no matrix, self_kernel is missing for a non-square one, or is not [n];
        the anchors' gram is not finite, symmetric and positive semi-definite.
    """
    if np.ndim(gram) != 2:
        raise ValueError(f"gram must be a matrix [inputs, anchors], got shape {np.shape(gram)}")
    gram = on_device(gram)
    n, m = gram.shape
    if self_kernel is None:
        if n != m:
            raise ValueError(
                f"gram is {n} x {m}: without self_kernel the inputs must be the anchors themselves"
            )
        check_positive_semidefinite(gram, "gram")
        return KernelInput(
            gram, on_device(np.arange(n, dtype=np.int32)), on_device(np.diagonal(gram))
        )
    array("self_kernel", self_kernel, "n", None, {"n": n}, advice=", K(x, x) of each row of gram")
    return KernelInput(gram, on_device(np.full(n, m, np.int32)), on_device(self_kernel))
