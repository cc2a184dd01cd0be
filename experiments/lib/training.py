"""A structural SVM trained by a command: with its options, under its bar, its seconds noted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from experiments.lib.options import AnyOptions
from experiments.lib.progress import training_progress
from experiments.lib.record import Stopwatch
from jaxstruct import Settings, Solution, fit


def fitted(
    options: AnyOptions, what: str, data: Iterable[Any], formulation: str, C: float, **given: Any
) -> tuple[Solution, dict[str, float]]:
    """`jaxstruct.fit` to the tolerance of the options, with their settings where they have some.

    Args:
      options: of the command; `progress` shows a bar. what: the words before it.
      data: problem, inputs, outputs. formulation, C: as for `fit`.
      given: other arguments of `fit`, such as max_passes.

    Returns:
      (the solution, "seconds" and "compile_seconds" of it).
    """
    settings = options.settings() if hasattr(options, "settings") else Settings()
    rounds = given.get("max_passes", 500)
    with training_progress(rounds, what, options.progress, options.tolerance) as update:
        watch = Stopwatch()
        problem, inputs, outputs = data
        solution = fit(
            problem, inputs, outputs, formulation, C, tolerance=options.tolerance,
            settings=settings, callback=update, **given,
        )  # fmt: skip
    return solution, watch.numbers(solution.weights)
