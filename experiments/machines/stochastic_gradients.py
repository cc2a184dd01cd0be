"""Stochastic (sub)gradients: random fields and structural SVMs from a few examples at a time.

    P(w) = 1/2 |w|^2 + C/n sum_i l_i(w)

    random_field       l_i = log Z(x_i) - F(x_i, y_i)
    svm1, svm1_..      l_i = xi_i = max(0, max_y b(Delta) - s(Delta) (F(x_i, y_i) - F(x_i, y)))
    svm2, svm2_..      l_i = 1/2 xi_i^2

with b and s of the formulations. A step takes a mini-batch B and follows an
estimate of the gradient of P / C,

    g = w / C + 1/|B| sum_{i in B} (gradient of l_i at w),

in whatever way an optax optimiser does; the slides name "stochastic gradient descent" for both
machines. By default the rate falls as that of Pegasos does (Shalev-Shwartz, Singer and Srebro 2007;
Bottou 2010), rate / (1 + rate t / C). Iterates are averaged with weights t (Lacoste-Julien, Schmidt
and Bach 2012), which forgets the first ones.

There is no dual here and no sign of the end: `fit`, `fit_random_field` and `dual_random_field` have
them. What a gradient over all examples proves of the last iterate and of the average is reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.machines.row_blocks import row_blocks
from jaxstruct.baselines.conditional_log_likelihood import values_and_slopes
from jaxstruct.baselines.examples import first_weights, on_device, without_gram
from jaxstruct.baselines.kernel_coordinates import in_coordinates, lifted
from jaxstruct.baselines.perceptron import epoch_order
from jaxstruct.core.buckets import Buckets, rows_at, rows_of
from jaxstruct.core.checks import checked_number, checked_size, text_of
from jaxstruct.core.contract import Problem
from jaxstruct.core.derived_inference import checked_inference
from jaxstruct.core.static import static
from jaxstruct.core.status import Status
from jaxstruct.core.transposition import scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.objective.hinges import hinge, hinge_terms
from jaxstruct.solvers.objective.most_violated import oracle_for
from jaxstruct.solvers.validation.checks import checked_buckets

MESSAGES = {
    Status.PASS_LIMIT: "all epochs were made: stochastic gradients know no other end",
    Status.NOT_FINITE: "the weights are not finite: lower the rate, or check the inputs' scale",
    Status.STOPPED: "the callback asked to stop",
}
FIELD = "random_field"
OBJECTIVES = (FIELD, *(name for name in FORMULATIONS if name != "svm0"))
_BATCHES = 8  # in one call of the program


class StochasticProgress(NamedTuple):
    """What a callback of `fit_stochastic` sees after each epoch.

    Fields:
      epochs: so far. loss: the mean of l_i at the weights that met them. seconds: since the start.
      weights, averaged: the iterate and the average.
    """

    epochs: int
    loss: float
    seconds: float
    weights: PyTree
    averaged: PyTree


class Evaluated(NamedTuple):
    """P(w) with all examples, and P - 1/2 |gradient|^2, a lower bound of the optimum."""

    primal: float
    dual: float


class StochasticFit(NamedTuple):
    """The result of `fit_stochastic`.

    Fields:
      weights: the last iterate. averaged: the mean of the iterates, of weights t.
      status, message: how the run ended.
      primal, primal_averaged: P of the two, with all examples (the bounds of an inexact oracle).
      dual: the largest P - 1/2 |gradient|^2 that was evaluated, a lower bound of the optimum up to
        rounding (see `field_certificate`); loose where the loss is a hinge, -inf where nothing is
        known.
      losses: [epochs] mean of l_i, each at the weights that met it.
      history: [evaluations, 5] epochs, seconds without those of evaluations, primal,
        primal_averaged, dual; the last row is the end.
      steps: of the optimiser. seconds: wall seconds, compiling included.
    """

    weights: PyTree
    averaged: PyTree
    status: Status
    message: str
    primal: float
    primal_averaged: float
    dual: float
    losses: np.ndarray
    history: np.ndarray
    steps: int
    seconds: float


@static
class _Kind:
    """What is compiled for: the oracle ("" of a random field) and whether slacks are squared."""

    oracle: str
    squared: bool


class _Run(NamedTuple):
    """The iterate, the optimiser's state, the average, and the number of the next step."""

    weights: PyTree
    state: PyTree
    averaged: PyTree
    steps: Array


class _Row(NamedTuple):
    """A row of the history: the lower bound is the larger one of both weights."""

    epochs: int
    seconds: float
    primal: float
    averaged: float
    dual: float


class _Data(NamedTuple):
    """The problem, 1/C, the numbers of the formulation, and the examples of one bucket."""

    problem: Problem
    ridge: Array
    terms: PyTree
    inputs: PyTree
    outputs: PyTree


def _losses(
    data: _Data, kind: _Kind, w: PyTree, rows: Array
) -> tuple[Array, Array, PyTree, PyTree]:
    """([B] l, [B] bounds, sum of the gradients in w, ...) of some rows, of which -1 is padding."""
    problem, real = data.problem, rows >= 0
    x, y = rows_at((data.inputs, data.outputs), jnp.maximum(rows, 0))
    theta = jax.vmap(problem.model.potentials, (None, 0))(w, x)
    if kind.oracle:
        of_one = partial(hinge, problem, kind.oracle, kind.squared, data.terms)
        values, bounds, u = jax.vmap(of_one)(theta, y)
    else:
        values, u = values_and_slopes(problem, theta, y)
        bounds = values
    u = jax.vmap(scaled)(u, real.astype(values.dtype))
    gradient = problem.space.add(jax.tree.map(jnp.zeros_like, w), x, u)
    return jnp.where(real, values, 0), jnp.where(real, bounds, 0), gradient, jnp.sum(real)


@partial(jax.jit, static_argnames=("kind", "update"), donate_argnames="run")
def _steps(
    data: _Data, kind: _Kind, update: Callable, run: _Run, batches: Array
) -> tuple[_Run, Array]:
    """Steps on batches [q, batch] of rows, one after the other; also the sum of their l."""

    def taken(run: _Run, gradient: PyTree, count: Array) -> _Run:
        gradient = jax.tree.map(lambda w, g: data.ridge * w + g / count, run.weights, gradient)
        change, state = update(gradient, run.state, run.weights)
        w = optax.apply_updates(run.weights, change)
        steps = run.steps + 1
        share = 2 / (steps.astype(data.ridge.dtype) + 1)
        averaged = jax.tree.map(lambda a, b: a + share * (b - a), run.averaged, w)
        return _Run(w, state, averaged, steps)

    def step(run: _Run, rows: Array) -> tuple[_Run, Array]:
        values, _, gradient, count = _losses(data, kind, run.weights, rows)
        some = jnp.maximum(count, 1).astype(data.ridge.dtype)
        moved = taken(run, gradient, some)
        run = jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), moved, run)
        return run, jnp.sum(values)

    run, sums = jax.lax.scan(step, run, batches)
    return run, jnp.sum(sums)


@partial(jax.jit, static_argnames="kind", donate_argnames="gradient")
def _add_rows(
    data: _Data, kind: _Kind, w: PyTree, rows: Array, gradient: PyTree
) -> tuple[Array, Array, PyTree]:
    """(sum of l, sum of their bounds, gradient) with the rows of one block."""
    values, bounds, more, _ = _losses(data, kind, w, rows)
    return jnp.sum(values), jnp.sum(bounds), jax.tree.map(jnp.add, gradient, more)


def _evaluate(parts: list[_Data], kind: _Kind, w: PyTree, C: float, positions: int) -> Evaluated:
    """P and its lower bound at w by one pass, summed in float64."""
    gradient, found, bounded = jax.tree.map(jnp.zeros_like, w), 0.0, 0.0
    for data in parts:
        for rows in row_blocks(data.outputs, positions):
            value, bound, gradient = _add_rows(data, kind, w, rows, gradient)
            found, bounded = found + float(value), bounded + float(bound)
    n = sum(rows_of(data.outputs) for data in parts)
    weights, slopes = (
        np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)])
        for tree in (w, gradient)
    )
    slopes = weights + C / n * slopes
    half, scale = weights @ weights / 2, C / n
    dual = half + scale * found - slopes @ slopes / 2
    convex = bool(kind.oracle) or parts[0].problem.inference.facts.convex
    known = convex and math.isfinite(dual)
    return Evaluated(float(half + scale * bounded), float(dual) if known else -math.inf)


def _check(objective: str, C: float, rate: float, counts: dict[str, int], optimiser: Any) -> None:
    if objective not in OBJECTIVES:
        raise ValueError(
            f"objective is {text_of(objective)}; choose one of {', '.join(OBJECTIVES)} (a hard "
            "margin, svm0, has no subgradient)"
        )
    for name, value in (("C", C), ("rate", rate)):
        checked_number(name, value, strict=True)
    for name, value in counts.items():
        checked_size(name, value, 0 if name in ("seed", "evaluate_every") else 1)
    if optimiser is not None and not isinstance(optimiser, optax.GradientTransformation):
        raise ValueError(
            f"optimiser must be an optax.GradientTransformation, got {text_of(optimiser)}: such as "
            "optax.sgd(0.1) or optax.adam(1e-3)"
        )


def _kind(problem: Problem, objective: str, C: float) -> tuple[_Kind, PyTree]:
    """What is compiled for, and the numbers of the formulation."""
    if objective == FIELD:
        checked_inference(problem, "log_loss")
        return _Kind("", False), None
    formulation = FORMULATIONS[objective]
    terms = hinge_terms(formulation, jnp.result_type(*jax.tree.leaves(problem.initial_weights)))
    return _Kind(oracle_for(problem, formulation), formulation.penalty == 2), terms


def _parts(
    problem: Problem, C: float, terms: PyTree, inputs: Buckets, outputs: Buckets
) -> list[_Data]:
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    ridge = jnp.asarray(1 / C, dtype)
    return [
        _Data(problem, ridge, terms, *on_device((without_gram(x), y), dtype))
        for x, y in zip(inputs.parts, outputs.parts, strict=True)
    ]


def _status(run: _Run, losses: list[float], limit: int) -> Status | None:
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(run.weights))
    if not (finite and math.isfinite(losses[-1])):
        return Status.NOT_FINITE
    return Status.PASS_LIMIT if len(losses) >= limit else None


def _asks_to_stop(
    callback: Callable[[StochasticProgress], bool | None],
    run: _Run,
    losses: list[float],
    began: float,
) -> bool:
    """Whether the callback answers so."""
    w, averaged = (jax.tree.map(jnp.copy, tree) for tree in (run.weights, run.averaged))
    seconds = time.perf_counter() - began  # the run goes on in place
    return bool(callback(StochasticProgress(len(losses), losses[-1], seconds, w, averaged)))


def _epoch(
    parts: list[_Data],
    kind: _Kind,
    update: Callable,
    run: _Run,
    order: list[tuple[int, np.ndarray]],
) -> tuple[_Run, float]:
    """(the run after the chunks of an epoch, the sum of l at the weights that met them)."""
    sums = []
    for bucket, rows in order:
        run, value = _steps(parts[bucket], kind, update, run, rows.reshape(_BATCHES, -1))
        sums.append(value)
    return run, float(np.sum(np.asarray(sums, np.float64)))


def _ends(
    parts: list[_Data], kind: _Kind, run: _Run, C: float, positions: int
) -> tuple[float, float, float]:
    """P of the iterate, P of the average, and the larger of their lower bounds."""
    last, mean = (_evaluate(parts, kind, w, C, positions) for w in (run.weights, run.averaged))
    return last.primal, mean.primal, max(last.dual, mean.dual)


def fit_stochastic(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    objective: str = FIELD,
    C: float = 1.0,
    *,
    max_epochs: int = 20,
    batch: int = 8,
    rate: float = 0.1,
    optimiser: optax.GradientTransformation | None = None,
    seed: int = 0,
    evaluate_every: int = 0,
    positions: int = 1 << 13,
    start: PyTree | None = None,
    callback: Callable[[StochasticProgress], bool | None] | None = None,
) -> StochasticFit:
    """Train a random field or a structural SVM with stochastic (sub)gradients; see the module.

    Args:
      problem: any structure.
      inputs, outputs: pytrees of n examples, of arrays [n, ...] or `Ragged` stores.
      objective: "random_field", or a formulation with slacks: svm1, svm2, svm1_slack, svm1_margin,
        svm2_slack, svm2_margin. The most violated outputs are those of the problem's oracles.
      C: the trade-off; divided by n.
      max_epochs: each visits all examples once, in an order drawn from seed.
      batch: examples of one bucket a step; the last batch of an epoch may hold fewer.
      rate: of the first step of the default, `falling_sgd(rate, C)`.
      optimiser: of optax, in its place; gradients are those of P / C.
      seed: of the order, >= 0.
      evaluate_every: epochs after which P is evaluated for the history; 0: at the end alone.
      positions: labels in a block, when P is evaluated.
      start: weights to start from, or None for zeros.
      callback: called after each epoch with a `StochasticProgress`; a true answer stops the run.

    Returns:
      A StochasticFit. `predict` of jaxstruct decodes with either of its weights.

    Raises:
      ValueError: an argument does not fit.

    Source: slides, "Conditional Random Field: Learning" and "SVM-Struct: Learning Algorithm".
    """
    began = time.perf_counter()
    inputs, outputs = checked_buckets(problem, inputs, outputs, None, dual=False)
    counts = dict(max_epochs=max_epochs, batch=batch, positions=positions, seed=seed)
    counts["evaluate_every"] = evaluate_every
    _check(objective, C, rate, counts, optimiser)
    w = first_weights(problem, start)
    problem, inputs, lift, lower, _ = in_coordinates(problem, inputs)
    w, callback = jax.tree.map(jnp.copy, lower(w)), lifted(callback, lift, "weights", "averaged")
    kind, terms = _kind(problem, objective, C)
    optimiser = optimiser or falling_sgd(rate, C)
    parts = _parts(problem, C, terms, inputs, outputs)
    run = _Run(w, optimiser.init(w), jax.tree.map(jnp.copy, w), jnp.int32(0))
    losses, status, n = [], None, sum(map(len, outputs.index))
    log: list[_Row] = []
    paused, batch = 0.0, min(batch, max(map(rows_of, outputs.parts)))
    while status is None:
        order = epoch_order(outputs.index, batch * _BATCHES, seed, len(losses))
        run, total = _epoch(parts, kind, optimiser.update, run, order)
        losses.append(total / n)
        status = _status(run, losses, max_epochs)
        if callback is not None and _asks_to_stop(callback, run, losses, began):
            status = status or Status.STOPPED
        if status is not None or (evaluate_every and len(losses) % evaluate_every == 0):
            now = time.perf_counter()
            ends = _ends(parts, kind, run, C, positions)
            log.append(_Row(len(losses), now - began - paused, *ends))
            paused += time.perf_counter() - now
    return StochasticFit(
        weights=lift(run.weights), averaged=lift(run.averaged),
        status=status, message=MESSAGES[status],
        primal=log[-1].primal, primal_averaged=log[-1].averaged, dual=max(row.dual for row in log),
        losses=np.asarray(losses), history=np.asarray(log), steps=int(run.steps),
        seconds=time.perf_counter() - began,
    )  # fmt: skip


class _Falling(NamedTuple):
    """The state of `falling_sgd`."""

    step: Array
    rate: Array
    ridge: Array


def _fall(updates: PyTree, state: Any, params: PyTree | None = None) -> tuple[PyTree, _Falling]:
    del params
    size = state.rate / (1 + state.rate * state.ridge * state.step)
    steps = jax.tree.map(lambda g: -size.astype(g.dtype) * g, updates)
    return steps, state._replace(step=state.step + 1)


def falling_sgd(rate: float, C: float) -> optax.GradientTransformation:
    """Plain steps of size rate / (1 + rate t / C), t = 0, 1, ..: C / t in the long run.

    Its numbers are in its state, so that all rates and all C share one compiled program.

    Args:
      rate: of the first step. C: the trade-off of the objective.
    """

    def init(params: PyTree) -> _Falling:
        del params
        return _Falling(jnp.float32(0), jnp.float32(rate), jnp.float32(1 / C))

    return optax.GradientTransformation(init, _fall)
