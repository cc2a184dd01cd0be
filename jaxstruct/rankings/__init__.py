"""Rankings of documents, and labels of whole samples for measures that do not add up."""

from jaxstruct.rankings.encoding import prepare, prepare_samples
from jaxstruct.rankings.inputs import SampleInput
from jaxstruct.rankings.oracles.contingency import best_cell
from jaxstruct.rankings.oracles.orders import (
    average_precision_augmented,
    ndcg_augmented,
    ranked,
    roc_area_augmented,
)
from jaxstruct.rankings.structure import document_ranking, sample_inputs, sample_labels

__all__ = [
    "SampleInput",
    "average_precision_augmented",
    "best_cell",
    "document_ranking",
    "ndcg_augmented",
    "prepare",
    "prepare_samples",
    "ranked",
    "roc_area_augmented",
    "sample_inputs",
    "sample_labels",
]
