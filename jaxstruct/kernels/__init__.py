"""Kernels on inputs, their combinations, and kernel matrices (thesis 2.5)."""

from jaxstruct.kernels.check import check_positive_semidefinite
from jaxstruct.kernels.combine import direct_sum, product, tensor_product, weighted_sum
from jaxstruct.kernels.features import (
    KernelFeatures,
    features_of,
    gram_factor,
    kernel_features,
)
from jaxstruct.kernels.gram import gram_matrix, pairwise_gram
from jaxstruct.kernels.input import (
    gaussian,
    linear,
    polynomial,
    precomputed,
)
from jaxstruct.kernels.points import inner_product, squared_distance

__all__ = [
    "KernelFeatures",
    "check_positive_semidefinite",
    "direct_sum",
    "features_of",
    "gaussian",
    "gram_factor",
    "gram_matrix",
    "inner_product",
    "kernel_features",
    "linear",
    "pairwise_gram",
    "polynomial",
    "precomputed",
    "product",
    "squared_distance",
    "tensor_product",
    "weighted_sum",
]
