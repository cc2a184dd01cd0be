"""Signals during a run: they raise, what is lost is raised after the round, and all is put back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from jaxstruct.solvers.checkpoints.session import stop_signals

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def as_usual():
    """Python's own handlers, whatever the tests run in has."""
    before = [signal.getsignal(number) for number in SIGNALS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


def handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize(
    "number, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_raises_and_is_noted(number, error):
    before = handlers()
    with stop_signals() as signals:
        assert all(now != then for now, then in zip(handlers(), before, strict=True))
        signals.raise_noted()
        with pytest.raises(error):
            os.kill(os.getpid(), number)
        with pytest.raises(error):  # as if the first had been lost
            signals.raise_noted()
    assert handlers() == before


def test_an_error_that_a_signal_was_made_into_is_the_signal():
    with stop_signals() as signals:
        error = ValueError("metadata fields of pytree")
        assert signals.meant(error) is error
        with pytest.raises(SystemExit) as raised:
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.meant(error) is signals.noted is raised.value
        assert signals.meant(raised.value) is raised.value
        other = KeyboardInterrupt()
        assert signals.meant(other) is other
    with stop_signals(patient=True) as signals:  # all processes raise their own errors together
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.meant(error) is error


def test_a_second_ctrl_c_raises_and_a_second_sigterm_does_not():
    with stop_signals():
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_of_others_stay():
    def mine(number, frame):
        raise ZeroDivisionError

    signal.signal(signal.SIGINT, mine)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with stop_signals() as signals:
        assert handlers() == [mine, signal.SIG_IGN]
        with pytest.raises(ZeroDivisionError):
            os.kill(os.getpid(), signal.SIGINT)
        signals.raise_noted()
    assert handlers() == [mine, signal.SIG_IGN]


def test_what_was_changed_meanwhile_stays():
    with stop_signals():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert handlers() == [signal.default_int_handler, signal.SIG_IGN]


def test_an_error_puts_them_back():
    before = handlers()
    with pytest.raises(ZeroDivisionError), stop_signals():
        raise ZeroDivisionError
    assert handlers() == before


def test_other_threads_touch_no_signals():
    before, seen = handlers(), []

    def work():
        with stop_signals() as signals:
            seen.append(handlers())
            signals.raise_noted()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
