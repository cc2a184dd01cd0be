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
from jaxstruct.alignments.costs import AlignmentCosts, alignment_costs
from jaxstruct.alignments.encoding import AlignmentEncoding, prepare
from jaxstruct.alignments.homologues import (
    HomologueTheta,
    aligned_candidate,
    candidate_scores,
    homologue_inputs,
    homologue_outputs,
    homologue_search,
)
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
    AlignmentTheta,
    alignment_inputs,
    alignment_outputs,
    pair_potentials,
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
    "HomologueTheta",
    "PROTEIN",
    "PROTEIN_AMBIGUOUS",
    "RNA",
    "aligned_candidate",
    "alignment_costs",
    "alignment_inputs",
    "alignment_outputs",
    "alignment_text",
    "alphabet",
    "candidate_scores",
    "decode",
    "encode",
    "global_alignment",
    "global_score",
    "homologue_inputs",
    "homologue_outputs",
    "homologue_search",
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
