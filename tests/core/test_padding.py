"""Ragged examples in buckets and back, against plain loops."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxstruct import Padding, Ragged, ragged
from jaxstruct.core.padding import (
    NUMBERS,
    bucketed,
    bucketed_inputs,
    layout_of,
    padded,
    padded_part,
    restored,
)
from jaxstruct.core.sizes import size_class
from tests.lib.refusals import refused


def _sizes(x):
    return {"labels": x["tokens"].shape[1], "class": 0}


def _with_count(x):
    return x | {"count": np.sum(x["tokens"] >= 0, axis=1)}


PADDING = Padding(price=20, output_sizes=_sizes, complete=_with_count)


def random_examples(rng):
    """Tokens and their labels, a second sequence of other lengths, and plain arrays."""
    n = int(rng.integers(1, 30))
    lengths, others = rng.integers(0, 60, n), rng.integers(0, 20, n)
    tokens = [rng.integers(0, 9, length) for length in lengths]
    inputs = {
        "tokens": ragged(tokens, -1),
        "other": ragged([rng.normal(size=(length, 2)) for length in others]),
        "plain": rng.normal(size=(n, 3)),
    }
    outputs = {"labels": ragged([one + 1 for one in tokens]), "class": rng.integers(0, 3, n)}
    return inputs, outputs


def test_every_example_in_its_bucket() -> None:
    rng, counts = np.random.default_rng(0), set()
    for _ in range(100):
        inputs, outputs = random_examples(rng)
        x, y = bucketed(PADDING, inputs, outputs)
        counts.add(len(x.parts))
        np.testing.assert_array_equal(
            np.sort(np.concatenate(x.index)), np.arange(len(outputs["class"]))
        )
        assert x.index == y.index
        for part, of_part, index in zip(x.parts, y.parts, x.index, strict=True):
            for name, fill in (("tokens", -1), ("other", 0)):
                store, array = inputs[name], part[name]
                assert array.shape[1] == size_class(int(store.lengths[index].max()))
                for row, i in zip(array, index, strict=True):
                    np.testing.assert_array_equal(row[: len(store[i])], store[i])
                    assert (row[len(store[i]) :] == fill).all()
            np.testing.assert_array_equal(part["plain"], inputs["plain"][index])
            np.testing.assert_array_equal(of_part["class"], outputs["class"][index])
            assert of_part["labels"].shape == part["tokens"].shape
            np.testing.assert_array_equal(
                of_part["labels"], np.where(part["tokens"] < 0, -1, part["tokens"] + 1)
            )
            np.testing.assert_array_equal(part["count"], inputs["tokens"].lengths[index])
    assert {1, 2, 3} <= counts


def test_what_is_restored_is_what_was_bucketed() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        inputs, outputs = random_examples(rng)
        x, y = bucketed(PADDING, inputs, outputs)
        back = restored(PADDING, x, y.parts)
        np.testing.assert_array_equal(back["class"], outputs["class"])
        np.testing.assert_array_equal(back["labels"].rows, outputs["labels"].rows)
        np.testing.assert_array_equal(back["labels"].offsets, outputs["labels"].offsets)


def test_positions_of_several_numbers_are_restored() -> None:
    """A position is padding where all its numbers are; -1 beside a real number is none."""
    rng = np.random.default_rng(4)
    for shape in ((2,), (2, 3)):
        pairs = [rng.integers(0, 5, (length, *shape)) for length in rng.integers(0, 40, 20)]
        for one in pairs:
            one[..., 0] = -1
        inputs, outputs = ragged([one[..., 1] for one in pairs]), ragged(pairs)
        padding = Padding(price=1, output_sizes=lambda x: x.shape[1])
        x, y = bucketed(padding, inputs, outputs)
        assert len(y.parts) > 1
        back = restored(padding, x, y.parts)
        np.testing.assert_array_equal(back.rows, outputs.rows)
        np.testing.assert_array_equal(back.offsets, outputs.offsets)


def test_only_training_completes_the_inputs() -> None:
    inputs, _ = random_examples(np.random.default_rng(2))
    x = bucketed_inputs(PADDING, inputs)
    assert all("count" not in part for part in x.parts)


def test_plain_examples_are_one_bucket() -> None:
    x, y = bucketed(PADDING, np.zeros((3, 2)), np.zeros(3))
    assert len(x.parts) == len(y.parts) == 1 and x.index[0].tolist() == [0, 1, 2]
    assert len(bucketed_inputs(PADDING, np.zeros((3, 2))).parts) == 1


def test_wide_positions_are_worth_a_bucket() -> None:
    """40 positions saved: not of one number each, but where they hold more than NUMBERS / 40."""
    lengths = np.array([8] * 5 + [16])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for width, buckets in ((1, 1), (NUMBERS // 30, 2)):
        rows = np.broadcast_to(np.zeros(1, np.int8), (lengths.sum(), width))
        x = bucketed_inputs(Padding(), Ragged(rows, offsets))
        assert len(x.parts) == buckets


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (np.zeros((2, 3)), ragged([[1], [2]]), "outputs are ragged and inputs are not"),
        (ragged([[1], [2]]), np.zeros((2, 1)), r"outputs hold an array of shape \(2, 1\), but"),
        (ragged([[1], [2] * 30]), ragged([[0] * 40, [1]]), r"outputs\[0\] has 40 positions, more"),
        (ragged([[1], [2]]), {"a": np.zeros(2)}, "outputs must be a pytree like"),
    ],
)
def test_refusals(inputs, outputs, message: str) -> None:
    padding = Padding(output_sizes=lambda x: x.shape[1])
    refused(message, bucketed, padding, inputs, outputs)


def test_a_structure_that_does_not_say_how_outputs_are_padded() -> None:
    x = ragged([[1], [2] * 30])
    refused("no output of several lengths: .*Padding", lambda: bucketed(Padding(), x, x))
    parts = bucketed_inputs(Padding(price=1), x)
    refused("does not say which axis is padded", lambda: restored(Padding(), parts, parts.parts))


def test_one_batch_of_the_longest() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        inputs, outputs = random_examples(rng)
        x, y = padded(PADDING, inputs, outputs)
        assert set(x) == {"tokens", "other", "plain"}  # nothing is completed
        T = size_class(int(inputs["tokens"].lengths.max()))
        assert x["tokens"].shape == y["labels"].shape == (len(inputs["tokens"]), T)
        for i, own in enumerate(inputs["tokens"]):
            np.testing.assert_array_equal(x["tokens"][i], [*own, *[-1] * (T - len(own))])
            np.testing.assert_array_equal(y["labels"][i], [*(own + 1), *[-1] * (T - len(own))])
        np.testing.assert_array_equal(y["class"], outputs["class"])
        again, _ = padded(PADDING, x, y)
        assert again["tokens"] is x["tokens"]


def test_some_examples_of_a_bucket_are_padded_as_all_of_it() -> None:
    """Any part of a bucket, an empty one too, has the shapes and rows of the whole."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        x, y = random_examples(rng)
        inputs, outputs = bucketed(PADDING, x, y)
        layout = layout_of(PADDING, x, y)
        for own, longest, px, py in zip(*layout, inputs.parts, outputs.parts, strict=True):
            assert set(longest) <= set(own)
            rows = np.flatnonzero(rng.random(len(own)) < 0.4)
            found = padded_part(PADDING, x, y, own[rows], longest)
            rows = rows if len(rows) else np.flatnonzero(np.isin(own, longest))[:1]
            for one, whole in zip(*map(jax.tree.leaves, (found, (px, py))), strict=True):
                np.testing.assert_array_equal(one, whole[rows])
    plain = rng.normal(size=(5, 2)), np.arange(5)
    layout = layout_of(PADDING, *plain)
    assert [len(own) for own in layout.index] == [5]
    for which, rows in (([3, 1], [3, 1]), ([], [0])):
        found = padded_part(PADDING, *plain, np.array(which, int), layout.longest[0])
        np.testing.assert_array_equal(found[0], plain[0][rows])
    with refused("outputs are ragged and inputs are not"):
        layout_of(PADDING, plain[0], ragged([[1], [2, 3]]))
