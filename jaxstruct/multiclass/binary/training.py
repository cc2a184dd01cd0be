"""Training of binary machines: groups of them, pass by pass, until each has a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.status import Status
from jaxstruct.core.types import Array
from jaxstruct.multiclass.binary import ascent
from jaxstruct.multiclass.binary.ascent import Point
from jaxstruct.multiclass.binary.certificate import Proof, prove
from jaxstruct.multiclass.binary.examples import (
    Examples,
    KernelRows,
    number_of,
    scores_of_all,
    squared_norms_of,
)
from jaxstruct.multiclass.binary.pairwise_ascent import Terms

MOST_WHOLE = 4096
"""Examples a machine whose kernel matrix is made whole."""
NUMBERS = 1 << 23
"""Numbers of kernel matrices of machines that are trained together."""
PART = 128
"""Examples of a part, where kernel matrices are not made whole."""


class Rules(NamedTuple):
    """When a machine stops.

    Fields:
      tolerance: of the gap, as a fraction of the primal. max_passes: bound on the passes.
      least_margin: a hard margin is given up below this fraction of the largest distance of
        examples from their mean.
      dtype: of the run.
    """

    tolerance: float
    max_passes: int
    least_margin: float
    dtype: str


def _shared(members: np.ndarray, n: int) -> bool:
    return members.shape[1] == n


def _whole(members: np.ndarray, n: int, examples: Examples) -> bool:
    """Whether kernel matrices are held whole."""
    kernel = isinstance(examples, KernelRows) and _shared(members, n)
    return kernel or members.shape[1] <= MOST_WHOLE


def groups_of(members: np.ndarray, n: int, examples: Examples) -> Iterator[slice]:
    """Machines that are trained together: as many as memory allows, groups of about one size."""
    machines, s = members.shape
    whole = _whole(members, n, examples) and not _shared(members, n)
    most = max(1, NUMBERS // (s * s if whole else s))
    size = -(-machines // -(-machines // most))
    return (slice(at, at + size) for at in range(0, machines, size))


def terms_of(
    signs: np.ndarray,
    members: np.ndarray,
    v: np.ndarray,
    formulation: str,
    C: float,
    dtype: str,
) -> Terms:
    """Caps and ridges of some machines."""
    n = len(v)
    weight = np.append(v, 0.0)[members]
    used = (signs != 0) & (weight > 0)
    cap, ridge = np.full(signs.shape, np.inf), np.zeros(signs.shape)
    if formulation == "svm1":
        cap = C * weight / n
    if formulation == "svm2":
        ridge = np.where(used, n / (C * np.where(used, weight, 1.0)), 0.0)
    numbers = (np.where(used, signs, 0), np.where(used, cap, 0.0), ridge)
    return Terms(*(jnp.asarray(each, dtype) for each in numbers))


class _Trainer(NamedTuple):
    """The way to better points for one group of machines."""

    examples: Examples
    gram: Array | None
    members: Array | None
    terms: Terms

    def advance(self, point: Point, goal: np.ndarray) -> Point:
        """Steps until the violations are at most the goals, or a call has made enough."""
        goals = jnp.asarray(goal, point.alpha.dtype)
        if self.gram is not None:
            return ascent.ascend_whole(self.gram, self.terms, point, goals)
        half = min(PART, point.alpha.shape[1]) // 2
        return ascent.ascend_parts(self.examples, self.members, self.terms, point, goals, half)


def _trainer(examples: Examples, members: np.ndarray, terms: Terms) -> _Trainer:
    n = number_of(examples)
    given = None if _shared(members, n) else jnp.asarray(members)
    if not _whole(members, n, examples):
        return _Trainer(examples, None, given, terms)
    if isinstance(examples, KernelRows) and given is None:
        return _Trainer(examples, examples.gram, given, terms)
    if given is None:
        return _Trainer(examples, ascent.grams(examples, jnp.arange(n)[None, :])[0], given, terms)
    return _Trainer(examples, ascent.grams(examples, given), given, terms)


def _largest_distances(examples: Examples, members: np.ndarray, terms: Terms) -> np.ndarray:
    """[M] the largest |x_i - mean| over the examples of each machine."""
    real = terms.signs != 0
    part = real / jnp.sum(real, axis=1, keepdims=True)
    index = jnp.asarray(members)
    weights = ascent.expansion(examples, index, part.astype(terms.signs.dtype))
    scores = scores_of_all(examples, weights).T
    scores = jnp.take_along_axis(scores, jnp.minimum(index, scores.shape[1] - 1), axis=1)
    norms = jax.vmap(lambda one: squared_norms_of(examples, one))(index)
    centre = jnp.sum(part * scores, axis=1, keepdims=True)
    squares = jnp.where(real, norms - 2 * scores + centre, 0)
    return np.sqrt(np.maximum(np.asarray(jnp.max(squares, axis=1)), 0))


class Trained(NamedTuple):
    """A group of machines: where it ended, the proof of that, statuses [M] and weights [d, M]."""

    point: Point
    proof: Proof
    statuses: np.ndarray
    weights: Array


def trained(examples: Examples, members: np.ndarray, terms: Terms, rules: Rules) -> Trained:
    """One group of machines, pass by pass, until each has a status."""
    trainer, zeros = _trainer(examples, members, terms), jnp.zeros_like(terms.signs)
    point = Point(zeros, zeros, jnp.zeros(len(zeros), jnp.int32))
    hard = bool(np.all(np.isinf(np.asarray(terms.cap)) | (np.asarray(terms.signs) == 0)))
    hard = hard and not np.asarray(terms.ridge).any()
    radius = _largest_distances(examples, members, terms) if hard else np.zeros(len(zeros))
    open_still = np.full(len(zeros), -1)
    statuses, goal = open_still.copy(), np.full(len(zeros), min(0.1, 10 * rules.tolerance))
    proof = prove(terms, point.alpha, point.scores)
    for _ in range(rules.max_passes):
        point = trainer.advance(point, np.where(statuses < 0, goal, np.inf))
        proof = prove(terms, point.alpha, point.scores)
        statuses = _judged(statuses, proof, goal, radius * rules.least_margin, hard, rules)
        if np.all(statuses >= 0):
            break
        goal = np.where(np.asarray(proof.violation) <= goal, goal / 4, goal)
    statuses = np.where(statuses < 0, int(Status.PASS_LIMIT), statuses)
    weights = ascent.expansion(examples, jnp.asarray(members), point.alpha * terms.signs)
    return Trained(point, proof, statuses, weights)


def _judged(
    statuses: np.ndarray,
    proof: Proof,
    goal: np.ndarray,
    least_margin: np.ndarray,
    hard: bool,
    rules: Rules,
) -> np.ndarray:
    """The status of each machine, -1 where it goes on; one that has a status keeps it."""
    primal, dual, rounding, violation = (np.asarray(each, np.float64) for each in proof[:4])
    gap = np.where(np.isfinite(primal), primal - dual + rounding, np.inf)
    solved = np.isfinite(gap) & (gap <= rules.tolerance * np.abs(primal))
    finest = 4 * float(np.finfo(rules.dtype).eps)
    found = np.where((violation <= goal) & (goal <= finest), int(Status.ROUNDING), -1)
    if hard:
        hopeless = np.asarray(proof.margin_bound) < least_margin
        found = np.where(hopeless, int(Status.NOT_SEPARABLE), found)
    found = np.where(solved, int(Status.CONVERGED), found)
    found = np.where(np.isfinite(dual), found, int(Status.NOT_FINITE))
    return np.where(statuses < 0, found, statuses)
