"""The bar of commands: where it shows, and bars of jobs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from experiments.lib.progress import jobs_bar, training_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "stream, enabled, writes",
    [
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (Terminal(), None, True),
        (Terminal(), False, False),
    ],
)
def test_quiet_unless_a_terminal_or_forced(stream, enabled, writes):
    with training_progress(100, "C = 1", enabled, stream=stream) as update:
        update(SimpleNamespace(passes=1, primal=2.0, dual=1.0, gap=1.0))
    assert bool(stream.getvalue()) == writes
    assert ("\r" in stream.getvalue()) == (writes and stream.isatty())


def test_a_bar_of_jobs_is_shown_where_wanted(capsys):
    for enabled in (False, None):  # standard error is no terminal here
        with jobs_bar(range(3), "jobs", enabled) as bar:
            assert list(bar) == [0, 1, 2]
    assert not capsys.readouterr().err
    with jobs_bar(enabled=True, total=2) as bar:
        bar.update()
    assert "1/2" in capsys.readouterr().err
