"""Substitution scores with gap costs: as weights, as a file in the BLOSUM layout, and applied."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.align_sequences.data import Pairs, inputs_of, outputs_of
from jaxstruct import predict
from jaxstruct.alignments.alphabets import Alphabet
from jaxstruct.alignments.costs import alignment_costs
from jaxstruct.alignments.losses import AlignmentOutput, pair_counts
from jaxstruct.alignments.structure import AlignmentInput, pairwise_alignment
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import bucketed
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import PyTree
from jaxstruct.data.substitution_matrices import (
    read_substitution_matrix,
    write_substitution_matrix,
)

CELLS = 1 << 26
"""Cells of all tables of one oracle call, at most: about half a gigabyte."""


class Costs(NamedTuple):
    """What alignments are scored with: [A, A] scores, the cost of a gap's first and later letters.

    A symmetric matrix stays so: substitution is what counts, not the weight it came from.
    """

    substitution: np.ndarray
    gap_open: float
    gap_extend: float


def batch_size(longest: int, most: int = 64) -> int:
    """Pairs in one batched oracle call, so that long sequences fit in memory."""
    fitting = max(CELLS // (2 * (longest + 1) ** 2), 1)
    return min(most, 1 << (fitting.bit_length() - 1))


def uniform_costs(alphabet: Alphabet) -> Costs:
    """Equal letters score 1, others -1, every letter against a gap costs 1."""
    return Costs(2 * np.eye(len(alphabet.letters)) - 1, 1.0, 1.0)


def costs_of(weights: PyTree, symmetric: bool) -> Costs:
    """The costs that trained weights stand for."""
    costs = alignment_costs(float(symmetric), jax.tree.map(np.asarray, weights))
    return Costs(np.asarray(costs.substitution), float(costs.gap_open), float(costs.gap_extend))


def write_costs(path: Path, alphabet: Alphabet, costs: Costs, mode: str, scale: float) -> Path:
    """Write matrix and gap costs as text; `read_costs` reads them again.

    Args:
      mode: global or local, told in a comment. scale: 0 for decimals, else what all numbers are
        multiplied by before they are rounded to integers.
    """
    factor = scale or 1.0
    shown = [gap * factor for gap in costs[1:]]
    gaps = [f"{gap:.0f}" if scale else f"{gap:.6g}" for gap in shown]
    comments = [
        f"Scores of pairs of letters for {mode} alignment, learned by a structural support vector "
        "machine.",
        f"gap_open {gaps[0]} gap_extend {gaps[1]} (costs of the first and of each later letter "
        "against a gap)",
    ]
    return write_substitution_matrix(
        path, alphabet.letters, costs.substitution, comments=comments, scale=scale or None
    )


def read_costs(
    path: str, alphabet: Alphabet, gap_open: float | None, gap_extend: float | None
) -> Costs:
    """Matrix and gap costs of a file in the BLOSUM layout.

    Args:
      path: of the file; its letters may stand in another order and be more than the alphabet's.
      gap_open, gap_extend: None for what a comment of `write_costs` says.

    Raises:
      FileNotFoundError, MalformedFile: see `data.substitution_matrices`.
      ValueError: the file lacks a letter, or nothing says what gaps cost.
    """
    letters, scores, comments = read_substitution_matrix(Path(path))
    missing = [letter for letter in alphabet.letters if letter not in letters]
    if missing:
        raise ValueError(
            f"matrix: {path} has no scores of {', '.join(missing)}; it has {letters}: choose "
            "another --alphabet"
        )
    order = [letters.index(letter) for letter in alphabet.letters]
    told: dict[str, float] = {}
    for name, value in {"gap_open": gap_open, "gap_extend": gap_extend}.items():
        found = re.search(rf"\b{name} (-?[0-9.]+(?:e[-+]?[0-9]+)?)", "\n".join(comments))
        if value is not None:
            told[name] = value
        elif found is not None:
            told[name] = float(found[1])
        else:
            raise ValueError(f"matrix: {path} does not say what gaps cost; give --{name}")
    return Costs(scores[np.ix_(order, order)], **told)


def problem_of(alphabet: Alphabet, mode: str, loss: str, dtype: str) -> Problem:
    """The problem whose weights costs of any kind are; see `weights_of`."""
    return pairwise_alignment(
        len(alphabet.letters), mode=mode, gaps="affine", symmetric=False, loss=loss, dtype=dtype
    )


def weights_of(costs: Costs, dtype: str) -> dict[str, Any]:
    """Weights of `problem_of`."""
    return {name: jnp.asarray(value, dtype) for name, value in costs._asdict().items()}


@jax.jit
def _batch_scores(problem: Problem, w: PyTree, x: PyTree, y: PyTree) -> jax.Array:
    return jax.vmap(lambda x, y: problem.model.score(problem.model.potentials(w, x), y))(x, y)


def align(
    problem: Problem, weights: PyTree, inputs: AlignmentInput
) -> tuple[AlignmentOutput, np.ndarray]:
    """(a store of the best alignments, [n] their scores)."""
    longest = size_class(int(max(inputs.first.lengths.max(), inputs.second.lengths.max())))
    found = predict(problem, weights, inputs, batch=batch_size(longest, 256))
    x, y = bucketed(problem.padding, inputs, found)
    scores = np.zeros(len(inputs.first))
    for part, of_part, index in zip(x.parts, y.parts, x.index, strict=True):
        scores[index] = _batch_scores(problem, weights, part, of_part)
    return found, scores


_batch_counts = jax.jit(jax.vmap(pair_counts))


@jax.jit
def _batch_losses(problem: Problem, y_true: PyTree, y: PyTree) -> jax.Array:
    return jax.vmap(problem.model.loss)(y_true, y)


def measure(problem: Problem, weights: PyTree, pairs: Pairs) -> dict[str, Any]:
    """How well the costs align pairs whose alignment is known.

    Returns:
      true_pairs_found (%), made_pairs_right (%), over all pairs of letters of all alignments; the
      mean of the problem's loss; and the counts.
    """
    inputs = inputs_of(pairs)
    found, _ = align(problem, weights, inputs)
    truth, made = (
        bucketed(problem.padding, inputs, outputs)[1] for outputs in (outputs_of(pairs), found)
    )
    counts, losses = np.zeros(3), []
    for y_true, y in zip(truth.parts, made.parts, strict=True):
        counts += [np.sum(leaf) for leaf in _batch_counts(y_true, y)]
        losses.append(np.asarray(_batch_losses(problem, y_true, y)))
    true, made, right = counts
    return {
        "pairs": len(pairs.names), "true_pairs": int(true), "made_pairs": int(made),
        "right_pairs": int(right), "true_pairs_found": 100 * right / max(true, 1),
        "made_pairs_right": 100 * right / max(made, 1),
        "loss": float(np.mean(np.concatenate(losses))),
    }  # fmt: skip
