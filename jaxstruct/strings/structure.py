"""Candidate sets: the argmax over Gen(x), a list of outputs that comes with the input (thesis 4.6).

    F(x, y; w) = <w, Psi(x, y)>,   y in Gen(x)

Three machines differ in how F is made: `candidates` of features Psi(x, y) of each candidate
(re-ranking), `kernel_candidates` of J = K(x, x') L(y, y') (4.34-4.36), `joint_candidates` of any
joint kernel J((x, y), (x', y')). An output is a number in a table, see `inputs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import checked_dtype, checked_size
from jaxstruct.core.contract import Contenders, Marginals, Model, Oracles, Problem, Space
from jaxstruct.core.derived_inference import Listing, listed_inference, positions
from jaxstruct.core.feature_scores import feature_scores
from jaxstruct.core.problem import make_problem
from jaxstruct.core.transposition import no_coordinates, sum_of_squares
from jaxstruct.core.types import Array, PyTree, SparseFeatures, Static
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.strings.example_checks import check_features, check_joint, check_kernel
from jaxstruct.strings.inputs import CandidateFeatures, JointCandidates, KernelCandidates
from jaxstruct.strings.losses import ZERO_ONE, Loss, checked_loss

_FEW = 8
"""A row of L a candidate is read where this many times the candidates are fewer than outputs."""


class CandidateScores(NamedTuple):
    """theta of an example: scores [K] of its candidates, and which they are, numbers [K]."""

    scores: Array
    numbers: Array


def _score(theta: CandidateScores, y: Array) -> Array:
    """F of a candidate; 0 of an output that is none."""
    return jnp.sum(jnp.where(theta.numbers == y, theta.scores, 0))


def _plane_scores(theta: CandidateScores, outputs: Array) -> Array:
    same = outputs[:, None] == theta.numbers[None]
    return jnp.sum(jnp.where(same, theta.scores[None], 0), axis=1)


def _combine(theta: CandidateScores, outputs: Array, coefficients: Array) -> CandidateScores:
    same = outputs[:, None] == theta.numbers[None]
    return theta._replace(scores=jnp.sum(jnp.where(same, coefficients[:, None], 0), axis=0))


def _decode(theta: CandidateScores) -> Array:
    best = jnp.argmax(jnp.where(theta.numbers >= 0, theta.scores, -jnp.inf))
    return theta.numbers[best]


def _zero_one(like: Array, y_true: Array, y: Array) -> Array:
    return (y_true != y).astype(like.dtype)


def _loss_of_table(table: Array, y_true: Array, y: Array) -> Array:
    return table[y_true, y]


def _loss_of_lists(losses: Array, y_true: Array, y: Array) -> Array:
    """What y costs above its list's best; the target itself may cost something."""
    return losses[y] - losses[y_true]


def _contenders(loss: Callable, theta: CandidateScores, y_true: Array) -> Contenders:
    """Every candidate is a level; padding and the true output are out of the running."""
    numbers = theta.numbers
    costs = jax.vmap(loss, (None, 0))(y_true, jnp.maximum(numbers, 0))
    wrong = (numbers >= 0) & (numbers != y_true)
    scores = jnp.where(wrong, theta.scores, -jnp.inf)
    return Contenders(jnp.where(wrong, costs, 0), scores, numbers)


def _output(trace: Array, level: Array) -> Array:
    return trace[level]


def _listed(theta: CandidateScores, y_true: Array) -> tuple[Array, Array]:
    """(the candidates, which of them there are), the true one in the place of padding."""
    real = theta.numbers >= 0
    return jnp.where(real, theta.numbers, y_true), real


def _marginals(theta: CandidateScores) -> Marginals:
    """[K] P(candidate), in the order of the list."""
    real = theta.numbers >= 0
    scores = jnp.where(real, theta.scores, -jnp.inf)
    count = positions(jnp.sum(real, dtype=jnp.int32))
    return Marginals(jax.nn.softmax(scores), jax.nn.logsumexp(scores), count)


def _candidate_scores(w: PyTree, x: CandidateFeatures) -> CandidateScores:
    return CandidateScores(feature_scores(w["weights"], x.features), x.numbers)


def _add_features(w: PyTree, x: CandidateFeatures, u: CandidateScores) -> PyTree:
    weights, features = w["weights"], x.features
    if isinstance(features, SparseFeatures):
        rows = features.values * u.scores[..., None]
        return {"weights": weights.at[features.indices].add(rows, mode="drop")}
    return {"weights": weights + jnp.einsum("bkd,bk->d", features, u.scores)}


def _feature_action(d: Static, x: CandidateFeatures, u: CandidateScores) -> CandidateScores:
    """A_x A_x' u; of sparse features by a scatter and a gather over all d."""
    if not isinstance(x.features, SparseFeatures):
        return u._replace(scores=x.features @ (u.scores @ x.features))
    zero = {"weights": jnp.zeros(d.value, u.scores.dtype)}
    one = jax.tree.map(lambda leaf: leaf[None], (x, u))
    return _candidate_scores(_add_features(zero, *one), x)


def _places(L: Array, numbers: Array) -> Array:
    """The rows of L of the candidates; padding is out of range."""
    return jnp.where(numbers >= 0, numbers, L.shape[0])


def _output_products(L: Array, numbers: Array, v: Array) -> Array:
    """[K] sum_y L(y_k, y) v[y], 0 for padding."""
    places = _places(L, numbers)
    if _FEW * numbers.shape[-1] < L.shape[0]:
        return L.at[places].get(mode="fill", fill_value=0) @ v
    return (L @ v).at[places].get(mode="fill", fill_value=0)


def _kernel_scores(L: Array, w: PyTree, x: KernelCandidates) -> CandidateScores:
    """K[x, :] B L at the candidates."""
    products = _output_products(L, x.numbers, x.row @ w["coefficients"])
    return CandidateScores(products, x.numbers)


def _kernel_add(L: Array, w: PyTree, x: KernelCandidates, u: CandidateScores) -> PyTree:
    at = (x.anchor[:, None], _places(L, x.numbers))
    return {"coefficients": w["coefficients"].at[at].add(u.scores, mode="drop")}


def _self_kernel(x: KernelCandidates) -> Array:
    return x.row.at[x.anchor].get(mode="fill", fill_value=0)


def _kernel_action(L: Array, x: KernelCandidates, u: CandidateScores) -> CandidateScores:
    v = jnp.zeros(L.shape[0], u.scores.dtype).at[_places(L, x.numbers)].add(u.scores, mode="drop")
    return u._replace(scores=_self_kernel(x) * _output_products(L, x.numbers, v))


def _kernel_plane_gram(
    L: Array, x: KernelCandidates, y_true: Array, outputs: Array, y: Array
) -> Array:
    """K(x, x) (L(t, t) - L(t, y) - L(y_k, t) + L(y_k, y)) with t = y_true."""
    difference = L[y_true, y_true] - L[y_true, y] - L[outputs, y_true]
    return _self_kernel(x) * (difference + L[outputs, y])


def _kernel_plane_norms(L: Array, x: KernelCandidates, y_true: Array, outputs: Array) -> Array:
    difference = L[y_true, y_true] - 2 * L[outputs, y_true] + L[outputs, outputs]
    return _self_kernel(x) * difference


def _joint_scores(w: PyTree, x: JointCandidates) -> CandidateScores:
    return CandidateScores(x.rows @ w["coefficients"], x.numbers)


def _joint_add(w: PyTree, x: JointCandidates, u: CandidateScores) -> PyTree:
    return {"coefficients": w["coefficients"].at[x.anchors].add(u.scores, mode="drop")}


def _joint_action(x: JointCandidates, u: CandidateScores) -> CandidateScores:
    own = x.rows.at[:, x.anchors].get(mode="fill", fill_value=0)
    return u._replace(scores=own @ u.scores)


def _problem(
    zero: PyTree, potentials: Callable, space: Space, check: Partial, loss: Loss
) -> Problem:
    """What the three machines share: losses, oracles, and how candidates are read of theta."""
    dtype = jax.tree.leaves(zero)[0].dtype
    numbers = checked_loss(loss)
    table = None if numbers is None else jnp.asarray(numbers, dtype)
    if table is None:
        function = Partial(_zero_one, jnp.zeros((), dtype))
    else:
        function = Partial(_loss_of_lists if table.ndim == 1 else _loss_of_table, table)
    listing = Listing(
        Partial(_listed), Partial(_score), Partial(_decode), function, Partial(_plane_scores),
        Partial(_combine),
    )  # fmt: skip
    return make_problem(
        zero,
        Model(potentials, _score, _decode, function),
        Oracles(contenders=Partial(_contenders, function), output=_output),
        space._replace(plane_scores=_plane_scores, combine=_combine),
        Partial(check.func, *check.args, table),  # nested ones would be equal to no others
        inference=listed_inference(listing)._replace(marginals=_marginals),
        tested=True,
    )


def candidates(
    number_of_features: int, *, loss: Loss = ZERO_ONE, dtype: str = "float32"
) -> Problem:
    """Candidates with a feature vector each: F(x, y; w) = <w, Psi(x, y)> over y in Gen(x).

    The weights are w = {"weights": [d]}. With candidates from another model this is re-ranking.

    Args:
      number_of_features: d.
      loss: "zero_one"; a table Delta [M, M] of the outputs that are numbered; or a vector [M] where
        each stands in one list: Delta(y_i, y) = losses[y] - losses[y_i], so that the target y_i
        must be a best one of its list.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `CandidateFeatures` (see `feature_inputs`) that serves all seven formulations.
      Outputs are numbers of candidates, int32. Ties go to the candidate that stands first.

    Raises:
      ValueError: an argument does not fit.
    """
    d = checked_size("number_of_features", number_of_features)
    space = Space(
        add=_add_features,
        gram_action=Partial(_feature_action, Static(d)),
        squared_norm=sum_of_squares,
    )
    zero = {"weights": jnp.zeros(d, checked_dtype(dtype))}
    return _problem(zero, _candidate_scores, space, Partial(check_features, Static(d)), loss)


def kernel_candidates(
    number_of_anchors: int,
    output_gram: np.ndarray,
    *,
    loss: Loss = ZERO_ONE,
    dtype: str = "float32",
) -> Problem:
    """Candidates under J((x, y), (x', y')) = K(x, x') L(y, y') (thesis 4.34-4.36).

    F(x, y; w) = sum_j sum_y' K(x, x_j) B[j, y'] L(y', y) with w = {"coefficients": B [m, M]} on m
    anchors, the training inputs, and a table of M outputs: all that are a candidate of an input,
    those of inputs to predict included. Only outputs of training get coefficients. Where L >= 0,
    |Psi(x_i, y) - Psi(x_i, y')|^2 <= 2 R_i^2 S^2 with R_i^2 = K(x_i, x_i) and S^2 = max L(y, y)
    (proposition 25), of which the bounds on the number of constraints are made.

    Args:
      number_of_anchors: m.
      output_gram: L [M, M] of the table, as `kernels.gram_matrix` makes it of a kernel function;
        positive semi-definite.
      loss: as in `candidates`; `similarity_loss(output_gram)` is that of the thesis, 1 - L.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `KernelCandidates` (see `kernel_inputs`) that serves all seven formulations.
      Outputs are rows of the table, int32. Ties go to the candidate that stands first.

    Raises:
      ValueError: an argument does not fit, or output_gram is no kernel matrix.
    """
    m, dtype = checked_size("number_of_anchors", number_of_anchors), checked_dtype(dtype)
    check_positive_semidefinite(output_gram, "output_gram")
    L = jnp.asarray(output_gram, dtype)
    space = Space(
        add=Partial(_kernel_add, L),
        gram_action=Partial(_kernel_action, L),
        plane_gram=Partial(_kernel_plane_gram, L),
        plane_norms=Partial(_kernel_plane_norms, L),
        squared_norm=no_coordinates,
    )
    zero = {"coefficients": jnp.zeros((m, L.shape[0]), dtype)}
    check = Partial(check_kernel, Static((m, L.shape[0])))
    return _problem(zero, Partial(_kernel_scores, L), space, check, loss)


def joint_candidates(
    number_of_pairs: int, *, loss: Loss = ZERO_ONE, dtype: str = "float32"
) -> Problem:
    """Candidates under any joint kernel J((x, y), (x', y')), the space of Psi left implicit.

    F(x, y; w) = sum_a w_a J(pair_a, (x, y)) with w = {"coefficients": [A]} on the A anchor pairs:
    every candidate of every training input. (Only differences of an input's candidates occur in
    the sums of (3.6) and (3.28), so the coefficients of an input sum to 0.)

    Args:
      number_of_pairs: A.
      loss: as in `candidates`.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `JointCandidates` (see `joint_inputs`) that serves all seven formulations.
      Outputs are numbers of candidates, int32. Ties go to the candidate that stands first.

    Raises:
      ValueError: an argument does not fit.
    """
    A = checked_size("number_of_pairs", number_of_pairs)
    space = Space(add=_joint_add, gram_action=_joint_action, squared_norm=no_coordinates)
    zero = {"coefficients": jnp.zeros(A, checked_dtype(dtype))}
    return _problem(zero, _joint_scores, space, Partial(check_joint, Static(A)), loss)
