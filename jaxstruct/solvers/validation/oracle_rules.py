"""The rules that a structure and its oracle must keep, tried out on a handful of examples.

Weights are drawn at random, and every output that turns up is a candidate: the true one, the
decodes of all draws, and every output where they can be listed. Then

    every function returns what its contract says, and no NaN,
    potentials are linear in w and score is linear in theta,
    Delta(y, y) = 0 and Delta >= 0,
    no candidate scores above the decode,
    outputs that can be listed are listed once, the true one first,
    H of an oracle's answer is what loss and score make of it,
    no candidate has an H above what the oracle answers, or above its bound,

for one formulation. The examples are chosen for different values in their outputs, rare ones
first, so that what is wrong with one label is met. `problem_checks.check_problem` looks at more.
`fit` runs the lines above for its own formulation, before it starts and at the weights it ends
with. An oracle that fails here is wrong; one that passes may still miss outputs that no draw met.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.buckets import Buckets, rows_of, typed, typed_outputs
from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem, output_of
from jaxstruct.core.device import on_device
from jaxstruct.core.status import Status
from jaxstruct.core.transposition import is_linear, linear_leaves, linear_part, scaled
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.objective.formulations import Formulation, Penalty, penalty, violation
from jaxstruct.solvers.objective.most_violated import (
    most_violated,
    oracle_for,
    proving,
    same_output,
)
from jaxstruct.solvers.validation.function_checks import check_functions, dtype_of

DRAWS = 6
RULES = {
    "finite": (
        "potentials, scores and losses are finite",
        "model.potentials, model.score or model.loss is not finite",
    ),
    "constant": (
        "theta is 0 at w = 0",
        "model.potentials is not linear in w: at w = 0 a floating-point leaf of theta is not 0. "
        "Every floating-point leaf of theta must be a potential; carry other numbers in integers, "
        "and give a constant a weight of its own, or model.known",
    ),
    "potentials": (
        "model.potentials is linear in w",
        "model.potentials is not linear in w: A(2 u - 3 v) differs from 2 A(u) - 3 A(v)",
    ),
    "score": (
        "model.score is linear in theta",
        "model.score is not linear in theta: F(2 s - 3 t) differs from 2 F(s) - 3 F(t)",
    ),
    "own_loss": ("model.loss(y, y) is 0", "model.loss(y, y) is not 0"),
    "negative_loss": ("model.loss is not negative", "model.loss is negative"),
    "decode": (
        "no output scores above the answer of model.decode",
        "model.decode does not return an argmax of model.score: another output scores higher",
    ),
    "truth": (
        "no true output scores above the answer of model.decode",
        "a true output scores higher than the answer of model.decode: either it lies outside the "
        "output space (look at the values of outputs), or decode never answers it",
    ),
    "outside": (
        "every output met is one of those listed",
        "an output is not among those listed: a true output outside the output space, an answer of "
        "model.decode that is none of it, or a list that is not complete",
    ),
    "first": (
        "all_outputs lists the true output first",
        "oracles.all_outputs does not list the true output first",
    ),
    "gaps": (
        "all_outputs lists every output met",
        "oracles.all_outputs does not list an output that is a true one, or that model.decode or "
        "an oracle answers",
    ),
    "twice": ("all_outputs lists no output twice", "oracles.all_outputs lists an output twice"),
    "includes_truth": (
        "contenders leave the true output out",
        "oracles.contenders includes the true output: give it the score -inf, since contenders are "
        "the outputs y != y_true",
    ),
    "claim": (
        "loss and score of an oracle's answer are those of the model",
        "the oracle's loss and score of an output differ from model.loss and model.score of it",
    ),
    "missed": (
        "no output violates more than the oracle answers",
        "the oracle misses an output that violates more than its answer, or than its bound. Where "
        "it is meant to be inexact it must say so: let it return a jaxstruct.Bounded",
    ),
    "level_losses": (
        "outputs have the loss of their level",
        "the losses of the levels are not model.loss of the outputs of the levels",
    ),
    "levels": (
        "no output scores above the best of its level",
        "an output scores higher than the best of its own loss level",
    ),
}
"""Of each rule what holds, and what is wrong where it is broken, with what to do."""
_CAUSES = {
    "finite": frozenset(RULES) - {"finite"},
    "constant": {"potentials"},
    "decode": {"truth"},
    "outside": {"truth"},
    "first": {"gaps", "twice"},
    "own_loss": {"includes_truth", "claim", "missed"},
    "negative_loss": {"claim", "missed"},
}
"""Rules whose breach breaks others, too."""
LOOKED_AT = 1 << 22
"""Numbers of outputs that are looked at, to choose examples."""
Excess: TypeAlias = dict[str, Array]
"""By how much each rule is broken, relative to the numbers it compares; 0 where it holds."""


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


def largest_difference(a: PyTree, b: PyTree) -> Array:
    """The largest difference of floating-point leaves, relative to 1 + those of b."""
    parts = zip(linear_leaves(a), linear_leaves(b), strict=True)
    apart = [jnp.max(jnp.where(x == y, 0, jnp.abs(x - y)), initial=0) for x, y in parts]
    return share_of(jnp.max(jnp.stack(apart)), 1 + largest_of(b))


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


def _thetas(
    problem: Problem, potentials: Callable, x: PyTree, w: PyTree, frequencies: Array
) -> PyTree:
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

        return jax.vmap(potentials, (None, 0))(jax.tree.map(mix, u, v, w), x)

    thetas = jax.lax.map(of, (jnp.asarray(parts, jnp.float32), first, second))
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), thetas)


def _at(tree: PyTree, number: int | slice | Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[number], tree)


def _linearity(problem: Problem, thetas: PyTree, y_true: PyTree) -> Excess:
    """Of one example: theta at w = 0, potentials and score of a combination."""
    first, second = _at(thetas, 0), _at(thetas, 1)
    zero, mixed, expected = _at(thetas, -2), _at(thetas, -1), _combined(first, second)
    size = largest_of(first) + largest_of(second)
    broken = jax.tree.map(lambda a, b: jnp.abs(a - b) if is_linear(a) else a, mixed, expected)

    def score(theta: PyTree) -> Array:
        return problem.model.score(theta, output_of(y_true))

    parts = 2 * score(first), -3 * score(second)
    of_score = jnp.abs(score(expected) - sum(parts))
    reach = jnp.abs(parts[0]) + jnp.abs(parts[1]) + size
    return {
        "constant": share_of(largest_of(zero), jnp.maximum(size, largest_of(zero))),
        "potentials": share_of(largest_of(broken), size),
        "score": share_of(of_score, reach),
    }


class Candidates(NamedTuple):
    """The outputs of one example that turned up, [K, ...], the true one first.

    losses: [K] Delta. other: [K] whether it is another output than y_i. wrong: [K] whether it is,
      and costs something.
    """

    outputs: PyTree
    losses: Array
    other: Array
    wrong: Array


def candidates_of(problem: Problem, y_true: PyTree, decoded: PyTree, listed: PyTree) -> Candidates:
    """Every output that turned up for one example, its loss, and whether it is wrong."""
    groups = [one_of(output_of(y_true)), decoded]
    if problem.oracles.all_outputs is not None:
        groups.append(problem.oracles.all_outputs(y_true))
    if listed is not None:
        groups.append(listed)
    outputs, dtype = joined(*groups), dtype_of(problem)
    losses = jax.vmap(problem.model.loss, (None, 0))(y_true, outputs).astype(dtype)
    other = ~jax.vmap(same_output, (None, 0))(y_true, outputs)
    return Candidates(outputs, losses, other, other & (losses > 0))


def times_listed(listed: PyTree, outputs: PyTree) -> Array:
    """[K] how many of the listed outputs are each of these."""

    def of_one(y: PyTree) -> Array:
        return jnp.sum(jax.vmap(same_output, (None, 0))(y, listed))

    return jax.vmap(of_one)(outputs)


def joined(*groups: PyTree) -> PyTree:
    """Groups of outputs [K, ...] one after the other, of the dtypes of the first."""
    return jax.tree.map(
        lambda first, *rest: jnp.concatenate([first, *(r.astype(first.dtype) for r in rest)]),
        *groups,
    )


def one_of(y: PyTree) -> PyTree:
    """An output as a group of one."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], y)


def listing(
    problem: Problem, y_true: PyTree, met: PyTree, listed: PyTree, most: int | None = None
) -> Excess:
    """1 where a rule of the listed outputs is broken, else 0; those of lists that there are.

    Args:
      met: outputs that turned up. most: of the problem's own list so many are sought in it, too.
    """
    met, found = joined(one_of(output_of(y_true)), met), {}
    if listed is not None:
        found["outside"] = jnp.any(times_listed(listed, met) == 0)
    if problem.oracles.all_outputs is not None:
        every = problem.oracles.all_outputs(y_true)
        times = times_listed(every, met)
        again = times if most is None else times_listed(every, _at(every, slice(most)))
        found["first"] = ~same_output(y_true, _at(every, 0))
        found["gaps"], found["twice"] = jnp.any(times == 0), jnp.any(again > 1)
    return {rule: broken.astype(jnp.float32) for rule, broken in found.items()}


def _of_example(
    problem: Problem,
    oracle: str,
    terms: Penalty,
    thetas: PyTree,
    linear: PyTree,
    y_true: PyTree,
    listed: PyTree,
) -> Excess:
    tried = _at(thetas, slice(-2))
    decoded = jax.lax.map(problem.model.decode, tried)
    given = candidates_of(problem, y_true, decoded, listed)
    draws = jax.tree.leaves(tried)[0].shape[0]

    def of_draw(number: Array) -> tuple[Excess, PyTree]:
        theta = _at(tried, number)
        scores = jax.vmap(problem.model.score, (None, 0))(theta, given.outputs)
        spread = jnp.max(jnp.abs(scores - scores[0]))
        size = jnp.max(jnp.abs(scores)) + largest_of(theta)
        best = jnp.max(jnp.where(given.other, scores, -jnp.inf))
        lost = jnp.any(jnp.isnan(scores)) | ~jnp.isfinite(largest_of(theta))
        excess = {
            "finite": lost.astype(size.dtype),
            "decode": share_of(best - scores[1 + number], size),
            "truth": share_of(scores[0] - scores[1 + number], size),
        }
        # Margins of the size of the losses, from well below to above: there H decides by both.
        part = (1 + number) / draws * jnp.maximum(jnp.max(given.losses), 0.5)
        factor = jnp.where(number == draws - 1, 1, share_of(part, spread)).astype(scores.dtype)
        theta, scores = scaled(theta, factor), factor * scores
        found = most_violated(problem, oracle, terms, theta, y_true)
        truth = problem.model.score(theta, output_of(y_true))
        values = violation(given.losses, truth - scores, terms)
        values = jnp.where(given.wrong, values, -jnp.inf)
        size = 1 + jnp.max(jnp.abs(jnp.where(given.wrong, values, 0))) + jnp.max(jnp.abs(scores))
        claim = jnp.abs(found.claim)
        if oracle == "contenders":
            answered = same_output(y_true, found.output) & jnp.isfinite(found.value)
            excess["includes_truth"] = answered.astype(size.dtype)
            claim = jnp.where(answered, 0, claim)
        best = jnp.maximum(jnp.max(values), 0)  # an oracle may answer y_true, of H = 0
        missed = jnp.maximum(best - jnp.maximum(found.bound, 0), 0)
        excess |= {"claim": share_of(claim, size), "missed": share_of(missed, size)}
        return excess, found.output

    excess, answers = jax.lax.map(of_draw, jnp.arange(draws))
    excess = jax.tree.map(jnp.max, excess)
    excess["finite"] = jnp.where(jnp.all(jnp.isfinite(given.losses)), excess["finite"], 1)
    losses = {
        "own_loss": jnp.abs(given.losses[0]),
        "negative_loss": jnp.max(-given.losses, initial=0),
    }
    lists = listing(problem, y_true, joined(decoded, answers), listed)
    return _linearity(problem, linear, y_true) | losses | excess | lists


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
    check_functions(problem, *jax.tree.map(lambda leaf: leaf[0], (x, y)))  # while it is traced
    potentials = problem.model.potentials
    thetas = linear = _thetas(problem, potentials, x, w, frequencies)
    if problem.model.known is not None:
        linear = _thetas(problem, linear_part(potentials), x, w, frequencies)
    one = partial(_of_example, problem, oracle, terms)
    found = jax.vmap(one, (0, 0, 0, None))(thetas, linear, y, listed)
    return jax.tree.map(jnp.max, found)


_of_oracle = program(_check_of_oracle, static_argnums=1)


class Sample(NamedTuple):
    """A few examples as `fit` sees them: floats of the dtype of the run, outputs int32."""

    inputs: PyTree
    outputs: PyTree


def _labels_by_rarity(outputs: list[np.ndarray]) -> list[tuple[np.ndarray, int]]:
    """(leaf [n, ...], a value of it) from both ends: the rarest, the commonest, the second ..."""
    found = []
    for leaf in outputs:
        values = leaf[leaf >= 0]
        if values.size and int(values.max()) < LOOKED_AT:
            counts = np.bincount(values.ravel())
            found += [(counts[value], leaf, int(value)) for value in np.flatnonzero(counts)]
    ranked = [(leaf, value) for _, leaf, value in sorted(found, key=lambda each: each[0])]
    ends = zip(ranked, reversed(ranked), strict=True)
    return [each for pair in ends for each in pair][: len(ranked)]


def diverse_rows(outputs: PyTree, count: int) -> np.ndarray:
    """`count` examples whose outputs hold different values; rows are repeated where n < count.

    Of many examples only some, evenly spread, are looked at, so that the time is bounded.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(outputs)]
    n = len(leaves[0])
    some = max(1, LOOKED_AT // max(sum(leaf[0].size for leaf in leaves), 1))
    seen = np.unique(np.linspace(0, n - 1, min(n, some)).round().astype(int))
    leaves = [leaf[seen].reshape(len(seen), -1).astype(np.int64) for leaf in leaves]
    rows: list[int] = []
    for leaf, value in _labels_by_rarity(leaves):
        if len(rows) == count:
            break
        holders = np.setdiff1d(np.flatnonzero((leaf == value).any(axis=1)), rows)
        if holders.size:
            rows.append(int(holders[len(holders) * len(rows) // count]))
    chosen, rest = seen[rows], np.linspace(0, n - 1, count).round().astype(int)
    return np.sort(np.concatenate([chosen, np.setdiff1d(rest, chosen), rest])[:count])


def sample_of(problem: Problem, inputs: Buckets, outputs: Buckets, count: int) -> Sample | None:
    """`count` examples, with different values in their outputs, of the bucket whose examples are
    the smallest; None where count is 0."""
    if count == 0:
        return None
    sizes = [sum(map(np.size, jax.tree.leaves(part))) / rows_of(part) for part in inputs.parts]
    at, dtype = int(np.argmin(sizes)), dtype_of(problem)
    rows = diverse_rows(output_of(outputs.parts[at]), count)

    def some(leaf: np.ndarray) -> np.ndarray:
        return np.asarray(leaf[rows] if isinstance(leaf, jax.Array) else np.asarray(leaf)[rows])

    x, y = jax.tree.map(some, (inputs.parts[at], outputs.parts[at]))
    return Sample(typed(dtype, x), typed_outputs(dtype, y))


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
    dtype = dtype_of(problem)
    terms = penalty(formulation, 1.0, np.ones(1), 1, str(dtype))
    w = problem.initial_weights if w is None else w
    frequencies = frequencies_of(draws)
    oracle = proving(problem, oracle_for(problem, formulation))
    found = _of_oracle(problem, oracle, terms, *sample, w, frequencies, listed)
    return jax.tree.map(np.asarray, jax.device_get(found))


def broken_rules(excess: Excess, problem: Problem) -> list[str]:
    """The names of the rules that are broken by more than rounding; NaN breaks a rule, too.

    What follows from another broken rule is left out.
    """
    limit = allowance_of(dtype_of(problem))
    broken = [name for name in RULES if name in excess and not excess[name] <= limit]
    broken += [name for name, value in excess.items() if name not in RULES and not value <= limit]
    for cause, follows in _CAUSES.items():
        if cause in broken:
            broken = [name for name in broken if name not in follows]
    return broken


def check_oracle(problem: Problem, formulation: Formulation, sample: Sample | None) -> None:
    """Raise ValueError where an oracle breaks a rule on a handful of examples."""
    if sample is None:
        return
    excess = oracle_excess(problem, formulation, sample)
    broken = broken_rules(excess, problem)
    if broken:
        raise ValueError(
            f"problem: {RULES[broken[0]][1]} (by {float(excess[broken[0]]):.2g}, relative; "
            "jaxstruct.check_problem says more)"
        )


def confirm(
    status: Status, problem: Problem, formulation: Formulation, sample: Sample | None, w: PyTree
) -> Status:
    """The status of a solved run, once the rules were tried at the weights that it ends with."""
    if sample is None or not status.solved:
        return status
    broken = broken_rules(oracle_excess(problem, formulation, sample, w), problem)
    return Status.WRONG_ORACLE if broken else status
