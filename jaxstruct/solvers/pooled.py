"""Full optimisation over S for ARBITRARY joint kernels (variant a), outputs enumerated.

Psi is never seen: J((x, y), (x', y')) = <Psi(x, y), Psi(x', y')> is given for all n k pairs of
examples and outputs, and the dual needs no more. With
phi_i(y) = s (Psi(x_i, y_i) - Psi(x_i, y)) the pooled Gram is

    G_iy,jy' = s_iy s_jy' [J_iy_i,jy_j - J_iy_i,jy' - J_iy,jy_j + J_iy,jy'],

and the dual of `formulations` over the union S of the working sets is solved by sweeps of pairwise
block ascent with the gradient of the whole maintained: a visit of example i costs O(n k K), memory
is n^2 k^2 numbers. So this is for small problems, for joint kernels that are no product
K(x, x') L(y, y'), and as a check on `fit` that shares neither oracle nor weights with it.

A block's slots are its k outputs. The slot of y_i is the zero plane: phi = 0, b = 0, reservoir.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.checks import shown
from jaxstruct.core.types import Array, PyTree
from jaxstruct.kernels import check_positive_semidefinite, gram_matrix
from jaxstruct.solvers.block_dual import block_ascent
from jaxstruct.solvers.certificate import Certificate, certify, proven
from jaxstruct.solvers.checks import check_run
from jaxstruct.solvers.formulations import (
    Formulation,
    Penalty,
    formulation_named,
    penalty,
    penalty_numbers,
    power_of_loss,
)
from jaxstruct.solvers.passes import ExampleTerms
from jaxstruct.solvers.solution import MESSAGES, Status, summary

_BLOCK_STEPS = 50


class SupportPairs(NamedTuple):
    """The pairs that the solution is made of: F(x, y) = sum_m coefficient_m J(pair_m, (x, y)).

    Fields:
      example, output: [M] positions; the true outputs of support examples are among them.
      coefficient: [M] [y = y_i] sum_y' alpha_iy' - alpha_iy, not zero.
    """

    example: np.ndarray
    output: np.ndarray
    coefficient: np.ndarray


class PooledSolution(NamedTuple):
    """The result of `fit_pooled`.

    Fields:
      alpha: [n, k] dual variables of the thesis (s beta), 0 at y_i. multipliers: [n, k] beta.
      support: what `decision` needs, scaled to the primal solution.
      status, message: how it ended. primal, dual, gap: best P, last D, and P - D.
      certificate: of the last round. slack: [n] xi_i of the last round.
      working_set: [n, k] bool, S without the true outputs.
      rounds, sweeps: how often planes were searched, and sweeps of block ascent.
      formulation, C: what was solved.
    """

    alpha: np.ndarray
    multipliers: np.ndarray
    support: SupportPairs
    status: Status
    message: str
    primal: float
    dual: float
    gap: float
    certificate: Certificate
    slack: np.ndarray
    working_set: np.ndarray
    rounds: int
    sweeps: int
    formulation: str
    C: float

    def __repr__(self) -> str:
        """One line without the arrays."""
        return summary(self, self.sweeps, int(np.sum(self.working_set)))


class _Pool(NamedTuple):
    """gram: [n, k, n, k] <phi, phi>; scales, bounds: [n, k], 0 at y_i; wrong: [n, k] y != y_i."""

    gram: Array
    scales: Array
    bounds: Array
    wrong: Array
    terms: Penalty


@jax.jit
def _pool(joint: Array, losses: Array, truths: Array, terms: Penalty) -> _Pool:
    n, k = losses.shape
    wrong = jnp.arange(k)[None] != truths[:, None]
    scales = jnp.where(wrong, power_of_loss(losses, terms.scale_power), 0)
    bounds = jnp.where(wrong, power_of_loss(losses, terms.bound_power), 0)
    rows = jnp.arange(n)
    left = joint[rows, truths][:, None] - joint
    both = left[:, :, rows, truths][..., None] - left
    return _Pool(scales[:, :, None, None] * both * scales[None, None], scales, bounds, wrong, terms)


def _planes_gradient(pool: _Pool, products: Array, beta: Array) -> Array:
    """[n, k] dD / d beta, with products = G beta; 0 in the reservoir."""
    mass = pool.terms.ridge * jnp.sum(beta, axis=1)
    return jnp.where(pool.wrong, pool.bounds - products - mass[:, None], 0)


@partial(jax.jit, static_argnames="rounds")
def _sweeps(pool: _Pool, members: Array, beta: Array, order: Array, rounds: int) -> Array:
    """beta after `rounds` sweeps in the given order; the dual never falls.

    Args:
      members: [n, k] bool, S with the reservoirs. order: [n] permutation of the examples.
    """

    def products_of(beta: Array) -> Array:
        return jnp.tensordot(pool.gram, beta, 2, precision=jax.lax.Precision.HIGHEST)

    def visit(state: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], None]:
        beta, products = state
        wrong, ridge = pool.wrong[i], pool.terms.ridge[i]
        mass = jnp.sum(beta[i])
        gradient = jnp.where(wrong, pool.bounds[i] - products[i] - ridge * mass, 0)
        ridged = pool.gram[i, :, i] + ridge * (wrong[:, None] & wrong[None])
        start = jnp.where(wrong, beta[i], jnp.maximum(pool.terms.cap[i] - mass, 0))
        solved = block_ascent(ridged, gradient, start, members[i], _BLOCK_STEPS)
        new = jnp.where(wrong, solved, 0)
        return (beta.at[i].set(new), products + pool.gram[:, :, i] @ (new - beta[i])), None

    def sweep(beta: Array, _: None) -> tuple[Array, None]:
        return jax.lax.scan(visit, (beta, products_of(beta)), order)[0][0], None

    return jax.lax.scan(sweep, beta, None, length=rounds)[0]


class _Tables(NamedTuple):
    """What the certificate is made of, on the host: joint [n, k, n, k] as it was given.

    scales, bounds: [n, k] s and b, 0 at y_i. truths: [n]. terms: cap and ridge. All in float64.
    """

    joint: np.ndarray
    scales: np.ndarray
    bounds: np.ndarray
    truths: np.ndarray
    terms: Penalty


def _products(tables: _Tables, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([n, k] G beta, [n] size of its terms) in float64, from the joint Gram matrix as given."""
    rows = np.arange(tables.truths.size)
    coefficients = _coefficients(tables.scales * beta, tables.truths)
    scores = np.stack([
        np.tensordot(block.astype(np.float64), coefficients, 2) for block in tables.joint
    ])  # fmt: skip
    products = tables.scales * (scores[rows, tables.truths][:, None] - scores)
    return products, 2 * np.max(tables.scales, axis=1) * np.max(np.abs(scores), axis=1)


def _example_terms(
    tables: _Tables, wrong: np.ndarray, members: np.ndarray, beta: np.ndarray
) -> tuple[ExampleTerms, np.ndarray]:
    """The certificate's terms in float64, and H [n, k] (-inf at y_i)."""
    bounds, (products, size) = tables.bounds, _products(tables, beta)
    violations = np.where(wrong, bounds - products, -np.inf)
    worst = np.max(violations, axis=1)
    known = np.maximum(np.max(np.where(members, violations, -np.inf), axis=1), 0)
    terms = ExampleTerms(
        worst=worst,
        slack=np.maximum(worst, 0),
        known=known,
        bound=np.sum(beta * bounds, axis=1),
        product=np.sum(beta * products, axis=1),
        mass=np.sum(beta, axis=1),
        size=size + np.max(bounds, axis=1),
        reach=np.zeros(len(beta)),
    )
    return terms, violations


def joint_rows(
    kernel: Callable,
    pairs: tuple[PyTree, PyTree],
    inputs: PyTree,
    outputs: PyTree,
    block: int = 256,
) -> Array:
    """[m, k, M] J((x, y), pair) of m inputs with each of k outputs against M given pairs.

    Args:
      kernel: a function of two pairs, J((x, y), (x', y')) -> scalar; `kernels.tensor_product` and
        `kernels.direct_sum` make such functions.
      pairs: (inputs, outputs), pytrees with a leading axis [M], e.g. the training inputs and the
        outputs at `solution.support`.
      inputs: pytree with a leading axis [m]. outputs: pytree with a leading axis [k].
      block: pairs worked on together, see `kernels.gram_matrix`.
    """
    m, k = (jax.tree.leaves(tree)[0].shape[0] for tree in (inputs, outputs))
    every = (
        jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), k, axis=0), inputs),
        jax.tree.map(lambda leaf: jnp.concatenate([jnp.asarray(leaf)] * m), outputs),
    )
    return gram_matrix(kernel, every, jax.tree.map(jnp.asarray, pairs), block).reshape(m, k, -1)


def joint_gram(kernel: Callable, inputs: PyTree, outputs: PyTree, block: int = 256) -> Array:
    """[n, k, n, k] J((x_i, y), (x_j, y')) of n inputs with each of k outputs; see `joint_rows`."""
    n, k = (jax.tree.leaves(tree)[0].shape[0] for tree in (inputs, outputs))
    every = (
        jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf), k, axis=0), inputs),
        jax.tree.map(lambda leaf: jnp.concatenate([jnp.asarray(leaf)] * n), outputs),
    )
    return joint_rows(kernel, every, inputs, outputs, block).reshape(n, k, n, k)


def decision(solution: PooledSolution, rows: Array) -> Array:
    """F(x, y) = sum_m coefficient_m J(pair_m, (x, y)).

    Args:
      rows: [..., M] kernel values against the pairs of `solution.support`, e.g. of `joint_rows`,
        or gram[:, :, support.example, support.output] of the training set.

    Returns:
      [...] values; the prediction is their argmax over outputs, ties to the lowest.

    Raises:
      ValueError: the last axis is not the number of support pairs.
    """
    rows = jnp.asarray(rows)
    wanted = solution.support.coefficient.shape[0]
    if rows.ndim < 1 or rows.shape[-1] != wanted:
        raise ValueError(
            f"rows must be [..., M = {wanted}], one kernel value a support pair, got {rows.shape}"
        )
    coefficients = jnp.asarray(solution.support.coefficient, rows.dtype)
    return jnp.matmul(rows, coefficients, precision=jax.lax.Precision.HIGHEST)


def _checked_tables(
    gram: Array, losses: np.ndarray, truths: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    losses, truths = np.asarray(losses, np.float64), np.asarray(truths)
    if losses.ndim != 2 or losses.shape[0] < 1 or losses.shape[1] < 2:
        raise ValueError(f"losses must be [n, k] with k >= 2 outputs, got shape {losses.shape}")
    n, k = losses.shape
    if truths.shape != (n,) or truths.dtype.kind not in "iu":
        raise ValueError(f"truths must be [n = {n}] integers, got {truths.dtype} {truths.shape}")
    if truths.min() < 0 or truths.max() >= k:
        raise ValueError(
            f"truths must lie in 0..{k - 1}, got {truths.min()}..{truths.max()}: columns of losses"
        )
    if not np.isfinite(losses).all() or losses.min() < 0 or losses[np.arange(n), truths].any():
        raise ValueError("losses must be finite, >= 0, and 0 at the true outputs")
    if np.shape(gram) != (n, k, n, k):
        raise ValueError(
            f"gram must be [n, k, n, k] = {(n, k, n, k)}, got shape {np.shape(gram)}; joint_gram "
            "builds it from a kernel"
        )
    check_positive_semidefinite(np.reshape(gram, (n * k, n * k)), "gram")
    weights = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    if weights.shape != (n,) or not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError(
            f"example_weights must be [n = {n}], finite and >= 0, got {shown(weights)}"
        )
    if not weights.any():
        raise ValueError("example_weights must not be all zero")
    return losses, truths.astype(np.int32), weights


def _coefficients(alpha: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """[n, k] [y = y_i] sum_y' alpha_iy' - alpha_iy."""
    coefficients = -alpha
    coefficients[np.arange(truths.size), truths] += np.sum(alpha, axis=1)
    return coefficients


def _support(alpha: np.ndarray, truths: np.ndarray, scale: float) -> SupportPairs:
    coefficients = _coefficients(alpha, truths)
    example, output = np.nonzero(coefficients)
    return SupportPairs(example, output, scale * coefficients[example, output])


def _tables(
    joint: np.ndarray, losses: np.ndarray, truths: np.ndarray, weights: np.ndarray,
    formulation: Formulation, C: float,
) -> _Tables:  # fmt: skip
    """The numbers of the certificate, none of them rounded to the dtype of the run."""
    n, k = losses.shape
    wrong = np.arange(k)[None] != truths[:, None]
    scales, bounds = (
        np.where(wrong, losses**power, 0)
        for power in (formulation.scale_power, formulation.bound_power)
    )
    return _Tables(joint, scales, bounds, truths, penalty_numbers(formulation, C, weights, n))


class _Rules(NamedTuple):
    tolerance: float | None
    epsilon: float | None
    max_passes: int
    smallest_margin: float
    C: float
    sweeps: int
    seed: int


def _status(
    rules: _Rules,
    formulation: Formulation,
    certificate: Certificate,
    gap: float,
    primal: float,
    sweeps: int,
) -> Status | None:
    if math.isnan(certificate.primal) or not math.isfinite(certificate.dual):
        return Status.NOT_FINITE
    if rules.tolerance is not None:
        within = proven(gap, certificate.rounding, rules.tolerance * abs(primal))
        if within is not False:
            return Status.CONVERGED if within else Status.ROUNDING
    if rules.epsilon is not None and certificate.violation <= rules.epsilon:
        allowance = rules.C * rules.epsilon if formulation.penalty else 0.0
        allowance = max(allowance, 1e-3 * abs(certificate.dual))
        within = proven(certificate.relaxed_gap, certificate.rounding, allowance)
        if within is not False:
            return Status.EPSILON if within else Status.ROUNDING
    if formulation.penalty == 0 and certificate.margin_bound <= rules.smallest_margin:
        return Status.NOT_SEPARABLE
    return Status.PASS_LIMIT if sweeps >= rules.max_passes else None


class _Run(NamedTuple):
    """Where a run stands: S with the reservoirs, beta, and the beta and scale of the best P."""

    members: np.ndarray
    beta: Array
    primal: float
    best_beta: np.ndarray
    scale: float
    sweeps: int
    rounds: int


def _added(
    rules: _Rules,
    pool: _Pool,
    run: _Run,
    terms: ExampleTerms,
    violations: np.ndarray,
    certificate: Certificate,
) -> _Run:
    """S with the most violated output of each example, once the dual over S is solved.

    It is solved when its gap is a tenth of the whole gap, or within a third of the tolerance.
    """
    finest = 0.3 * (rules.tolerance or 0.0) * abs(run.primal)
    if certificate.relaxed_gap > max(finest, 0.1 * (run.primal - certificate.dual)):
        return run
    rounding = 16 * float(jnp.finfo(pool.bounds.dtype).eps) * (1 + np.max(np.abs(pool.bounds)))
    threshold = rules.epsilon if rules.tolerance is None else rounding
    used = np.asarray(pool.terms.cap) > 0
    chosen = np.flatnonzero(used & (terms.worst > terms.known + threshold))
    members = run.members.copy()
    members[chosen, np.argmax(violations[chosen], axis=1)] = True
    return run._replace(members=members, rounds=run.rounds + 1)


def _run(pool: _Pool, tables: _Tables, formulation: Formulation, rules: _Rules) -> PooledSolution:
    truths, wrong = tables.truths, np.asarray(pool.wrong)
    start = jnp.zeros_like(pool.bounds)
    run = _Run(~np.asarray(pool.wrong), start, math.inf, np.asarray(start), 1.0, 0, 0)
    random, status = np.random.default_rng(rules.seed), None
    while status is None:
        order = jnp.asarray(random.permutation(truths.size))
        beta = _sweeps(pool, jnp.asarray(run.members), run.beta, order, rules.sweeps)
        host = np.asarray(beta, np.float64)
        example_terms, violations = _example_terms(tables, wrong, run.members, host)
        certificate = certify(formulation, tables.terms, example_terms)
        run = run._replace(beta=beta, sweeps=run.sweeps + rules.sweeps)
        if certificate.primal < run.primal:
            run = run._replace(primal=certificate.primal, best_beta=host, scale=certificate.scale)
        gap = run.primal - certificate.dual
        status = _status(rules, formulation, certificate, gap, run.primal, run.sweeps)
        run = _added(rules, pool, run, example_terms, violations, certificate)
    return PooledSolution(
        alpha=tables.scales * host,
        multipliers=host,
        support=_support(tables.scales * run.best_beta, truths, run.scale),
        status=status,
        message=MESSAGES[status],
        primal=run.primal,
        dual=certificate.dual,
        gap=gap,
        certificate=certificate,
        slack=np.asarray(example_terms.slack),
        working_set=run.members & wrong,
        rounds=run.rounds,
        sweeps=run.sweeps,
        formulation=formulation.name,
        C=rules.C,
    )


def fit_pooled(
    gram: Array,
    losses: np.ndarray,
    truths: np.ndarray,
    formulation: str | Formulation = "svm1_margin",
    C: float = 1.0,
    *,
    tolerance: float | None = 1e-8,
    epsilon: float | None = None,
    example_weights: np.ndarray | None = None,
    max_passes: int = 20_000,
    min_margin: float = 1e-3,
    sweeps: int = 10,
    seed: int = 0,
) -> PooledSolution:
    """Train a structural SVM with any joint kernel (thesis, algorithms 2 and 3, step 10a).

    max sum beta b - 1/2 sum beta beta' G - 1/2 sum_i r_i (sum_y beta_iy)^2 under the constraints
    of `formulations`, over a working set that grows by the most violated outputs.

    Args:
      gram: [n, k, n, k] J((x_i, y), (x_j, y')), symmetric and positive semi-definite; its dtype
        is that of the run (`joint_gram` builds it).
      losses: [n, k] Delta(y_i, y), 0 at y_i. truths: [n] the column of y_i.
      formulation, C, example_weights, min_margin: as in `fit`.
      tolerance: stop when P - D <= tolerance |P|; the default is for float64.
      epsilon: the paper's rule as in `fit`; planes are added above it where tolerance is None.
      max_passes: bound on the sweeps over the examples.
      sweeps: sweeps between two looks at the certificate. seed: of the order of the examples.

    Returns:
      A PooledSolution; look at its status before its numbers.

    Raises:
      ValueError: an argument does not fit; the message names it.
    """
    formulation = formulation_named(formulation)
    gram = jnp.asarray(gram)
    if not jnp.issubdtype(gram.dtype, jnp.floating):
        raise ValueError(f"gram must be floating, got {gram.dtype}: its dtype is that of the run")
    check_run(C, tolerance, epsilon, max_passes, min_margin, gram.dtype)
    losses, truths, weights = _checked_tables(gram, losses, truths, example_weights)
    if sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, got {sweeps}")
    terms = penalty(formulation, C, weights, len(truths), gram.dtype)
    pool = _pool(gram, jnp.asarray(losses, gram.dtype), jnp.asarray(truths), terms)
    radius = math.sqrt(max(float(jnp.max(jnp.einsum("iyiy->iy", pool.gram))), 0.0))
    rules = _Rules(tolerance, epsilon, max_passes, min_margin * radius, float(C), sweeps, seed)
    tables = _tables(np.asarray(gram), losses, truths, weights, formulation, C)
    return _run(pool, tables, formulation, rules)
