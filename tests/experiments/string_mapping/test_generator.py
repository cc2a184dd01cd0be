"""The drawn strings follow the text: lengths, transitions, noise."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from experiments.string_mapping.generator import (
    ALPHABET,
    TARGETS,
    draw_output,
    draw_pairs,
    transitions,
)

PAIRS = draw_pairs(3000, 0)


def test_inputs_are_of_their_markov_models() -> None:
    lengths = Counter(map(len, PAIRS.inputs))
    assert set(lengths) == set(range(10, 16)) and min(lengths.values()) > 400
    for kind in range(3):
        counts = np.zeros((4, 4))
        for text in np.array(PAIRS.inputs)[PAIRS.classes == kind]:
            for a, b in zip(text[:-1], text[1:], strict=True):
                counts[ALPHABET.index(a), ALPHABET.index(b)] += 1
        rows = counts.sum(axis=1, keepdims=True)
        seen = rows[:, 0] > 0
        assert seen.tolist() == [kind != 2] * 2 + [True] * 2
        np.testing.assert_allclose(counts[seen] / rows[seen], transitions(kind)[seen], atol=0.025)
    assert np.bincount(PAIRS.classes).min() > 900


def lengths_of(noise: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    drawn = [len(draw_output(rng, 0, noise)) for _ in range(4000)]
    return np.bincount(drawn, minlength=7) / len(drawn)


@pytest.mark.parametrize(
    ("noise", "first"),
    [("insertions", {0: 0.55, 1: 0.3, 2: 0.15}), ("deletions", {0: 0.55, 1: 0.3, -2: 0.15})],
)
def test_output_lengths_are_those_of_two_turns(noise: str, first: dict) -> None:
    want = np.zeros(7)
    for change, chance in first.items():
        for lost, other in ((0, 0.55), (1, 0.3), (2, 0.15)):
            want[4 + change - lost] += chance * other
    np.testing.assert_allclose(lengths_of(noise), want, atol=0.03)


def test_without_a_change_the_output_is_the_target() -> None:
    outputs = Counter(zip(PAIRS.classes.tolist(), PAIRS.outputs, strict=True))
    for kind, target in enumerate(TARGETS):
        share = outputs[kind, target] / np.sum(PAIRS.classes == kind)
        assert 0.3 <= share + 0.03 and share < 0.45  # .55 * .55, and changes that undo changes


def test_a_seed_repeats_a_draw() -> None:
    assert draw_pairs(5, 3).outputs == draw_pairs(5, 3).outputs
    assert draw_pairs(5, 3).inputs != draw_pairs(5, 4).inputs
