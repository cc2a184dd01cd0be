"""Pairwise alignment (JMLR 4.4, 5.3): structures, oracles, losses, text."""

from jaxstruct.alignments.alphabets import DNA, PROTEIN, alphabet, encode, read_rows
from jaxstruct.alignments.costs import AlignmentCosts
from jaxstruct.alignments.encoding import prepare
from jaxstruct.alignments.oracles.k_best import k_best_global, k_best_local
from jaxstruct.alignments.oracles.pairwise import global_alignment, local_alignment
from jaxstruct.alignments.oracles.sums import AlignmentMarginals, log_partition, marginals, sample
from jaxstruct.alignments.potentials import Alignment, AlignmentPotentials
from jaxstruct.alignments.structure import (
    AlignmentInput,
    alignment_inputs,
    alignment_outputs,
    pairwise_alignment,
)

__all__ = [
    "prepare",
    "Alignment",
    "AlignmentCosts",
    "AlignmentInput",
    "AlignmentMarginals",
    "AlignmentPotentials",
    "DNA",
    "PROTEIN",
    "alignment_inputs",
    "alignment_outputs",
    "alphabet",
    "encode",
    "global_alignment",
    "k_best_global",
    "k_best_local",
    "local_alignment",
    "log_partition",
    "marginals",
    "pairwise_alignment",
    "read_rows",
    "sample",
]
