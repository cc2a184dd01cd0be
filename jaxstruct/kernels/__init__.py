"""Kernels on inputs, on strings, their combinations, and kernel matrices (thesis 2.5, 4.6.1)."""

from jaxstruct.kernels.combine import direct_sum, normalised, product, tensor_product, weighted_sum
from jaxstruct.kernels.convolution import Parts, convolution, equality, windows
from jaxstruct.kernels.features import features_of, kernel_features
from jaxstruct.kernels.gram import gram_matrix, pairwise_gram
from jaxstruct.kernels.input import (
    check_positive_semidefinite,
    gaussian,
    linear,
    polynomial,
    precomputed,
)
from jaxstruct.kernels.strings import Strings, encode_strings
from jaxstruct.kernels.substrings import mismatch, spectrum, subsequences, substrings

__all__ = [
    "features_of",
    "check_positive_semidefinite",
    "Parts",
    "Strings",
    "convolution",
    "direct_sum",
    "encode_strings",
    "equality",
    "gaussian",
    "gram_matrix",
    "kernel_features",
    "linear",
    "mismatch",
    "normalised",
    "pairwise_gram",
    "polynomial",
    "precomputed",
    "product",
    "spectrum",
    "subsequences",
    "substrings",
    "tensor_product",
    "weighted_sum",
    "windows",
]
