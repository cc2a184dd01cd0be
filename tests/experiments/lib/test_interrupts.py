"""Ctrl-C is noted: one that the interpreter swallows ends the training after its round."""

from __future__ import annotations

import gc
import signal
import weakref
from types import SimpleNamespace

import pytest

from experiments.lib import interrupts
from experiments.lib.progress import training_progress

PASSED = SimpleNamespace(passes=1, primal=2.0, dual=1.0, gap=1.0)


@pytest.fixture
def heeded():
    """Ctrl-C as in a program of its own, whatever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.note_interrupts()
    yield
    signal.signal(signal.SIGINT, before)
    interrupts._noted.clear()


class Referred:
    """What a weak reference can point at."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("shown", [True, False])
def test_an_interrupt_in_a_weak_reference_is_not_lost(heeded, capsys, shown):
    thing = Referred()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    with training_progress(10, enabled=shown) as update:
        update(PASSED)
        del thing  # the callback is called, and the interpreter forgets what it raises
        gc.collect()
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            update(PASSED)
        update(PASSED)  # told once


def test_an_interrupt_elsewhere_is_raised_at_once(heeded):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_where_interrupts_are_ignored_they_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupts.note_interrupts()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
