"""Fixtures of all tests of commands."""

import signal

import pytest

from tests.experiments.corpora.conftest import register, require_corpus, server  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read the `outcome` of a command, run as a whole, are thorough ones."""
    for item in items:
        if "outcome" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True)
def handlers():
    """Commands heed signals in a way of their own; the tests of other files do not."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
