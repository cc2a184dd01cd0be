"""Strings to strings and other candidate sets: the argmax over Gen(x) (thesis 4.6)."""

from jaxstruct.strings.candidate_lists import (
    Candidates,
    number_candidates,
    outputs_of,
)
from jaxstruct.strings.encoding import CandidateEncoding, prepare
from jaxstruct.strings.inputs import (
    CandidateFeatures,
    JointCandidates,
    KernelCandidates,
    feature_inputs,
    joint_inputs,
    joint_pairs,
    kernel_inputs,
)
from jaxstruct.strings.kernel_encoding import KernelCandidateEncoding, prepare_kernel
from jaxstruct.strings.losses import candidate_losses, loss_table, similarity_loss
from jaxstruct.strings.structure import (
    CandidateScores,
    candidates,
    joint_candidates,
    kernel_candidates,
)

__all__ = [
    "prepare",
    "CandidateEncoding",
    "CandidateFeatures",
    "CandidateScores",
    "Candidates",
    "JointCandidates",
    "KernelCandidateEncoding",
    "KernelCandidates",
    "candidate_losses",
    "candidates",
    "feature_inputs",
    "joint_candidates",
    "joint_inputs",
    "joint_pairs",
    "kernel_candidates",
    "kernel_inputs",
    "loss_table",
    "number_candidates",
    "outputs_of",
    "prepare_kernel",
    "similarity_loss",
]
