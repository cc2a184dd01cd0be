"""Classes of rare words."""

from __future__ import annotations

import pytest

from jaxstruct.trees.phrases.grammar import (
    CLASSES,
    UnknownWords,
    check_unknown_words,
    frequent_words,
    signature,
    words_read,
)
from tests.lib.refusals import refused


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("1990s", "UNK-num"),
        ("--", "UNK-punct"),
        ("NASA", "UNK-caps"),
        ("U.S.", "UNK-caps"),
        ("I", "UNK-cap"),
        ("Vinken", "UNK-cap"),
        ("well-known", "UNK-hyphen"),
        ("running", "UNK-ing"),
        ("king", "UNK"),
        ("ended", "UNK-ed"),
        ("quickly", "UNK-ly"),
        ("nation", "UNK-ion"),
        ("dogs", "UNK-s"),
        ("city", "UNK-y"),
        ("ability", "UNK-ity"),
        ("dog", "UNK"),
        ("", "UNK-punct"),
    ],
)
def test_signature(word: str, name: str) -> None:
    assert signature(word) == name
    assert name in CLASSES


def test_rare_words_are_read_as_their_class() -> None:
    seen = "the the the dog dog Vinken UNK UNK UNK".split()
    assert frequent_words(seen, UnknownWords(0)) == {"the", "dog", "Vinken"}
    assert frequent_words(seen, UnknownWords(1)) == {"the", "dog"}
    assert frequent_words(seen, UnknownWords(2)) == {"the"}
    assert words_read(["the", "dog", "UNK"], {"the"}) == ["the", "UNK", "UNK-caps"]


@pytest.mark.parametrize("rare", [-1, 1.0, True, None])
def test_bad_options(rare) -> None:
    with refused("rare must be at least 0, .*got "):
        check_unknown_words(UnknownWords(rare))
