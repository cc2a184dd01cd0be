"""The library's bar around a training of a command, and bars of jobs; both heed a lost Ctrl-C.

`fitted` is such a training, with the options of the command, its seconds noted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from experiments.lib.interrupts import raise_noted_interrupt
from experiments.lib.options import AnyOptions
from experiments.lib.record import Stopwatch
from jaxstruct import Settings, Solution, fit
from jaxstruct.solvers.loop import progress

if TYPE_CHECKING:
    from tqdm import tqdm


@contextlib.contextmanager
def training_progress(
    total: int | None,
    description: str = "training",
    enabled: bool | None = None,
    tolerance: float | None = 1e-3,
    stream: TextIO | None = None,
) -> Iterator[Callable[[Any], None]]:
    """`jaxstruct.solvers.loop.progress.training_progress` of a command: a bar, or lines of text.

    Args:
      total, description, tolerance, stream: as there.
      enabled: True or False; None: only where the stream is a terminal.

    Yields:
      update(passed), the callback; it raises a Ctrl-C that was lost (see `interrupts`).
    """
    shown_on = sys.stderr if stream is None else stream
    verbose = "bar" if (shown_on.isatty() if enabled is None else enabled) else False
    with progress.training_progress(total, description, verbose, tolerance, shown_on) as show:

        def update(passed: Any) -> None:
            show(passed)
            raise_noted_interrupt()

        yield update


def jobs_bar(
    jobs: Iterable[Any] = (),
    description: str | None = None,
    enabled: bool | None = None,
    total: int | None = None,
) -> tqdm:
    """A bar of tqdm on standard error, which moves on with the jobs that are taken from it.

    Args:
      jobs: what to iterate over; none where `update` moves the bar on. description: of the whole.
      enabled: True or False; None: only where standard error is a terminal.
      total: how many jobs, where there are none to count.
    """
    from tqdm import tqdm

    hidden = None if enabled is None else not enabled
    return tqdm(jobs if total is None else None, description, total, disable=hidden)


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
