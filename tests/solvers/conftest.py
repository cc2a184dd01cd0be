"""Fixtures of several files."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(scope="module")
def compiled():
    """The names of what jax's backend compiles, as it happens."""
    names = []

    def listen(event, _, **known):
        if "backend_compile" in event:
            names.append(known.get("fun_name", event))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)
