"""Machines that serve every output type and that a structural SVM is compared with."""

from jaxstruct.baselines.conditional_random_field import (
    RandomField,
    certify_random_field,
    fit_random_field,
)
from jaxstruct.baselines.field_certificate import FieldCertificate
from jaxstruct.baselines.perceptron import Perceptron, perceptron

__all__ = [
    "FieldCertificate",
    "Perceptron",
    "RandomField",
    "certify_random_field",
    "fit_random_field",
    "perceptron",
]
