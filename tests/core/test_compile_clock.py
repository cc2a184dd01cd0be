"""Seconds of compiling: nested ones once, and none of a program that is there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jaxstruct.core import compiling as compile_clock
from jaxstruct.core.compiling import COMPILING, CompileClock, Elapsed


def test_compiling_within_compiling_counts_once(monkeypatch):
    clock = CompileClock()
    now = {"wall": 100.0, "process": 50.0}
    monkeypatch.setattr(compile_clock.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(compile_clock.time, "process_time", lambda: now["process"])
    clock._last = Elapsed(90.0, 40.0)
    event = COMPILING + "jaxpr_trace_duration"
    clock._heard("/jax/something_else", 5.0)
    clock._heard(event, 2.0)
    now.update(wall=103.0, process=56.0)
    clock._heard(event, 6.0)
    assert clock.read().wall == pytest.approx(6.0)
    assert clock.read().process == pytest.approx(2 * 1.0 + 4 * 2.0)
    now.update(wall=110.0, process=57.0)
    clock._heard(event, 1.0)
    assert clock.read().wall == pytest.approx(7.0)


def test_a_program_counts_when_it_is_compiled():
    clock = compile_clock.compile_clock()
    assert clock is compile_clock.compile_clock()
    of, x = jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x)), jnp.ones(7)
    before = clock.read()
    of(x).block_until_ready()
    compiled = clock.read()
    of(x).block_until_ready()
    assert compiled.wall > before.wall and clock.read() == compiled
