"""Ctrl-C and SIGTERM are noted: one that the interpreter swallows ends the training; bars."""

from __future__ import annotations

import io
import signal
import weakref
from types import SimpleNamespace

import pytest

from experiments.lib import fields, interrupts
from experiments.lib.common import Stopped, kept_if_stopped
from experiments.lib.progress import jobs_bar, training_progress
from tests.experiments.scripts import strict_json

PASSED = SimpleNamespace(passes=1, primal=2.0, dual=1.0, gap=1.0)


@pytest.fixture
def heeded():
    """Both as in a program of its own, whatever started the tests."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    interrupts.note_interrupts()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    interrupts._noted.clear()
    interrupts._terminated.clear()


class Referred:
    """What a weak reference can point at."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("shown, number", [(True, signal.SIGINT), (False, signal.SIGTERM)])
def test_an_interrupt_in_a_weak_reference_is_not_lost(heeded, capsys, shown, number):
    thing = Referred()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(number))
    with training_progress(10, enabled=shown) as update:
        update(PASSED)
        del thing  # the callback is called, and the interpreter forgets what it raises
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            update(PASSED)
        update(PASSED)  # asked once


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_elsewhere_is_raised_at_once(heeded, number, code):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert interrupts.exit_code() == code


def test_sigterm_that_is_sent_again_disturbs_no_writing(heeded, tmp_path):
    options = fields.Common(output=str(tmp_path))
    with pytest.raises(Stopped), kept_if_stopped(options, {"rows": [1]}, name="digits"):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
    assert strict_json(tmp_path / "digits.stopped.json")["rows"] == [1]


def test_where_interrupts_are_ignored_they_stay_so():
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        interrupts.note_interrupts()
        assert all(signal.getsignal(number) is signal.SIG_IGN for number in numbers)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class Terminal(io.StringIO):
    def isatty(self):
        return True


STREAMS = ((io.StringIO(), None, 0), (io.StringIO(), True, 1), (Terminal(), None, 1),
           (Terminal(), False, 0))  # fmt: skip


@pytest.mark.parametrize("stream, enabled, writes", STREAMS)
def test_quiet_unless_a_terminal_or_forced(stream, enabled, writes):
    with training_progress(100, "C = 1", enabled, stream=stream) as update:
        update(PASSED)
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
