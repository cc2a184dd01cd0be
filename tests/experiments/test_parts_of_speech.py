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
from tests.experiments.scripts import QUIET

LEXICON = {"D": ["the", "a"], "N": ["dog", "cat", "can", "fox"], "V": ["sees", "can", "runs"]}
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
        patch.setattr(parts, "load_sentences", lambda _: (sentences(0, 16), sentences(1, 10)))
        yield Options(
            output=str(tmp_path_factory.mktemp("parts")), epochs=3,
            methods=("word", "hmm", "perceptron", "svm"), **QUIET,
        )  # fmt: skip


def test_every_machine_is_measured(outcome: common.Outcome) -> None:
    errors = {row["method"]: row["test"]["token_error"] for row in outcome.numbers["rows"]}
    assert list(errors) == [
        "commonest tag of the word", "HMM, the slides' count", "HMM, with stop probabilities",
        "HMM, classes of rare words", "perceptron", "perceptron, averaged", "svm1_margin, C' = 0.1",
    ]  # fmt: skip
    word = errors.pop("commonest tag of the word")
    assert word > 0 and all(error < word for error in errors.values())
    assert outcome.numbers["rows"][-1]["status"] is Status.CONVERGED
    assert outcome.numbers["tags"] == ["D", "N", "V"]


def test_sentences_of_a_part_with_their_tags() -> None:
    text = "(S (NP (DT the) (NN dog)) (NP-SBJ (-NONE- *T*)) (VP (VBZ runs)))"
    files = [TreebankFile("a", "01", text), TreebankFile("b", "00", "(S (X y))")]
    (one,) = parts._sentences(files, "01")
    assert one == Sentence(("the", "dog", "runs"), (), ("DT", "NN", "VBZ"))
