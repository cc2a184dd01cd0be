"""What a solution says of itself: a line, and a few lines."""

from __future__ import annotations

import numpy as np

from experiments.machines.reference.reference_algorithm import fit_reference
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.fit import fit
from jaxstruct.solvers.settings import Settings


def test_print_shows_a_short_summary_without_arrays():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(19, 3)), random.integers(0, 5, 19).astype(np.int32)
    problem = multiclass(3, 5)
    solution = fit(problem, X, y, "svm1", 2.0, max_passes=4, settings=Settings(cached_sweeps=1))
    counts, lines = solution.statistics, str(solution).splitlines()
    assert len(lines) < 9 and max(map(len, lines)) <= 100
    assert " ".join(lines[:-4]) == f"{solution.status}: {solution.message}"
    lines = lines[-5:]
    assert lines[1] == "svm1, C = 2, 19 examples"
    assert lines[2].startswith(f"primal {solution.primal:.6g}, dual {solution.dual:.6g}, gap ")
    assert f"{counts.passes} rounds, {counts.oracle_calls} oracle calls" in lines[3]
    assert f"{counts.planes_kept} planes" in lines[3]
    assert all(f" {part}" in lines[4] for part in counts.seconds if part != "total")
    other = fit_reference(problem, X, y, "svm1", 2.0, epsilon=0.5)
    assert 5 <= len(str(other).splitlines()) < 9 and "array" not in str(other)
    assert "\n" not in repr(other) and len(other.trace.seconds) == other.statistics.passes
