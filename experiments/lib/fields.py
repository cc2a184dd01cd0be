"""The fields that the options of many commands share: a class each, and the usual ones together."""

from __future__ import annotations

import math

from experiments.lib.options import BaseOptions, flag
from jaxstruct import Settings


def ratio(text: str, n: int = 1) -> float:
    """C' = C / n of a word such as 0.1, or 1/n with n examples.

    Raises:
      ValueError: it is no such word, or not positive.
    """
    number = text.removesuffix("/n")
    try:
        value = float(number) / (n if number != text else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf:
        raise ValueError(f"got {text!r}, expected a number > 0, or such as 1/n")
    return value


class Output(BaseOptions):
    """Where results go."""

    output: str = flag(
        "results", "Folder of the results: JSON, CSV and .md; PNG, PDF and SVG.", folder=True
    )


class Seed(BaseOptions):
    """Chance."""

    seed: int = flag(0, "Seed of the random choices.", least=0)


class SolverSeed(BaseOptions):
    """Chance in the solver alone."""

    solver_seed: int = flag(
        0, "Seed of the order in which the solver visits examples; --seed draws the rest.", least=0
    )


class Cached(BaseOptions):
    """What is kept of compiling."""

    compilation_cache: bool = flag(
        True, "Keep compiled programs on disk, so that the next run does not compile them again."
    )


class Progress(BaseOptions):
    """What is shown while it runs."""

    progress: bool | None = flag(
        None, "Show progress on standard error. Default: only where that is a terminal."
    )


class Common(Progress, Cached, Seed, Output):
    """What nearly every command has."""

    x64: bool = flag(
        False, "Compute in float64 (sets jax_enable_x64); needed below tolerance 1e-5."
    )


class Tolerance(BaseOptions):
    """When training stops."""

    tolerance: float = flag(1e-3, "Relative duality gap to stop at.", above=0)


class Apart(BaseOptions):
    """Parts of a command in processes of their own, see `experiments.lib.apart.run_parts`."""

    apart: bool = flag(True, "Each method in a process of its own, where its memory is measured.")
    part: bool = flag(False, "Measure here, and write the numbers that another run asks for.")


class Capacity(BaseOptions):
    """How many planes."""

    capacity: int = flag(
        0, "Cutting planes an example, at the start; 0: as many as memory allows.", least=0
    )


class Solver(Capacity, SolverSeed, Common):
    """A solver's settings."""

    variant: str = flag(
        "auto",
        "Solver: step 10a (full: all working sets) or 10b (subspace: one example's) of algorithm "
        "3; auto: subspace, and full from where block ascent stalls on small sets.",
        ["auto", "full", "subspace"],
    )
    working_sets: str = flag(
        "auto",
        "Working sets grown by the oracle, as in algorithm 3, or holding every output from the "
        "start; auto: every output where there are few.",
        ["auto", "grown", "enumerated"],
    )

    def settings(self) -> Settings:
        """Those of `fit` that variant, working sets, capacity and solver seed stand for."""
        return Settings(
            variant=self.variant, working_sets=self.working_sets,
            capacity=self.capacity or None, seed=self.solver_seed,
        )  # fmt: skip


class Training(Tolerance, Solver):
    """A solver's settings and when it stops."""
