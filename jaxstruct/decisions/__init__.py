"""Decisions by predicted costs: paths, knapsacks, the k best, matchings; SPO+, losses, layers."""

from jaxstruct.decisions.knapsacks import knapsack
from jaxstruct.decisions.losses import blackbox, fenchel_young, perturbed_argmax, spo_plus
from jaxstruct.decisions.paths import Ends, grid_arcs, grid_paths, shortest_paths
from jaxstruct.decisions.sets import Decisions, decide, matchings, own, regret, top_k
from jaxstruct.decisions.structure import (
    DecisionEncoding,
    DecisionInput,
    DecisionTheta,
    prepare,
    problem,
)

MAKERS = {maker.__name__: maker for maker in (shortest_paths, knapsack, top_k, matchings)}
"""By the names that model files have for them."""

__all__ = [
    "MAKERS",
    "DecisionEncoding",
    "DecisionInput",
    "DecisionTheta",
    "Decisions",
    "Ends",
    "blackbox",
    "decide",
    "fenchel_young",
    "grid_arcs",
    "grid_paths",
    "knapsack",
    "matchings",
    "own",
    "perturbed_argmax",
    "prepare",
    "problem",
    "regret",
    "shortest_paths",
    "spo_plus",
    "top_k",
]
