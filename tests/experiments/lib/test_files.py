"""Result files: JSON that every reader accepts, and names that stay within their folder."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.lib.files import file_in, write_results


class Pair(NamedTuple):
    first: float
    second: np.ndarray


class Way(enum.Enum):
    SLACK = 1


@dataclasses.dataclass
class Record:
    name: str
    values: tuple


def read(path):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.mark.parametrize(
    "value, wanted",
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (float("nan"), None),
        (np.float64("inf"), None),
        (np.array([[1.0, np.nan], [-np.inf, 2.0]]), [[1.0, None], [None, 2.0]]),
        (np.array(["a", "b"]), ["a", "b"]),
        (jnp.arange(3), [0, 1, 2]),
        (jnp.asarray(0.5, jnp.bfloat16), 0.5),
        (Pair(1.0, np.arange(2)), {"first": 1.0, "second": [0, 1]}),
        (Record("x", (1, 2)), {"name": "x", "values": [1, 2]}),
        ({1: {"b", "a"}, Way.SLACK: Way.SLACK}, {"1": ["a", "b"], "SLACK": "SLACK"}),
        (Path("a") / "b.npz", str(Path("a") / "b.npz")),
        ("Größe", "Größe"),
    ],
)
def test_values_become_plain_json(tmp_path, value, wanted):
    assert read(write_results(tmp_path, "r", {"value": value})) == {"value": wanted}


def test_an_unknown_value_is_named_and_leaves_no_file(tmp_path):
    with pytest.raises(TypeError, match=r"run\.table\[1\]\.cell: got object"):
        write_results(tmp_path, "run", {"table": [1, {"cell": object()}]})
    with pytest.raises(TypeError, match=r"run\.x: got an array of complex128"):
        write_results(tmp_path, "run", {"x": np.array([1j])})
    with pytest.raises(ValueError, match="become the same string"):
        write_results(tmp_path, "run", {1: 0, "1": 0})
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_what_was_there(tmp_path, monkeypatch):
    write_results(tmp_path, "run", {"old": 1})

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("jaxstruct.core.files.os.replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_results(tmp_path, "run", {"new": 2})
    assert read(tmp_path / "run.json") == {"old": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert read(write_results(tmp_path, "run", {"new": 2})) == {"new": 2}


@pytest.mark.parametrize("name", ["", "a/b", "../a"])
def test_a_name_with_a_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="plain file name"):
        file_in(tmp_path, name)
