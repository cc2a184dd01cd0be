"""Measures of predictions and of their confidence, and whether two systems differ."""

from jaxstruct.evaluation.calibration import Reliability, expected_calibration_error, reliability
from jaxstruct.evaluation.metrics import (
    Attachment,
    MeanAndDeviation,
    accuracy,
    attachment,
    confusion_matrix,
    mean_and_deviation,
    mean_loss,
)
from jaxstruct.evaluation.significance import McNemarResult, mcnemar

__all__ = [
    "Attachment",
    "McNemarResult",
    "MeanAndDeviation",
    "Reliability",
    "accuracy",
    "attachment",
    "confusion_matrix",
    "expected_calibration_error",
    "mcnemar",
    "mean_and_deviation",
    "mean_loss",
    "reliability",
]
