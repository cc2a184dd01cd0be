"""Labels to indices and back."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.labels import LabelCodec, decode, encode, encode_lists, fit_codec
from tests.lib.refusals import refused


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b", "c"], ("a", "b", "c")),
        ([3, -1, 2.5, 3], (-1, 2.5, 3)),
        ([10, 9, -2, -10], (-10, -2, 9, 10)),  # as numbers, not as they are written
        ([("b", 1), ("a", 2)], (("a", 2), ("b", 1))),
        (["x", ("y",), "a", ("y",)], ("x", ("y",), "a")),  # not comparable: as they came
        (
            [frozenset("ab"), frozenset("b"), frozenset("a")],
            (frozenset("ab"), frozenset("b"), frozenset("a")),
        ),  # compared, but no total order
        ("word", ("d", "o", "r", "w")),
        (np.array([2, 0, 2], np.uint8), (0, 2)),
        (np.array(["no", "ja"]), ("ja", "no")),
    ],
)
def test_round_trip_and_order(labels, classes):
    codec = fit_codec(labels)
    assert codec == LabelCodec(classes)
    indices = encode(codec, labels)
    assert indices.dtype == np.int32 and indices.shape == (len(labels),)
    assert decode(codec, indices) == list(labels)


def test_numpy_and_python_scalars_of_one_value_are_one_label():
    codec = fit_codec([np.int64(2), 2, np.float32(2.0), np.int8(1), np.True_])
    assert codec.classes == (1, 2)
    assert all(type(name) in (int, bool) for name in codec.classes)
    np.testing.assert_array_equal(encode(codec, [np.uint16(2), 1.0, np.float64(2)]), [1, 0, 1])
    strings = fit_codec([np.str_("a"), "a", "b"])
    assert strings.classes == ("a", "b") and type(strings.classes[0]) is str
    np.testing.assert_array_equal(encode(strings, np.array(["b", "a"])), [1, 0])
    np.testing.assert_array_equal(encode(codec, jnp.array([2, 1])), [1, 0])


def test_dates_are_labels():
    days = np.array(["2005-09-02", "2005-09-01"], "datetime64[ns]")
    codec = fit_codec(days)
    np.testing.assert_array_equal(encode(codec, days), [1, 0])
    refused(r"labels\[0\]: got .*missing", encode, codec, [np.datetime64("NaT", "D")])


def test_given_classes_keep_their_order_and_may_be_absent():
    codec = fit_codec(["b"], classes=["c", "b", "a"])
    assert codec.classes == ("c", "b", "a")
    np.testing.assert_array_equal(encode(codec, ["a", "b"]), [2, 1])
    assert fit_codec([], classes=np.array([7, 5])).classes == (7, 5)


def test_numbers_beside_text_are_taken_where_classes_name_them():
    mixed = np.array(["no", 3], object)
    refused(r"labels\[1\] is 3, where others are such as 'no'", fit_codec, mixed)
    np.testing.assert_array_equal(encode(fit_codec(mixed, classes=[3, "no"]), mixed), [1, 0])


def test_an_unseen_label_says_what_and_where():
    codec = fit_codec(["sport", "politics", "weather"])
    message = r"labels\[1\]: 'sports' is none of the 3 known classes; close names: 'sport'"
    refused(message, encode, codec, ["sport", "sports"])
    refused(r"labels\[0\]: 7 is none of the 3", encode, codec, [7])
    refused("the classes are int, not str", lambda: encode(fit_codec([1, 2]), ["1"]))
    refused(r"labels\[2\]: 'd' is none of the 2", fit_codec, ["a", "b", "d"], classes=["a", "b"])


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, np.float32("nan")])
def test_missing_labels_are_refused(missing):
    refused(r"labels\[1\]: got .*missing", fit_codec, ["a", missing])
    refused(r"labels\[0\]: got .*missing", lambda: encode(fit_codec(["a"]), [missing]))
    refused(r"classes\[0\]: got .*missing", fit_codec, ["a"], classes=[missing, "a"])


@pytest.mark.smoke
def test_refusals():
    refused("labels: got none, the training set is empty", fit_codec, [])
    refused("classes: got none", fit_codec, [], classes=[])
    refused(r"classes\[2\]: 1 already is class 0", fit_codec, [], classes=[1, 2, np.int32(1)])
    refused(r"labels\[0\]: got the unhashable list", fit_codec, [["a"]])
    refused(r"labels: got an array of shape \(1, 2\)", fit_codec, np.zeros((1, 2)))
    refused(r"labels\[1\]: got .*, a missing label", lambda: fit_codec(["a", _NotAvailable()]))


def test_decode_checks_the_range():
    codec = fit_codec(["a", "b"])
    assert decode(codec, jnp.array([1, 0])) == ["b", "a"]
    assert decode(codec, []) == []
    for indices, message in [
        ([0, 2], r"indices\[1\] is 2: expected 0..1"),
        ([-1], r"indices\[0\] is -1"),
        ([0.0], r"must be \[n\] integers"),
        (1, r"must be \[n\] integers"),
        ([True], r"must be \[n\] integers"),
    ]:
        refused(message, decode, codec, indices)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: fit_codec(3), "labels must be a sequence of labels, .* got 3"),
        (lambda: fit_codec([1], 3), "classes must be a sequence"),
        (lambda: encode(["a"], fit_codec(["a"])), r"codec must be a LabelCodec \(see fit_codec\)"),
        (lambda: decode([0], fit_codec(["a"])), "codec must be a LabelCodec"),
        (lambda: decode(fit_codec(["a"]), [[0], [0, 0]]), r"indices must be \[n\] integers"),
        (lambda: encode(fit_codec(["a"]), ["x" * 10**6]), "is none of the 1 known classes"),
    ],
)
def test_wrong_types_are_refused(make, match):
    refused(match, make)


class _NotAvailable:
    """As pandas.NA: comparing it gives no truth value."""

    def __ne__(self, other: object):
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


def test_lists_of_labels_and_where_a_wrong_one_stands() -> None:
    codec = fit_codec("ab")
    found = encode_lists(codec, [[*"ab"], [], ("b",)])
    assert found.rows.tolist() == [0, 1, 1] and found.offsets.tolist() == [0, 2, 2, 3]
    with refused(r"labels\[2\]\[1\]: 'c' is none of the 2 known classes"):
        encode_lists(codec, [[*"ab"], [], [*"bc"]])
    refused(r"labels\[0\]\[1\]: got None, a missing label", encode_lists, codec, [["a", None]])
