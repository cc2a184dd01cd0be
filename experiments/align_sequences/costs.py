"""Substitution scores with gap costs: as weights, as files, and applied."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.align_sequences.data import Pairs, inputs_of, outputs_of
from experiments.corpora.substitution_matrices import (
    read_substitution_matrix,
    write_substitution_matrix,
)
from experiments.lib.files import write_results
from jaxstruct import predict
from jaxstruct.alignments.alphabets import Alphabet
from jaxstruct.alignments.costs import alignment_costs
from jaxstruct.alignments.losses import AlignmentOutput, pair_counts
from jaxstruct.alignments.structure import AlignmentInput, pairwise_alignment
from jaxstruct.core.contract import Problem
from jaxstruct.core.padding import bucketed
from jaxstruct.core.sizes import size_class
from jaxstruct.core.types import PyTree
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.utf8 import parse_json, read_text

CELLS = 1 << 26
"""Cells of all tables of one oracle call, at most: about half a gigabyte."""
AFFINE = ("gap_open", "gap_extend")


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
      mode: global or local, written in a comment. scale: 0 for decimals, else what all numbers are
        multiplied by before they are rounded to integers.
    """
    gaps = [f"{gap:.0f}" if scale else f"{gap:.6g}" for gap in _scaled_gaps(costs, scale)]
    comments = [
        f"Scores of pairs of letters for {mode} alignment, learned by a structural support vector "
        "machine.",
        f"gap_open {gaps[0]} gap_extend {gaps[1]} (costs of the first and of each later letter "
        "against a gap)",
    ]
    return write_substitution_matrix(
        path, alphabet.letters, costs.substitution, comments=comments, scale=scale or None
    )


def write_gap_costs(folder: Path, costs: Costs, gaps: str, scale: float) -> Path:
    """Write folder/gap_costs.json beside the matrix of the same scale; `read_gap_costs` reads it.

        {"scale": 1.0, "gap_open": 1.75, "gap_extend": 0.5}        gaps: affine
        {"scale": 1.0, "gap": 1.25}                                gaps: linear

    With a scale of 0 the costs are unrounded and the file has 1, else they are integers as in the
    matrix.
    """
    opened, later = _scaled_gaps(costs, scale)
    stated = (
        {"gap": opened} if gaps == "linear" else dict(zip(AFFINE, (opened, later), strict=True))
    )
    return write_results(folder, "gap_costs", {"scale": scale or 1.0} | stated)


def _scaled_gaps(costs: Costs, scale: float) -> list[float]:
    """The gap costs as they stand beside the matrix: times scale and rounded, as its scores are."""
    if not scale:
        return [costs.gap_open, costs.gap_extend]
    return [math.copysign(math.floor(abs(gap) * scale + 0.5), gap) + 0.0 for gap in costs[1:]]


def read_gap_costs(path: str) -> tuple[dict[str, float], float | None]:
    """Gap costs of a JSON file, written by `write_gap_costs` or by hand.

    Returns:
      ({"gap_open": .., "gap_extend": ..}, the scale, or None where the file has none).

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: it is no JSON object of "gap" or "gap_open" and "gap_extend", finite numbers.
    """
    content = parse_json(read_text(Path(path)), path)
    found = set(content) - {"scale"} if isinstance(content, dict) else set()
    if found not in ({"gap"}, set(AFFINE)):
        raise MalformedFile(
            f'{path}: holds no gap costs, expected {{"gap_open": 1.5, "gap_extend": 0.5}}, or '
            '{"gap": 1.0} where every letter costs the same, and at most "scale" beside them'
        )
    for name, value in content.items():
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
            raise MalformedFile(f"{path}: {name} is {value!r:.40}, expected a finite number")
    costs = {name: float(content[name if "gap" not in found else "gap"]) for name in AFFINE}
    return costs, content.get("scale")


def read_costs(
    path: str,
    alphabet: Alphabet,
    gap_open: float | None,
    gap_extend: float | None,
    gap_costs: str | None = None,
) -> Costs:
    """Matrix of a file in the BLOSUM layout, and gap costs.

    Args:
      path: of the file; its letters may stand in another order and be more than the alphabet's.
      gap_open, gap_extend: None for what a comment of `write_costs` says.
      gap_costs: a file of them in place of both; see `read_gap_costs`.

    Raises:
      FileNotFoundError, MalformedFile: see `data.substitution_matrices` and `read_gap_costs`.
      ValueError: the file lacks a letter, nothing says what gaps cost, or the gap costs belong to a
        matrix of another scale.
    """
    letters, scores, comments = read_substitution_matrix(Path(path))
    missing = [letter for letter in alphabet.letters if letter not in letters]
    if missing:
        raise ValueError(
            f"matrix: {path} has no scores of {', '.join(missing)}; it has {letters}: choose "
            "another --alphabet"
        )
    order = [letters.index(letter) for letter in alphabet.letters]
    said = "\n".join(comments)
    if gap_costs is not None:
        costs = _gap_costs_for(path, said, gap_costs)
    else:
        costs = _given_gaps(path, said, {"gap_open": gap_open, "gap_extend": gap_extend})
    return Costs(scores[np.ix_(order, order)], **costs)


def _given_gaps(path: str, said: str, given: dict[str, float | None]) -> dict[str, float]:
    """Those given, else those that the comments say."""
    costs: dict[str, float] = {}
    for name, value in given.items():
        found = re.search(rf"\b{name} (-?[0-9.]+(?:e[-+]?[0-9]+)?)", said)
        if value is not None:
            costs[name] = value
        elif found is not None:
            costs[name] = float(found[1])
        else:
            raise ValueError(
                f"matrix: {path} does not say what gaps cost; give --{name}, or --gap_costs"
            )
    return costs


def _gap_costs_for(path: str, said: str, gap_costs: str) -> dict[str, float]:
    """Those of a file, which must have the scale that the comments of the matrix say."""
    costs, scale = read_gap_costs(gap_costs)
    found = re.search(r"\bscores multiplied by ([0-9.e+-]+) and rounded", said)
    of_matrix = float(found[1]) if found else 1.0
    if scale is not None and not math.isclose(scale, of_matrix, rel_tol=1e-9):
        raise ValueError(
            f"gap_costs: {gap_costs} goes with scores multiplied by {scale:g}, those of {path} "
            f"are multiplied by {of_matrix:g}; take the two files of one training"
        )
    return costs


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
