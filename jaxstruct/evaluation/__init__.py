"""Measures of predictions and of their confidence, and whether two systems differ."""

from jaxstruct.evaluation.metrics import (
    Attachment,
    McNemarResult,
    MeanAndDeviation,
    Reliability,
    accuracy,
    attachment,
    confusion_matrix,
    expected_calibration_error,
    mcnemar,
    mean_and_deviation,
    mean_loss,
    reliability,
)

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
