"""Segments with labels: semi-Markov chains, their oracles and losses, spans and IOB2."""

from jaxstruct.segments.encoding import SegmentEncoding, prepare
from jaxstruct.segments.oracles.decoding import (
    Segmentation,
    SegmentMarginals,
    k_best,
    log_partition,
    marginals,
    sample,
    viterbi,
)
from jaxstruct.segments.potentials import SegmentPotentials, SegmentTheta, segment_potentials
from jaxstruct.segments.structure import SegmentInput, segment_inputs, segmenter

__all__ = [
    "SegmentEncoding",
    "SegmentInput",
    "SegmentMarginals",
    "SegmentPotentials",
    "SegmentTheta",
    "Segmentation",
    "k_best",
    "log_partition",
    "marginals",
    "prepare",
    "sample",
    "segment_inputs",
    "segment_potentials",
    "segmenter",
    "viterbi",
]
