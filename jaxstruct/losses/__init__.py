"""Losses of potentials, as layers on top of a network: one oracle call forward, none backward."""

from jaxstruct.losses.log_loss import log_loss
from jaxstruct.losses.mean_loss import mean_loss, padded_batch
from jaxstruct.losses.perceptron import perceptron
from jaxstruct.losses.perturbed import perturbed
from jaxstruct.losses.smoothed_hinge import smoothed_hinge
from jaxstruct.losses.structured_hinge import structured_hinge

__all__ = [
    "log_loss",
    "mean_loss",
    "padded_batch",
    "perceptron",
    "perturbed",
    "smoothed_hinge",
    "structured_hinge",
]
