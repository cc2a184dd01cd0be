"""The README's examples run, and its commands are the ones that CI runs."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.data.locate import available

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def test_training_example_prints_what_it_says(capsys) -> None:
    exec(BLOCKS[0], {})  # noqa: S102
    status, primal, dual, error = capsys.readouterr().out.split()
    assert status == "CONVERGED"
    assert 29.90 < float(dual) <= 29.934147 <= float(primal) + 1e-4
    assert float(error) < 0.035


@pytest.mark.skipif(not available("ocr_letters"), reason="corpus 'ocr_letters' is not at hand")
def test_label_sequences_train() -> None:
    names = {"js": js, "np": np}
    exec(BLOCKS[1], names)  # noqa: S102
    solution = names["solution"]
    assert solution.status.solved
    assert solution.dual <= 246.1743 <= solution.primal <= 246.5


def test_oracles_stand_alone() -> None:
    names: dict = {"np": np}
    exec(BLOCKS[2], names)  # noqa: S102
    assert names["labels"].shape == (32, 14)
    assert (np.asarray(names["labels"]) == 0).all()  # ties go to the lowest label


def test_alignments_are_learned_and_written(capsys) -> None:
    names: dict = {"js": js}
    exec(BLOCKS[3], names)  # noqa: S102
    assert names["solution"].status.solved
    first, signs, second = capsys.readouterr().out.splitlines()[:3]
    assert "ACGTTGCA" in first and "ACG--GCA" in second and "|||  |||" in signs


def test_a_grammar_is_learned_and_parses(capsys) -> None:
    exec(BLOCKS[4], {})  # noqa: S102
    printed = capsys.readouterr().out.strip()
    assert f"# {printed}\n" in BLOCKS[4] and printed.startswith("(S ")


def test_own_structure_trains_and_certifies() -> None:
    names: dict = {}
    exec(BLOCKS[5], names)  # noqa: S102
    random = np.random.RandomState(0)
    x = random.randn(40, 4, 5).astype(np.float32)
    y = np.argmax(x @ random.randn(5), axis=1).astype(np.int32)
    for formulation in ("svm1", "svm2", "svm1_slack", "svm0"):
        solution = js.fit(names["reranking"], x, y, formulation, C=100.0)
        assert solution.status.solved, solution.message
        assert np.mean(js.predict(names["reranking"], solution.weights, x) == y) > 0.9
    feature = js.joint_feature(names["reranking"], x[0], y[0])
    np.testing.assert_allclose(feature["weights"], x[0, y[0]], rtol=1e-6)


def test_the_test_command_is_marked_for_ci() -> None:
    command = README.split("<!-- tests -->")[1].split("```")[1]
    assert 'pip install -e ".[test]" && python -m pytest' in command
    ci = (pathlib.Path(__file__).parents[1] / ".ci" / "run").read_text()
    assert "<!-- tests -->" in ci
