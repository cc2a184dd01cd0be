"""Fixtures of all tests of commands."""

import signal

import pytest

from experiments import command_module
from experiments.lib import plots
from tests.experiments.corpora.conftest import register, require_corpus, server  # noqa: F401
from tests.experiments.scripts import kept_settings, strict_json


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read the `outcome` of a command, run as a whole, are thorough ones."""
    for item in items:
        if "outcome" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True, scope="module")
def formats(request):
    """Pictures are drawn in one format: `lib/test_plots.py` draws them in each."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_plots.py":
            patch.setattr(plots, "UNDATED", {"png": {"Software": None}})
        yield


@pytest.fixture(scope="module")
def outcome(options):
    """The whole run of a command, with the `options` of a test file; what it wrote is sound."""
    with kept_settings():
        found = command_module(options.command).run(options)
    assert found.table.rows and found.files
    for path in found.files:
        assert path.stat().st_size > 0
        content = strict_json(path) if path.suffix == ".json" else {}
        named = content.get("record", {"command": options.command})["command"]
        assert options.command in named
    return found


@pytest.fixture(autouse=True)
def own_process():
    """Settings of jax and handlers of signals are those of before a command, in other tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with kept_settings():
        yield
    for number, handler in before.items():
        signal.signal(number, handler)
