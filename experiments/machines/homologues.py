"""The homologue of a native sequence among decoys, by local alignment (JMLR 4.4, equation 15).

    f(x) = argmax over candidates y of max over alignments a of F(x, y, a; w)

In training the homologue counts with the alignment that is given and every decoy with all of its
alignments: "the alignment scores for the decoy sequences are lower". An output is a candidate with
an alignment, so that a cutting plane is one decoy aligned in one way.

Beside it the generative model, a substitution matrix of log-odds (JMLR 5.3; Durbin et al. 1998),

    W[a, b] = log P(a, b) / (P(a) P(b))

P(a, b) is how often letter a of the native sequence is paired with letter b of its homologue, and
P(a), P(b) how often the letters occur, all with Laplace estimates: one more than was counted. Gaps
have a cost delta that the model does not learn.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments.costs import (
    AlignmentTheta,
    OperationCounts,
    alignment_potentials,
    cost_model,
    operation_counts,
)
from jaxstruct.alignments.oracles.pairwise import local_alignment
from jaxstruct.alignments.potentials import DELETE, INSERT, PAIR
from jaxstruct.core.contract import Contenders, Inference, InferenceFacts, Model, Oracles, Problem
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import ragged
from jaxstruct.core.scores import largest
from jaxstruct.core.types import AnyArray, Array, PyTree, Static

_NO_SUMS = (
    "a search of homologues takes the best alignment of each candidate, it sums none: compare "
    "the margins of confidence.k_best, or train pairwise_alignment"
)


class HomologueInput(NamedTuple):
    """One native sequence and its candidates, padded; `homologue_inputs` builds a batch.

    Fields:
      native: [M] int32 letters 0..A-1; -1 on padding.
      candidates: [Q, N] int32 letters; -1 on padding.
      native_length: int32 scalar.
      candidate_lengths: [Q] int32; 0 where there is no candidate.
    """

    native: AnyArray
    candidates: AnyArray
    native_length: AnyArray
    candidate_lengths: AnyArray


class HomologueOutput(NamedTuple):
    """A candidate and an alignment of the native sequence (first) with it (second).

    Fields:
      candidate: int32 scalar.
      operations: [M + N] int32 of PAIR, DELETE, INSERT, then PADDING (-1).
      begin: [2] int32, letters of both sequences left out before the alignment.
    """

    candidate: AnyArray
    operations: AnyArray
    begin: AnyArray


def _counts(theta: AlignmentTheta, y: HomologueOutput) -> OperationCounts:
    A = theta.costs.substitution.shape[0]
    candidate = theta.x.candidates[y.candidate]
    return operation_counts(A, theta.x.native, candidate, y.operations, y.begin)


def _pair_lengths(x: HomologueInput, candidate: Array) -> Array:
    return jnp.stack([x.native_length, x.candidate_lengths[candidate]])


def candidate_scores(theta: AlignmentTheta) -> Array:
    """[Q] max over alignments of F for every candidate (JMLR eq. 16); -inf where there is none."""
    x = theta.x

    def of_one(candidate: Array, length: Array) -> Array:
        potentials = alignment_potentials(theta.costs, x.native, candidate)
        return local_alignment(potentials, jnp.stack([x.native_length, length])).score

    scores = jax.vmap(of_one)(x.candidates, x.candidate_lengths)
    return jnp.where(x.candidate_lengths > 0, scores, -jnp.inf)


def aligned_candidate(theta: AlignmentTheta, candidate: Array) -> HomologueOutput:
    """A candidate with its best alignment."""
    x, candidate = theta.x, candidate.astype(jnp.int32)
    potentials = alignment_potentials(theta.costs, x.native, x.candidates[candidate])
    found = local_alignment(potentials, _pair_lengths(x, candidate))
    return HomologueOutput(candidate, found.operations, found.begin)


def _decode(theta: AlignmentTheta) -> HomologueOutput:
    return aligned_candidate(theta, jnp.argmax(candidate_scores(theta)))


def _decoy_scores(theta: AlignmentTheta, y_true: HomologueOutput) -> Array:
    scores = candidate_scores(theta)
    return jnp.where(jnp.arange(scores.shape[0]) == y_true.candidate, -jnp.inf, scores)


def _best_wrong(theta: AlignmentTheta, y_true: HomologueOutput) -> HomologueOutput:
    return aligned_candidate(theta, jnp.argmax(_decoy_scores(theta, y_true)))


def _loss(dtype: Static[str], y_true: HomologueOutput, y: HomologueOutput) -> Array:
    return (y.candidate != y_true.candidate).astype(dtype.value)


def _contenders(theta: AlignmentTheta, y_true: HomologueOutput) -> Contenders:
    scores = _decoy_scores(theta, y_true)
    best = jnp.argmax(scores)
    return Contenders(jnp.ones(1, scores.dtype), scores[best][None], (theta, best))


def _output(trace: tuple[AlignmentTheta, Array], level: Array) -> HomologueOutput:
    del level  # there is one
    return aligned_candidate(*trace)


def _k_best(theta: AlignmentTheta, k: int) -> tuple[PyTree, Array]:
    """The k best candidates, each with its best alignment."""
    scores, candidates = largest(candidate_scores(theta), k)
    most = theta.x.candidates.shape[0] - 1
    found = jax.vmap(aligned_candidate, (None, 0))(theta, jnp.minimum(candidates, most))
    return or_padding(found, scores), scores


def homologue_inputs(
    natives: list[np.ndarray], candidates: list[list[np.ndarray]]
) -> HomologueInput:
    """A padded batch of inputs.

    Args:
      natives: n sequences of letters 0..A-1.
      candidates: for each of them the candidates, the homologue at any place among the decoys.
    """
    M, N = max(map(len, natives)), max(len(sequence) for each in candidates for sequence in each)
    letters = np.full((len(natives), max(map(len, candidates)), N), -1, np.int32)
    lengths = np.zeros(letters.shape[:2], np.int32)
    for i, each in enumerate(candidates):
        letters[i, : len(each)] = _padded(each, N)
        lengths[i, : len(each)] = [len(sequence) for sequence in each]
    native = _padded(natives, M)
    return HomologueInput(native, letters, np.array([len(x) for x in natives], np.int32), lengths)


def _padded(sequences: list[np.ndarray], length: int) -> np.ndarray:
    """[n, length] int32, -1 beyond each sequence."""
    return ragged(sequences, -1).padded(np.arange(len(sequences)), length).astype(np.int32)


def homologue_outputs(
    candidate: np.ndarray, operations: np.ndarray, begin: np.ndarray, width: int
) -> HomologueOutput:
    """A batch of outputs.

    Args:
      candidate: [n] integers. operations: [n, L] integers, padded here with -1 to `width`.
      begin: [n, 2] integers. width: M + N >= L.
    """
    operations = np.asarray(operations, np.int32)
    missing = width - operations.shape[1]
    operations = np.pad(operations, ((0, 0), (0, missing)), constant_values=-1)
    candidate, begin = np.asarray(candidate, np.int32), np.asarray(begin, np.int32)
    return HomologueOutput(candidate, operations, begin)


def homologue_search(
    alphabet_size: int, *, gaps: str = "linear", symmetric: bool = False, dtype: str = "float32"
) -> Problem:
    """The homologue among decoys, with local alignments (JMLR 4.4); see the module for f.

    Args:
      alphabet_size: A; letters are 0..A-1.
      gaps: "linear" (one cost a letter, the paper's model) or "affine" (open and extend).
      symmetric: whether W counts as (W + W') / 2, for sequences of which neither is the native one.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `HomologueInput`s, whose outputs are `HomologueOutput`s, with the zero-one loss
      on the candidate. Weights are those of `alignment_costs`. Equal scores go to the first
      candidate, and within it as `local_alignment`.
    """
    costs = cost_model(alphabet_size, gaps, symmetric, dtype, _counts)
    return make_problem(
        costs.weights,
        Model(costs.potentials, costs.score, _decode, Partial(_loss, Static(dtype))),
        Oracles(contenders=_contenders, output=_output, best_wrong=_best_wrong),
        costs.space,
        inference=Inference(k_best=Partial(_k_best), facts=InferenceFacts(advice=_NO_SUMS)),
        tested=True,
    )


class LetterCounts(NamedTuple):
    """What the estimates are made of, for an alphabet of A letters.

    Fields:
      pairs: [A, A] how often a letter of the first is paired with one of the second sequence.
      first, second: [A] how often letters occur in the first and in the second sequences.
    """

    pairs: np.ndarray
    first: np.ndarray
    second: np.ndarray


def pair_counts(
    alphabet_size: int,
    first: np.ndarray,
    second: np.ndarray,
    operations: np.ndarray,
    begin: np.ndarray,
) -> np.ndarray:
    """[A, A] how often two letters are paired in n alignments.

    Args:
      alphabet_size: A.
      first, second: [n, M], [n, N] letters. operations: [n, L], -1 on padding. begin: [n, 2].
    """
    paired, deleted, inserted = (operations == kind for kind in (PAIR, DELETE, INSERT))
    i = begin[:, :1] + np.cumsum(paired | deleted, axis=1) - 1
    j = begin[:, 1:] + np.cumsum(paired | inserted, axis=1) - 1
    row = np.nonzero(paired)[0]
    counts = np.zeros((alphabet_size, alphabet_size))
    np.add.at(counts, (first[row, i[paired]], second[row, j[paired]]), 1)
    return counts


def _letter_counts(alphabet_size: int, letters: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    real = letters[np.arange(letters.shape[1]) < lengths[:, None]]
    return np.bincount(real, minlength=alphabet_size).astype(float)


def homologue_counts(
    alphabet_size: int, inputs: HomologueInput, outputs: HomologueOutput
) -> LetterCounts:
    """Counts of natives and their homologues; decoys are not looked at."""
    native, candidates, native_lengths, lengths = map(np.asarray, inputs)
    candidate, operations, begin = map(np.asarray, outputs)
    rows = np.arange(len(native))
    homologues = candidates[rows, candidate]
    return LetterCounts(
        pair_counts(alphabet_size, native, homologues, operations, begin),
        _letter_counts(alphabet_size, native, native_lengths),
        _letter_counts(alphabet_size, homologues, lengths[rows, candidate]),
    )


def log_odds(counts: LetterCounts) -> np.ndarray:
    """[A, A] W, float64, natural logarithms.

    P(a) and P(b) are of all letters of the sequences.
    """
    joint, first, second = map(_estimates, counts)
    return np.log(joint) - np.log(first)[:, None] - np.log(second)


def _estimates(counts: np.ndarray) -> np.ndarray:
    return (counts + 1) / (counts + 1).sum()


def alignment_weights(substitution: np.ndarray, gap_cost: float, dtype: str = "float32") -> dict:
    """Weights of `homologue_search` with linear gaps: a matrix and the cost delta of a letter."""
    return {"substitution": np.asarray(substitution, dtype), "gap": np.asarray(gap_cost, dtype)}
