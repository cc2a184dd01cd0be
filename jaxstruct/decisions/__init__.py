"""Decisions by predicted costs: paths, knapsacks, the k best, matchings; SPO+, losses, layers."""

from jaxstruct.decisions.choices import matchings, top_k
from jaxstruct.decisions.knapsacks import knapsack
from jaxstruct.decisions.losses import blackbox, fenchel_young, perturbed_argmax, spo_plus
from jaxstruct.decisions.paths import Ends, grid_arcs, grid_paths, shortest_paths
from jaxstruct.decisions.sets import Decisions, decide, own, regret
from jaxstruct.decisions.structure import DecisionInput, DecisionTheta, problem

__all__ = [
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
    "problem",
    "regret",
    "shortest_paths",
    "spo_plus",
    "top_k",
]
