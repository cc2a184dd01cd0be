"""Learn substitution scores and gap costs from aligned pairs of sequences."""

from __future__ import annotations

from typing import NamedTuple

from experiments.align_sequences.costs import Costs, batch_size, costs_of
from experiments.align_sequences.data import Pairs, inputs_of, outputs_of, padded_letters, split
from experiments.align_sequences.options import Options
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import Solution, fit
from jaxstruct.alignments.alphabets import Alphabet
from jaxstruct.alignments.structure import pairwise_alignment


class Trained(NamedTuple):
    """A training and what it was made of.

    Fields:
      costs: learned. solution: of `fit`. train, held_out: pairs.
      left_out: pairs of the file with letters outside the alphabet.
      seconds, compile_seconds: in all, and of compiling among them.
    """

    costs: Costs
    solution: Solution
    train: Pairs
    held_out: Pairs
    left_out: int
    seconds: float
    compile_seconds: float


def train_costs(options: Options, alphabet: Alphabet, pairs: Pairs, dtype: str) -> Trained:
    """Split the pairs, and train on one part.

    Raises:
      ValueError: an option does not fit.
    """
    train, held_out = split(pairs, options.held_out, options.seed)
    problem = pairwise_alignment(
        len(alphabet.letters), mode=options.mode, gaps=options.gaps, symmetric=options.symmetric,
        loss=options.loss, dtype=dtype,
    )  # fmt: skip
    settings = options.settings()._replace(oracle_batch=batch_size(padded_letters(train)))
    watch = Stopwatch()
    with training_progress(
        options.max_passes, "training", options.progress, options.tolerance
    ) as update:
        solution = fit(
            problem, inputs_of(train), outputs_of(train), options.formulation,
            options.c_over_n * len(train.names), tolerance=options.tolerance,
            max_passes=options.max_passes, settings=settings, callback=update,
        )  # fmt: skip
    spent = watch.numbers(solution.weights)
    costs = costs_of(solution.weights, options.symmetric)
    return Trained(costs, solution, train, held_out, pairs.left_out, **spent)
