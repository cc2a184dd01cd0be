"""Matchings of two sets: structure, oracles, losses; complete or with unmatched items."""

from jaxstruct.assignments.encoding import prepare
from jaxstruct.assignments.oracles.matching import (
    best_matching,
    best_wrong_matching,
    k_best_matchings,
)
from jaxstruct.assignments.potentials import Matching, MatchingInput, score_matching
from jaxstruct.assignments.structure import assignment

__all__ = [
    "Matching",
    "MatchingInput",
    "assignment",
    "best_matching",
    "best_wrong_matching",
    "k_best_matchings",
    "prepare",
    "score_matching",
]
