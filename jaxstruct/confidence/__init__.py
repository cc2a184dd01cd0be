"""Confidence of predictions: the k best outputs, margins, probabilities, samples, calibration."""

from jaxstruct.confidence.probabilities import log_losses, marginals, sample
from jaxstruct.confidence.ranking import KBest, k_best
from jaxstruct.confidence.temperature import Temperature, fit_temperature

__all__ = ["KBest", "Temperature", "fit_temperature", "k_best", "log_losses", "marginals", "sample"]
