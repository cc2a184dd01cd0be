"""Multiclass: classes, output features, taxonomies (thesis 4.2, 4.3)."""

from jaxstruct.multiclass.encoding import ClassEncoding, prepare
from jaxstruct.multiclass.kernel_encoding import KernelClassEncoding, prepare_kernel
from jaxstruct.multiclass.losses import matrix_loss, tree_loss, zero_one_loss
from jaxstruct.multiclass.output_features import (
    class_kernel,
    description_features,
    similarity_features,
    taxonomy_features,
)
from jaxstruct.multiclass.structure import KernelInput, kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_parents, taxonomy_from_paths

__all__ = [
    "KernelClassEncoding",
    "prepare_kernel",
    "prepare",
    "ClassEncoding",
    "KernelInput",
    "Taxonomy",
    "class_kernel",
    "description_features",
    "kernel_inputs",
    "kernel_multiclass",
    "matrix_loss",
    "multiclass",
    "similarity_features",
    "taxonomy_features",
    "taxonomy_from_parents",
    "taxonomy_from_paths",
    "tree_loss",
    "zero_one_loss",
]
