"""Trained models: all that predicting needs, in one file, and what they have learned."""

from jaxstruct.core.checks import NoOutput
from jaxstruct.core.prepared import Encoding
from jaxstruct.core.tables import Explanation, Matrix, Ranking, ranking
from jaxstruct.models.explanation import explain
from jaxstruct.models.model_files import load, save
from jaxstruct.models.pictures import explanation_picture
from jaxstruct.models.store import Store, open_store
from jaxstruct.models.store_writing import write_arrays, write_rows, write_sequences, write_trees
from jaxstruct.models.stream import BadRecord, PredictionStream, predict_stream
from jaxstruct.models.trained import TrainedModel, trained

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
    "explain",
    "explanation_picture",
    "load",
    "open_store",
    "predict_stream",
    "ranking",
    "save",
    "trained",
    "write_arrays",
    "write_rows",
    "write_sequences",
    "write_trees",
]
