"""Dependency trees: structure, oracles, losses, features of arcs, projective or not."""

from jaxstruct.dependencies.encoding import DependencyEncoding, prepare
from jaxstruct.dependencies.example_checks import crossing_arcs, lifted
from jaxstruct.dependencies.features import ArcFeatures, default_templates
from jaxstruct.dependencies.oracles.decoding import best_tree, best_wrong_tree, k_best_trees
from jaxstruct.dependencies.oracles.sums import log_partition, marginals, sample_tree
from jaxstruct.dependencies.potentials import Decoded, Parse, score_tree
from jaxstruct.dependencies.structure import (
    SentenceInput,
    TreeTheta,
    dependency_parser,
    sentence_inputs,
)

__all__ = [
    "ArcFeatures",
    "Decoded",
    "DependencyEncoding",
    "Parse",
    "SentenceInput",
    "TreeTheta",
    "best_tree",
    "best_wrong_tree",
    "crossing_arcs",
    "default_templates",
    "dependency_parser",
    "k_best_trees",
    "lifted",
    "log_partition",
    "marginals",
    "prepare",
    "sample_tree",
    "score_tree",
    "sentence_inputs",
]
