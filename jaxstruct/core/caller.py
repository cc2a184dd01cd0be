"""Who called the package."""

from __future__ import annotations

import sys
import warnings


def callers_level() -> int:
    """The level, for `warnings.warn` in the function that asks, of who called the package."""
    frame, level = sys._getframe(1), 1
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


def warn(words: str, kind: type[Warning] = UserWarning) -> None:
    """Warn, naming the line that called the package."""
    warnings.warn(words, kind, stacklevel=callers_level())
