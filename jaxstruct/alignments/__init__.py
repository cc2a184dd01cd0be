"""Pairwise alignment (JMLR 4.4, 5.3): structures, oracles, losses, text, log-odds."""

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
from jaxstruct.alignments.homologues import homologue_inputs, homologue_outputs, homologue_search
from jaxstruct.alignments.log_odds import alignment_weights, homologue_counts, log_odds, pair_counts
from jaxstruct.alignments.oracles.pairwise import (
    global_alignment,
    global_score,
    local_alignment,
    local_score,
)
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
    "Alignment",
    "AlignmentCosts",
    "AlignmentInput",
    "AlignmentPotentials",
    "Alphabet",
    "DNA",
    "PROTEIN",
    "PROTEIN_AMBIGUOUS",
    "RNA",
    "alignment_costs",
    "alignment_inputs",
    "alignment_outputs",
    "alignment_text",
    "alignment_weights",
    "alphabet",
    "decode",
    "encode",
    "global_alignment",
    "global_score",
    "homologue_counts",
    "homologue_inputs",
    "homologue_outputs",
    "homologue_search",
    "local_alignment",
    "local_score",
    "log_odds",
    "pair_counts",
    "pairwise_alignment",
    "read_rows",
    "write_rows",
    "written_alignments",
]
