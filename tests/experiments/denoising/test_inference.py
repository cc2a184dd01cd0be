"""The integer program of SciPy against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.denoising.inference import integer_program
from tests.graphs.random_graphs import random_potentials


@pytest.mark.parametrize("kind", ["cycle", "complete", "any"])
def test_the_integer_program_finds_the_best_labelling(kind: str) -> None:
    rng, seen = np.random.default_rng(0), 0
    while seen < 5:
        graph = random_potentials(rng, kind)
        if not all(np.isfinite(leaf).all() for leaf in (graph.nodes, graph.pairs)):
            continue
        (V, S), seen = graph.nodes.shape, seen + 1
        best = -np.inf
        for y in np.ndindex(*[S] * V):
            score = graph.nodes[np.arange(V), list(y)].sum()
            score += sum(
                table[y[a], y[b]] for (a, b), table in zip(graph.edges, graph.pairs, strict=True)
            )
            best = max(best, score)
        assert integer_program(graph) == pytest.approx(best, abs=1e-6)
