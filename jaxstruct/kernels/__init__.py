"""Kernels on inputs, on strings, their combinations, and kernel matrices (thesis 2.5, 4.6.1)."""

from jaxstruct.kernels.check import check_positive_semidefinite
from jaxstruct.kernels.combine import direct_sum, product, tensor_product, weighted_sum
from jaxstruct.kernels.convolution import Parts, convolution, equality, windows
from jaxstruct.kernels.features import (
    KernelFeatures,
    features_of,
    kernel_features,
)
from jaxstruct.kernels.gram import gram_matrix, pairwise_gram
from jaxstruct.kernels.gram_factor import gram_factor
from jaxstruct.kernels.input import (
    gaussian,
    linear,
    polynomial,
    precomputed,
)
from jaxstruct.kernels.mismatch import mismatch, mismatch_features
from jaxstruct.kernels.normalisation import normalised
from jaxstruct.kernels.points import inner_product, squared_distance
from jaxstruct.kernels.spectrum import spectrum, spectrum_features
from jaxstruct.kernels.strings import Strings, encode_strings
from jaxstruct.kernels.subsequences import subsequence_features, subsequences
from jaxstruct.kernels.substrings import substrings

__all__ = [
    "KernelFeatures",
    "Parts",
    "Strings",
    "check_positive_semidefinite",
    "convolution",
    "direct_sum",
    "encode_strings",
    "equality",
    "features_of",
    "gaussian",
    "gram_factor",
    "gram_matrix",
    "inner_product",
    "kernel_features",
    "linear",
    "mismatch",
    "mismatch_features",
    "normalised",
    "pairwise_gram",
    "polynomial",
    "precomputed",
    "product",
    "spectrum",
    "spectrum_features",
    "squared_distance",
    "subsequence_features",
    "subsequences",
    "substrings",
    "tensor_product",
    "weighted_sum",
    "windows",
]
