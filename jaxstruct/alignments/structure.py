"""Alignment of two sequences, learned from aligned pairs (JMLR 4.4, supervised).

    f(x) = argmax over alignments y of F(x, y; w) = sum over pairs of W[x^i, x^j] - cost of the gaps

An output is an alignment, the true one is given, and every other one is a wrong output. The losses
are additive over pairs, so that the most violated alignment of margin
re-scaling is one plain alignment with other pair scores, and slack re-scaling searches with those.
Alignments that differ in the order of gaps alone have loss 0.

Global alignments pair or gap every letter, so that adding 2 c to all of W and taking c from both
gap costs adds c (M + N) to every F and changes no answer: of such weights the shortest is learned,
and the sign of a single score means little. Local alignments fix it.

P(y | x) = exp(F(x, y)) / Z(x) over all alignments of two sequences: a pair hidden Markov model,
log-linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments import example_checks as alignment_checks
from jaxstruct.alignments.costs import (
    AlignmentTheta,
    OperationCounts,
    cost_model,
    operation_counts,
    seen,
)
from jaxstruct.alignments.losses import (
    AlignmentLoss,
    AlignmentOutput,
    alignment_loss,
    delta,
    error_levels,
    pair_costs,
)
from jaxstruct.alignments.oracles import sums
from jaxstruct.alignments.oracles.k_best import best_of_levels, k_best_global, k_best_local
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.potentials import PADDING, AlignmentPotentials
from jaxstruct.core.checks import as_list, check_choice, check_count, check_record, checked_dtype
from jaxstruct.core.contract import Inference, Marginals, Model, Oracles, Padding, Problem
from jaxstruct.core.derived_inference import positions
from jaxstruct.core.padding import without_padding
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import ragged
from jaxstruct.core.scores import largest
from jaxstruct.core.spec import array, checked_int32, refuse
from jaxstruct.core.types import AnyArray, Array, Static


def _log_loss(score: Partial, local: Static, theta: AlignmentTheta, y: AlignmentOutput) -> Array:
    """-log P(y | x) = log Z - F(y) of one alignment."""
    return sums.log_partition(*seen(theta), local=local.value) - score(theta, y)


def _marginals(local: Static, theta: AlignmentTheta) -> Marginals:
    """[M, N] P(letter i is paired with letter j)."""
    potentials, lengths = seen(theta)
    found = sums.marginals(potentials, lengths, local=local.value)
    return Marginals(found.pairs, found.log_partition, positions(lengths[0], lengths[1]))


def _k_best(local: Static, theta: AlignmentTheta, k: int) -> tuple[AlignmentOutput, Array]:
    found = (k_best_local if local.value else k_best_global)(*seen(theta), k)
    return AlignmentOutput(found.operations, found.begin), found.score


def _sample(local: Static, theta: AlignmentTheta, key: Array) -> AlignmentOutput:
    return AlignmentOutput(*sums.sample(*seen(theta), key, local=local.value))


def alignment_inference(score: Callable, local: Static) -> Inference:
    """The inference of two sequences.

    Args:
      score: of the model. local: whether the best two stretches are aligned, not all letters.
    """
    return Inference(
        log_loss=Partial(_log_loss, score, local),
        marginals=Partial(_marginals, local),
        k_best=Partial(_k_best, local),
        sample=Partial(_sample, local),
    )


MODES = ("global", "local")
MOST_CELLS = 1 << 26
"""Cells times numbers of errors that are listed at most, 1 GB of tables: 250 letters with 250."""


class AlignmentInput(NamedTuple):
    """Two sequences, padded; `alignment_inputs` builds a batch.

    Fields:
      first: [M] int32 letters 0..A-1; -1 on padding. second: [N] likewise.
      lengths: [2] int32 of both.
    """

    first: AnyArray
    second: AnyArray
    lengths: AnyArray


def _counts(theta: AlignmentTheta, y: AlignmentOutput) -> OperationCounts:
    A, x = theta.costs.substitution.shape[0], theta.x
    return operation_counts(A, x.first, x.second, y.operations, y.begin)


def _best(local: Static, potentials: AlignmentPotentials, lengths: Array) -> AlignmentOutput:
    found = (local_alignment if local.value else global_alignment)(potentials, lengths)
    return AlignmentOutput(found.operations, found.begin)


def _decode(local: Static, theta: AlignmentTheta) -> AlignmentOutput:
    return _best(local, *seen(theta))


def _loss_augmented(
    local: Static, loss: AlignmentLoss, theta: AlignmentTheta, y_true: AlignmentOutput,
    scale: Array | float,
) -> AlignmentOutput:  # fmt: skip
    potentials, lengths = seen(theta)
    costs = pair_costs(loss, y_true, *potentials.pairs.shape)
    pairs = potentials.pairs + (scale * costs).astype(potentials.pairs.dtype)
    return _best(local, potentials._replace(pairs=pairs), lengths)


def _best_above(
    local: Static, loss: AlignmentLoss, theta: AlignmentTheta, y_true: AlignmentOutput, k: int,
    above: Array,
) -> tuple[AlignmentOutput, Array]:  # fmt: skip
    """Of each number of errors the best alignment; of long sequences the best one of all."""
    potentials, lengths = seen(theta)
    M, N = potentials.pairs.shape
    levels = error_levels(loss, y_true, M, N)
    if len(levels.losses) * (M + 1) * (M + N + 1) > MOST_CELLS:
        y = _loss_augmented(local, loss, theta, y_true, 1.0)
        many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (k, *leaf.shape)), y)
        return many, jnp.ones(k, bool)  # a list that is cut off: no proof
    found = best_of_levels(potentials, lengths, levels, local=local.value)
    value, at = largest(found.score + levels.losses, k)
    at = jnp.minimum(at, len(levels.losses) - 1)
    return AlignmentOutput(found.operations[at], found.begin[at]), value > above


def alignment_inputs(firsts: Sequence[np.ndarray], seconds: Sequence[np.ndarray]) -> AlignmentInput:
    """A batch of pairs of sequences, two `Ragged` stores.

    Args:
      firsts, seconds: n sequences of letters 0..A-1 each.

    Raises:
      ValueError: the two lists differ in length, a sequence is empty, or holds something else than
        integers.
    """
    first = alignment_checks.sequences_of("firsts", firsts)
    second = alignment_checks.sequences_of("seconds", seconds)
    check_count("seconds", len(second), "firsts", len(first))
    lengths = np.array([[len(row) for row in rows] for rows in (first, second)], np.int32).T
    return AlignmentInput(ragged(first, -1), ragged(second, -1), lengths)


def alignment_outputs(
    operations: Sequence[np.ndarray], begin: np.ndarray | None = None
) -> AlignmentOutput:
    """A batch of alignments, a `Ragged` store of operations.

    Args:
      operations: n strings of PAIR, DELETE, INSERT, of any lengths; PADDING may follow.
      begin: [n, 2] letters left out before them; None for none.

    Raises:
      ValueError: something is no integer.
    """
    rows = as_list("operations", operations, "a list of strings of PAIR, DELETE, INSERT")
    rows = [
        checked_int32(f"operations[{i}]", row, "m")
        if len(np.shape(row)) != 1 or len(row)
        else np.zeros(0, np.int32)
        for i, row in enumerate(rows)
    ]
    begin = np.zeros((len(rows), 2), np.int32) if begin is None else begin
    begin = checked_int32("begin", begin, "n 2", sizes={"n": len(rows)})
    return AlignmentOutput(ragged([without_padding(row) for row in rows], PADDING), begin)


def _output_sizes(x: AlignmentInput) -> AlignmentOutput:
    """Operations have the positions of both sequences."""
    check_record("inputs", x, AlignmentInput, "alignment_inputs")
    return AlignmentOutput(np.shape(x.first)[1] + np.shape(x.second)[1], 0)


_PADDING = Padding(price=5000, output_sizes=_output_sizes)


def _check(
    A: int, whole: bool, inputs: AlignmentInput, outputs: AlignmentOutput | None = None
) -> None:
    """All checks of values. Each relies on those before it; outputs are given for training only."""
    check_record("inputs", inputs, AlignmentInput, "alignment_inputs")
    sizes: dict[str, int] = {}
    first = array("inputs.first", inputs.first, "n M", sizes=sizes)
    second = array("inputs.second", inputs.second, "n N", sizes=sizes)
    lengths = array("inputs.lengths", inputs.lengths, "n 2", sizes=sizes)
    most = [sizes["M"], sizes["N"]]
    words = "1..{} and 1..{} letters; leave empty sequences out".format(*most)
    refuse("inputs.lengths", lengths, ((lengths < 1) | (lengths > most)).any(axis=1), words)
    alignment_checks.check_letters("inputs.first", first, lengths[:, 0], A)
    alignment_checks.check_letters("inputs.second", second, lengths[:, 1], A)
    if outputs is not None:
        check_record("outputs", outputs, AlignmentOutput, "alignment_outputs")
        alignment_checks.check_operations(outputs, lengths, sum(most), whole=whole)


def pairwise_alignment(
    alphabet_size: int,
    *,
    mode: str = "global",
    gaps: str = "affine",
    symmetric: bool = True,
    loss: str = "positions",
    dtype: str = "float32",
) -> Problem:
    """Learn substitution scores and gap costs from aligned pairs; see the module for f.

    Args:
      alphabet_size: A; letters are 0..A-1.
      mode: "global" aligns all letters of both sequences, "local" the best two stretches.
      gaps: "affine" (open and extend) or "linear" (one cost a letter).
      symmetric: whether W counts as (W + W') / 2.
      loss: "positions", "pairs", "normalised_positions" or "normalised_pairs".
      dtype: "float32" or "float64".

    Returns:
      A Problem on `AlignmentInput`s, whose outputs are `AlignmentOutput`s. Weights are those of
      `alignment_costs`. svm1_margin is exact; svm1_slack and svm2_slack are searched, and of what
      the search may have missed the best alignment of every loss is found, or it is bounded; the
      other formulations need what this structure has not (the best alignment but the true one at
      every loss), and `fit` says so. Ties as `global_alignment`.

    Raises:
      ValueError: an argument does not fit.
    """
    alignment_checks.check_options(alphabet_size, gaps, symmetric)
    check_choice("mode", mode, MODES)
    dtype = checked_dtype(dtype)
    kind, local = alignment_loss(loss, dtype), Static(mode == "local")
    costs = cost_model(alphabet_size, gaps, symmetric, dtype, _counts)
    return make_problem(
        costs.weights,
        Model(costs.potentials, costs.score, Partial(_decode, local), Partial(delta, kind)),
        Oracles(
            loss_augmented_decode=Partial(_loss_augmented, local, kind),
            best_above=Partial(_best_above, local, kind),
        ),
        costs.space,
        Partial(_check, alphabet_size, not local.value),
        _PADDING,
        alignment_inference(costs.score, local),
        tested=True,
    )
