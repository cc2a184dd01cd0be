"""What a training says while it runs: which program is compiled, rounds, gap and time.

Times are without compiling, counted apart: the first rounds compile, the later ones do not.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple, TextIO

import numpy as np

from jaxstruct.core.checks import text_of
from jaxstruct.core.compiling import compile_clock, report_compiling_to

LINE_SECONDS, LINE_SHARE = 5.0, 0.1
"""A plain line follows another after so many seconds, or this share of the time so far: a day of
training is a hundred lines."""

BAR_SECONDS = 0.1
"""A bar is drawn anew after so many seconds."""

NO_BAR = "a bar needs tqdm (pip install 'jaxstruct[progress]'); lines of text instead"


def check_verbose(verbose: Any) -> None:
    """Raise ValueError unless it is False, True or "bar"."""
    if not (isinstance(verbose, (bool, np.bool_)) or (verbose == "bar" and type(verbose) is str)):
        raise ValueError(
            f'verbose must be False, True (lines of text) or "bar", got {text_of(verbose)}'
        )


@contextlib.contextmanager
def training_progress(
    total: int | None,
    description: str = "training",
    verbose: bool | str = True,
    tolerance: float | None = 1e-3,
    stream: TextIO | None = None,
) -> Iterator[Callable[[Any], None]]:
    """Shows how far a training run is; the value is the `callback` that the solvers ask for.

        with training_progress(500, "C = 1", "bar") as update:
            fit_in_blocks(problem, inputs, outputs, callback=update)

    `fit(verbose=...)` does this by itself. A bar fills as the logarithm of the relative gap,
    gap / |primal|, falls from its first value to `tolerance`, or with the passes where there is no
    tolerance; it is one moving line, with tqdm's guess of the time left. Lines of text come at the
    first pass, now and then, and at the end. Both name the programs that are being compiled. A pass
    without a certificate leaves gap and bar as they were, and the words add the gap that it
    estimates.

    Args:
      total: the limit of passes, None where there is none.
      description: what is being trained.
      verbose: False says nothing; True writes lines of text; "bar" shows a bar of tqdm, or lines
        where the stream is no terminal or tqdm is not installed.
      tolerance: the relative gap at which training stops, None where it does not.
      stream: where to; None: standard error.

    Yields:
      update(passed), which shows `passed.passes`, `passed.primal` and `passed.gap`, best so far; it
      returns None, so that it never stops a run. Where `passed.info.certificate` is None the pass
      has proved nothing new, and `passed.info.estimate.gap` says where it is likely to be.
    """
    if not verbose:
        yield lambda passed: None
        return
    track, start, due = _Track(total, tolerance), monotonic(), -math.inf
    shown = _shown(description, verbose, sys.stderr if stream is None else stream)

    def update(passed: Any) -> None:
        nonlocal due
        track.add(passed)
        if monotonic() - start >= due:
            shown.draw(track.share(), track.words())
            spent = monotonic() - start
            due = spent + shown.wait(spent)

    try:
        with report_compiling_to(lambda name: shown.draw(track.share(), f"compiling {name}")):
            yield update
    finally:
        if words := track.ending():
            shown.draw(track.share(), words)
        shown.end()


def _relative(gap: float, primal: float) -> float:
    """gap / |primal|; 0 where the gap is none (rounding, or a problem solved by zero)."""
    size = abs(primal)
    relative = gap / size if 0 < size < math.inf else math.inf
    return 0.0 if gap <= 0 else relative


def _worded(relative: float) -> str:
    return f"{relative:.1e}" if math.isfinite(relative) else "unknown"


def _estimate(passed: Any) -> Any:
    """What a pass without a certificate estimates, None where it has one."""
    info = getattr(passed, "info", None)
    proved = getattr(info, "certificate", None) is not None
    return None if proved else getattr(info, "estimate", None)


class _Track:
    """Remembers the certified gaps of a run, and words its state."""

    def __init__(self, total: int | None, tolerance: float | None) -> None:
        self.total, self.tolerance = total, tolerance
        self.start, self.compiled = monotonic(), compile_clock().read().wall
        self.last: Any = None
        self.now, self.relative = 0.0, math.inf
        self.first, self.least = math.inf, math.inf

    def compiling(self) -> float:
        """The seconds of it so far."""
        return compile_clock().read().wall - self.compiled

    def add(self, passed: Any) -> None:
        """Notes a pass that has ended now."""
        self.now, self.last = monotonic() - self.start - self.compiling(), passed
        self.relative = _relative(passed.gap, passed.primal)
        if _estimate(passed) is not None:
            return
        self.least = min(self.least, self.relative)
        if math.isinf(self.first) and self.relative > 0:
            self.first = self.relative

    def words(self) -> str:
        """The state after the last pass."""
        assert self.last is not None, "no pass has ended"
        estimate, aside = _estimate(self.last), ""
        if estimate is not None:
            aside = f", estimated {_worded(_relative(estimate.gap, estimate.primal))}"
        limit = "" if self.total is None else f"/{self.total}"
        wanted = "" if self.tolerance is None else f" (goal {self.tolerance:.0e})"
        gap = f"gap {_worded(self.relative)}{aside}{wanted}"
        return f"pass {self.last.passes}{limit}, {gap}, {_clock(self.now)}"

    def ending(self) -> str:
        """The words at the end; none where no pass came to its end."""
        if self.last is None:
            return ""
        apart = self.compiling()
        with_compiling = f" and {_clock(apart)} compiling" if round(apart) else ""
        return (
            f"ended after pass {self.last.passes}, gap {_worded(self.relative)}, "
            f"{_clock(self.now)} training{with_compiling}"
        )

    def share(self) -> float:
        """The filled share of the bar, in [0, 1]."""
        if self.tolerance is None:
            by_passes = self.last.passes / self.total if self.total and self.last else 0.0
            return min(1.0, by_passes)
        if self.least <= self.tolerance:
            return 1.0
        if math.isinf(self.first):
            return 0.0
        return math.log(self.first / self.least) / math.log(self.first / self.tolerance)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Shown(NamedTuple):
    """What shows words and the filled share, now and then.

    Fields:
      draw: (share, words) -> None. wait: seconds so far -> seconds to the next words.
      end: what to do after the last ones.
    """

    draw: Callable[[float, str], None]
    wait: Callable[[float], float]
    end: Callable[[], object] = lambda: None


def _shown(description: str, verbose: bool | str, stream: TextIO) -> _Shown:
    """A bar of tqdm, or lines of text: at first, then now and then, and one at the end."""

    def write(share: float, words: str) -> None:
        stream.write(f"{description}: {words}\n")
        stream.flush()

    lines = _Shown(write, lambda spent: max(LINE_SECONDS, LINE_SHARE * spent))
    if verbose != "bar" or not stream.isatty():
        return lines
    try:
        tqdm: Any = importlib.import_module("tqdm").tqdm
    except ImportError:
        lines.draw(0.0, NO_BAR)
        return lines
    frame = "{desc} {percentage:3.0f}% |{bar:20}| "
    bar = tqdm(total=1.0, desc=description, file=stream, bar_format=frame + "starting")

    def draw(share: float, words: str) -> None:
        bar.bar_format, bar.n = frame + "{remaining} left, " + words, share
        bar.refresh()

    return _Shown(draw, lambda spent: BAR_SECONDS, bar.close)
