"""Measures of predictions, and whether two systems differ."""

from jaxstruct.evaluation.metrics import (
    MeanAndDeviation,
    accuracy,
    confusion_matrix,
    mean_and_deviation,
    mean_loss,
)
from jaxstruct.evaluation.significance import McNemarResult, mcnemar

__all__ = [
    "McNemarResult",
    "MeanAndDeviation",
    "accuracy",
    "confusion_matrix",
    "mcnemar",
    "mean_and_deviation",
    "mean_loss",
]
