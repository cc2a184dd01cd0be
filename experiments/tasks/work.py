"""What a row of `experiments.benchmarks` measures: one tool beside others on the same task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxstruct import Solution


class Tool(NamedTuple):
    """What one tool does; its data are there before.

    Fields:
      train: () -> a model; what is waited for.
      score: a model -> the share of held-out data that it predicts right, or None where nobody
        asks; with it everything that a program from training to score waits for.
    """

    train: Callable[[], Any]
    score: Callable[[Any], float] | None = None


class Work(NamedTuple):
    """A task that is ready to be measured.

    Fields:
      n: examples. ours: this package. solutions: our model -> its trainings, which have
        certificates; none where nothing is trained.
      peers: name -> () -> the other tool, once its data are there too: only the process that
        measures it holds these. One whose package is missing raises ImportError.
    """

    n: int
    ours: Tool
    solutions: Callable[[Any], Sequence[Solution]]
    peers: Mapping[str, Callable[[], Tool]] = {}


class Row(NamedTuple):
    """A row of the table.

    Fields:
      work: (size, dtype of the weights, tolerance) -> what is measured.
      size: of the task. peers: the names of the tools beside it.
      tolerance: the relative gap where no other is asked for.
      published: seconds that the pages of some of the peers name, which nobody measures here.
    """

    work: Callable[[int, str, float], Work]
    title: str
    size: int = 0
    peers: Sequence[str] = ()
    tolerance: float = 1e-3
    published: Mapping[str, float] = {}
