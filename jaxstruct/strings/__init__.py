"""Strings to strings and other candidate sets: the argmax over Gen(x) (thesis 4.6)."""

from jaxstruct.strings.candidate_lists import Candidates, number_candidates
from jaxstruct.strings.encoding import prepare, prepare_kernel
from jaxstruct.strings.inputs import (
    CandidateFeatures,
    JointCandidates,
    KernelCandidates,
    feature_inputs,
    joint_inputs,
    kernel_inputs,
)
from jaxstruct.strings.losses import candidate_losses, loss_table, similarity_loss
from jaxstruct.strings.structure import candidates, joint_candidates, kernel_candidates

__all__ = [
    "loss_table",
    "prepare",
    "CandidateFeatures",
    "Candidates",
    "JointCandidates",
    "KernelCandidates",
    "candidate_losses",
    "candidates",
    "feature_inputs",
    "joint_candidates",
    "joint_inputs",
    "kernel_candidates",
    "kernel_inputs",
    "number_candidates",
    "prepare_kernel",
    "similarity_loss",
]
