"""Conditional random fields: the largest conditional likelihood on a structure's potentials.

    min_w 1/2 |w|^2 + C/n sum_i [log Z(x_i; w) - F(x_i, y_i; w)]

P(y | x) = exp(F(x, y; w)) / Z(x) as in thesis 3.5, with the regulariser and the scale of C of the
structural SVM, so that the two differ in their loss alone. CRFsuite minimises
sum_i -log P(y_i | x_i) + c2 |w|^2: that is n/C times this objective at c2 = n / (2 C).

Its dual is over distributions mu_i of the outputs of each example, with H the entropy:

    max_mu  C/n sum_i H(mu_i) - 1/2 |w(mu)|^2,    w(mu) = C/n sum_i (Psi(x_i, y_i) - E_mu_i Psi)

(Collins, Globerson, Koo, Carreras and Bartlett, JMLR 9, 2008). At mu_i = P(. | x_i; w), the
marginals that the gradient is made of, w - w(mu) is the gradient and

    P(w) - D(mu) = 1/2 |gradient of P at w|^2,

so that every w, of whatever training, brings its certificate (`certify_random_field`).

Of outputs of which a part is known (`Incomplete`) the likelihood is that of all that agree:

    -log P(known_i | x_i) = log Z(x_i; w) - log Z(x_i; w) over the outputs that agree with known_i.

It is no convex function of w, so that no lower bound is known, and the end is a stationary point.

A step along a line satisfies the Wolfe conditions, on numbers of the host,

    f(t) <= f(0) + 1e-4 t f'(0)    and    f'(t) >= 0.9 f'(0)

(Nocedal and Wright, "Numerical optimization", 3.1). Near an optimum, where values differ by no more
than their rounding, the first is replaced by f'(t) <= (2e-4 - 1) f'(0) (Hager and Zhang, SIAM J.
Optim. 16, 2005, "approximate Wolfe conditions").
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxstruct.baselines.conditional_log_likelihood import in_blocks, value_and_gradient
from jaxstruct.baselines.examples import first_weights
from jaxstruct.baselines.field_certificate import FieldCertificate, ending, lower_bound, prove_field
from jaxstruct.baselines.kernel_coordinates import in_coordinates, lifted
from jaxstruct.core.buckets import Buckets
from jaxstruct.core.checks import checked_number, checked_size
from jaxstruct.core.contract import Incomplete, InferenceFacts, Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.device import on_device
from jaxstruct.core.status import Status
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.latent.completion import some_that_agree
from jaxstruct.solvers.validation.checks import checked_buckets

_DECREASE = 1e-4
_CURVATURE = 0.9


class LinePoint(NamedTuple):
    """A step t with f(t) and f'(t)."""

    step: float
    value: float
    slope: float


def _decreases(point: LinePoint, start: LinePoint, rounding: float) -> bool:
    if point.value <= start.value + _DECREASE * point.step * start.slope:
        return True
    flat = point.value <= start.value + rounding
    return flat and point.slope <= (2 * _DECREASE - 1) * start.slope


def _between(low: LinePoint, high: LinePoint) -> float:
    """The minimum of the cubic through both, kept away from the ends; else the middle."""
    width = high.step - low.step
    chord = 3 * (low.value - high.value) / width + low.slope + high.slope
    root = chord * chord - low.slope * high.slope
    halfway = low.step + width / 2
    if not (math.isfinite(root) and root >= 0):
        return halfway
    root = math.sqrt(root)
    divisor = high.slope - low.slope + 2 * root
    if divisor <= 0:
        return halfway
    share = 1 - (high.slope + root - chord) / divisor
    return low.step + width * min(max(share, 0.1), 0.9)


def wolfe_step(
    evaluate: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    *,
    rounding: float = 0.0,
    most: int = 20,
) -> LinePoint | None:
    """Find a step by doubling until it is bracketed, then by cubic interpolation.

    Args:
      evaluate: t -> (f(t), f'(t)); may be inf or nan.
      value: f(0). slope: f'(0) < 0.
      rounding: how far two equal values may lie apart.
      most: evaluations at most. The first is at t = 1.

    Returns:
      The step, which is the last that was evaluated, or None if there is none among `most`.
    """
    start = low = LinePoint(0.0, value, slope)
    high, step = None, 1.0
    for _ in range(most):
        point = LinePoint(step, *evaluate(step))
        if not _decreases(point, start, rounding):
            high = point
        elif point.slope < _CURVATURE * slope:
            low = point
        else:
            return point
        step = 2 * step if high is None else _between(low, high)
    return None


MESSAGES = {
    Status.CONVERGED: "the gradient is within the tolerance",
    Status.PASS_LIMIT: "max_iterations was reached first: raise it, or loosen tolerance",
    Status.NOT_FINITE: "the objective is not finite: check the scale of the inputs, or use float64",
    Status.ROUNDING: (
        "neither the objective nor its gradient gets any smaller, or the dtype rounds more of P "
        "away than tolerance allows: loosen tolerance, center the features, or use float64"
    ),
    Status.STOPPED: "the callback asked to stop",
}
_PATIENCE = 20
"""Iterations without a lower objective or gradient: what is left of both is rounding."""


class FieldProgress(NamedTuple):
    """What a callback of `fit_random_field` sees after each iteration.

    Fields:
      iterations, evaluations: so far. objective, gradient_norm: at `weights`, the iterate.
      seconds: since the start, compiling included.
    """

    iterations: int
    evaluations: int
    objective: float
    gradient_norm: float
    seconds: float
    weights: PyTree


class RandomField(NamedTuple):
    """The result of `fit_random_field`.

    Fields:
      weights: w. status, message: how the run ended.
      objective: 1/2 |w|^2 + C/n sum_i [log Z - F] at w. gradient_norm: |gradient| at w. Both from
        terms of the run's dtype added in float64.
      iterations, evaluations: of L-BFGS; of the objective and its gradient together.
      seconds: wall seconds, compiling included.
      history: [iterations + 1, 4] seconds, objective, gradient_norm, evaluations; the first row is
        the start.
      dual: P - 1/2 |gradient|^2 of w or of the iterate where it seemed largest, a lower bound of
        the optimum, up to rounding; -inf where the log loss is not convex.
      rounding: by how much objective and dual may be off because the run's dtype rounds; see
        `field_certificate`. The optimum lies in [dual - rounding, objective + rounding].
    """

    weights: PyTree
    status: Status
    message: str
    objective: float
    gradient_norm: float
    iterations: int
    evaluations: int
    seconds: float
    history: np.ndarray
    dual: float
    rounding: float

    @property
    def primal(self) -> float:
        """P(w), the objective."""
        return self.objective

    @property
    def gap(self) -> float:
        """P - D: by how much P(w) is above the optimum, at most."""
        return self.objective - self.dual


class _Row(NamedTuple):
    """One row of `RandomField.history`."""

    seconds: float
    objective: float
    gradient_norm: float
    evaluations: int


class _Point(NamedTuple):
    """w with the objective, its gradient, and the norms of both."""

    weights: PyTree
    objective: float
    gradient: PyTree
    gradient_norm: float
    weight_norm: float


@partial(jax.jit, donate_argnames="gradient")
def _regularise(weights: PyTree, gradient: PyTree, scale: Array) -> tuple[PyTree, Array, Array]:
    """(w + scale gradient, its squared norm, |w|^2)."""
    gradient = jax.tree.map(lambda w, g: w + scale * g, weights, gradient)
    slope, size = (optax.tree.norm(tree, squared=True) for tree in (gradient, weights))
    return gradient, slope, size


@jax.jit
def _move(weights: PyTree, direction: PyTree, step: Array) -> PyTree:
    return jax.tree.map(lambda w, d: w + step * d, weights, direction)


@jax.jit
def _slope(gradient: PyTree, direction: PyTree) -> Array:
    return jnp.asarray(optax.tree.vdot(gradient, direction))


@partial(jax.jit, static_argnames="memory", donate_argnames="state")
def _direction(
    gradient: PyTree, state: PyTree, weights: PyTree, memory: int
) -> tuple[PyTree, PyTree]:
    """Minus the inverse Hessian that L-BFGS has gathered times the gradient."""
    optimiser = optax.lbfgs(memory_size=memory, linesearch=None)
    return optimiser.update(gradient, state, weights)


def _first_state(weights: PyTree, memory: int) -> PyTree:
    """L-BFGS before its first step: distinct arrays, since they are updated in place."""
    state = jax.jit(optax.lbfgs(memory_size=memory, linesearch=None).init)(weights)
    return jax.tree.map(lambda leaf: on_device(np.array(leaf)), state)


class _Objective:
    """w -> `_Point`, counting its calls."""

    def __init__(self, problem: Problem, blocks: tuple, scale: float) -> None:
        self._problem = problem
        self._blocks = blocks
        self._scale = scale
        self.calls = 0

    def __call__(self, weights: PyTree) -> _Point:
        self.calls += 1
        total, gradient = value_and_gradient(self._problem, weights, self._blocks)
        gradient, *squared = _regularise(weights, gradient, self._scale)
        of_gradient, of_weights = map(float, squared)
        objective = of_weights / 2 + self._scale * total
        return _Point(weights, objective, gradient, math.sqrt(of_gradient), math.sqrt(of_weights))


def _search(
    objective: _Objective, point: _Point, direction: PyTree, rounding: float
) -> _Point | None:
    """The next iterate on the line, or None."""
    slope, last = float(_slope(point.gradient, direction)), point

    def evaluate(step: float) -> tuple[float, float]:
        nonlocal last
        last = objective(_move(point.weights, direction, step))
        return last.objective, float(_slope(last.gradient, direction))

    if not slope < 0:
        return None
    found = wolfe_step(evaluate, point.objective, slope, rounding=rounding * abs(point.objective))
    return None if found is None else last


def _descent(objective: _Objective, weights: PyTree, memory: int) -> Iterator[_Point]:
    """The start and the iterates of L-BFGS, until no step is found."""
    rounding = 1000 * float(jnp.finfo(jnp.result_type(*jax.tree.leaves(weights))).eps)
    state, now = _first_state(weights, memory), objective(weights)
    while now is not None:
        yield now
        direction, state = _direction(now.gradient, state, now.weights, memory)
        now = _search(objective, now, direction, rounding)


def _is_stalled(log: list[_Row]) -> bool:
    """Whether neither the objective nor its gradient has been lower for some iterations."""
    _, objective, gradient_norm, _ = np.asarray(log).T
    return len(log) - 1 - max(objective.argmin(), gradient_norm.argmin()) > _PATIENCE


def _status(
    point: _Point, tolerance: float, log: list[_Row], limit: int, stopped: bool
) -> Status | None:
    if not (math.isfinite(point.objective) and math.isfinite(point.gradient_norm)):
        return Status.NOT_FINITE
    if point.gradient_norm <= tolerance * max(1.0, point.weight_norm):
        return Status.CONVERGED
    if _is_stalled(log):
        return Status.ROUNDING
    if len(log) > limit:
        return Status.PASS_LIMIT
    return Status.STOPPED if stopped else None


def _examples(
    problem: Problem, inputs: PyTree, outputs: PyTree, weights: np.ndarray | None
) -> tuple[Problem, Buckets, Buckets]:
    """(the problem, examples checked); of `Incomplete` outputs a log loss that bounds nothing."""
    if not isinstance(outputs, Incomplete):
        return problem, *checked_buckets(problem, inputs, outputs, weights, dual=False)
    if problem.model.restrict is None and problem.model.agrees is None:
        raise ValueError(
            "problem has no Model.restrict and no Model.agrees, so that outputs must be known: "
            "those of this package have one whose labels may be None, graphs with plans"
        )
    given = problem.inference.facts
    facts = InferenceFacts(convex=False, exact=given.exact, advice=given.advice)
    problem = problem._replace(inference=problem.inference._replace(facts=facts))
    return problem, *some_that_agree(problem, inputs, outputs, weights, dual=False)


def _check(C: float, tolerance: float, max_iterations: int, memory: int, positions: int) -> None:
    for name, value in (("C", C), ("tolerance", tolerance)):
        checked_number(name, value, strict=True)
    counts = dict(max_iterations=max_iterations, memory=memory, positions=positions)
    for name, value in counts.items():
        checked_size(name, value)


def _asks_to_stop(
    callback: Callable[[FieldProgress], bool | None] | None, point: _Point, log: list[_Row]
) -> bool:
    """Whether the callback, which sees every iteration but the start, answers so."""
    if callback is None or len(log) < 2:
        return False
    progress = FieldProgress(iterations=len(log) - 1, weights=point.weights, **log[-1]._asdict())
    return bool(callback(progress))


def certify_random_field(
    problem: Problem,
    weights: PyTree,
    inputs: PyTree,
    outputs: PyTree,
    C: float = 1.0,
    *,
    positions: int = 1 << 13,
) -> FieldCertificate:
    """Primal and dual value of any weights, by one pass over the examples; see the module.

    Args:
      weights: of the problem, such as those of another program.
      problem, inputs, outputs, C, positions: as in `fit_random_field`.

    Raises:
      ValueError: an argument does not fit.
    """
    problem, inputs, outputs = _examples(problem, inputs, outputs, None)
    checked_inference(problem, "log_loss")
    _check(C, 1.0, 1, 1, positions)
    weights = first_weights(problem, weights)
    dtype = jnp.result_type(*jax.tree.leaves(weights))
    own = in_coordinates(problem, inputs)
    return prove_field(
        problem, own.squared_norm, own.lift(own.lower(weights)), inputs,
        in_blocks(inputs, outputs, positions, dtype), C / sum(map(len, outputs.index)),
    )  # fmt: skip


def fit_random_field(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    C: float = 1.0,
    *,
    tolerance: float = 1e-3,
    max_iterations: int = 500,
    memory: int = 10,
    positions: int = 1 << 13,
    start: PyTree | None = None,
    example_weights: np.ndarray | None = None,
    callback: Callable[[FieldProgress], bool | None] | None = None,
) -> RandomField:
    """Train a conditional random field; see the module for the objective.

    The directions are those of L-BFGS in optax, the steps those of a line search. `predict` of
    jaxstruct decodes with the weights.

    Args:
      problem: any structure with `inference.log_loss`: classes, chains, trees, alignments,
        candidates, sets of labels, graphs (on inputs with plans, or by `graphs.with_log_loss` with
        what stands in for -log P where that is too dear), or one's own. Its Delta plays no part.
      inputs, outputs: pytrees of n examples, of arrays [n, ...] or `Ragged` stores; outputs may be
        `Incomplete` where the structure has `Model.restrict` or `Model.agrees`. Kernel values
        (`KernelTokens`, `KernelInput`) make a kernel random field (thesis 4.4.5; Lafferty, Zhu and
        Liu, ICML 2004): weights are the coefficients of the anchors, training points among them.
      C: the trade-off; divided by n.
      tolerance: stop when |gradient| <= tolerance max(1, |w|); the run ends ROUNDING in place of
        CONVERGED where the dtype rounds more than tolerance |P| away.
      max_iterations: a bound. memory: past steps that L-BFGS keeps, each of twice the size of w.
      positions: labels in a block, padding included. Each takes the memory of its features times
        the labels; a block larger than the processor's cache is slower, a small one too.
      start: finite weights to start from, as the problem's in shape, or None for zeros.
      example_weights: [n] v_i >= 0, as in `fit`: each takes part as v_i times itself; C is still
        divided by n.
      callback: called after each iteration with a `FieldProgress`; a true answer stops the run.

    Returns:
      A RandomField; look at its status before its weights.

    Raises:
      ValueError: an argument does not fit, or the structure has no log loss.

    Source: Lafferty, McCallum and Pereira, "Conditional random fields", ICML 2001; slides
    "Undirected Sequence Models". Of trees: Finkel, Kleeman and Manning, "Efficient, feature-based,
    conditional random field parsing", ACL 2008.
    """
    began = time.perf_counter()
    problem, inputs, outputs = _examples(problem, inputs, outputs, example_weights)
    checked_inference(problem, "log_loss")
    _check(C, tolerance, max_iterations, memory, positions)
    weights = first_weights(problem, start)
    own = in_coordinates(problem, inputs)
    weights, callback = own.lower(weights), lifted(callback, own.lift, "weights")
    dtype, scale = jnp.result_type(*jax.tree.leaves(weights)), C / sum(map(len, outputs.index))
    if example_weights is not None:
        example_weights = np.asarray(example_weights, np.float64)
    blocks = in_blocks(own.inputs, outputs, positions, dtype, example_weights)
    objective = _Objective(own.problem, blocks, scale)
    log: list[_Row] = []
    best, bounded = -math.inf, weights
    for point in _descent(objective, weights, memory):
        seconds = time.perf_counter() - began
        log.append(_Row(seconds, point.objective, point.gradient_norm, objective.calls))
        bound = lower_bound(point.objective, point.gradient_norm, problem)
        if bound >= best:  # every point bounds the optimum, and the last one not the best
            best, bounded = bound, point.weights
        stopped = _asks_to_stop(callback, point, log)
        status = _status(point, tolerance, log, max_iterations, stopped)
        if status is not None:
            break
    else:
        status = Status.ROUNDING
    if own.problem is not problem:  # trained in coordinates, proven as the kernel machine it is
        blocks = in_blocks(inputs, outputs, positions, dtype, example_weights)
    prove = partial(
        prove_field, problem, own.squared_norm, inputs=inputs, blocks=blocks, scale=scale
    )
    weights = own.lift(point.weights)
    proof = prove(weights)
    if bounded is not point.weights:
        other = prove(own.lift(bounded))
        proof = proof._replace(
            dual=max(proof.dual, other.dual), rounding=max(proof.rounding, other.rounding)
        )
    if status is Status.CONVERGED and not proof.rounding <= tolerance * abs(proof.primal):
        status = Status.ROUNDING
    message = ending(MESSAGES[status], proof.gap, proof.rounding)
    return RandomField(
        weights, status, message, proof.primal, proof.gradient_norm, len(log) - 1,
        objective.calls, time.perf_counter() - began, np.asarray(log, np.float64), proof.dual,
        proof.rounding,
    )  # fmt: skip
