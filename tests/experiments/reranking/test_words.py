"""Words: features by hand, the k best beside `predict`, and texts that are only tested on."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.handwriting.data import load, spell
from experiments.handwriting.machines import chain_problem, read_words
from experiments.reranking.command import Options
from experiments.reranking.words import (
    EDGE,
    chosen_words,
    k_best_words,
    letter_runs,
    measures,
    wrong_letters,
)
from tests.experiments.handwriting.cases import random_words, write_letter_data


def test_runs_of_letters() -> None:
    found = letter_runs((1, 1, 1, 2))
    assert found[1, 1, 1] == 1 and found[EDGE, 1, 1] == 1 and found[1, 1, 2] == 1
    assert found[EDGE, 1, 1, 1, 2, EDGE] == 1 and sum(found.values()) == 4 + 3 + 2 + 1
    assert letter_runs((1, 1, 1, 1))[1, 1, 1] == 2
    assert wrong_letters((1, 2, 3), (1, 3, 3)) == 1


@pytest.fixture(scope="module")
def letter_data(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("words") / "letter.data"
    write_letter_data(path, random_words())
    return str(path)


def test_the_best_of_k_is_what_is_predicted(letter_data: str) -> None:
    data, problem = load(letter_data, "float32"), chain_problem("hamming", "float32")
    random = np.random.default_rng(0)
    w = {
        name: random.normal(size=leaf.shape).astype(np.float32)
        for name, leaf in problem.initial_weights.items()
    }
    chosen = np.array([5, 0, 7])
    lists = k_best_words(problem, w, data, chosen, 3)
    wanted = read_words(problem, w, data, chosen)
    assert [list(own[0]) for own in lists.outputs] == [word.tolist() for word in wanted]
    for i, own in enumerate(lists.outputs):
        assert len(set(own)) == len(own) == 3 and lists.scores[i] == sorted(lists.scores[i])[::-1]
        assert lists.costs[i] == [wrong_letters(lists.truths[i], y) for y in own]
    whole, letters = measures(lists, [0, 0, 0])
    wrong = sum(own[0] for own in lists.costs)
    assert letters == pytest.approx(100 * (1 - wrong / sum(map(len, lists.truths))))
    assert whole == 100 * np.mean([own[0] == 0 for own in lists.costs])


def test_new_texts_are_in_no_training_word(letter_data: str) -> None:
    data = load(letter_data, "float32")
    options = Options(letter_data=letter_data, train_folds=("0", "1"), new_texts=0.3)
    train, test = chosen_words(options, data, new=True)
    texts = [{tuple(word) for word in spell(data, part)} for part in (train, test)]
    assert texts[0] and texts[1] and not texts[0] & texts[1]
    every, rest = chosen_words(options, data, new=False)
    assert len(every) + len(rest) == 24 and set(train) < set(every) and set(test) <= set(rest)
    with pytest.raises(ValueError, match="new_texts: got 1, which leaves 0 words to train on"):
        chosen_words(options._replace(new_texts=1), data, new=True)
