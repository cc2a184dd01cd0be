"""Trainings on disk: read again with the same key only, and another key is reported."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.lib import fields
from experiments.lib import kept as module
from experiments.lib.kept import Store, kept, source_hash, store_key
from experiments.lib.options import flag


class Options(fields.Common):
    epsilon: float = flag(0.1, "How near.")


def key(options=None, data=("a", "b")):
    return store_key(options or Options(), ("epsilon", "seed"), data)


@pytest.fixture
def trained(tmp_path):
    """Trains under a key; says what came, and how often the training ran."""

    def call(a_key, resume=True):
        runs = []
        found = kept(Store(tmp_path, a_key, resume), "svm", lambda: runs.append(1) or numbers())
        return found, len(runs)

    return call


def numbers():
    return ({"loss": np.float32(0.5), "counts": np.arange(2)},)


def test_the_same_key_is_read_again(trained, capsys):
    expected = [{"loss": 0.5, "counts": [0, 1]}]
    assert trained(key()) == (expected, 1)
    assert trained(key()) == (expected, 0)
    assert trained(key(Options(output="elsewhere"))) == (expected, 0)
    assert trained(key(), resume=False) == (expected, 1)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name, value, words", [
    ("versions", {"jaxstruct": "0.0.1", "jax": "0"}, "other versions"),
    ("device", "abacus", "other device"),
    ("source", "0" * 64, "other source"), ("data", "0" * 64, "other data"),
    ("options", {"epsilon": 0.2, "seed": 1}, "other --epsilon, --seed"),
])  # fmt: skip
def test_another_key_is_told_in_one_line_and_trained_anew(trained, capsys, name, value, words):
    trained(key() | {name: value})
    assert trained(key())[1] == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(words) and "svm.json: trained anew" in line
    assert trained(key())[1] == 0


@pytest.mark.parametrize("text", [
    "", "{", "[]", '{"settings": {}, "numbers": []}', '{"key": 1, "numbers": 2}',
])  # fmt: skip
def test_a_file_of_older_code_or_a_damaged_one_is_trained_anew(trained, capsys, tmp_path, text):
    (tmp_path / "svm.json").write_text(text)
    assert trained(key())[1] == 1
    assert "trained anew" in capsys.readouterr().err
    assert json.loads((tmp_path / "svm.json").read_text())["key"] == key()


def test_the_key_tells_data_and_options_apart():
    assert key() == key()
    assert key(data=("a", "c"))["data"] != key()["data"] != key(data=("ab",))["data"]
    assert key(Options(seed=1))["options"] == {"epsilon": 0.1, "seed": 1}
    assert set(key()["versions"]) == {"jaxstruct", "jax"}


def test_the_source_is_that_of_the_command_of_lib_and_of_the_package(tmp_path, monkeypatch):
    rooms = ("lib", "tasks", "one", "two")
    for folder in ("jaxstruct", *(f"experiments/{room}" for room in rooms)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("x = 1")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.jaxstruct, "__file__", str(tmp_path / "jaxstruct" / "__init__.py"))

    def found():
        return source_hash.__wrapped__("one")

    before = found()
    (tmp_path / "experiments/two/a.py").write_text("x = 2")
    (tmp_path / "experiments/one/a.txt").write_text("x = 2")
    assert found() == before and len(before) == 64
    for folder in ("experiments/lib", "experiments/tasks", "experiments/one", "jaxstruct"):
        (tmp_path / folder / "a.py").write_text("x = 2")
        assert found() != before
        before = found()
    (tmp_path / "experiments" / "one.py").write_text("x = 1")
    assert found() != before
    before = found()
    (tmp_path / "jaxstruct" / "a.py").rename(tmp_path / "jaxstruct" / "b.py")
    assert found() != before
