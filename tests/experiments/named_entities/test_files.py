"""Files of one's own: trained on, tested on, labelled."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments.lib import common
from experiments.named_entities import command as named_entities
from experiments.named_entities import files as named_entities_files
from experiments.named_entities.command import Options
from experiments.tasks import token_model as models
from experiments.tasks.news import as_numbers, score
from jaxstruct.data.conll import read_conll
from jaxstruct.data.errors import MalformedFile
from jaxstruct.solvers.loop.trace import Entry, trace_of
from tests.experiments.named_entities.cases import CHEAP, model_options, news, trained
from tests.experiments.scripts import kept_settings, stop_after, strict_json


def test_ctrl_c_while_testing_keeps_the_training(tmp_path, monkeypatch):
    options = model_options(
        tmp_path, train=str(tmp_path / "train"), test=str(tmp_path / "test"),
        model=str(tmp_path / "m.npz"),
    )  # fmt: skip
    monkeypatch.setattr(named_entities_files, "_apply", stop_after(0, None))
    with kept_settings(), pytest.raises(common.Stopped):
        named_entities.run(options)
    content = strict_json(tmp_path / "out" / "named_entities_files.stopped.json")
    assert content["stopped"] is True and content["training"]["status"] == "CONVERGED"
    assert content["model"] == str(tmp_path / "m.npz") and (tmp_path / "m.npz").exists()


def test_own_files_are_trained_on_tested_and_labelled_and_the_model_is_kept(tmp_path):
    options = model_options(
        tmp_path, train=str(tmp_path / "train"), test=str(tmp_path / "test"),
        predict=str(tmp_path / "bare"), model=str(tmp_path / "deep" / "m.npz"),
    )  # fmt: skip
    with kept_settings():
        found = named_entities.run(options)
        later = named_entities.run(
            options.replace(train=None, test=None, output=str(tmp_path / "later"))
        )
    assert found.numbers["training"]["status"].solved
    assert found.numbers["test"]["token_error"] < 20 and found.numbers["test"]["f1"] > 50
    tested = read_conll(tmp_path / "out" / "test.predicted")
    true = news(16, seed=16)
    assert [s.words for s in tested] == [s.words for s in true]
    assert [s.columns[-1] for s in tested] == [s.labels for s in true]
    expected = as_numbers(score([s.labels for s in true], [s.labels for s in tested]))
    assert {k: found.numbers["test"][k] for k in expected} == expected
    labelled = (tmp_path / "out" / "bare.predicted").read_bytes()
    assert labelled == (tmp_path / "later" / "bare.predicted").read_bytes()
    assert [s.labels for s in read_conll(tmp_path / "out" / "bare.predicted")] == [
        s.labels for s in tested
    ]
    assert "training" not in later.numbers
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["m.npz"]


@pytest.mark.thorough
def test_a_training_that_was_stopped_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    """The same line twice: stopped after three rounds, then to its end, and once more."""
    options = model_options(
        tmp_path, train=str(tmp_path / "train"), checkpoint=str(tmp_path / "run.npz"),
        model=str(tmp_path / "m.npz"), tolerance=1e-3,
    )  # fmt: skip

    def stop(progress):
        if progress.passes == 2:
            raise KeyboardInterrupt

    with kept_settings():
        whole = named_entities.run(options.replace(checkpoint=None))
        model = models.load_model(tmp_path / "m.npz")
        (tmp_path / "m.npz").unlink()
        with monkeypatch.context() as patched:
            patched.setattr(
                named_entities_files, "training_progress", lambda *_: contextlib.nullcontext(stop)
            )
            with pytest.raises(KeyboardInterrupt) as stopped:
                named_entities.run(options)
        assert "run.npz holds this run after round 2" in stopped.value.__notes__[0]
        for _ in range(2):
            found = named_entities.run(options)
            assert found.numbers["training"]["passes"] == whole.numbers["training"]["passes"] > 2
            again = models.load_model(tmp_path / "m.npz")
            jax.tree.map(np.testing.assert_array_equal, again.weights, model.weights)


@pytest.mark.parametrize(
    "changes, content, error, message",
    [
        ({"model": "x", "test": "y", "checkpoint": "z"}, None, ValueError, "checkpoint: it keeps"),
        ({"test": "x"}, None, ValueError, "--train, or a saved --model"),
        ({"model": "x"}, None, ValueError, "--predict, or to --train"),
        ({"train": "x", "whole": True}, None, ValueError, "whole, speed"),
        ({"whole": True, "speed": True}, None, ValueError, "choose one"),
        ({"train": "FILE"}, b"", MalformedFile, "holds no token"),
        ({"train": "FILE"}, b"word\n", MalformedFile, "has 1 column"),
        ({"train": "FILE"}, b"a O\nb X O\n", MalformedFile, "3 columns, expected 2"),
        ({"train": "FILE"}, b"a O\nb O\n", ValueError, "expected at least two"),
        ({"train": "FILE", "constraints": True}, b"a N\nb V\n", ValueError, "are not IOB2"),
        ({"train": "FILE", "tags": True}, b"a N\nb V\n", ValueError, "no column of tags"),
        ({"train": "no such file"}, None, FileNotFoundError, "no such file"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changes, content, error, message):
    file = tmp_path / "file"
    file.write_bytes(content or b"")
    changes = {k: str(file) if v == "FILE" else v for k, v in changes.items()}
    with kept_settings(), pytest.raises(error, match=message):
        named_entities.run(Options(output=str(tmp_path / "out"), **CHEAP).replace(**changes))


def test_an_unknown_label_of_a_test_file_is_named(tmp_path, sentences):
    model = models.save_model(tmp_path / "m", trained(sentences))
    file = tmp_path / "b.conll"
    file.write_text("Ana B-DOG\n", encoding="utf-8")
    options = Options(output=str(tmp_path), model=str(model), test=str(file), **CHEAP)
    with kept_settings(), pytest.raises(ValueError, match=r"b.conll: sentence 1 .*'B-DOG'.*B-LOC"):
        named_entities.run(options)


def test_the_time_of_the_picture_begins_when_training_does():
    """An hour of compiling before the first round moves nothing but the title."""
    rounds = [Entry(3600.0 + t, t, 3600.0, 9, 1, 1, 1, 9.0, 9.0 - 1 / t, True) for t in (1.0, 2.0)]
    statistics = SimpleNamespace(history=trace_of(rounds), seconds={"compile": 3600.0})
    solution = SimpleNamespace(statistics=statistics)
    plot = named_entities_files.convergence({"training": solution}, 1e-3)
    (axes,) = plot.figure.axes
    assert list(axes.lines[0].get_xdata()) == [1.0, 2.0] and axes.get_xlim()[1] < 10
    assert "without compiling" in axes.get_xlabel()
    assert "3600.0 s more" in axes.get_title(loc="left")
