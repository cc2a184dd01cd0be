"""What is refused, a line each, and what every message keeps to."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest

MOST_LETTERS = 600


def refused(
    words: str,
    call: Callable | None = None,
    /,
    *arguments: object,
    error: type[BaseException] | tuple[type[BaseException], ...] = ValueError,
    **options: object,
) -> contextlib.AbstractContextManager[pytest.ExceptionInfo]:
    """Assert that the call, or without one the block below `with`, raises this error.

    Its message has `words`, a regular expression, in it, and is one line of
    `MOST_LETTERS` at most, paths left out.
    """
    block = _raises(words, error)
    if call is not None:
        with block:
            call(*arguments, **options)
    return block


@contextlib.contextmanager
def _raises(words: str, error: object) -> Iterator[pytest.ExceptionInfo]:
    with pytest.raises(error, match=words) as caught:
        yield caught
    message = str(caught.value)
    without_paths = re.sub(r"/\S+", "/", message)
    assert "\n" not in message and len(without_paths) < MOST_LETTERS, message
