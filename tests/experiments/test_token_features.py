"""Features of tokens by hand, and the fast rows against the strings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.corpora.conll2002 import load_conll2002
from experiments.tasks.token_features import (
    FeatureOptions,
    fit_token_index,
    token_features,
    token_rows,
)
from jaxstruct.core.feature_encoding import fit_index
from jaxstruct.data.conll import Sentence
from tests.experiments.slow_features import count_features, index_features
from tests.lib.refusals import refused

ALONE = FeatureOptions(affixes=0, window=0)


def _sentence(text: str, tags: str = "") -> Sentence:
    words = tuple(text.split(" "))
    return Sentence(words, (tuple(tags.split(" ")),) if tags else (), ("O",) * len(words))


def _of(text: str, options: FeatureOptions, tags: str = "") -> list[set[str]]:
    (tokens,) = token_features([_sentence(text, tags)], options)
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


@pytest.mark.parametrize(
    ("word", "shape", "flags"),
    [
        ("casa", "x", ""),
        ("Madrid", "Xx", "initial"),
        ("ÁVILA", "X", "initial capitals"),
        ("A", "X", "initial"),
        ("U.S.", "X.X.", "initial capitals"),
        ("McCain", "XxXx", "initial mixed"),
        ("iPhone", "xXx", "mixed"),
        ("1998", "0", "digit number"),
        ("1.998,5", "0.0,0", "digit number"),
        ("1998-99", "0-0", "digit number hyphen"),
        ("F-16", "X-0", "initial digit hyphen"),
        ("G8", "X0", "initial digit"),
        ("--", "-", "hyphen punctuation"),
        ("...", ".", "punctuation"),
        ('"', '"', "punctuation"),
        ("漢", "x", ""),
    ],
)
def test_spelling(word: str, shape: str, flags: str) -> None:
    (features,) = _of(word, ALONE)
    expected = {f"{flag}[0]" for flag in flags.split()}
    assert features == expected | {
        f"word[0]={word}", f"lower[0]={word.lower()}", f"shape[0]={shape}", "bias"
    }  # fmt: skip


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


def test_neighbours_stop_at_sentences() -> None:
    apart = token_features([_sentence("a b"), _sentence("c")])
    assert apart == [*token_features([_sentence("a b")]), *token_features([_sentence("c")])]


def test_tags_only_if_asked() -> None:
    """The same word under two tags keeps them apart."""
    with_tags = FeatureOptions(affixes=0, window=1, tags=True)
    tokens = _of("si si", with_tags, "C R")
    assert {f for f in tokens[0] if "tag" in f} == {"tag[0]=C", "tag[+1]=R"}
    assert {f for f in tokens[1] if "tag" in f} == {"tag[-1]=C", "tag[0]=R"}
    assert not any("tag" in f for token in _of("si si", FeatureOptions(), "C R") for f in token)


def test_errors() -> None:
    with refused(r"options.affixes: got -1, expected at least 0"):
        token_features([], FeatureOptions(affixes=-1))
    with refused(r"options.window: got -1"):
        fit_token_index([_sentence("a")], FeatureOptions(window=-1))
    tagged, bare = _sentence("a", "N"), _sentence("b")
    with refused(r"sentences\[1\]: has no column of tags"):
        token_features([tagged, bare], FeatureOptions(tags=True))


def _random_sentences(rng: np.random.Generator, number: int, words: list[str]) -> list[Sentence]:
    made = []
    for length in rng.integers(1, 7, number):
        chosen = tuple(words[i] for i in rng.integers(0, len(words), length))
        tags = tuple("NV"[i] for i in rng.integers(0, 2, length))
        made.append(Sentence(chosen, (tags,), ("O",) * length))
    return made


@pytest.mark.parametrize(
    "options",
    [FeatureOptions(*o) for o in itertools.product((0, 3, 4), (0, 1, 2), (False, True))],
    ids=lambda o: f"affixes{o.affixes}-window{o.window}-tags{o.tags}",
)
def test_rows_against_strings(options: FeatureOptions) -> None:
    """The interned way gives the same index and the same rows as the strings, unknown included."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abAB1-."), rng.integers(1, 7))) for _ in range(40)]
    train = _random_sentences(rng, 30, words[:25])
    test = _random_sentences(rng, 30, words)
    for min_count in (1, 4):
        index = fit_token_index(train, options, min_count=min_count)
        assert index == fit_index(
            count_features(token_features(train, options)), min_count=min_count
        )
        for sentences in (train, test):
            rows = token_rows(sentences, index, options)
            slow = index_features(index, token_features(sentences, options))
            for fast_field, slow_field in zip(rows, slow, strict=True):
                assert np.array_equal(fast_field, slow_field)
                if isinstance(slow_field, np.ndarray):
                    assert fast_field.dtype == slow_field.dtype
        assert rows.unknown > 0


def test_chunks(monkeypatch) -> None:
    """Tokens are taken a chunk at a time; the borders between chunks do not show."""
    rng = np.random.default_rng(3)
    sentences = _random_sentences(rng, 20, ["ab", "Cd", "e", "12", "fgh"])
    index = fit_token_index(sentences)
    whole = token_rows(sentences, index)
    monkeypatch.setattr("experiments.tasks.token_features._CHUNK", 7)
    for a, b in zip(token_rows(sentences, index), whole, strict=True):
        assert np.array_equal(a, b)


def test_no_sentences_and_nothing_known() -> None:
    index = fit_token_index([_sentence("a b")], FeatureOptions(affixes=0, window=0))
    empty = token_rows([], index)
    assert empty.indices.dtype == np.int32 and empty.unknown == 0
    assert empty.token_offsets.tolist() == empty.sentence_offsets.tolist() == [0]
    assert token_features([]) == []
    strange = fit_index({"no such feature": 1})
    rows = token_rows([_sentence("a b")], strange, ALONE)
    assert rows.token_offsets.tolist() == [0, 0, 0] and rows.unknown == 8


def test_real_corpus(require_corpus) -> None:
    """The first 300 sentences by both ways; later ones have unknown features."""
    require_corpus("conll2002", "conll2002.zip")
    train = load_conll2002("esp").train
    first = train[:300]
    index = fit_token_index(first)
    rows = token_rows(first, index)
    slow = index_features(index, token_features(first))
    assert all(np.array_equal(a, b) for a, b in zip(rows, slow, strict=True))
    assert rows.unknown == 0 and len(rows.token_offsets) == 8541 + 1
    later = token_rows(train[300:400], index)
    assert later.unknown > 0 and 8 < np.diff(later.token_offsets).mean() < 20
