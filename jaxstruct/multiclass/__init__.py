"""Multiclass: classes, output features, taxonomies (thesis 4.2, 4.3)."""

from jaxstruct.multiclass.encoding import prepare, prepare_kernel
from jaxstruct.multiclass.losses import tree_loss
from jaxstruct.multiclass.output_features import (
    class_kernel,
    description_features,
    similarity_features,
    taxonomy_features,
)
from jaxstruct.multiclass.structure import kernel_inputs, kernel_multiclass, multiclass
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_parents, taxonomy_from_paths

__all__ = [
    "prepare_kernel",
    "prepare",
    "Taxonomy",
    "class_kernel",
    "description_features",
    "kernel_inputs",
    "kernel_multiclass",
    "multiclass",
    "similarity_features",
    "taxonomy_features",
    "taxonomy_from_parents",
    "taxonomy_from_paths",
    "tree_loss",
]
