"""Machines that serve every wing and that a structural SVM is compared with."""

from jaxstruct.baselines.conditional_random_field import RandomField, fit_random_field
from jaxstruct.baselines.dual_perceptron import DualPerceptron, dual_perceptron
from jaxstruct.baselines.kernel_dependency_estimation import (
    KernelDependency,
    choose_kernel_dependency,
    fit_kernel_dependency,
    predict_kernel_dependency,
)
from jaxstruct.baselines.most_frequent_output import most_frequent_output
from jaxstruct.baselines.nearest_neighbours import choose_neighbours, nearest_outputs
from jaxstruct.baselines.perceptron import Perceptron, perceptron

__all__ = [
    "DualPerceptron",
    "KernelDependency",
    "Perceptron",
    "RandomField",
    "choose_kernel_dependency",
    "choose_neighbours",
    "dual_perceptron",
    "fit_kernel_dependency",
    "fit_random_field",
    "most_frequent_output",
    "nearest_outputs",
    "perceptron",
    "predict_kernel_dependency",
]
