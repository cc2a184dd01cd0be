"""Machines that serve every output type and that a structural SVM is compared with."""

from jaxstruct.baselines.cokriging import Cokriging, fit_cokriging
from jaxstruct.baselines.conditional_random_field import (
    RandomField,
    certify_random_field,
    fit_random_field,
)
from jaxstruct.baselines.dual_perceptron import DualPerceptron, dual_perceptron
from jaxstruct.baselines.dual_random_field import DualRandomField, dual_random_field
from jaxstruct.baselines.field_certificate import FieldCertificate
from jaxstruct.baselines.kernel_dependency_estimation import (
    KernelDependency,
    choose_kernel_dependency,
    fit_kernel_dependency,
    predict_kernel_dependency,
)
from jaxstruct.baselines.most_frequent_output import most_frequent_output
from jaxstruct.baselines.nearest_neighbours import choose_neighbours, nearest_outputs
from jaxstruct.baselines.perceptron import Perceptron, perceptron
from jaxstruct.baselines.stochastic_gradients import StochasticFit, falling_sgd, fit_stochastic

__all__ = [
    "Cokriging",
    "DualPerceptron",
    "DualRandomField",
    "FieldCertificate",
    "KernelDependency",
    "Perceptron",
    "RandomField",
    "StochasticFit",
    "certify_random_field",
    "choose_kernel_dependency",
    "choose_neighbours",
    "dual_perceptron",
    "dual_random_field",
    "falling_sgd",
    "fit_cokriging",
    "fit_kernel_dependency",
    "fit_random_field",
    "fit_stochastic",
    "most_frequent_output",
    "nearest_outputs",
    "perceptron",
    "predict_kernel_dependency",
]
