"""Confidence where theta lists the scores of all outputs: classes, candidates, own structures."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxstruct.confidence.ways import (
    Marginals,
    Ways,
    largest,
    listed_loss,
    of_likelihood,
    or_padding,
    positions,
)
from jaxstruct.core.contract import Bounded, Problem
from jaxstruct.core.types import Array, PyTree
from jaxstruct.multiclass.likelihood import class_likelihood
from jaxstruct.strings.structure import CandidateScores


def _shares(scores: Array) -> Marginals:
    return Marginals(jax.nn.softmax(scores), jax.nn.logsumexp(scores))


def _best_classes(problem: Problem, theta: Array, k: int) -> tuple[Array, Array]:
    scores, classes = largest(theta, k)
    return or_padding(classes, scores), scores


def _class_shares(problem: Problem, theta: Array) -> tuple[Marginals, Marginals]:
    return _shares(theta), Marginals(positions(), positions())


def _draw_class(problem: Problem, theta: Array, key: Array) -> Array:
    return jax.random.categorical(key, theta).astype(jnp.int32)


CLASSES = Ways(_best_classes, of_likelihood(class_likelihood), _class_shares, _draw_class)


def _real_scores(theta: CandidateScores) -> Array:
    return jnp.where(theta.numbers >= 0, theta.scores, -jnp.inf)


def _best_candidates(problem: Problem, theta: CandidateScores, k: int) -> tuple[Array, Array]:
    scores, places = largest(_real_scores(theta), k)
    numbers = theta.numbers[jnp.minimum(places, theta.numbers.shape[0] - 1)]
    return or_padding(numbers, scores), scores


def _candidate_loss(problem: Problem, theta: CandidateScores, y: Array, b: Array) -> Array:
    return listed_loss(_real_scores(theta), problem.model.score(theta, y), b)


def _candidate_shares(problem: Problem, theta: CandidateScores) -> tuple[Marginals, Marginals]:
    count = jnp.sum(theta.numbers >= 0, dtype=jnp.int32)
    return _shares(_real_scores(theta)), Marginals(positions(count), positions())


def _draw_candidate(problem: Problem, theta: CandidateScores, key: Array) -> Array:
    return theta.numbers[jax.random.categorical(key, _real_scores(theta))]


CANDIDATES = Ways(_best_candidates, _candidate_loss, _candidate_shares, _draw_candidate)


def _every(problem: Problem, theta: PyTree) -> tuple[PyTree, Array]:
    """(all outputs, their scores), what decode finds first."""
    outputs = problem.oracles.all_outputs(problem.model.decode(theta))
    return outputs, problem.space.plane_scores(theta, outputs)


def _best_of_every(problem: Problem, theta: PyTree, k: int) -> tuple[PyTree, Array]:
    outputs, scores = _every(problem, theta)
    top, places = largest(scores, k)
    at = jnp.minimum(places, scores.shape[0] - 1)
    return or_padding(jax.tree.map(lambda leaf: leaf[at], outputs), top), top


def _loss_of_every(problem: Problem, theta: PyTree, y: PyTree, b: Array) -> Array:
    return listed_loss(_every(problem, theta)[1], problem.model.score(theta, y), b)


def _draw_of_every(problem: Problem, theta: PyTree, key: Array) -> PyTree:
    outputs, scores = _every(problem, theta)
    drawn = jax.random.categorical(key, scores)
    return jax.tree.map(lambda leaf: leaf[drawn], outputs)


LISTED = Ways(
    _best_of_every, _loss_of_every, None, _draw_of_every,
    why="what the parts of an output of your own are is not known: count them in samples "
    "(confidence.sample)",
)  # fmt: skip
"""Structures with Oracles.all_outputs."""


def second_best(problem: Problem, theta: PyTree, first: PyTree) -> tuple[PyTree, Array]:
    """(the best output but for the first, its score); the first and -inf where there is none.

    Raises:
      ValueError: the oracle is not exact.
    """
    if problem.oracles.best_wrong is not None:
        found = problem.oracles.best_wrong(theta, first)
    else:
        levels = problem.oracles.contenders(theta, first)
        if levels.bounds is not None:
            found = Bounded(None, levels.bounds)
        else:
            found = problem.oracles.output(levels.trace, jnp.argmax(levels.scores))
    if isinstance(found, Bounded):
        raise ValueError(
            "problem's oracle gives bounds, so that its second best is not certain: k_best needs "
            "an exact one"
        )
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(first), strict=True)
    same = jnp.all(jnp.stack([jnp.all(a == b) for a, b in leaves]))
    return found, jnp.where(same, -jnp.inf, problem.model.score(theta, found))


def _two_best(problem: Problem, theta: PyTree, k: int) -> tuple[PyTree, Array]:
    first = problem.model.decode(theta)
    outputs, scores = jax.tree.map(
        lambda leaf: leaf[None], (first, problem.model.score(theta, first))
    )
    if k == 2:
        second, score = second_best(problem, theta, first)
        scores = jnp.append(scores, score)
        outputs = jax.tree.map(lambda a, b: jnp.stack([a, b]), first, second)
    return or_padding(outputs, scores), scores


TWO_BEST = Ways(
    _two_best, most=2,
    why="give the problem Oracles.all_outputs where its outputs can be listed",
)  # fmt: skip
"""Structures with a best wrong output and no list of all."""
