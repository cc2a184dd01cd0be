"""Full optimisation over S for ARBITRARY joint kernels (variant a), outputs enumerated.

Psi is never seen: J((x, y), (x', y')) = <Psi(x, y), Psi(x', y')> is given for all n k pairs of
examples and outputs, and the dual needs no more. With
phi_i(y) = s (Psi(x_i, y_i) - Psi(x_i, y)) the pooled Gram is

    G_iy,jy' = s_iy s_jy' [J_iy_i,jy_j - J_iy_i,jy' - J_iy,jy_j + J_iy,jy'],

and the dual of `formulations` over the union S of the working sets is solved by sweeps of pairwise
block ascent with the gradient of the whole maintained: a visit of example i costs O(n k K), memory
is n^2 k^2 numbers. So this is for small problems, for joint kernels that are no product
K(x, x') L(y, y'), and as a check on `fit` that shares neither oracle nor weights with it.

A block's slots are its k outputs. The slot of y_i is the slack slot: phi = 0, b = 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array
from jaxstruct.solvers.loop.host_loop import (
    Method,
    Round,
    Rules,
    RunState,
    begin,
    last_certificate,
    run_state_at,
    solve,
)
from jaxstruct.solvers.loop.status import MESSAGES, Status
from jaxstruct.solvers.objective.certificate import Certificate, ExampleTerms, certify
from jaxstruct.solvers.objective.formulations import Formulation, formulation_named, penalty
from jaxstruct.solvers.pooled.dual import (
    Pool,
    Tables,
    checked_tables,
    coefficients_of,
    example_terms,
    pool_of,
    pool_sweeps,
    tables_of,
)
from jaxstruct.solvers.pooled.joint_kernels import joint_gram, joint_rows
from jaxstruct.solvers.solution import summary
from jaxstruct.solvers.validation.checks import check_run, rounding

__all__ = [
    "PooledSolution",
    "SupportPairs",
    "decision",
    "fit_pooled",
    "joint_gram",
    "joint_rows",
]


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
      status, message: how it ended. primal, dual, gap: best P, best D, and P - D.
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


def _support(alpha: np.ndarray, truths: np.ndarray) -> SupportPairs:
    coefficients = coefficients_of(alpha, truths)
    example, output = np.nonzero(coefficients)
    return SupportPairs(example, output, coefficients[example, output])


class _State(NamedTuple):
    """Where a run stands: S with the slack slots, beta, and what the last look at it said."""

    members: np.ndarray
    beta: Array
    multipliers: np.ndarray
    sweeps: int
    rounds: int


class _Fixed(NamedTuple):
    """What stays as it is during a run."""

    pool: Pool
    tables: Tables
    formulation: Formulation
    rules: Rules
    least_margin: float
    sweeps: int


def _add(
    fixed: _Fixed,
    state: _State,
    terms: ExampleTerms,
    violations: np.ndarray,
    certificate: Certificate,
    primal: float,
) -> _State:
    """S with the most violated output of each example, once the dual over S is solved.

    It is solved when its gap is a tenth of the whole gap, or within a third of the tolerance.
    primal: the best so far.
    """
    tolerance, bounds = fixed.rules.tolerance, fixed.pool.bounds
    finest = 0.3 * (tolerance or 0.0) * abs(primal)
    if certificate.relaxed_gap > max(finest, 0.1 * (primal - certificate.dual)):
        return state
    rounded = 16 * float(jnp.finfo(bounds.dtype).eps) * (1 + np.max(np.abs(np.asarray(bounds))))
    threshold = fixed.rules.epsilon or 0.0 if tolerance is None else rounded
    used = np.asarray(fixed.pool.terms.cap) > 0
    chosen = np.flatnonzero(used & (terms.worst > terms.known + threshold))
    members = state.members.copy()
    members[chosen, np.argmax(violations[chosen], axis=1)] = True
    return state._replace(members=members, rounds=state.rounds + 1)


def _method(fixed: _Fixed, random: np.random.Generator) -> Method:
    """The pooled solver as the host loop runs it: some sweeps, then a look at the certificate."""
    wrong = np.asarray(fixed.pool.wrong)

    def step(now: RunState) -> tuple[_State, Round]:
        state: Any = now.state
        order = jnp.asarray(random.permutation(fixed.tables.truths.size))
        members = jnp.asarray(state.members)
        beta = pool_sweeps(fixed.pool, members, state.beta, order, fixed.sweeps)
        host = np.asarray(beta, np.float64)
        terms, violations = example_terms(fixed.tables, wrong, state.members, host)
        dtype = fixed.tables.joint.dtype
        certificate = certify(fixed.formulation, fixed.tables.terms, terms, dtype=dtype)
        sweeps = state.sweeps + fixed.sweeps
        state = state._replace(beta=beta, multipliers=host, sweeps=sweeps)
        primal = min(now.best.primal, certificate.primal)
        grown = _add(fixed, state, terms, violations, certificate, primal)
        added = int(np.sum(grown.members) - np.sum(state.members))
        return grown, Round(
            certificate=certificate,
            primal=certificate.primal,
            dual=certificate.dual,
            planes_added=added,
            oracle_calls=0,
            clock=sweeps,
            seconds={},
            weights=host,
            slack=np.asarray(terms.slack),
            least_margin=fixed.least_margin,
            state=grown,
        )

    return Method(step)


def _solution(fixed: _Fixed, now: RunState, status: Status) -> PooledSolution:
    best, state, tables = now.best, now.state, fixed.tables
    certificate, slack = last_certificate(best)
    return PooledSolution(
        alpha=tables.scales * state.multipliers,
        multipliers=state.multipliers,
        support=_support(tables.scales * best.weights, tables.truths),
        status=status,
        message=MESSAGES[status],
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual,
        certificate=certificate,
        slack=slack,
        working_set=state.members & np.asarray(fixed.pool.wrong),
        rounds=state.rounds,
        sweeps=state.sweeps,
        formulation=fixed.formulation.name,
        C=fixed.rules.C,
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
    losses, truths, weights = checked_tables(gram, losses, truths, example_weights)
    if sweeps < 1:
        raise ValueError(f"sweeps must be at least 1, got {sweeps}")
    terms = penalty(formulation, C, weights, len(truths), str(gram.dtype))
    pool = pool_of(gram, jnp.asarray(losses, gram.dtype), jnp.asarray(truths), terms)
    radius = math.sqrt(max(float(np.max(np.einsum("iyiy->iy", np.asarray(pool.gram)))), 0.0))
    hard = formulation.penalty == 0
    rules = Rules(tolerance, epsilon, max_passes, float(C), hard, rounding(gram.dtype))
    tables = tables_of(np.asarray(gram), losses, truths, weights, formulation, C)
    fixed = _Fixed(pool, tables, formulation, rules, min_margin * radius, sweeps)
    zero = np.zeros(losses.shape)
    state = _State(~np.asarray(pool.wrong), jnp.zeros_like(pool.bounds), zero, 0, 0)
    method = _method(fixed, np.random.default_rng(seed))
    now, status = solve(method, run_state_at(state, zero), rules, begin())
    return _solution(fixed, now, status)
