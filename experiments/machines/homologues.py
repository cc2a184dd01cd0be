"""The homologue of a native sequence among decoys, by local alignment (JMLR 4.4, equation 15).

    f(x) = argmax over candidates y of max over alignments a of F(x, y, a; w)

In training the homologue counts with the alignment that is given and every decoy with all of its
alignments: "the alignment scores for the decoy sequences are lower". An output is a candidate with
an alignment, so that a cutting plane is one decoy aligned in one way.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments import example_checks as alignment_checks
from jaxstruct.alignments.costs import (
    AlignmentTheta,
    OperationCounts,
    alignment_potentials,
    cost_model,
    operation_counts,
)
from jaxstruct.alignments.oracles.pairwise import local_alignment
from jaxstruct.core.checks import as_list, check_record, checked_dtype, checked_size
from jaxstruct.core.contract import (
    Contenders,
    Inference,
    InferenceFacts,
    Model,
    Oracles,
    Problem,
)
from jaxstruct.core.derived_inference import or_padding
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import ragged
from jaxstruct.core.scores import largest
from jaxstruct.core.spec import array, checked_int32, checked_lengths, refuse
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

    Raises:
      ValueError: the two lists differ in length, or a sequence is empty or holds something else
        than integers.
    """
    natives = alignment_checks.sequences_of("natives", natives)
    rows = as_list("candidates", candidates, "a list of lists of sequences")
    if len(natives) != len(rows):
        raise ValueError(
            f"natives and candidates must be lists of one length, got {len(natives)} and "
            f"{len(rows)}"
        )
    rows = [alignment_checks.sequences_of(f"candidates[{i}]", each) for i, each in enumerate(rows)]
    M, N = max(map(len, natives)), max(len(sequence) for each in rows for sequence in each)
    letters = np.full((len(rows), max(map(len, rows)), N), -1, np.int32)
    lengths = np.zeros(letters.shape[:2], np.int32)
    for i, each in enumerate(rows):
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

    Raises:
      ValueError: something is no integer, has another shape, or has more columns than width.
    """
    width = checked_size("width", width)
    operations = checked_int32("operations", operations, "n width")
    n, missing = len(operations), width - operations.shape[1]
    if missing < 0:
        raise ValueError(f"operations have {operations.shape[1]} columns, more than M + N {width}")
    operations = np.pad(operations, ((0, 0), (0, missing)), constant_values=-1)
    candidate = checked_int32("candidate", candidate, "n", sizes={"n": n})
    begin = checked_int32("begin", begin, "n 2", sizes={"n": n})
    return HomologueOutput(candidate, operations, begin)


def _check(A: int, inputs: HomologueInput, outputs: HomologueOutput | None = None) -> None:
    """All checks of values. Each relies on those before it; outputs are given for training only."""
    check_record("inputs", inputs, HomologueInput, "homologue_inputs")
    sizes: dict[str, int] = {}
    native = array("inputs.native", inputs.native, "n M", sizes=sizes)
    candidates = array("inputs.candidates", inputs.candidates, "n Q N", sizes=sizes)
    M, N = sizes["M"], sizes["N"]
    first = checked_lengths("inputs.native_length", inputs.native_length, len(native), 1, M)
    lengths = array(
        "inputs.candidate_lengths", inputs.candidate_lengths, "n Q", "integers", sizes, range(N + 1)
    )
    alignment_checks.check_letters("inputs.native", native, first, A)
    alignment_checks.check_letters("inputs.candidates", candidates, lengths, A)
    if outputs is None:
        return
    check_record("outputs", outputs, HomologueOutput, "homologue_outputs")
    _check_homologues(outputs.candidate, lengths)
    second = lengths[np.arange(len(native)), np.asarray(outputs.candidate)]
    alignment_checks.check_operations(outputs, np.stack([first, second], axis=1), M + N)


def _check_homologues(candidate: np.ndarray, lengths: np.ndarray) -> None:
    """Raise ValueError unless each homologue is a candidate, and not the only one."""
    n, Q = lengths.shape
    if Q < 2:
        raise ValueError(
            "inputs.candidates hold no decoys (Q = 1): learning needs the homologue and at least "
            "one other sequence"
        )
    name = "outputs.candidate"
    candidate = array(name, candidate, "n", sizes={"n": n}, within=range(Q))
    absent = lengths[np.arange(n), candidate] == 0
    refuse(name, candidate, absent, "a candidate that is not empty")
    words = "two candidates with letters: without decoys there is nothing to learn"
    refuse("inputs.candidate_lengths", lengths, np.sum(lengths > 0, axis=1) < 2, words)


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

    Raises:
      ValueError: an argument does not fit.
    """
    alignment_checks.check_options(alphabet_size, gaps, symmetric)
    dtype = checked_dtype(dtype)
    costs = cost_model(alphabet_size, gaps, symmetric, dtype, _counts)
    return make_problem(
        costs.weights,
        Model(costs.potentials, costs.score, _decode, Partial(_loss, Static(dtype))),
        Oracles(contenders=_contenders, output=_output, best_wrong=_best_wrong),
        costs.space,
        Partial(_check, alphabet_size),
        inference=Inference(k_best=Partial(_k_best), facts=InferenceFacts(advice=_NO_SUMS)),
        tested=True,
    )
