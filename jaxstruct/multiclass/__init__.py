"""Multiclass: classes, output features, taxonomies (thesis 4.2, 4.3); machines of chapter 2."""

from jaxstruct.multiclass.binary import (
    BinaryMachines,
    SupportVectors,
    decision_values,
    fit_binary,
    support_vectors,
)
from jaxstruct.multiclass.encoding import ClassEncoding, prepare
from jaxstruct.multiclass.kernel_encoding import KernelClassEncoding, prepare_kernel
from jaxstruct.multiclass.losses import matrix_loss, tree_loss, zero_one_loss
from jaxstruct.multiclass.output_codes import (
    all_pairs_code,
    checked_code,
    decode_code,
    decode_largest,
    fit_output_code,
    one_against_all_code,
    random_code,
    row_distances,
)
from jaxstruct.multiclass.output_features import (
    canonical_features,
    class_kernel,
    description_features,
    similarity_features,
    taxonomy_features,
)
from jaxstruct.multiclass.rivals import RivalPair, rival_pairs
from jaxstruct.multiclass.structure import KernelInput, kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_parents, taxonomy_from_paths
from jaxstruct.multiclass.weston_watkins import WestonWatkins, fit_weston_watkins

__all__ = [
    "KernelClassEncoding",
    "prepare_kernel",
    "prepare",
    "BinaryMachines",
    "ClassEncoding",
    "KernelInput",
    "RivalPair",
    "SupportVectors",
    "Taxonomy",
    "WestonWatkins",
    "all_pairs_code",
    "canonical_features",
    "checked_code",
    "class_kernel",
    "decision_values",
    "decode_code",
    "decode_largest",
    "description_features",
    "fit_binary",
    "fit_output_code",
    "fit_weston_watkins",
    "kernel_inputs",
    "kernel_multiclass",
    "matrix_loss",
    "multiclass",
    "one_against_all_code",
    "random_code",
    "rival_pairs",
    "row_distances",
    "similarity_features",
    "support_vectors",
    "taxonomy_features",
    "taxonomy_from_parents",
    "taxonomy_from_paths",
    "tree_loss",
    "zero_one_loss",
]
