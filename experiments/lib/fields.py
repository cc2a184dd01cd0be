"""The fields that the options of many commands share: type, help text and what is allowed."""

from __future__ import annotations

from typing import Annotated

from experiments.lib.options import flag

Output = Annotated[
    str, flag("Folder of the results: JSON, CSV, .md and .tex; PNG, PDF and SVG.", folder=True)
]
Seed = Annotated[int, flag("Seed of every random choice.", least=0)]
X64 = Annotated[
    bool, flag("Compute in float64 (sets jax_enable_x64); needed below tolerance 1e-5.")
]
CompilationCache = Annotated[
    bool,
    flag("Keep compiled programs on disk, so that the next run does not compile them again."),
]
ShowProgress = Annotated[
    bool | None, flag("Show progress on standard error. Default: only where that is a terminal.")
]
Tolerance = Annotated[float, flag("Relative duality gap to stop at.", above=0)]
Variant = Annotated[
    str,
    flag(
        "Solver: step 10a (full: all working sets) or 10b (subspace: one example's) of algorithm "
        "3; auto: subspace, and full from where block ascent stalls on small sets.",
        ["auto", "full", "subspace"],
    ),
]
WorkingSets = Annotated[
    str,
    flag(
        "Working sets grown by the oracle, as in algorithm 3, or holding every output from the "
        "start; auto: every output where there are few.",
        ["auto", "grown", "enumerated"],
    ),
]
Capacity = Annotated[
    int, flag("Cutting planes an example, at the start; 0: as many as memory allows.", least=0)
]
