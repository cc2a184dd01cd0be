"""What the author of a structure can get wrong, tried out on a handful of examples.

Weights are drawn at random, and every output that turns up is a candidate: the true one, the
decodes of all draws, and every output where they can be listed. Then

    potentials are linear in w and score is linear in theta,
    Delta(y, y) = 0 and Delta >= 0,
    no candidate scores above the decode,
    H of an oracle's answer is what loss and score make of it,
    no candidate has an H above what the oracle answers, or above its bound,

for one formulation. `problem_checks.check_problem` looks at more.
`fit` runs the lines above for its own formulation, before it starts and at the weights it ends
with. An oracle that fails here is wrong; one that passes may still miss outputs that no draw met.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, rows_of
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import on_device
from jaxstruct.core.transposition import is_linear, linear_leaves, scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.formulations import (
    Formulation,
    Penalty,
    penalty,
    violation,
)
from jaxstruct.solvers.most_violated import most_violated, oracle_for, same_output
from jaxstruct.solvers.status import Status

DRAWS = 6
ADVICE = {
    "constant": (
        "model.potentials is not linear in w: at w = 0 a floating-point leaf of theta is not 0. "
        "Every floating-point leaf of theta must be a potential; carry other numbers in integers, "
        "and give a constant a weight of its own"
    ),
    "potentials": "model.potentials is not linear in w: A(2 u - 3 v) differs from 2 A(u) - 3 A(v)",
    "score": "model.score is not linear in theta: F(2 s - 3 t) differs from 2 F(s) - 3 F(t)",
    "own_loss": "model.loss(y, y) is not 0",
    "negative_loss": "model.loss is negative",
    "decode": "model.decode does not return an argmax of model.score: another output scores higher",
    "claim": (
        "the oracle's loss and score of an output differ from model.loss and model.score of it"
    ),
    "missed": (
        "the oracle misses an output that violates more than its answer. Where it is meant to be "
        "inexact it must say so: let it return a jaxstruct.Bounded"
    ),
    "level_losses": "the losses of the levels are not model.loss of the outputs of the levels",
    "levels": "an output scores higher than the best of its own loss level",
    "space": "the space sums planes to other products than potentials and score make of them",
}


class Excess(NamedTuple):
    """By how much each rule is broken, relative to the numbers it compares; 0 where it holds."""

    constant: Array
    potentials: Array
    score: Array
    own_loss: Array
    negative_loss: Array
    decode: Array
    claim: Array
    missed: Array


def allowance_of(dtype: jnp.dtype) -> float:
    """Rounding that is no fault: the root of the dtype's precision, 3e-4 for float32."""
    return float(np.sqrt(np.finfo(dtype).eps))


def largest_of(tree: PyTree) -> Array:
    """The largest absolute potential of theta."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0) for leaf in linear_leaves(tree)]))


def _combined(first: PyTree, second: PyTree) -> PyTree:
    """2 u - 3 v; integers of the first."""
    return jax.tree.map(lambda a, b: 2 * a - 3 * b if is_linear(a) else a, first, second)


def share_of(difference: Array, size: Array) -> Array:
    """A difference relative to a size; the difference itself where that is 0."""
    return difference / jnp.where(size > 0, size, 1)


def drawn_weights(problem: Problem, frequency: Array) -> PyTree:
    """Weights without a pattern, of size 1: sin(frequency j) for the j-th. A generator of random
    numbers would take longer to compile than all the rest."""
    leaves, structure = jax.tree.flatten(problem.initial_weights)
    drawn, count = [], 0
    for leaf in leaves:
        place = jnp.arange(count + 1, count + 1 + leaf.size, dtype=jnp.float32)
        drawn.append(jnp.sin(frequency * place).reshape(leaf.shape).astype(leaf.dtype))
        count += leaf.size
    return jax.tree.unflatten(structure, drawn)


def frequencies_of(draws: int) -> Array:
    """One frequency a draw, no two in a simple ratio."""
    return on_device(12.9898 * np.sqrt(np.arange(1, draws + 1) + 0.37), np.float32)


def _thetas(problem: Problem, x: PyTree, w: PyTree, frequencies: Array) -> PyTree:
    """theta of every draw, of w, of 0, and of 2 u - 3 v of the first two draws, [m, R + 3]."""
    R = frequencies.shape[0]
    parts = np.zeros((R + 3, 3))
    parts[:R, 0], parts[R, 2], parts[R + 2, :2] = 1, 1, (2, -3)
    first = jnp.concatenate([frequencies, jnp.tile(frequencies[:1], 3)])
    second = jnp.broadcast_to(frequencies[1:2], first.shape)

    def of(way: tuple[Array, Array, Array]) -> PyTree:
        part, *own = way
        u, v = (drawn_weights(problem, frequency) for frequency in own)

        def mix(u: Array, v: Array, w: Array) -> Array:
            return (part[0] * u + part[1] * v + part[2] * w).astype(w.dtype)

        return jax.vmap(problem.model.potentials, (None, 0))(jax.tree.map(mix, u, v, w), x)

    thetas = jax.lax.map(of, (jnp.asarray(parts, jnp.float32), first, second))
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), thetas)


def _at(tree: PyTree, number: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[number], tree)


def _linearity(problem: Problem, thetas: PyTree, y_true: PyTree) -> tuple[Array, Array, Array]:
    """Of one example: (theta at w = 0, potentials of a combination, score of a combination)."""
    first, second = _at(thetas, 0), _at(thetas, 1)
    zero, mixed, expected = _at(thetas, -2), _at(thetas, -1), _combined(first, second)
    size = largest_of(first) + largest_of(second)
    broken = jax.tree.map(lambda a, b: jnp.abs(a - b) if is_linear(a) else a, mixed, expected)

    def score(theta: PyTree) -> Array:
        return problem.model.score(theta, y_true)

    parts = 2 * score(first), -3 * score(second)
    of_score = jnp.abs(score(expected) - sum(parts))
    reach = jnp.abs(parts[0]) + jnp.abs(parts[1]) + size
    return (
        share_of(largest_of(zero), jnp.maximum(size, largest_of(zero))),
        share_of(largest_of(broken), size),
        share_of(of_score, reach),
    )


class Candidates(NamedTuple):
    """The outputs of one example that turned up, [K, ...], the true one first.

    losses: [K] Delta. wrong: [K] whether it is another output than y_i, and costs something.
    """

    outputs: PyTree
    losses: Array
    wrong: Array


def candidates_of(problem: Problem, y_true: PyTree, decoded: PyTree, listed: PyTree) -> Candidates:
    """Every output that turned up for one example, its loss, and whether it is wrong."""
    groups = [jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], y_true), decoded]
    if problem.oracles.all_outputs is not None:
        groups.append(problem.oracles.all_outputs(y_true))
    if listed is not None:
        groups.append(listed)
    outputs = jax.tree.map(
        lambda first, *rest: jnp.concatenate([first, *(r.astype(first.dtype) for r in rest)]),
        *groups,
    )
    losses = jax.vmap(problem.model.loss, (None, 0))(y_true, outputs)
    wrong = ~jax.vmap(same_output, (None, 0))(y_true, outputs) & (losses > 0)
    return Candidates(outputs, losses, wrong)


def _oracle_excess(
    problem: Problem,
    oracle: str,
    terms: Penalty,
    theta: PyTree,
    y_true: PyTree,
    given: Candidates,
    scores: Array,
) -> tuple[Array, Array]:
    """(claim, missed) of the oracle's answer at one theta."""
    found = most_violated(problem, oracle, terms, theta, y_true)
    truth = problem.model.score(theta, y_true)
    values = violation(given.losses, truth - scores, terms)
    values = jnp.where(given.wrong, values, -jnp.inf)
    best = jnp.maximum(jnp.max(values), 0)  # an oracle may answer y_true, of H = 0
    loss = problem.model.loss(y_true, found.output)
    own = violation(loss, truth - problem.model.score(theta, found.output), terms)
    size = 1 + jnp.max(jnp.abs(jnp.where(given.wrong, values, 0))) + jnp.max(jnp.abs(scores))
    claim = jnp.where(jnp.isfinite(found.value), jnp.abs(found.value - own), 0)
    return share_of(claim, size), share_of(jnp.maximum(best - jnp.maximum(found.bound, 0), 0), size)


def _of_example(
    problem: Problem,
    oracle: str,
    terms: Penalty,
    thetas: PyTree,
    y_true: PyTree,
    listed: PyTree,
) -> Excess:
    tried = jax.tree.map(lambda leaf: leaf[:-2], thetas)
    decoded = jax.lax.map(problem.model.decode, tried)
    given = candidates_of(problem, y_true, decoded, listed)
    draws = jax.tree.leaves(tried)[0].shape[0]

    def of_draw(number: Array) -> tuple[Array, Array, Array]:
        theta = jax.tree.map(lambda leaf: leaf[number], tried)
        scores = jax.vmap(problem.model.score, (None, 0))(theta, given.outputs)
        spread = jnp.max(jnp.abs(scores - scores[0]))
        size = jnp.max(jnp.abs(scores)) + largest_of(theta)
        beaten = share_of(jnp.max(scores) - scores[1 + number], size)
        # Margins of the size of the losses, from well below to above: there H decides by both.
        part = (1 + number) / draws * jnp.maximum(jnp.max(given.losses), 0.5)
        factor = jnp.where(number == draws - 1, 1, share_of(part, spread)).astype(scores.dtype)
        claim, missed = _oracle_excess(
            problem, oracle, terms, scaled(theta, factor), y_true, given, factor * scores
        )
        return beaten, claim, missed

    beaten, claim, missed = jax.lax.map(of_draw, jnp.arange(draws))
    constant, potentials, score = _linearity(problem, thetas, y_true)
    return Excess(
        constant, potentials, score,
        own_loss=jnp.abs(given.losses[0]),
        negative_loss=jnp.max(-given.losses, initial=0),
        decode=jnp.max(beaten), claim=jnp.max(claim), missed=jnp.max(missed),
    )  # fmt: skip


def _check_of_oracle(
    problem: Problem,
    oracle: str,
    terms: Penalty,
    x: PyTree,
    y: PyTree,
    w: PyTree,
    frequencies: Array,
    listed: PyTree,
) -> Excess:
    """The largest excess over a handful of examples [m], at w and at random weights."""
    thetas = _thetas(problem, x, w, frequencies)
    one = partial(_of_example, problem, oracle, terms)
    found = jax.vmap(one, (0, 0, None))(thetas, y, listed)
    return jax.tree.map(jnp.max, found)


_of_oracle = program(_check_of_oracle, static_argnums=1)


class Sample(NamedTuple):
    """A few examples as `fit` sees them: floats of the dtype of the run, outputs int32."""

    inputs: PyTree
    outputs: PyTree


def handful(problem: Problem, inputs: PyTree, outputs: PyTree, count: int) -> Sample:
    """`count` examples of plain pytrees, evenly spread, repeated where there are fewer."""
    n = np.shape(jax.tree.leaves(outputs)[0])[0]
    rows = np.linspace(0, n - 1, count).round().astype(int)
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))

    def some(leaf: np.ndarray) -> np.ndarray:
        return np.asarray(leaf[rows] if isinstance(leaf, jax.Array) else np.asarray(leaf)[rows])

    def typed(leaf: np.ndarray) -> np.ndarray:
        leaf = some(leaf)
        return leaf.astype(dtype) if np.issubdtype(leaf.dtype, np.floating) else leaf

    y = jax.tree.map(lambda leaf: some(leaf).astype(np.int32), outputs)
    return Sample(jax.tree.map(typed, inputs), y)


def sample_of(problem: Problem, inputs: Buckets, outputs: Buckets, count: int) -> Sample | None:
    """`count` examples of the bucket whose examples are the smallest; None where count is 0."""
    if count == 0:
        return None
    sizes = [
        sum(np.size(leaf) for leaf in jax.tree.leaves(part)) / rows_of(part)
        for part in inputs.parts
    ]
    smallest = int(np.argmin(sizes))
    return handful(problem, inputs.parts[smallest], outputs.parts[smallest], count)


def oracle_excess(
    problem: Problem,
    formulation: Formulation,
    sample: Sample,
    w: PyTree | None = None,
    listed: PyTree = None,
    draws: int = DRAWS,
) -> Excess:
    """By how much the rules of one formulation are broken on a few examples, as numpy numbers.

    Args:
      problem: the structure. formulation: its oracle is tried.
      sample: the examples.
      w: weights that are tried beside the random ones; None for 0.
      listed: outputs [K, ...] that are candidates for every example, or None.
      draws: how many random weights, at least 2.
    """
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    terms = penalty(formulation, 1.0, np.ones(1), 1, str(dtype))
    w = problem.initial_weights if w is None else w
    frequencies = frequencies_of(draws)
    oracle = oracle_for(problem, formulation)
    found = _of_oracle(problem, oracle, terms, *sample, w, frequencies, listed, effort="quick")
    return jax.tree.map(np.asarray, jax.device_get(found))


def broken_rules(excess: NamedTuple, dtype: jnp.dtype) -> list[str]:
    """The names of the rules that are broken by more than rounding; NaN breaks a rule, too."""
    limit = allowance_of(dtype)
    return [name for name, value in excess._asdict().items() if not value <= limit]


def check_oracle(problem: Problem, formulation: Formulation, sample: Sample | None) -> None:
    """The door of a solver: raise ValueError where a rule is broken on a handful of examples."""
    if sample is None:
        return
    excess = oracle_excess(problem, formulation, sample)
    broken = broken_rules(excess, jnp.result_type(*jax.tree.leaves(problem.initial_weights)))
    if broken:
        raise ValueError(
            f"problem: {ADVICE[broken[0]]} (by {float(getattr(excess, broken[0])):.2g}, relative; "
            "jaxstruct.check_problem tells more)"
        )


def confirm(
    status: Status, problem: Problem, formulation: Formulation, sample: Sample | None, w: PyTree
) -> Status:
    """The status of a solved run, once the rules were tried at the weights that it ends with."""
    if sample is None or not status.solved:
        return status
    excess = oracle_excess(problem, formulation, sample, w)
    broken = broken_rules(excess, jnp.result_type(*jax.tree.leaves(problem.initial_weights)))
    return Status.WRONG_ORACLE if broken else status
