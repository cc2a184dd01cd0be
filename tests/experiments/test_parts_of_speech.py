"""experiments.parts_of_speech on made-up sentences, and what it reads of a treebank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from experiments import parts_of_speech as parts
from experiments.corpora.treebanks import TreebankFile
from experiments.lib import common
from experiments.parts_of_speech import Options
from jaxstruct import Status
from jaxstruct.data.conll import Sentence
from tests.experiments.scripts import QUIET, strict_json

LEXICON = {"D": ["the", "a"], "N": ["dog", "cat", "can"], "V": ["sees", "can", "runs"]}
FOLLOWS = {"D": "N", "N": "V", "V": "D"}


def sentences(seed: int, n: int) -> tuple[Sentence, ...]:
    """D N V D N ..., of words some of which have two tags."""
    random, found = np.random.default_rng(seed), []
    for _ in range(n):
        tag, pairs = random.choice(list(LEXICON)), []
        for _ in range(random.integers(2, 6)):
            pairs.append((str(random.choice(LEXICON[tag])), str(tag)))
            tag = FOLLOWS[tag]
        words, tags = zip(*pairs, strict=True)
        found.append(Sentence(words, (), tags))
    return tuple(found)


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Iterator[Options]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "load_sentences", lambda _: (sentences(0, 20), sentences(1, 10)))
        yield Options(output=str(tmp_path_factory.mktemp("parts")), affixes=1, epochs=3, **QUIET)


def test_every_machine_is_measured(outcome: common.Outcome) -> None:
    errors = {row["method"]: row["test"]["token_error"] for row in outcome.numbers["rows"]}
    assert list(errors) == [
        "commonest tag of the word", "HMM, the slides' count", "HMM, with stop probabilities",
        "HMM, classes of rare words", "CRF, C' = 1", "perceptron", "perceptron, averaged",
        "svm1_margin, C' = 0.1",
    ]  # fmt: skip
    word = errors.pop("commonest tag of the word")
    assert word > 0 and all(error < word for error in errors.values())
    assert outcome.numbers["rows"][-1]["status"] is Status.CONVERGED
    assert outcome.numbers["tags"] == ["D", "N", "V"]


def test_files_and_notes(outcome: common.Outcome) -> None:
    names = {path.name for path in outcome.files}
    assert {"parts_of_speech_wsj.json", "parts_of_speech_wsj.csv"} <= names
    assert len(strict_json(outcome.files[0])["rows"]) == 8
    assert any("20 sentences to train, 10 of" in note for note in outcome.table.notes)


def test_sentences_of_a_part_with_their_tags() -> None:
    text = "(S (NP (DT the) (NN dog)) (NP-SBJ (-NONE- *T*)) (VP (VBZ runs)))"
    files = [TreebankFile("a", "01", text), TreebankFile("b", "00", "(S (X y))")]
    (one,) = parts._sentences(files, "01")
    assert one == Sentence(("the", "dog", "runs"), (), ("DT", "NN", "VBZ"))


@pytest.mark.thorough
def test_only_the_methods_asked_for() -> None:
    names = [m.names for m in parts.machines(Options(methods=("perceptron", "word")))]
    assert names == [("commonest tag of the word",), ("perceptron", "perceptron, averaged")]
    with pytest.raises(ValueError, match="methods"):
        parts.run(Options(methods=("guess",)))
