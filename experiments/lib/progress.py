"""A progress bar for `jaxstruct.solvers.fit`: passes, gap and time left."""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from experiments.lib.interrupts import raise_noted_interrupt

if TYPE_CHECKING:
    from tqdm import tqdm

MIN_POINTS = 3


class Passed(Protocol):
    """What `update` reads: passes so far, and the best primal, dual and gap = primal - dual.

    Where `info.certificate` is None the pass has proved nothing new, and `info.estimate.gap` says
    where it is likely to be; other solvers have no such fields, and every pass of theirs counts.
    """

    @property
    def passes(self) -> int:
        """Passes so far."""
        ...

    @property
    def primal(self) -> float:
        """The best so far."""
        ...

    @property
    def dual(self) -> float:
        """The best so far."""
        ...

    @property
    def gap(self) -> float:
        """primal - dual."""
        ...


@contextlib.contextmanager
def training_progress(
    total: int | None,
    description: str = "training",
    enabled: bool | None = None,
    tolerance: float | None = 1e-3,
    stream: TextIO | None = None,
) -> Iterator[Callable[[Passed], None]]:
    """A progress bar around a training run; the value is the `callback` that `fit` asks for.

        with training_progress(500, "C = 1") as update:
            fit(problem, inputs, outputs, max_passes=500, callback=update)

    The bar fills as the logarithm of the relative gap, gap / |primal|, falls from its first value
    to `tolerance`, or with the passes where there is no tolerance. With tqdm it is one moving
    line; without tqdm it is plain text, one line an update, without a bar. A pass without a
    certificate leaves gap and bar as they were, and the words add the gap that it estimates.

    Args:
      total: the limit of passes, None where there is none.
      description: what is being trained.
      enabled: True or False; None: only where the stream is a terminal.
      tolerance: the relative gap at which training stops, None where it does not.
      stream: where to; None: standard error.

    Yields:
      update(passed), which shows `passed.passes`, `passed.primal` and `passed.gap`; it returns
      None, so that it never stops a run, but for a Ctrl-C that was lost (see `interrupts`).

    Raises:
      ValueError: `total` or `tolerance` is not positive.
    """
    for name, value in (("total", total), ("tolerance", tolerance)):
        if value is not None and not value > 0:
            raise ValueError(f"{name}: got {value}, expected a positive number or None.")
    shown_on = sys.stderr if stream is None else stream
    if not (shown_on.isatty() if enabled is None else enabled):
        yield lambda passed: raise_noted_interrupt()
        return
    show, close = _tqdm_bar(description, shown_on) or _plain_lines(description, shown_on)
    track = _Track(total, tolerance)

    def update(passed: Passed) -> None:
        show(*track.add(passed))
        raise_noted_interrupt()

    try:
        yield update
    finally:
        close()


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


def seconds_left(seconds: Sequence[float], gaps: Sequence[float], tolerance: float) -> float | None:
    """Time until the gap reaches `tolerance`, if it goes on falling at its present rate.

    A straight line through the later half of (seconds, log of the smallest gap so far).

    Args:
      seconds: increasing times of the gaps, since any origin.
      gaps: positive; infinite or nan ones are passed over.
      tolerance: the gap that is wanted.

    Returns:
      Seconds after the last time, 0 once there; None while fewer than three gaps are known or the
      gap does not fall.
    """
    usable = [(t, g) for t, g in zip(seconds, gaps, strict=True) if 0 < g < math.inf]
    if any(gap <= tolerance for gap in gaps):
        return 0.0
    if len(usable) < MIN_POINTS:
        return None
    times, sizes = np.array(usable).T
    levels = np.log(np.minimum.accumulate(sizes))
    late = slice(-max(MIN_POINTS, len(times) // 2), None)
    centred = times[late] - times[late].mean()
    slope = centred @ levels[late] / (centred @ centred) if centred.any() else 0.0
    return float((math.log(tolerance) - levels[-1]) / slope) if slope < 0 else None


def _relative(gap: float, primal: float) -> float:
    """gap / |primal|; 0 where the gap is none (rounding, or a problem solved by zero)."""
    size = abs(primal)
    relative = gap / size if 0 < size < math.inf else math.inf
    return 0.0 if gap <= 0 else relative


def _worded(relative: float) -> str:
    return f"{relative:.1e}" if math.isfinite(relative) else "unknown"


def _estimate(passed: Passed) -> Any:
    """What a pass without a certificate estimates, None where it has one."""
    info = getattr(passed, "info", None)
    proved = getattr(info, "certificate", None) is not None
    return None if proved else getattr(info, "estimate", None)


class _Track:
    """Remembers the certified gaps of a run and words its state."""

    def __init__(self, total: int | None, tolerance: float | None) -> None:
        self.total, self.tolerance = total, tolerance
        self.start = monotonic()
        self.seconds: list[float] = []
        self.gaps: list[float] = []

    def add(self, passed: Passed) -> tuple[float, str]:
        """The filled share of the bar, in [0, 1], and the words after it."""
        now, estimate = monotonic() - self.start, _estimate(passed)
        relative, aside = _relative(passed.gap, passed.primal), ""
        if estimate is None:
            self.seconds.append(now)
            self.gaps.append(relative)
        else:
            aside = f", estimated {_worded(_relative(estimate.gap, estimate.primal))}"
        limit = "" if self.total is None else f"/{self.total}"
        wanted = "" if self.tolerance is None else f" (goal {self.tolerance:.0e})"
        left = self._left(passed.passes, now)
        words = f"pass {passed.passes}{limit}, gap {_worded(relative)}{aside}{wanted}, {left}"
        return self._share(passed.passes), words

    def _left(self, passes: int, now: float) -> str:
        to_limit = to_gap = None
        if self.total is not None and passes > 0:
            to_limit = now / passes * max(0, self.total - passes)
        if self.tolerance is not None:
            to_gap = seconds_left(self.seconds, self.gaps, self.tolerance)
        if to_gap:  # it counts from the last certificate, and an overdue forecast was wrong
            to_gap = max(0.0, to_gap - (now - self.seconds[-1])) or None
        known = [seconds for seconds in (to_limit, to_gap) if seconds is not None]
        if not known:
            return "time left unknown"
        bound = "<" if to_gap is None and self.tolerance is not None else "~"
        return f"{bound}{_clock(min(known))} left"

    def _share(self, passes: int) -> float:
        by_passes = passes / self.total if self.total else 0.0
        finite = [gap for gap in self.gaps if 0 < gap < math.inf]
        if self.tolerance is None:
            return min(1.0, by_passes)
        if any(gap <= self.tolerance for gap in self.gaps):
            return 1.0
        if not finite:
            return 0.0
        return math.log(finite[0] / min(finite)) / math.log(finite[0] / self.tolerance)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _tqdm_bar(description: str, stream: TextIO) -> tuple[Callable, Callable] | None:
    """(show, close) on tqdm, None where tqdm is not installed."""
    try:
        tqdm: Any = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None
    frame = "{desc} {percentage:3.0f}% |{bar:20}| "
    bar = tqdm(total=1.0, desc=description, file=stream, bar_format=frame + "starting")

    def show(share: float, words: str) -> None:
        bar.bar_format, bar.n = frame + words, share
        bar.refresh()

    return show, bar.close


def _plain_lines(description: str, stream: TextIO) -> tuple[Callable, Callable]:
    """(show, close) that write one plain line an update."""

    def show(share: float, words: str) -> None:
        print(f"{description}: {words}", file=stream, flush=True)

    return show, lambda: None
