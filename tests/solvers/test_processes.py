"""Trainings of two processes: the run of one process, errors that all raise, kills and resuming.

The processes make all cases of `process_cases` one after the other, since each start costs seconds.
Here are four devices in one process, as the two have together, and what both must have found.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.solvers.placement.mesh import deal
from tests.solvers import process_cases

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """What both processes have found: name -> [of the first, of the second]."""
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    kept = jax.config.values["jax_compilation_cache_dir"]
    here = os.environ | {"JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": str(ROOT)}
    here |= {"JAX_COMPILATION_CACHE_DIR": kept, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": ".3"}
    line = [sys.executable, "-m", "tests.solvers.process_cases"]
    outputs = [(folder / f"{n}.txt").open("w+") for n in (0, 1)]
    processes = [
        subprocess.Popen([*line, str(n), str(port), str(folder)], env=here, cwd=ROOT,
                         stdout=outputs[n], stderr=subprocess.STDOUT)
        for n in (0, 1)
    ]  # fmt: skip
    try:
        codes = [process.wait(900) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    said = [Path(output.name).read_text() for output in outputs]
    assert codes == [0, 0], said
    both = [json.loads((folder / f"{n}.json").read_text()) for n in (0, 1)]
    return {name: [each[name] for each in both] for name in process_cases.CASES}


@pytest.fixture
def of(ends):
    """What both have found in a case, none of which has failed."""

    def found(name):
        for _, error in ends[name]:
            assert not error, error
        return [value for value, _ in ends[name]]

    return found


@pytest.mark.parametrize("name", process_cases.ALONE)
def test_two_processes_are_one_run_of_all_examples(name, of, x64, tmp_path):
    """The same optimum, and the same first rounds where devices hold the same examples: later ones
    may choose otherwise between examples of one gap, since sums are taken in another order."""
    first, second = of(name)
    slacks = [each.pop("slack", None) for each in (first, second)]
    counts = [each.pop("n", None) for each in (first, second)]
    assert first == second
    whole = process_cases.CASES[name](tmp_path)
    assert first["dual"] <= whole["primal"] * (1 + 1e-9)
    assert whole["dual"] <= first["primal"] * (1 + 1e-9)
    if name == "paths":
        return
    assert whole["status"] == first["status"] and sum(counts) == process_cases.N
    if name == "buckets":
        _, _, case = process_cases.rows()
        assert first["dual"] <= case.optimum("svm1_margin", 20.0) <= first["primal"]
    else:  # of rows of two lengths other ones are on a device
        # carriers of one gradient are named either way, and pairs of one violation step either way
        assert whole["added"] == first["added"]
        np.testing.assert_allclose(whole["duals"], first["duals"], rtol=1e-9)
    assert sum(slacks) == pytest.approx(whole["slack"], rel=0.1)


WORDS = {
    "nan": "inputs has a NaN or an infinity, first in example 2",
    "C": "C must be finite and > 0, got -1.0",
    "start": "start must be",
    "callback": "by zero",
}
ALIKE = {
    "settings": "settings.seed is 0 in process 0, 1 in process 1",
    "problem": "problem is",
    "checkpoint": "checkpoint is False in process 0, True in process 1",
    "start": "start is False in process 0, True in process 1",
}


@pytest.mark.parametrize("name", WORDS)
def test_what_one_process_refuses_all_do(name, of):
    first, second = (each[name] for each in of("refused"))
    if name == "start":
        assert ALIKE[name] in first[1] and first == second
        return
    assert first[0] == "RefusedElsewhere" and second[0] != "RefusedElsewhere"
    assert f"process 1 has refused what it was given: {second[0]}: {second[1]}" == first[1]
    assert WORDS[name] in second[1]


@pytest.mark.parametrize("name", ALIKE)
def test_what_must_be_alike_is_named(name, of):
    first, second = (each[name] for each in of("refused"))
    assert first == second and first[0] == "ValueError" and ALIKE[name] in first[1]


def test_a_callback_of_one_process_stops_all(of):
    first, second = of("callbacks")
    assert first["weights"] == second["weights"] and first["rounds"] == second["rounds"] == 3


def test_killed_and_resumed_again_and_again(of):
    first, second = of("resumed")
    assert first["weights"] == second["weights"]


def test_a_full_disk_of_one_process(of):
    first, second = of("full_disk")
    assert "after round 1 (process 1 has refused" in first[0]
    assert "after round 1 (no space left)" in second[0]


def test_a_signal_to_one_process_ends_all_after_the_same_round(of):
    assert of("signals") == [[143, [1, 2]], [143, [1, 2]]]


@pytest.mark.smoke
def test_one_process_asks_nobody():
    alone = Processes(jax.make_mesh((2,), ("shards",), devices=jax.devices()[:2]))
    for each in (ALONE, alone):
        assert len(each) == 1 and each.leads and not each.several
        assert each.gather({"a": 1}) == [{"a": 1}] and each.gather_bytes(b"xy") == [b"xy"]
        assert each.gather_numbers([1.0, 2.0]).tolist() == [[1.0, 2.0]]
        assert each.total(3.0) == 3.0 and each.any(True) and not each.any(False)
        rows = np.arange(6).reshape(3, 2)
        assert each.gather_rows(rows, [3]) is rows and each.sum_arrays(rows) is rows
        with pytest.raises(ZeroDivisionError):
            each.agree(lambda: 1 // 0)
    assert alone.devices == (2,)


@pytest.mark.parametrize(("processes", "devices"), [(2, 2), (4, 1), (2, 3), (3, 2)])
def test_a_part_of_a_deal_is_dealt_out_alike(processes, devices):
    """Whether devices are of one process or of several, they hold the same examples."""
    shards = processes * devices
    for n in range(1, 30):
        sizes = np.random.default_rng(n).integers(1, 9, n)
        whole = deal(sizes, shards, n).reshape(processes, devices, n)
        for own in whole:
            rows = np.sort(own[own >= 0])
            if rows.size:
                again = deal(sizes[rows], devices, n).reshape(devices, n)
                np.testing.assert_array_equal(np.where(again >= 0, rows[again], -1), own)
