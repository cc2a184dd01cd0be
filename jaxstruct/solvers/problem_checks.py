"""`check_problem`: what the author of a structure can get wrong, all of it, in one report.

Beside the rules of `oracle_rules` for every formulation it compares the loss levels with the
candidates that turn up, and the sums of planes with what potentials and score make of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.compiling import program
from jaxstruct.core.contract import Problem
from jaxstruct.core.device import on_device
from jaxstruct.core.levels import best_of_levels
from jaxstruct.core.types import Array, PyTree
from jaxstruct.solvers.checks import checked_buckets
from jaxstruct.solvers.formulations import FORMULATIONS
from jaxstruct.solvers.most_violated import oracle_for, same_output
from jaxstruct.solvers.oracle_rules import (
    ADVICE,
    Candidates,
    allowance_of,
    broken_rules,
    candidates_of,
    drawn_weights,
    frequencies_of,
    largest_of,
    oracle_excess,
    sample_of,
    share_of,
)


class Report(NamedTuple):
    """What `check_problem` found.

    Fields:
      excess: rule -> by how much it is broken at most, relative to the numbers compared.
      oracles: formulation -> the oracle that serves it, or why none does.
    """

    excess: dict[str, float]
    oracles: dict[str, str]


class SpaceExcess(NamedTuple):
    """As `Excess`, of the loss levels and of how planes are summed."""

    level_losses: Array
    levels: Array
    space: Array


def _level_excess(
    problem: Problem, theta: PyTree, y_true: PyTree, given: Candidates
) -> tuple[Array, Array]:
    """(losses of levels that are not those of their outputs, levels that a candidate beats)."""
    if problem.oracles.contenders is None and problem.oracles.best_by_level is None:
        return jnp.zeros(()), jnp.zeros(())
    losses, outputs = best_of_levels(problem, theta, y_true)
    score = jax.vmap(problem.model.score, (None, 0))
    exists = ~jax.vmap(same_output, (None, 0))(y_true, outputs)
    own = jax.vmap(problem.model.loss, (None, 0))(y_true, outputs)
    wrong = jnp.max(jnp.where(exists, jnp.abs(own - losses), 0))
    best, scores = jnp.where(exists, score(theta, outputs), -jnp.inf), score(theta, given.outputs)
    close = jnp.abs(given.losses[:, None] - losses[None]) <= allowance_of(losses.dtype)
    of_loss = jnp.max(jnp.where(close, best[None], -jnp.inf), axis=1)
    ahead = jnp.where(given.wrong & jnp.any(close, axis=1), scores - of_loss, 0)
    size = jnp.max(jnp.abs(scores)) + largest_of(theta)
    return wrong, jnp.max(jnp.where(ahead == jnp.inf, 1, share_of(ahead, size)))


def _space_excess(
    problem: Problem, w: PyTree, x: PyTree, y_true: PyTree, given: Candidates, frequencies: Array
) -> Array:
    """Differences of F and products of planes, by the space and by potentials and score alone."""
    space, model, zero = problem.space, problem.model, problem.initial_weights
    batch = jax.tree.map(lambda leaf: leaf[None], (x, given.outputs))
    theta, score = model.potentials(w, x), jax.vmap(model.score, (None, 0))
    scores = score(theta, given.outputs)
    values = space.plane_values(w, *batch)[0]
    c = jnp.sin(frequencies[0] * jnp.arange(1, len(scores) + 1)).astype(scores.dtype)
    c = c - jnp.mean(c)  # plane_differences and kernels know differences alone
    moved = space.add_planes(zero, *batch, c[None])
    seen = score(model.potentials(moved, x), given.outputs)
    last = jax.tree.map(lambda leaf: leaf[-1], given.outputs)
    gram = space.plane_gram(x, y_true, given.outputs, last)
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b])[None], y_true, last)
    one = jnp.asarray([[1, -1]], scores.dtype)
    along = score(model.potentials(space.add_planes(zero, batch[0], pair, one), x), given.outputs)
    columns = jax.vmap(lambda y: space.plane_gram(x, y_true, given.outputs, y))(given.outputs)
    short_values, short_seen = _by_differences(problem, w, x, batch[1], c, (values, seen))
    differences = (
        (values - values[0]) - (scores - scores[0]),
        gram - (along[0] - along),
        jnp.diagonal(columns) - space.plane_norms(x, y_true, given.outputs),
        (seen[0] - seen) + columns @ c,
        (short_values - short_values[0]) - (scores - scores[0]),
        (short_seen[0] - short_seen) - (seen[0] - seen),
    )
    sizes = (scores, gram, jnp.diagonal(columns), columns, scores, seen)
    return jnp.max(jnp.stack([
        share_of(jnp.max(jnp.abs(d)), jnp.max(jnp.abs(s)) + 1)
        for d, s in zip(differences, sizes, strict=True)
    ]))  # fmt: skip


def _by_differences(
    problem: Problem, w: PyTree, x: PyTree, outputs: PyTree, c: Array, whole: tuple[Array, Array]
) -> tuple[Array, Array]:
    """(values of the planes [1, K] at w, and at sum c Psi) by what tells them apart.

    whole: the same by whole planes, which stands where the space knows no differences of these.
    """
    space, zero, model = problem.space, problem.initial_weights, problem.model
    told = space.plane_differences and space.plane_differences(outputs)
    if told is None:
        return whole
    inputs, index = jax.tree.map(lambda leaf: leaf[None], x), jnp.zeros(1, jnp.int32)
    moved = space.add_differences(zero, inputs, told, index, c[None])
    seen = jax.vmap(model.score, (None, 0))(
        model.potentials(moved, x), jax.tree.map(lambda leaf: leaf[0], outputs)
    )
    return space.difference_values(w, inputs, told, index)[0], seen


def _check_of_structure(
    problem: Problem, x: PyTree, y: PyTree, frequencies: Array, listed: PyTree
) -> SpaceExcess:
    w = drawn_weights(problem, frequencies[0])

    def of_example(x: PyTree, y_true: PyTree) -> SpaceExcess:
        theta = problem.model.potentials(w, x)
        thetas = jax.lax.map(
            lambda f: problem.model.potentials(drawn_weights(problem, f), x), frequencies
        )
        given = candidates_of(problem, y_true, jax.lax.map(problem.model.decode, thetas), listed)
        losses, levels = _level_excess(problem, theta, y_true, given)
        return SpaceExcess(losses, levels, _space_excess(problem, w, x, y_true, given, frequencies))

    found = jax.lax.map(lambda example: of_example(*example), (x, y))
    return jax.tree.map(jnp.max, found)


_of_structure = program(_check_of_structure)


def check_problem(
    problem: Problem,
    inputs: PyTree,
    outputs: PyTree,
    *,
    listed: PyTree = None,
    examples: int = 8,
    draws: int = 16,
) -> Report:
    """Try out what the author of a structure can get wrong; see the module.

    Args:
      problem: the structure.
      inputs, outputs: a few examples, pytrees of arrays [n, ...] or `Ragged` stores.
      listed: every output, a pytree with a leading axis [K], where they can be listed and are the
        same for all examples (`Oracles.all_outputs` says it by example).
      examples: how many are tried. draws: how many random weights, at least 2.

    Returns:
      A Report, once nothing is broken.

    Raises:
      ValueError: a rule is broken; the message has a line for each.
    """
    sample = sample_of(problem, *checked_buckets(problem, inputs, outputs, None), examples)
    assert sample is not None, "at least one example"
    listed = jax.tree.map(on_device, listed)
    worst: dict[str, float] = {}
    oracles, lines = {}, []
    dtype = jnp.result_type(*jax.tree.leaves(problem.initial_weights))
    for name, formulation in FORMULATIONS.items():
        try:
            oracles[name] = oracle_for(problem, formulation)
        except ValueError as error:
            oracles[name] = str(error)
            continue
        excess = oracle_excess(problem, formulation, sample, listed=listed, draws=draws)
        for rule in broken_rules(excess, dtype):
            lines.append(
                f"{name}: {ADVICE[rule]} (by {float(getattr(excess, rule)):.2g}, relative)"
            )
        for rule, value in excess._asdict().items():
            worst[rule] = max(worst.get(rule, 0.0), float(value))
    if lines:  # the space is derived from the model: mend that first
        raise ValueError("\n".join(["the problem breaks rules:", *dict.fromkeys(lines)]))
    frequencies = frequencies_of(draws)
    found = jax.tree.map(
        np.asarray,
        jax.device_get(_of_structure(problem, *sample, frequencies, listed, effort="quick")),
    )
    lines += [ADVICE[rule] for rule in broken_rules(found, dtype)]
    if lines:
        raise ValueError("\n".join(["the problem breaks rules:", *dict.fromkeys(lines)]))
    return Report(worst | {k: float(v) for k, v in found._asdict().items()}, oracles)
