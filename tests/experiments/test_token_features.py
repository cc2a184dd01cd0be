"""Features of tokens by hand, and the fast rows against the strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from experiments.corpora.conll2002 import load_conll2002
from experiments.tasks import token_features as tokens_of
from experiments.tasks.token_features import (
    FeatureOptions,
    fit_token_index,
    token_features,
    token_rows,
)
from jaxstruct.core.feature_encoding import FeatureIndex, fit_index
from jaxstruct.data.conll import Sentence

ALONE = FeatureOptions(affixes=0, window=0)


def _of(text: str, options: FeatureOptions) -> list[set[str]]:
    words = tuple(text.split(" "))
    (tokens,) = token_features([Sentence(words, (), ("O",) * len(words))], options)
    assert all(len(set(token)) == len(token) for token in tokens)
    return [set(token) for token in tokens]


def test_one_sentence_by_hand() -> None:
    """All features of all tokens: own, neighbours', borders, bias."""
    first, second = _of("Del Norte", FeatureOptions(affixes=3, window=1))
    assert first == {
        "bias", "begin[-1]",
        "word[0]=Del", "lower[0]=del", "prefix1[0]=d", "prefix2[0]=de",
        "suffix1[0]=l", "suffix2[0]=el", "shape[0]=Xx", "initial[0]",
        "word[+1]=Norte", "lower[+1]=norte", "prefix3[+1]=nor", "suffix3[+1]=rte",
        "shape[+1]=Xx", "initial[+1]",
    }  # fmt: skip
    assert second == {
        "bias", "end[+1]",
        "word[0]=Norte", "lower[0]=norte", "prefix1[0]=n", "prefix2[0]=no", "prefix3[0]=nor",
        "suffix1[0]=e", "suffix2[0]=te", "suffix3[0]=rte", "shape[0]=Xx", "initial[0]",
        "word[-1]=Del", "lower[-1]=del", "shape[-1]=Xx", "initial[-1]",
    }  # fmt: skip


def test_spelling() -> None:
    for word, shape, *flags in (
        ("casa", "x"), ("Madrid", "Xx", "initial"), ("ÁVILA", "X", "initial", "capitals"),
        ("A", "X", "initial"), ("U.S.", "X.X.", "initial", "capitals"),
        ("McCain", "XxXx", "initial", "mixed"), ("iPhone", "xXx", "mixed"),
        ("1998", "0", "digit", "number"), ("1.998,5", "0.0,0", "digit", "number"),
        ("1998-99", "0-0", "digit", "number", "hyphen"), ("G8", "X0", "initial", "digit"),
        ("F-16", "X-0", "initial", "digit", "hyphen"), ("--", "-", "hyphen", "punctuation"),
        ("...", ".", "punctuation"), ('"', '"', "punctuation"), ("漢", "x"),
    ):  # fmt: skip
        (features,) = _of(word, ALONE)
        own = {f"word[0]={word}", f"lower[0]={word.lower()}", f"shape[0]={shape}", "bias"}
        assert features == own | {f"{flag}[0]" for flag in flags}


def test_window() -> None:
    """Which words each token sees, and where it looks past an end."""
    tokens = _of("a b c", FeatureOptions(affixes=0, window=2))
    kinds = ("word", "begin", "end")
    seen = [{f for f in token if f.split("[")[0] in kinds} for token in tokens]
    assert seen == [
        {"begin[-2]", "begin[-1]", "word[0]=a", "word[+1]=b", "word[+2]=c"},
        {"begin[-2]", "word[-1]=a", "word[0]=b", "word[+1]=c", "end[+2]"},
        {"word[-2]=a", "word[-1]=b", "word[0]=c", "end[+1]", "end[+2]"},
    ]
    (short,) = _of("a", FeatureOptions(affixes=0, window=2))
    assert {"begin[-2]", "begin[-1]", "end[+1]", "end[+2]"} < short


def _random_sentences(rng: np.random.Generator, number: int, words: list[str]) -> list[Sentence]:
    drawn = (tuple(rng.choice(words, length)) for length in rng.integers(1, 7, number))
    return [Sentence(tuple(map(str, own)), (), ("O",) * len(own)) for own in drawn]


def slow_rows(index: FeatureIndex, sentences: Sequence[Any]) -> tokens_of.TokenRows:
    """The columns of every token's features, one token after the other; unknown ones dropped."""
    tokens = [set(token) for sentence in sentences for token in sentence]
    known = [sorted(index.columns[name] for name in own if name in index.columns) for own in tokens]
    return tokens_of.TokenRows(
        np.array([column for own in known for column in own], np.int32),
        np.cumsum([0, *map(len, known)]), np.cumsum([0, *map(len, sentences)]),
        index.number_of_features, sum(map(len, tokens)) - sum(map(len, known)),
    )  # fmt: skip


@pytest.mark.parametrize("options", [FeatureOptions(*o) for o in ((0, 0), (3, 2), (4, 1))])
def test_rows_against_strings(options: FeatureOptions, monkeypatch) -> None:
    """The interned way gives the same index and the same rows as the strings, unknown included;
    the borders between chunks of tokens do not show."""
    monkeypatch.setattr("experiments.tasks.token_features._CHUNK", 7 if options.affixes else 10**6)
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abAB1-."), rng.integers(1, 7))) for _ in range(40)]
    train = _random_sentences(rng, 30, words[:25])
    test = _random_sentences(rng, 30, words)
    index, strings = fit_token_index(train, options), token_features(train, options)
    counts = Counter(name for sentence in strings for token in sentence for name in set(token))
    assert index == fit_index(counts)
    for sentences in (train, test):
        rows = token_rows(sentences, index, options)
        slow = slow_rows(index, token_features(sentences, options))
        for fast_field, slow_field in zip(rows, slow, strict=True):
            np.testing.assert_array_equal(fast_field, slow_field, strict=True)
    assert rows.unknown > 0


def test_real_corpus(require_corpus) -> None:
    """The first 300 sentences have 8541 tokens; later ones have unknown features."""
    require_corpus("conll2002", "conll2002.zip")
    train = load_conll2002("esp").train
    index = fit_token_index(train[:300])
    rows = token_rows(train[:300], index)
    assert rows.unknown == 0 and len(rows.token_offsets) == 8541 + 1
    later = token_rows(train[300:400], index)
    assert later.unknown > 0 and 8 < np.diff(later.token_offsets).mean() < 20
