"""Pairwise alignment (JMLR 4.4, 5.3): structures, oracles, losses, text."""

from jaxstruct.alignments.alphabets import (
    DNA,
    PROTEIN,
    PROTEIN_AMBIGUOUS,
    RNA,
    Alphabet,
    alphabet,
    decode,
    encode,
)
from jaxstruct.alignments.costs import (
    AlignmentCosts,
    AlignmentTheta,
    alignment_costs,
    pair_potentials,
)
from jaxstruct.alignments.encoding import AlignmentEncoding, prepare
from jaxstruct.alignments.oracles.k_best import k_best_global, k_best_local
from jaxstruct.alignments.oracles.pairwise import (
    global_alignment,
    global_score,
    local_alignment,
    local_score,
)
from jaxstruct.alignments.oracles.sums import AlignmentMarginals, log_partition, marginals, sample
from jaxstruct.alignments.potentials import Alignment, AlignmentPotentials
from jaxstruct.alignments.structure import (
    AlignmentInput,
    alignment_inputs,
    alignment_outputs,
    pairwise_alignment,
    written_alignments,
)
from jaxstruct.alignments.text import alignment_text, read_rows, write_rows

__all__ = [
    "prepare",
    "Alignment",
    "AlignmentCosts",
    "AlignmentEncoding",
    "AlignmentInput",
    "AlignmentMarginals",
    "AlignmentPotentials",
    "AlignmentTheta",
    "Alphabet",
    "DNA",
    "PROTEIN",
    "PROTEIN_AMBIGUOUS",
    "RNA",
    "alignment_costs",
    "alignment_inputs",
    "alignment_outputs",
    "alignment_text",
    "alphabet",
    "decode",
    "encode",
    "global_alignment",
    "global_score",
    "k_best_global",
    "k_best_local",
    "local_alignment",
    "local_score",
    "log_partition",
    "marginals",
    "pair_potentials",
    "pairwise_alignment",
    "read_rows",
    "sample",
    "write_rows",
    "written_alignments",
]
