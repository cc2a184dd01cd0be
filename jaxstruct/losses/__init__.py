"""Losses of potentials, as layers on top of a network: one oracle call forward, none backward."""

from jaxstruct.losses.hinges import smoothed_hinge, structured_hinge
from jaxstruct.losses.mean_loss import mean_loss, padded_batch
from jaxstruct.losses.one_call import log_loss, perceptron, perturbed

__all__ = [
    "log_loss",
    "mean_loss",
    "padded_batch",
    "perceptron",
    "perturbed",
    "smoothed_hinge",
    "structured_hinge",
]
