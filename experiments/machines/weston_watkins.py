"""Weston and Watkins's machine: a slack for each of the n (k - 1) constraints (2.27, 2.28).

    min 1/2 sum_r |w_r|^2 + C/(n (k - 1)) sum_i sum_{y != y_i} xi_iy          svm1 (2.27)
                          + C/(2 n (k - 1)) sum_i sum_{y != y_i} xi_iy^2      svm2 (2.28)
    <w_{y_i} - w_y, x_i> >= 1 - xi_iy      ((2.27b) prints an eta before w, which is none)

The ascent goes through the dual example by example. With a_y = alpha_iy and q = K(x_i, x_i) the
k - 1 multipliers of an example see the quadratic form q (I + 1 1') and boxes of their own, so that
their best values hang on their sum S alone,

    a_y = clip((g_y - q S) / (q + r), 0, cap),   S = sum_y a_y,    cap = C v_i / (n (k - 1)), r = 0
                                                                   of svm1; r = n (k - 1) / (C v_i)

(r and no cap of svm2), where g_y is the gradient less what a itself does to it; S is found by
bisection, then exactly on its piece.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import FINEST, checked_number
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.status import Status
from jaxstruct.core.types import AnyArray, Array, PyTree
from jaxstruct.multiclass.structure import check_canonical
from jaxstruct.solvers.objective.certificate import (
    Certificate,
    ExampleTerms,
    certify,
    coordinate_norm,
    proven,
    roundings,
)
from jaxstruct.solvers.objective.formulations import (
    FORMULATIONS,
    Formulation,
    Penalty,
    penalty_numbers,
)
from jaxstruct.solvers.objective.most_violated import terms_size

SWEEPS = 5
"""Sweeps over all examples between two certificates."""


class WestonWatkins(NamedTuple):
    """A trained machine.

    Fields:
      weights: w as of the problem, for `jaxstruct.predict(problem, weights, inputs)`.
      status: CONVERGED, PASS_LIMIT, ROUNDING or NOT_FINITE.
      primal, dual, gap: primal >= optimum >= dual up to `rounding`.
      alpha: [n, k] alpha_iy >= 0, 0 at y_i. slack: [n, k] xi_iy, 0 at y_i.
      passes: sweeps over all examples.
      formulation, C: what was solved.
    """

    weights: PyTree
    status: Status
    primal: float
    dual: float
    gap: float
    rounding: float
    alpha: np.ndarray
    slack: np.ndarray
    passes: int
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return (
            f"WestonWatkins(status={self.status}, formulation={self.formulation!r}, "
            f"C={self.C:.6g}, primal={self.primal:.6g}, dual={self.dual:.6g}, gap={self.gap:.6g}, "
            f"passes={self.passes}, planes={int(np.sum(self.alpha > 0))})"
        )


class _Data(NamedTuple):
    """Examples of the dual: inputs, classes [n], caps [n] and ridges [n] (0 cap: no part)."""

    x: PyTree
    y: AnyArray
    cap: AnyArray
    ridge: AnyArray


def best_block(g: Array, q: Array, ridge: Array, cap: Array) -> Array:
    """The multipliers of one example: max of g'a - 1/2 a'(q (I + 1 1') + r I) a, 0 <= a <= cap.

    a_y = clip((g_y - q S) / (q + r), 0, cap) with S = sum_y a_y. The S that fits is the zero of a
    falling function made of straight pieces: Newton's steps, kept in a bracket by bisection.

    Args:
      g: [k], -inf where a_y is to stay 0. q, ridge, cap: scalars >= 0, cap may be infinite where
        q + ridge > 0.
    """
    divisor = jnp.maximum(q + ridge, jnp.finfo(g.dtype).tiny)

    def at(total: Array) -> Array:
        return jnp.clip((g - q * total) / divisor, 0, cap)

    def wanted(state: tuple) -> Array:
        low, high, total, count = state
        return (high - low > 2 * jnp.finfo(g.dtype).eps * high) & (count < 64) & (total >= 0)

    def body(state: tuple) -> tuple:
        low, high, total, count = state
        a = at(total)
        error = jnp.sum(a) - total
        low, high = jnp.where(error > 0, total, low), jnp.where(error > 0, high, total)
        free = jnp.sum((a > 0) & (a < cap))
        newton = total + error / (1 + free * q / divisor)
        inside = (newton > low) & (newton < high)
        met = jnp.abs(error) <= 4 * jnp.finfo(g.dtype).eps * high
        low, high = jnp.where(met, total, low), jnp.where(met, total, high)
        return low, high, jnp.where(inside, newton, (low + high) / 2), count + 1

    most = jnp.sum(at(jnp.zeros_like(q)))
    start = (jnp.zeros_like(most), most, most, jnp.int32(0))
    return at(jax.lax.while_loop(wanted, body, start)[2])


def _visit(problem: Problem, data: _Data, w: PyTree, i: Array, own: Array) -> tuple:
    """(w, multipliers [k]) after the block of example i was solved."""
    x = jax.tree.map(lambda leaf: leaf[i], data.x)
    truth = data.y[i]
    scores = problem.model.potentials(w, x)
    wrong = jnp.arange(len(scores)) != truth
    q = problem.space.gram_action(x, jnp.ones_like(scores))[0]
    g = 1 - (scores[truth] - scores) + q * (jnp.sum(own) + own)
    new = best_block(jnp.where(wrong, g, -jnp.inf), q, data.ridge[i], data.cap[i])
    moved = new - own
    u = (-moved).at[truth].add(jnp.sum(moved))
    one = jax.tree.map(lambda leaf: leaf[None], x)
    return problem.space.add(w, one, u[None]), new


def _sweep(problem: Problem, data: _Data, w: PyTree, alpha: Array, orders: Array) -> tuple:
    """(w, alpha) after each row of `orders` [sweeps, n] was visited in turn."""

    def one(w: PyTree, each: tuple[Array, Array]) -> tuple:
        return _visit(problem, data, w, *each)

    def all_examples(state: tuple, order: Array) -> tuple:
        w, alpha = state
        w, new = jax.lax.scan(one, w, (order, alpha[order]))
        return (w, alpha.at[order].set(new, unique_indices=True)), None

    return jax.lax.scan(all_examples, (w, alpha), orders)[0]


def _terms(problem: Problem, data: _Data, alpha: Array) -> tuple[PyTree, ExampleTerms]:
    """w made anew from alpha, and what it says of each pair (i, y) as of an example, all [n, k]."""
    n, k = alpha.shape
    rows = jnp.arange(n)
    u = (-alpha).at[rows, data.y].add(jnp.sum(alpha, axis=1))
    w = problem.space.add(jax.tree.map(jnp.zeros_like, problem.initial_weights), data.x, u)

    def of_example(x: PyTree, y: Array) -> tuple[Array, Array]:
        return problem.model.potentials(w, x), problem.space.plane_norms(x, y, jnp.arange(k))

    # 256 examples at a time: what lies between is [256, d] at most where rows are sparse.
    scores, norms = jax.lax.map(lambda one: of_example(*one), (data.x, data.y), batch_size=256)
    truth = scores[rows, data.y][:, None]
    margins = truth - scores
    slack = jnp.maximum(0, 1 - margins)
    return w, ExampleTerms(
        worst=1 - margins,
        value=1 - margins,
        slack=slack,
        known=slack,
        bound=alpha,
        product=alpha * margins,
        multiplier_sum=alpha,
        size=terms_size(jnp.ones_like(truth), jnp.ones_like(truth), truth, 1 - margins),
        reach=jnp.sqrt(norms),
    )


sweep_program = program(_sweep)
terms_program = program(_terms)


def fit_weston_watkins(
    problem: Problem,
    inputs: PyTree,
    labels: np.ndarray,
    formulation: str = "svm1",
    C: float = 1.0,
    *,
    tolerance: float = 1e-3,
    max_passes: int = 1000,
    seed: int = 0,
) -> WestonWatkins:
    """Trains Weston and Watkins's machine, (2.27) or (2.28), by ascent of its dual.

    Each visit solves the k - 1 multipliers of one example exactly; every fifth sweep over all
    examples, in random orders, is followed by a certificate.

    Args:
      problem: `multiclass` or `kernel_multiclass` without output features; its dtype counts.
      inputs: n examples, of arrays [n, ...] or `Ragged` stores. labels: [n] integers 0..k-1.
      formulation: svm1 (2.27) or svm2 (2.28).
      C: divided by n (k - 1), the number of slacks.
      tolerance: stop when P - D, with its rounding, is at most tolerance P.
      max_passes: bound on the sweeps, rounded up to whole fives. seed: of their orders.

    Raises:
      ValueError: an argument does not fit.
    """
    k = check_canonical(problem)
    dtype = str(jnp.result_type(*jax.tree.leaves(problem.initial_weights)))
    tolerance = checked_number("tolerance", tolerance, FINEST[dtype])
    rounds, orders = -(-max_passes // SWEEPS), np.random.default_rng(seed)
    x = jax.tree.map(_padded, inputs)
    labels = np.asarray(labels)
    problem.check(x, labels)
    n = len(labels)
    one = FORMULATIONS[formulation]
    terms = penalty_numbers(one, C, np.ones(n), n * (k - 1))
    data = _Data(x, labels, terms.cap, terms.ridge)
    data = jax.tree.map(lambda leaf: jnp.asarray(leaf, _dtype_of(leaf, dtype)), data)
    of_pairs = penalty_numbers(one, C, _of_pairs(labels, k), n * (k - 1))
    prove = partial(_proof, problem, data, one, of_pairs)
    alpha = jnp.zeros((n, k), dtype)
    w, slack, proof = prove(alpha)
    status, made = Status.PASS_LIMIT, 0
    while status is Status.PASS_LIMIT and made < rounds:
        order = np.stack([orders.permutation(n) for _ in range(SWEEPS)])
        _, alpha = sweep_program(problem, data, w, alpha, jnp.asarray(order, jnp.int32))
        w, slack, proof = prove(alpha)
        status, made = _judged(proof, tolerance), made + 1
    return WestonWatkins(
        jax.tree.map(np.asarray, w), status, proof.primal, proof.dual, proof.gap, proof.rounding,
        np.asarray(alpha), slack, SWEEPS * made, formulation, C,
    )  # fmt: skip


def _of_pairs(labels: np.ndarray, k: int) -> np.ndarray:
    """[n k] 1 of the pairs (i, y), 0 at y_i."""
    return (np.arange(k)[None] != labels[:, None]).astype(np.float64).ravel()


def _proof(
    problem: Problem, data: _Data, formulation: Formulation, terms: Penalty, alpha: Array
) -> tuple[PyTree, np.ndarray, Certificate]:
    """(w, slack [n, k], what both prove): `certify` with the pairs (i, y) as examples."""
    w, examples = terms_program(problem, data, alpha)
    norm = coordinate_norm(problem, w, data.x)
    of_pairs = ExampleTerms(*(np.asarray(leaf).ravel() for leaf in examples))
    proof = certify(formulation, terms, of_pairs, coordinates=norm, off_by=roundings(data.x))
    wrong = np.isfinite(terms.cap) & (terms.cap > 0) | (terms.ridge > 0)
    return w, np.where(wrong.reshape(alpha.shape), examples.slack, 0), proof


def _judged(proof: Certificate, tolerance: float) -> Status:
    if not np.isfinite([proof.primal, proof.dual]).all():
        return Status.NOT_FINITE
    within = proven(proof.gap, proof.rounding, tolerance * abs(proof.primal))
    if within is False:
        return Status.PASS_LIMIT
    return Status.CONVERGED if within else Status.ROUNDING


def _padded(leaf: AnyArray | Ragged) -> np.ndarray:
    if not isinstance(leaf, Ragged):
        return np.asarray(leaf)
    return leaf.padded(np.arange(len(leaf)), max(1, int(leaf.lengths.max(initial=1))))


def _dtype_of(leaf: np.ndarray, dtype: str) -> str:
    """Integers stay what they are, other numbers take the run's dtype."""
    return "int32" if leaf.dtype.kind in "iu" else dtype
