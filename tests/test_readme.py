"""The README's examples run, and its commands are the ones that CI runs."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

import jaxstruct as js

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)
DIGITS_OPTIMUM = 29.934144
"""P* of the first example, certified in float64 to 1e-9."""
DIGIT_WORDS_OPTIMUM = 28.64182
"""P* of the chain example, certified in float64: 28.641814 <= P* <= 28.641822."""


def _block(part: str) -> str:
    """The one example that holds this text."""
    found = [block for block in BLOCKS if part in block]
    assert len(found) == 1, f"{part!r} stands in {len(found)} examples"
    return found[0]


def _run(part: str) -> dict:
    """The names that an example leaves behind; it starts from nothing."""
    names: dict = {}
    exec(_block(part), names)  # noqa: S102
    return names


def test_every_example_has_a_test() -> None:
    tests = pathlib.Path(__file__).read_text(encoding="utf-8")
    parts = re.findall(r'_run\("(.*?)"\)', tests)
    assert sorted(BLOCKS) == sorted(_block(part) for part in parts)


def test_training_example_prints_what_it_says(capsys) -> None:
    _run("load_digits_split")
    status, primal, dual, error = capsys.readouterr().out.split()
    assert status == "CONVERGED"
    assert 29.90 < float(dual) <= DIGITS_OPTIMUM + 1e-4 <= float(primal) + 2e-4
    assert float(error) < 0.035


def test_label_sequences_train(capsys) -> None:
    solution = _run("load_digit_words")["solution"]
    status, primal, dual, error = capsys.readouterr().out.split()
    assert status == "CONVERGED" and solution.status.solved
    assert 28.62 < float(dual) <= DIGIT_WORDS_OPTIMUM + 1e-4 <= float(primal) + 2e-4
    said = re.search(r"# CONVERGED (\S+) (\S+) (\S+)\n", _block("load_digit_words"))
    np.testing.assert_allclose(
        [float(primal), float(dual), float(error)], [float(n) for n in said.groups()], rtol=2e-3
    )


def test_oracles_stand_alone() -> None:
    labels = _run("js.chains.viterbi")["labels"]
    assert labels.shape == (32, 14)
    assert (np.asarray(labels) == 0).all()  # ties go to the lowest label


def test_strings_are_mapped_to_strings(capsys) -> None:
    names = _run("similarity_loss")
    assert capsys.readouterr().out.split() == ["CONVERGED", "aaab", "abab"]
    read = [word[:2] for word in names["read"]]  # what tells the two kinds of inputs apart
    assert np.mean([a == b[:2] for a, b in zip(read, names["words"], strict=True)]) > 0.7


def test_alignments_are_learned_and_written(capsys) -> None:
    names = _run("alignment_text")
    assert names["solution"].status.solved
    first, signs, second = capsys.readouterr().out.splitlines()[:3]
    assert "ACGTTGCA" in first and "ACG--GCA" in second and "|||  |||" in signs


def test_a_grammar_is_learned_and_parses(capsys) -> None:
    _run("weighted_grammar")
    printed = capsys.readouterr().out.strip()
    assert f"# {printed}\n" in _block("weighted_grammar") and printed.startswith("(S ")


def test_graphs_are_labelled(capsys) -> None:
    solution = _run("noisy_grid")["solution"]
    status, alone, together = capsys.readouterr().out.split()
    assert status == "CONVERGED" and solution.primal >= solution.dual
    assert float(alone) == pytest.approx(0.388, abs=1e-3)
    assert float(together) == pytest.approx(0.141, abs=0.01)


def test_own_structure_trains_and_certifies() -> None:
    reranking = _run("reranking")["reranking"]
    random = np.random.RandomState(0)
    x = random.randn(40, 4, 5).astype(np.float32)
    y = np.argmax(x @ random.randn(5), axis=1).astype(np.int32)
    assert "svm2" in js.check_problem(reranking, x, y, listed=np.arange(4)).oracles
    for formulation in ("svm1", "svm2", "svm1_slack", "svm0"):
        solution = js.fit(reranking, x, y, formulation, C=100.0)
        assert solution.status.solved, solution.message
        assert np.mean(js.predict(reranking, solution, x) == y) > 0.9
    feature = js.joint_feature(reranking, x[0], y[0])
    np.testing.assert_allclose(feature["weights"], x[0, y[0]], rtol=1e-6)


def test_the_test_command_is_marked_for_ci() -> None:
    command = README.split("<!-- tests -->")[1].split("```")[1]
    assert 'pip install -e ".[test]" && python -m pytest' in command
    assert "<!-- tests -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_status_and_formulation_has_a_row() -> None:
    for status in js.Status:
        assert README.count(f"| `{status.name}` |") == 1, status
    rows = re.findall(r"^\| (`svm.*?) \|", README, flags=re.M)
    named = re.findall(r"`(svm\w+)`", " ".join(rows))
    assert sorted(named) == sorted(js.solvers.formulations.FORMULATIONS)


def test_the_floor_plan_has_every_room() -> None:
    plan = README.split("## Floor plan")[1].split("## Sources")[0]
    rooms = {path.parent.name for path in (ROOT / "jaxstruct").glob("*/__init__.py")}
    drawn = set(re.findall(r"^      (\w+)/ ", plan, flags=re.M))
    assert drawn == rooms
    drawn = set(re.findall(r"^    (\w+)/ ?", plan, flags=re.M))
    assert drawn == {"jaxstruct", "experiments", "tests", "third_party_data", "docs"}
    assert all((ROOT / name).is_dir() for name in drawn)
