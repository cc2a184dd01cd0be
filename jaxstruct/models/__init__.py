"""Trained models: all that predicting needs, in one file, and what they have learned."""

from jaxstruct.core.checks import NoOutput
from jaxstruct.core.prepared import Encoding
from jaxstruct.core.tables import Explanation, Matrix, Ranking, ranking
from jaxstruct.models.store import Store, write_rows, write_sequences, write_trees
from jaxstruct.models.stream import BadRecord, PredictionStream
from jaxstruct.models.trained import TrainedModel

__all__ = [
    "BadRecord",
    "Encoding",
    "Explanation",
    "Matrix",
    "NoOutput",
    "PredictionStream",
    "Store",
    "Ranking",
    "TrainedModel",
    "ranking",
    "write_rows",
    "write_sequences",
    "write_trees",
]
