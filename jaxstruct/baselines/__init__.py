"""Machines that serve every wing and that a structural SVM is compared with."""

from jaxstruct.baselines.conditional_random_field import RandomField, fit_random_field
from jaxstruct.baselines.dual_perceptron import DualPerceptron, dual_perceptron
from jaxstruct.baselines.perceptron import Perceptron, perceptron

__all__ = [
    "DualPerceptron",
    "Perceptron",
    "RandomField",
    "dual_perceptron",
    "fit_random_field",
    "perceptron",
]
