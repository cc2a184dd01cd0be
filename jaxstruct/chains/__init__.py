"""Label sequences (thesis 4.4): structure, oracles, losses, IOB2."""

from jaxstruct.chains.encoding import ChainEncoding, KernelChainEncoding, prepare, prepare_kernel
from jaxstruct.chains.iob2 import (
    as_iob2,
    entity_f1,
    forbidden_starts,
    forbidden_transitions,
    iob2_spans,
)
from jaxstruct.chains.label_parts import ChainTheta
from jaxstruct.chains.losses import label_weights
from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import best_of_levels, hamming_levels
from jaxstruct.chains.oracles.sums import log_partition, marginals, sample
from jaxstruct.chains.potentials import ChainInput, ChainPotentials, Constraints, score_labels
from jaxstruct.chains.structure import chain, chain_inputs, chain_potentials
from jaxstruct.chains.token_features import KernelTokens, token_gram

__all__ = [
    "KernelChainEncoding",
    "prepare",
    "prepare_kernel",
    "ChainEncoding",
    "ChainInput",
    "ChainPotentials",
    "ChainTheta",
    "Constraints",
    "KernelTokens",
    "as_iob2",
    "best_of_levels",
    "chain",
    "chain_inputs",
    "chain_potentials",
    "entity_f1",
    "forbidden_starts",
    "forbidden_transitions",
    "hamming_levels",
    "iob2_spans",
    "k_best",
    "label_weights",
    "log_partition",
    "marginals",
    "sample",
    "score_labels",
    "token_gram",
    "viterbi",
]
