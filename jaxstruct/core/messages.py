"""Values in error messages: one line each, short, whatever a user gave."""

from __future__ import annotations

import reprlib

MOST_SHOWN = 120
"""Characters of a value that a message shows at most."""
_FEW = 6


def _abbreviated(limit: int) -> reprlib.Repr:
    """A `repr` that looks at the first items of containers only."""
    short = reprlib.Repr()
    for name in ("list", "tuple", "dict", "set", "frozenset", "deque", "array"):
        setattr(short, f"max{name}", _FEW)
    short.maxstring = short.maxother = short.maxlong = limit
    return short


def text_of(value: object, limit: int = MOST_SHOWN) -> str:
    """A value for an error message: its `repr` on one line of at most `limit` characters.

    An array of more than a few numbers shows as its type, dtype and shape, a long container as its
    first items, other long text as its two ends with "..." between them.

    Args:
      value: what a user gave. limit: characters at most, at least 16.
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and sum(shape) > _FEW and dtype is not None:
        text = f"{type(value).__name__} {dtype} of shape {shape}"
    else:
        text = _abbreviated(limit).repr(value)
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    tail = limit // 4
    return f"{line[: limit - tail - 3]}...{line[len(line) - tail :]}"


def kind_and_text_of(value: object) -> str:
    """`text_of` a value with its type in front, where the text does not begin with it."""
    kind, text = type(value).__name__, text_of(value)
    return text if value is None or text.startswith(kind) else f"{kind} {text}"
