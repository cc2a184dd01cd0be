"""Machines that serve every output type and that a structural SVM is compared with."""

from jaxstruct.baselines.conditional_random_field import (
    RandomField,
    certify_random_field,
    fit_random_field,
)
from jaxstruct.baselines.dual_perceptron import DualPerceptron, dual_perceptron
from jaxstruct.baselines.dual_random_field import DualRandomField, dual_random_field
from jaxstruct.baselines.field_certificate import FieldCertificate
from jaxstruct.baselines.perceptron import Perceptron, perceptron
from jaxstruct.baselines.stochastic_gradients import StochasticFit, falling_sgd, fit_stochastic

__all__ = [
    "DualPerceptron",
    "DualRandomField",
    "FieldCertificate",
    "Perceptron",
    "RandomField",
    "StochasticFit",
    "certify_random_field",
    "dual_perceptron",
    "dual_random_field",
    "falling_sgd",
    "fit_random_field",
    "fit_stochastic",
    "perceptron",
]
