"""Encoding of strings, padding and what is refused."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.kernels import Strings, encode_strings, gram_matrix, spectrum
from jaxstruct.kernels.strings import check_letters, marked_letters
from tests.lib.refusals import refused


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


def test_what_lies_past_the_length_is_padding() -> None:
    strings = Strings(jnp.array([[0, 1, 1, 7]]), jnp.array([2]))
    np.testing.assert_array_equal(marked_letters(strings, -2), [[0, 1, -2, -2]])


@pytest.mark.parametrize(
    ("texts", "alphabet", "width", "message"),
    [
        (["ab", "ax"], "ab", None, r"texts\[1\] has the letter 'x', which is none of the 2"),
        (["ab"], "aba", None, "alphabet must be different symbols, got 'aba'"),
        (["abab"], "ab", 3, "width must be at least 4, the longest text, got 3"),
        ([3], "ab", None, r"texts\[0\] must be a string or a list of symbols, got 3"),
        ("ab", "ab", None, "texts must be a list of strings, got 'ab'"),
    ],
)
def test_encoding_refuses(texts, alphabet, width, message) -> None:
    refused(message, encode_strings, texts, alphabet, width)


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        (np.zeros((2, 3), np.int32), "X must be a Strings"),
        (Strings(np.zeros((2, 3)), np.zeros(2, np.int32)), r"X.letters must be \[n, T\] integers"),
        (Strings(np.zeros((2, 3), int), np.zeros(3, int)), r"X.length must be \[n = 2\] integers"),
        (Strings(np.zeros((2, 3), int), np.array([1, 4])), r"X.length\[1\] is 4: expected 0..3"),
    ],
)
def test_sets_of_strings_are_checked(strings, message) -> None:
    refused(message, lambda: gram_matrix(spectrum(2), strings))


def test_one_string_is_checked() -> None:
    many = encode_strings(["ab", "b"], "ab")
    refused("for sets of strings use gram_matrix", lambda: spectrum(2)(many, many))


def test_letters_outside_the_alphabet_are_refused() -> None:
    with refused(r"strings: got letters 0..2, expected 0..1: raise"):
        check_letters("strings", encode_strings(["abc"], "abc"), 2)
