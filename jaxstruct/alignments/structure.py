"""Alignment of two sequences, learned from aligned pairs (JMLR 4.4, supervised).

    f(x) = argmax over alignments y of F(x, y; w) = sum over pairs of W[x^i, x^j] - cost of the gaps

An output is an alignment, the true one is given, and every other one is a wrong output. The losses
(see `alignment_losses`) are additive over pairs, so that the most violated alignment of margin
re-scaling is one plain alignment with other pair scores, and slack re-scaling searches with those.
Alignments that differ in the order of gaps alone have loss 0.

Global alignments pair or gap every letter, so that adding 2 c to all of W and taking c from both
gap costs adds c (M + N) to every F and changes no answer: of such weights the shortest is learned,
and the sign of a single score means little. Local alignments fix it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.alignments import example_checks as alignment_checks
from jaxstruct.alignments.alphabets import Alphabet, decode
from jaxstruct.alignments.costs import (
    AlignmentCosts,
    OperationCounts,
    alignment_costs,
    alignment_potentials,
    combined_counts,
    costs_gram_action,
    initial_weights,
    operation_counts,
    score_counts,
)
from jaxstruct.alignments.losses import (
    AlignmentLoss,
    AlignmentOutput,
    alignment_loss,
    delta,
    pair_costs,
)
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.potentials import AlignmentPotentials
from jaxstruct.alignments.text import WrittenAlignment
from jaxstruct.core.contract import Model, Oracles, Problem, Space
from jaxstruct.core.problem import make_problem
from jaxstruct.core.transposition import sum_of_squares
from jaxstruct.core.types import Array, PyTree

MODES = ("global", "local")


class AlignmentInput(NamedTuple):
    """Two sequences, padded; `alignment_inputs` builds a batch.

    Fields:
      first: [M] int32 letters 0..A-1; -1 on padding. second: [N] likewise.
      lengths: [2] int32 of both.
    """

    first: Array
    second: Array
    lengths: Array


class AlignmentTheta(NamedTuple):
    """Potentials of one input: the costs, and the letters that they are looked up with."""

    costs: AlignmentCosts
    x: AlignmentInput


class _Tables(NamedTuple):
    """symmetric: 1 or 0. single_cost: [1] where gaps are linear, [0] where they are affine."""

    symmetric: Array
    single_cost: Array


def _potentials(tables: _Tables, w: PyTree, x: AlignmentInput) -> AlignmentTheta:
    return AlignmentTheta(alignment_costs(tables.symmetric, w), jax.tree.map(jnp.asarray, x))


def _gram_action(tables: _Tables, x: AlignmentInput, u: AlignmentTheta) -> AlignmentTheta:
    del x
    linear = tables.single_cost.shape[0] == 1
    return u._replace(costs=costs_gram_action(tables.symmetric, linear, u.costs))


def _counts(theta: AlignmentTheta, y: AlignmentOutput) -> OperationCounts:
    A, x = theta.costs.substitution.shape[0], theta.x
    return operation_counts(A, x.first, x.second, y.operations, y.begin)


def _score(theta: AlignmentTheta, y: AlignmentOutput) -> Array:
    return score_counts(theta.costs, _counts(theta, y))


def _combine(theta: AlignmentTheta, y: AlignmentOutput, c: Array) -> AlignmentTheta:
    counts = jax.vmap(_counts, (None, 0))(theta, y)
    return AlignmentTheta(combined_counts(theta.costs, counts, c), theta.x)


def _pair_potentials(theta: AlignmentTheta) -> AlignmentPotentials:
    return alignment_potentials(theta.costs, theta.x.first, theta.x.second)


def _best_global(potentials: AlignmentPotentials, lengths: Array) -> AlignmentOutput:
    return AlignmentOutput(*global_alignment(potentials, lengths)[:2])


def _best_local(potentials: AlignmentPotentials, lengths: Array) -> AlignmentOutput:
    return AlignmentOutput(*local_alignment(potentials, lengths)[:2])


_BEST = {"global": Partial(_best_global), "local": Partial(_best_local)}


def _decode(best: Partial, theta: AlignmentTheta) -> AlignmentOutput:
    return best(_pair_potentials(theta), theta.x.lengths)


def _loss_augmented(
    best: Partial, loss: AlignmentLoss, theta: AlignmentTheta, y_true: AlignmentOutput, scale: Array
) -> AlignmentOutput:
    potentials = _pair_potentials(theta)
    costs = pair_costs(loss, y_true, *potentials.pairs.shape)
    pairs = potentials.pairs + (scale * costs).astype(potentials.pairs.dtype)
    return best(potentials._replace(pairs=pairs), theta.x.lengths)


def alignment_inputs(
    firsts: Sequence[np.ndarray], seconds: Sequence[np.ndarray], size: tuple[int, int] | None = None
) -> AlignmentInput:
    """A padded batch of pairs of sequences.

    Args:
      firsts, seconds: n sequences of letters 0..A-1 each.
      size: (M, N) to pad to; None for the longest of each.

    Raises:
      ValueError: the two lists differ in length, a sequence is empty or longer than its size.
    """
    if len(firsts) != len(seconds):
        raise ValueError(
            f"firsts and seconds must be of one length, got {len(firsts)} and {len(seconds)}"
        )
    longest = [
        alignment_checks.longest(*named) for named in (("firsts", firsts), ("seconds", seconds))
    ]
    size = tuple(longest) if size is None else size
    if size[0] < longest[0] or size[1] < longest[1]:
        raise ValueError(f"size: got {size}, but the longest sequences have {longest} letters")
    lengths = [[len(a), len(b)] for a, b in zip(firsts, seconds, strict=True)]
    padded = (
        alignment_checks.padded(each, width)
        for each, width in zip((firsts, seconds), size, strict=True)
    )
    return AlignmentInput(*padded, np.array(lengths, np.int32))


def alignment_outputs(
    operations: Sequence[np.ndarray], begin: np.ndarray | None, width: int
) -> AlignmentOutput:
    """A batch of alignments, padded.

    Args:
      operations: n strings of PAIR, DELETE, INSERT, of any lengths; PADDING may follow.
      begin: [n, 2] letters left out before them; None for none.
      width: M + N of the inputs.

    Raises:
      ValueError: an alignment has more than `width` operations.
    """
    longest = max(map(len, operations), default=0)
    if longest > width:
        raise ValueError(f"operations: one has {longest}, more than width = M + N = {width}")
    begin = np.zeros((len(operations), 2)) if begin is None else begin
    return AlignmentOutput(
        alignment_checks.padded(operations, width), np.asarray(begin).astype(np.int32)
    )


def written_alignments(
    alphabet: Alphabet, x: AlignmentInput, y: AlignmentOutput
) -> list[WrittenAlignment]:
    """A batch of alignments as texts, for `alignment_text`."""
    written = []
    for first, second, lengths, operations, begin in zip(*x, *y, strict=True):
        texts = (
            decode(alphabet, np.asarray(letters)[:length])
            for letters, length in zip((first, second), lengths, strict=True)
        )
        written.append(WrittenAlignment(*texts, np.asarray(operations), np.asarray(begin)))
    return written


def _check(A: int, whole: bool, inputs: AlignmentInput, outputs: AlignmentOutput) -> None:
    """Every door check of a training set, in an order that lets each rely on those before."""
    if not isinstance(inputs, AlignmentInput) or not isinstance(outputs, AlignmentOutput):
        raise ValueError(
            "inputs and outputs must be an AlignmentInput (see alignment_inputs) and an "
            f"AlignmentOutput (see alignment_outputs), got {type(inputs).__name__} and "
            f"{type(outputs).__name__}"
        )
    first, second, lengths = map(np.asarray, inputs)
    operations, begin = map(np.asarray, outputs)
    n = first.shape[0]
    if first.ndim != 2 or second.ndim != 2 or second.shape[0] != n or lengths.shape != (n, 2):
        raise ValueError(
            "inputs.first, inputs.second and inputs.lengths must be [n, M], [n, N] and [n, 2], got "
            f"shapes {first.shape}, {second.shape} and {lengths.shape}"
        )
    alignment_checks.check_letters("inputs.first", first, lengths[:, 0], A)
    alignment_checks.check_letters("inputs.second", second, lengths[:, 1], A)
    width = first.shape[1] + second.shape[1]
    alignment_checks.check_operations(operations, begin, lengths, width, whole=whole)


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
      loss: "positions", "pairs", "normalised_positions" or "normalised_pairs" (see
        `alignment_losses`).
      dtype: "float32" or "float64".

    Returns:
      A Problem on `AlignmentInput`s, whose outputs are `AlignmentOutput`s. Weights are those of
      `alignment_costs`. svm1_margin is exact; svm1_slack and svm2_slack are searched, with a bound
      on what the search may have missed; the other formulations need what this structure has not
      (the best alignment at every loss), and `fit` says so. Ties as `alignments.oracles.pairwise`.

    Raises:
      ValueError: an argument does not fit.
    """
    alignment_checks.check_options(alphabet_size, gaps)
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; choose one of {MODES}")
    kind, best = alignment_loss(loss, dtype), _BEST[mode]
    tables = _Tables(jnp.asarray(float(symmetric), dtype), jnp.zeros(int(gaps == "linear"), dtype))
    return make_problem(
        initial_weights(alphabet_size, gaps, dtype),
        Model(Partial(_potentials, tables), _score, Partial(_decode, best), Partial(delta, kind)),
        Oracles(loss_augmented_decode=Partial(_loss_augmented, best, kind)),
        Space(
            gram_action=Partial(_gram_action, tables), combine=_combine, squared_norm=sum_of_squares
        ),
        Partial(_check, alphabet_size, mode == "global"),
    )
