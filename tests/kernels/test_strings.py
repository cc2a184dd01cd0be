"""String kernels against their definitions and enumeration; their matrices; refusals."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from jaxstruct.kernels import (
    Strings,
    encode_strings,
    gram_matrix,
    linear,
    mismatch,
    normalised,
    pairwise_gram,
    spectrum,
    subsequences,
    substrings,
)
from jaxstruct.kernels import strings as string_grams
from jaxstruct.kernels.input import check_positive_semidefinite
from jaxstruct.kernels.strings import check_letters
from jaxstruct.kernels.substrings import shared_neighbours, subsequence_features
from tests.kernels.string_examples import (
    ALPHABET,
    WIDTH,
    encoded,
    gram_of,
    lodhi,
    random_texts,
    subsequences_of,
    substrings_of,
)
from tests.lib.refusals import refused

TEXTS = random_texts(0, 7)
COUNTS = [substrings_of(text) for text in TEXTS]
DECAY = 0.6
pairwise, gram_of_parts = jax.jit(pairwise_gram), jax.jit(gram_matrix)
KERNELS = {
    "subsequences": subsequences(3, DECAY), "substrings": substrings(0.8), "spectrum": spectrum(2),
    "mismatch": mismatch(3, 1, 4),
}  # fmt: skip


def test_letters_are_numbered_by_the_alphabet() -> None:
    strings = encode_strings(["ba", "", "ccc"], "abc", 4)
    np.testing.assert_array_equal(
        strings.letters, [[1, 0, -1, -1], [-1, -1, -1, -1], [2, 2, 2, -1]]
    )
    np.testing.assert_array_equal(strings.length, [2, 0, 3])
    assert strings.letters.dtype == strings.length.dtype == np.int32


def test_symbols_may_be_any_values_and_the_width_is_a_size_class() -> None:
    strings = encode_strings([["the", "dog"], ["dog"] * 9], ["dog", "the"])
    assert strings.letters.shape == (2, 12)
    np.testing.assert_array_equal(strings.letters[0, :3], [1, 0, -1])
    assert encode_strings([], "ab").letters.shape == (0, 8)


@pytest.mark.parametrize("length", [1, 3])
def test_it_is_the_recursion_of_lodhi(length, x64) -> None:
    got = gram_matrix(subsequences(length, DECAY), encoded(TEXTS))
    want = [[lodhi(s, t, length, DECAY) for t in TEXTS] for s in TEXTS]
    assert np.asarray(want).max() > 1 and got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_it_is_the_sum_over_index_tuples(x64) -> None:
    strings = encoded(TEXTS)
    features = {q: [subsequences_of(text, q, DECAY) for text in TEXTS] for q in (1, 2, 3)}
    want = {q: gram_of(each) for q, each in features.items()}
    for gram in (gram_matrix, pairwise):
        np.testing.assert_allclose(gram(subsequences(3, DECAY), strings), want[3], rtol=1e-12)
    shorter = gram_matrix(subsequences(3, DECAY, shortest=1), strings)
    np.testing.assert_allclose(shorter, want[1] + want[2] + want[3], rtol=1e-12)


def test_explicit_features_have_the_same_products(x64) -> None:
    strings = encoded(TEXTS)
    features = subsequence_features(strings, 3, DECAY, 4)
    assert features.shape == (7, 64)
    np.testing.assert_allclose(
        features @ features.T, gram_matrix(subsequences(3, DECAY), strings), rtol=1e-12
    )
    word = TEXTS.index(max(TEXTS, key=len))
    for text, weight in subsequences_of(TEXTS[word], 3, DECAY).items():
        index = sum(ALPHABET.index(c) * 4 ** (2 - i) for i, c in enumerate(text))
        np.testing.assert_allclose(features[word, index], weight, rtol=1e-12)


def test_the_decay_is_a_leaf_that_can_be_differentiated() -> None:
    s, t = (jax.tree.map(lambda leaf, i=i: leaf[i], encoded(["abcab", "acb"])) for i in (0, 1))
    value = jax.jit(lambda decay: subsequences(2, decay)(s, t))
    step = 1e-3
    slope = (value(DECAY + step) - value(DECAY - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(value)(DECAY), slope, rtol=1e-3)


@pytest.mark.parametrize(
    ("kernel", "weight"),
    [
        (substrings(), lambda u: 1.0),
        (substrings(0.7), lambda u: 0.7 ** (2 * len(u))),
        (substrings(shortest=2, longest=3), lambda u: float(2 <= len(u) <= 3)),
        (spectrum(3), lambda u: float(len(u) == 3)),
    ],
)  # fmt: skip
def test_it_is_the_sum_over_common_substrings(kernel, weight, x64) -> None:
    want, strings = gram_of(COUNTS, weight), encoded(TEXTS)
    assert want.max() > 1
    np.testing.assert_allclose(gram_matrix(kernel, strings), want, rtol=1e-12)
    np.testing.assert_allclose(pairwise(kernel, strings), want, rtol=1e-12)


def test_strings_shorter_than_k_have_no_features() -> None:
    assert not np.asarray(gram_matrix(spectrum(3), encoded(["ab", ""]))).any()


def distance(u, v) -> int:
    return sum(a != b for a, b in zip(u, v, strict=True))


def by_words(text: str, k: int, m: int) -> list[int]:
    """phi_u of every word u."""
    windows = [text[i : i + k] for i in range(len(text) - k + 1)]
    words = itertools.product(ALPHABET, repeat=k)
    return [sum(distance(u, window) <= m for window in windows) for u in words]


@pytest.mark.parametrize(("k", "m"), [(3, 1), (3, 2), (3, 0)])
def test_the_mismatch_kernel_is_the_sum_over_all_words(k, m) -> None:
    features = np.array([by_words(text, k, m) for text in TEXTS], float)
    kernel, strings = mismatch(k, m, 4), encoded(TEXTS)
    np.testing.assert_array_equal(gram_matrix(kernel, strings), features @ features.T)
    np.testing.assert_array_equal(pairwise(kernel, strings), features @ features.T)


@pytest.mark.parametrize("letters", [1, 2, 4])
def test_shared_neighbours_are_counted(letters) -> None:
    k, m = 3, 1
    words = list(itertools.product(range(letters), repeat=k))
    first = words[0]
    for d, count in enumerate(shared_neighbours(k, m, letters)):
        others = [word for word in words if distance(first, word) == d]
        for other in others[:1]:
            near = [u for u in words if distance(u, first) <= m and distance(u, other) <= m]
            assert count == len(near)


def test_strings_shorter_than_k_have_no_words() -> None:
    assert not np.asarray(gram_matrix(mismatch(9, 1, 4), encoded(TEXTS))).any()


@pytest.mark.parametrize("name", KERNELS)
def test_halves_tiles_and_padding_change_nothing(name, monkeypatch, x64) -> None:
    kernel, strings = KERNELS[name], encoded(TEXTS)
    want = np.asarray(gram_matrix(kernel, strings))
    wide = encode_strings(TEXTS, ALPHABET, WIDTH + 3)
    dirt = wide._replace(letters=np.where(wide.letters < 0, 1, wide.letters))
    np.testing.assert_allclose(gram_matrix(kernel, dirt, strings), want, rtol=1e-12)
    monkeypatch.setattr(string_grams, "LANES", 3)
    string_grams._tiles.clear_cache()
    np.testing.assert_allclose(gram_matrix(kernel, dirt), want, rtol=1e-12)
    np.testing.assert_allclose(gram_matrix(kernel, dirt, strings), want, rtol=1e-12)
    string_grams._tiles.clear_cache()


def test_values_are_cosines(x64) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    want = X @ Z.T / np.outer(*(np.linalg.norm(each, axis=1) for each in (X, Z)))
    np.testing.assert_allclose(gram_of_parts(normalised(linear()), X, Z), want, rtol=1e-12)
    np.testing.assert_allclose(pairwise(normalised(linear()), X, Z), want, rtol=1e-12)


@pytest.mark.parametrize("decay", [0.01, 1.0])
def test_strings_without_a_subsequence_have_no_direction(decay, x64) -> None:
    strings, kernel = encoded(TEXTS), normalised(subsequences(3, decay))
    gram = np.asarray(gram_of_parts(kernel, strings))
    long = np.array([len(text) >= 3 for text in TEXTS])
    assert 1 < long.sum() < len(TEXTS)
    np.testing.assert_allclose(np.diag(gram), long.astype(float), rtol=1e-12)
    assert not gram[~long].any() and (gram <= 1 + 1e-12).all()
    np.testing.assert_allclose(pairwise(kernel, strings), gram, rtol=1e-12)


def test_single_precision_is_enough_for_a_kernel_matrix() -> None:
    gram = gram_of_parts(normalised(subsequences(3, 0.01)), encoded(random_texts(8, 60)))
    assert gram.dtype == np.float32
    check_positive_semidefinite(np.asarray(gram), "gram", 1e-6)


def test_another_decay_compiles_nothing() -> None:
    strings = encoded(TEXTS)
    gram_matrix(subsequences(3, 0.5), strings)
    count = string_grams._tiles._cache_size()
    gram_matrix(subsequences(3, 0.25), strings)
    assert string_grams._tiles._cache_size() == count


def test_what_does_not_fit_is_refused() -> None:
    refused(r"texts\[1\] has the letter 'x', which is none", encode_strings, ["ab", "ax"], "ab")
    refused("alphabet must be different symbols, got 'aba'", encode_strings, ["ab"], "aba")
    refused("width must be at least 4, the longest text, got 3", encode_strings, ["abab"], "ab", 3)
    refused(r"texts\[0\] must be a string or a list of symbols", encode_strings, [3], "ab")
    refused("texts must be a list of strings, got 'ab'", encode_strings, "ab", "ab")
    refused("X must be a Strings", gram_matrix, spectrum(2), np.zeros((2, 3), np.int32))
    long = Strings(np.zeros((2, 3), int), np.array([1, 4]))
    refused(r"X.length\[1\] is 4: expected 0..3", gram_matrix, spectrum(2), long)
    many = encode_strings(["ab", "b"], "ab")
    refused("for sets of strings use gram_matrix", spectrum(2), many, many)
    more = encode_strings(["abc"], "abc")
    refused(r"strings: got letters 0..2, expected 0..1: raise", check_letters, "strings", more, 2)
    refused("length must be at least 1, got 0", subsequences, 0, 0.5)
    refused("decay must be > 0 and <= 1, got 1.5", subsequences, 2, 1.5)
    refused("whose power 2 length = 20 is below what float32 holds", subsequences, 10, 0.01)
    refused("shortest must be at most 2, got 3", subsequences, 2, 0.5, shortest=3)
    refused("3200000 features of sub", subsequence_features, encoded(["a"]), 5, 0.5, 20)
    refused("length must be at least 1, got 0", spectrum, 0)
    refused("decay must be > 0 and <= 1, got 2.0", substrings, 2.0)
    refused("longest must be at least 3, got 2", substrings, shortest=3, longest=2)
    refused("mismatches must be at most 1, got 2", mismatch, 2, 2, 4)
