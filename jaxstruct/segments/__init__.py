"""Segments with labels: semi-Markov chains, their oracles, losses and segmentations as text."""

from jaxstruct.segments.oracles.decoding import (
    Segmentation,
    SegmentMarginals,
    k_best,
    level_scores,
    log_partition,
    marginals,
    sample,
    viterbi,
)
from jaxstruct.segments.potentials import SegmentPotentials, SegmentTheta, segment_potentials
from jaxstruct.segments.structure import SegmentInput, segment_inputs, segmenter
