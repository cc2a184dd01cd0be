"""The record of a run: complete, plain, and its command repeats the run."""

from __future__ import annotations

import datetime
import enum
import json
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags

from experiments.lib import record
from experiments.lib.files import to_plain


class Way(enum.Enum):
    SLACK = 1


VALUES = {"C": 0.5, "names": ["a,b", "c d"], "verbose": False, "keep": True, "folder": None}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(record.ROOT / "experiments" / "table3.py"), "--C=9"])
    for name in record.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def test_record_holds_what_a_reader_needs(script):
    found = record.run_record(VALUES, 7)
    json.dumps(to_plain(found), allow_nan=False)
    assert found["flags"] == VALUES and found["seed"] == 7
    assert found["versions"]["jax"] == jax.__version__
    assert found["versions"]["numpy"] == np.__version__
    assert set(found["versions"]) == {"jaxstruct", "jax", "jaxlib", "numpy", "scikit-learn"}
    assert found["python"] == sys.version.split()[0]
    assert found["device"] == jax.devices()[0].device_kind
    assert found["dtype"] == jnp.zeros(()).dtype.name
    when = datetime.datetime.fromisoformat(found["time"])
    assert abs(datetime.datetime.now(datetime.UTC) - when) < datetime.timedelta(minutes=1)


def test_command_spells_out_every_flag_and_absl_reads_the_same_values_back(script):
    values = VALUES | {"way": Way.SLACK}
    words = shlex.split(record.command_line(values, 7))
    assert words[:3] == ["python", "-m", "experiments.table3"]
    holder = flags.FlagValues()
    flags.DEFINE_float("C", 1.0, "", flag_values=holder)
    flags.DEFINE_list("names", [], "", flag_values=holder)
    flags.DEFINE_bool("verbose", True, "", flag_values=holder)
    flags.DEFINE_bool("keep", False, "", flag_values=holder)
    flags.DEFINE_string("folder", None, "", flag_values=holder)
    flags.DEFINE_integer("seed", 0, "", flag_values=holder)
    flags.DEFINE_enum_class("way", None, Way, "", flag_values=holder)
    assert holder(words[2:]) == ["experiments.table3"]
    assert holder.flag_values_dict() == values | {"seed": 7}


def test_commit_is_that_of_the_checkout_and_none_outside(monkeypatch, tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        call = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(record, "ROOT", tmp_path)
    assert record.run_record({}, None)["commit"] is None
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first", "--no-verify")
    head = git("rev-parse", "HEAD")
    git("tag", "v1")
    assert record.run_record({}, None)["commit"] == head
    (tmp_path / "file").write_text("2")
    assert record.run_record({}, None)["commit"] == f"{head}-dirty"
    monkeypatch.setenv("PATH", "")
    assert record.run_record({}, None)["commit"] is None


@pytest.mark.parametrize("platform, unit", [("linux", 1024), ("darwin", 1)])
def test_peak_memory_is_in_bytes_on_every_platform(monkeypatch, platform, unit):
    assert 10**7 < record.peak_memory_bytes() < 10**12
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: "VmPeak: 9 kB\nVmHWM:\t 70 kB\n")
    assert record.peak_memory_bytes() == 70 * 1024
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: "no such line")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=5000))
    assert record.peak_memory_bytes() == 5000 * unit


def test_stopwatch_tells_waiting_from_working():
    watch = record.Stopwatch()
    time.sleep(0.1)
    asleep = watch.lap()
    assert asleep.wall >= 0.1 and asleep.process < 0.09
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    busy = watch.elapsed({"result": jnp.ones(3)})
    assert 0.05 <= busy.process and busy.wall < asleep.wall + 5
    assert watch.elapsed().process >= busy.process


def test_a_stopwatch_tells_compiling_apart():
    watch, x = record.Stopwatch(), jnp.ones(11)
    of = jax.jit(lambda x: jnp.sin(x) @ jnp.cumsum(x))
    first = watch.numbers(of(x))
    assert 0 < watch.compiling().wall <= watch.elapsed().wall
    assert first["seconds"] >= first["compile_seconds"] >= 0
    watch.lap()
    of(x)
    assert watch.compiling() == (0.0, 0.0) and watch.numbers()["compile_seconds"] == 0


def test_command_repeats_the_settings_of_jax(script, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("XLA_FLAGS", "--one --two")
    line = record.command_line({"seed": 3}, 3)
    settings = "JAX_ENABLE_X64=1 XLA_FLAGS='--one --two'"
    assert line == f"{settings} python -m experiments.table3 --seed=3"
    assert record.run_record({"seed": 3}, 3)["environment"]["XLA_FLAGS"] == "--one --two"
