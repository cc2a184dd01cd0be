"""Training of binary machines: groups of them, pass by pass, until each has a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from experiments.machines.binary import ascent
from experiments.machines.binary.centred_rows import CentredRows, expanded, scores
from experiments.machines.binary.certificate import Proof, is_hard, picked, prove
from experiments.machines.binary.examples import Examples, KernelRows, number_of
from experiments.machines.binary.pairwise_ascent import Terms
from jaxstruct.core.status import Status
from jaxstruct.core.types import Array

MOST_WHOLE = 4096
"""Examples a machine whose kernel matrix is made whole: 64 MB in float32."""
NUMBERS = 1 << 23
"""Numbers of kernel matrices of machines that are trained together."""
PART = 128
"""Examples of a part, those that violate most, where kernel matrices are not made whole: 150
machines on 15,000 queries took 12 s of processor time."""


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
    signs: np.ndarray, members: np.ndarray, v: np.ndarray, formulation: str, C: float
) -> Terms:
    """Bounds and ridges of some machines, in float64."""
    n = len(v)
    weight = np.append(v, 0.0)[members]
    used = (signs != 0) & (weight > 0)
    cap, ridge = np.full(signs.shape, np.inf), np.zeros(signs.shape)
    if formulation == "svm1":
        cap = C * weight / n
    if formulation == "svm2":
        ridge = np.where(used, n / (C * np.where(used, weight, 1.0)), 0.0)
    floor = np.zeros(signs.shape)
    return Terms(np.where(used, signs, 0.0), floor, np.where(used, cap, 0.0), ridge)


class _Trainer(NamedTuple):
    """The way to better points for one group of machines."""

    examples: Examples
    gram: Array | None
    members: Array | None
    terms: Terms
    dtype: str

    def advance(self, proof: Proof, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Multipliers whose violations are at most the goals, or after the steps of one call.

        Returns:
          (alpha, rested, steps): [M, s]; [M] whether the goal is met as far as the dtype sees, and
          steps made.
        """
        alpha, (signs, _, cap, ridge) = proof.alpha, self.terms
        numbers = (signs, -alpha, cap - alpha, ridge, proof.gradients, goal)
        *terms, v, goals = (jnp.asarray(each, self.dtype) for each in numbers)
        terms = Terms(*terms)
        if self.gram is not None:
            moved = ascent.ascend_whole(self.gram, terms, v, goals)
        else:
            half = min(PART, alpha.shape[1]) // 2
            moved = ascent.ascend_parts(self.examples, self.members, terms, v, goals, half)
        change, violation, steps = (np.asarray(each) for each in moved)
        within = np.clip(alpha + change.astype(np.float64), 0, cap)
        at_floor, at_cap = change <= np.asarray(terms.floor), change >= np.asarray(terms.cap)
        alpha = np.where(at_cap, cap, np.where(at_floor, 0, within))
        return alpha, violation <= np.asarray(goals), steps


def _trainer(
    data: CentredRows, examples: Examples, members: np.ndarray, terms: Terms, dtype: str
) -> _Trainer:
    n = number_of(examples)
    given = None if _shared(members, n) else jnp.asarray(members)
    if not _whole(members, n, examples):
        return _Trainer(examples, None, given, terms, dtype)
    if given is not None:
        return _Trainer(examples, ascent.grams(examples, given), given, terms, dtype)
    whole = examples.gram if isinstance(examples, KernelRows) else ascent.whole_gram(examples)
    return _Trainer(examples, whole, given, terms, dtype)


def _largest_distances(data: CentredRows, members: np.ndarray, terms: Terms) -> np.ndarray:
    """[M] the largest |x_i - mean| over the examples of each machine, at least."""
    real = terms.signs != 0
    part = real / np.sum(real, axis=1, keepdims=True)
    own = scores(data, members, expanded(data, members, part))
    index = np.minimum(members, number_of(data.rows) - 1)
    if isinstance(data.rows, KernelRows):  # whose coefficients are those of phi_i, not phi_i - c
        own = own - (data.centre - data.square)[index]
    norms = data.norms[index]
    squares = norms**2 - 2 * own + np.sum(part * own, axis=1, keepdims=True)
    squares = squares - 5 * np.max(data.fuzz) ** 2
    return np.sqrt(np.max(np.where(real, squares, 0), axis=1, initial=0))


class Trained(NamedTuple):
    """A group of machines: the proof of where it ended, statuses [M] and steps [M]."""

    proof: Proof
    statuses: np.ndarray
    steps: np.ndarray


def trained(
    data: CentredRows, examples: Examples, members: np.ndarray, terms: Terms, rules: Rules
) -> Trained:
    """One group of machines, pass by pass, until each has a status; where its gap was smallest.

    Args:
      data, examples: the inputs on the host and on the device.
    """
    trainer = _trainer(data, examples, members, terms, rules.dtype)
    hard = is_hard(terms)
    radius = _largest_distances(data, members, terms) if hard else np.zeros(len(members))
    within = 4 * np.max(data.norms) ** 2 < np.finfo(rules.dtype).max
    statuses = np.full(len(members), -1 if within else int(Status.NOT_FINITE))
    steps = np.zeros(len(members), np.int32)
    goal = np.full(len(members), min(0.1, 10 * rules.tolerance))
    with np.errstate(all="ignore"):  # a machine that is not finite says so itself
        now = best = prove(data, members, terms, np.zeros(terms.signs.shape), rules.dtype)
        for _ in range(rules.max_passes):
            alpha, rested, made = trainer.advance(now, np.where(statuses < 0, goal, np.inf))
            steps += made
            now = prove(data, members, terms, alpha, rules.dtype)
            best = _better(best, now)
            ended = rested & (goal <= _finest(best, terms, rules)) | _hidden(now, rules)
            statuses = _judged(statuses, best, ended, hard, radius * rules.least_margin, rules)
            if np.all(statuses >= 0):
                break
            goal = np.where(rested, goal / 4, goal)
    statuses = np.where(statuses < 0, int(Status.PASS_LIMIT), statuses)
    return Trained(best, statuses, steps)


def _better(best: Proof, now: Proof) -> Proof:
    """Of each machine the point of the smaller gap; the later one where neither has a gap."""
    return picked((now.gap <= best.gap) | ~np.isfinite(now.dual), now, best)


def _finest(proof: Proof, terms: Terms, rules: Rules) -> np.ndarray:
    """[M] goals that are fine enough: such a violation of every example costs little."""
    cost = np.sum(np.where(np.isfinite(terms.cap), terms.cap, proof.alpha), axis=1)
    finest = 0.1 * rules.tolerance * proof.dual / np.maximum(cost, np.finfo(np.float64).tiny)
    return np.minimum(4 * float(np.finfo(rules.dtype).eps), finest)


def _hidden(proof: Proof, rules: Rules) -> np.ndarray:
    """[M] whether rounding alone takes all that is allowed, and is what the gap is made of."""
    found, allowed = np.abs(proof.primal - proof.dual), rules.tolerance * np.abs(proof.primal)
    return (proof.rounding > allowed) & (found <= np.maximum(allowed, proof.rounding))


def _judged(
    statuses: np.ndarray,
    proof: Proof,
    ended: np.ndarray,
    hard: bool,
    least_margin: np.ndarray,
    rules: Rules,
) -> np.ndarray:
    """The status of each machine, -1 where it goes on; one that has a status keeps it."""
    solved = np.isfinite(proof.gap) & (proof.gap <= rules.tolerance * np.abs(proof.primal))
    found = np.where(ended, int(Status.ROUNDING), -1)
    if hard:
        hopeless = proof.margin_bound < least_margin
        found = np.where(hopeless, int(Status.NOT_SEPARABLE), found)
    found = np.where(solved, int(Status.CONVERGED), found)
    found = np.where(np.isfinite(proof.dual), found, int(Status.NOT_FINITE))
    return np.where(statuses < 0, found, statuses)
