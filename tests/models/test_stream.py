"""A stream gives what predict gives of all at once, in order; how its batches are cut."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from scipy import sparse

import jaxstruct as js
from jaxstruct.core.contract import Padding
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.core.ragged import Ragged, ragged
from jaxstruct.core.sizes import batch_rows
from jaxstruct.core.types import SparseFeatures
from jaxstruct.models import BadRecord
from jaxstruct.models import stream as cutting
from jaxstruct.models.stream import BATCHES, cut, length_class
from jaxstruct.trees.structure import _PADDING as CHARTS
from jaxstruct.trees.structure import EXACT
from tests.lib.refusals import refused
from tests.lib.thorough import thorough_after
from tests.models import model_cases
from tests.models.model_cases import CASES, TREES

N = 11
SEED = 4
"""Of weights by which no model gives all its records one output."""
LONG = {
    "chain": [[["a"], ["b"]] * 9],
    "weighted_grammar": [["the", "dog", "sees"] + ["in", "a", "town"] * 3],
    "pairwise_alignment": [("ACGT" * 5, "ACT")],
    "graph_labelling": [(dict.fromkeys("abcdefghij", ["f"]), [("a", "b")], [["e"]])],
}
"""Records of another size class than those of the cases."""
JUNK = [
    None, 5, 2.5, "", "(", b"x", True, {}, [], [None], {"a": None}, [[]], [[[]]], [["a", 3]],
    {"nodes": 1}, object(), (), (1, 2, 3, 4), [{"a": float("nan")}], np.ones((2, 2, 2)), [[1], [2]],
    {"f": 10**400}, ("AC", 3), ("A!", "C"), [[("x",)]], sparse.eye(2, format="csr"), {1: 2}, "\0",
]  # fmt: skip


def model_of(name: str) -> js.models.TrainedModel:
    return model_cases.model_of(name, SEED)


def records_of(name: str, n: int = N) -> list:
    data = CASES[name][1]
    given = data.splitlines() if isinstance(data, str) else list(data)
    return list(itertools.islice(itertools.cycle([*given, *LONG.get(name, [])]), n))


def output(one):
    """What `model.predict` has in the place of what a stream gives."""
    return None if isinstance(one, BadRecord) else one


@pytest.mark.parametrize(
    ("name", "batch"),
    thorough_after(8, [*((name, 3) for name in CASES), ("dense", 1), ("dense", 64)]),
)
def test_it_is_predict_of_all_at_once(name: str, batch: int) -> None:
    model, records = model_of(name), records_of(name)
    stream = js.predict_stream(model, iter(records), batch=batch)
    found, wanted = list(map(output, stream)), model.predict(records)
    assert found == wanted
    assert len({json.dumps(one, default=str) for one in found}) > 1
    assert (stream.count, stream.bad, stream.waiting) == (N, wanted.count(None), 0)
    assert list(js.predict_stream(model, [], batch=batch)) == []


def test_it_runs_the_programs_of_predict() -> None:
    model, records = model_of("dense"), records_of("dense")
    model.predict(records)
    stream = js.predict_stream(model, records, batch=batch_rows(N, 1024))
    assert len(list(stream)) == N and (len(jax.local_devices()) > 1 or not stream.compile_seconds)


@pytest.mark.parametrize("name", CASES)
def test_no_junk_stops_a_stream_or_changes_its_neighbours(name: str) -> None:
    """What is bad is so by itself, too; what is sound has the prediction that it has alone."""
    model, good = model_of(name), records_of(name)
    wanted = model.predict(good)  # by the program of the test above
    mixed = [*JUNK[:3], *itertools.chain(*([one, good[i % 3]] for i, one in enumerate(JUNK)))]
    stream = js.predict_stream(model, [*mixed, *JUNK[-2:]], batch=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenFeatures)
        found = list(stream)
    assert len(found) == len(mixed) + 2
    sound = list(map(output, found[4 : len(mixed) : 2]))
    assert sound == [wanted[i % 3] for i in range(len(JUNK))]
    bad = [(place, one) for place, one in enumerate(found) if isinstance(one, BadRecord)]
    assert stream.bad == len(bad) > len(JUNK) // 2
    assert all(one.number == place and 5 < len(one.reason) <= 400 for place, one in bad)


BAD = 7
PLACES = {
    "first": [0], "last": [299], "many in a row": range(40, 210), "all": range(300),
    "now and then": range(0, 300, 9),
}  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_order_is_kept_around_bad_records(where: str) -> None:
    model, good = model_of("chain"), records_of("chain", 300)
    places = set(PLACES[where])
    wanted = model.predict(records_of("chain", 12)) * 25  # good has the same 4 again and again
    records = [BAD if i in places else one for i, one in enumerate(good)]
    stream = js.predict_stream(model, records, batch=3)
    for i, one in enumerate(stream):
        if i in places:
            assert one.number == i and one.reason.startswith("record must be a sequence")
        else:
            assert one == wanted[i]
        assert stream.count == i + 1
    assert stream.bad == len(places) and stream.count == 300


def test_errors_of_records_may_be_raised_in_their_place() -> None:
    model, good = model_of("chain"), records_of("chain")
    stream = js.predict_stream(model, [*good[:2], BAD, *good], batch=3, on_error="raise")
    assert [next(stream), next(stream)] == model.predict(good)[:2]
    refused("^record 2: record must be a sequence.*on_error='mark'", next, stream)
    assert next(stream, "no more") == "no more"


def test_bad_records_of_a_reader_pass_through() -> None:
    model, good = model_of("multiclass"), records_of("multiclass", 2)
    found = list(js.predict_stream(model, [good[0], BadRecord(-1, "line 7"), good[1]]))
    assert found[1] == BadRecord(1, "line 7") and [found[0], found[2]] == model.predict(good)


def test_lists_and_arrays_in_turn_are_records_each() -> None:
    """`predict` refuses them side by side."""
    data = js.chains.prepare([np.eye(3)], [["a", "b", "a"]])
    w = {k: np.ones(v.shape, np.float32) for k, v in data.problem.initial_weights.items()}
    model = js.trained(data, {k: np.cumsum(v, -1) for k, v in w.items()})
    mixed = [np.eye(3), [[0.0, 1.0, 0.0]], np.ones((2, 3)), np.ones((2, 4))]
    found = list(js.predict_stream(model, mixed))
    assert found[:3] == [model.predict([one])[0] for one in mixed[:3]]
    assert "4 columns" in found[3].reason


def test_rows_of_a_sparse_matrix_are_records() -> None:
    rows = sparse.random(9, 6, 0.5, format="csr", rng=np.random.default_rng(0))
    data = js.multiclass.prepare(rows, list("abcabcabc"))
    w = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    model = js.trained(data, {"weights": w})
    records = [rows[[i]] for i in range(9)]
    records[4] = sparse.csr_matrix((2, 6))
    found = list(js.predict_stream(model, records, batch=4))
    wanted = model.predict(rows)
    assert [one for i, one in enumerate(found) if i != 4] == wanted[:4] + wanted[5:]
    assert "several rows" in found[4].reason


@pytest.mark.smoke
def test_an_endless_stream_is_taken_as_it_is_asked_for() -> None:
    model, good = model_of("multiclass"), records_of("multiclass", 3)
    taken = itertools.count()
    stream = js.predict_stream(model, (good[next(taken) % 3] for _ in itertools.count()), batch=2)
    assert stream.most_waiting == 2 * BATCHES * 2 and stream.waiting == 0
    wanted = model.predict(good)
    for i, one in enumerate(itertools.islice(stream, 50)):
        assert one == wanted[i % 3]
        assert 0 <= stream.waiting < stream.most_waiting
        assert stream.count == i + 1
    assert next(taken) == stream.count + stream.waiting
    stream.close()
    assert list(stream) == []


def test_records_before_an_error_of_the_callers_come_first() -> None:
    model, good = model_of("multiclass"), records_of("multiclass", 7)

    def broken() -> Any:
        yield from good
        raise OSError("the disk is gone")

    stream = js.predict_stream(model, broken(), batch=2)
    assert [next(stream) for _ in good] == model.predict(good)
    refused("the disk is gone", next, stream, error=OSError)


def test_unseen_features_warn_once_and_are_counted() -> None:
    model = model_of("multiclass")
    records = [{"word": "x", "new": True}, {"word": "x", "other": 2.0}, 3, {"word": "x"}] * 8
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        stream = js.predict_stream(model, records, batch=2)
        found = list(stream)
    assert stream.unseen == 16 and stream.bad == 8 and found[0] == found[3]
    (one,) = heard
    assert one.category is UnseenFeatures and one.filename == __file__
    assert "rows names 2 features that training did not have" in str(one.message)


TWO = """
import jax
import jaxstruct as js
from tests.models.test_stream import model_of, records_of
assert len(jax.local_devices()) == 2
for name in ("chain", "multiclass"):
    model, records = model_of(name), records_of(name, 60)
    streams = [js.predict_stream(model, records, batch=4, devices=d)
               for d in (None, jax.local_devices()[:1], jax.local_devices()[1:])]
    found = [list(map(str, stream)) for stream in streams]
    assert found[0] == found[1] == found[2] and len(set(found[0])) > 1
    assert [len(stream.devices) for stream in streams] == [2, 1, 1]
"""


@pytest.mark.thorough
def test_two_devices_give_what_one_gives() -> None:
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", TWO], env=environment, check=True, timeout=300)


WRONG = {
    "no model": (lambda m: js.predict_stream(3, []), "model must be"),
    "a text": (lambda m: js.predict_stream(m, TREES), "records must be an iterable of records"),
    "batch": (lambda m: js.predict_stream(m, [], batch=0), "batch must be at least 1"),
    "on_error": (lambda m: js.predict_stream(m, [], on_error="skip"), "on_error must be one of"),
    "devices": (lambda m: js.predict_stream(m, [], devices=["cpu"]), "devices must be jax devices"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit_are_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, lambda: call(model_of("multiclass")))


RNG = np.random.default_rng(0)


def inputs_of(lengths) -> dict:
    rows = [np.full((int(n), 2), i + 1.0) for i, n in enumerate(lengths)]
    return {"x": ragged(rows), "length": np.asarray(lengths)}


def test_lengths_are_rounded_by_a_quarter_at_most_and_stay_sizes_of_the_structure() -> None:
    for n in range(1, 500):
        assert length_class(Padding(), n) == Padding().size(n)
        most = 1.25 if n <= EXACT else 1.5  # longer sentences are of size classes
        assert max(n, 8) <= length_class(CHARTS, n) <= max(most * n, 8)
    assert len({length_class(CHARTS, n) for n in range(1, 128)}) <= 17
    thirds = [length_class(Padding(size=lambda n: -(-n // 3) * 3), n) for n in range(1, 99)]
    assert all(size % 3 == 0 and size >= n for n, size in enumerate(thirds, 1))


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_every_record_is_in_one_batch_beside_those_of_its_size(batch: int) -> None:
    lengths = np.concatenate([RNG.integers(1, 9, 150), RNG.integers(9, 40, 40), [300]])
    size = partial(length_class, Padding())
    pieces = cut(Padding(), inputs_of(lengths), len(lengths), batch)
    np.testing.assert_array_equal(np.sort(np.concatenate(pieces)), np.arange(len(lengths)))
    assert max(map(len, pieces)) <= batch
    ends = [(lengths[piece].max(), lengths[piece].min()) for piece in pieces]
    assert all(before[1] >= after[0] or size(before[1]) >= size(after[0])
               for before, after in zip(ends, ends[1:], strict=False))  # fmt: skip
    assert len(pieces[0]) == min(batch, 4)  # the one that is long takes few along
    padded = sum(batch_rows(len(p), batch) * size(int(lengths[p].max())) for p in pieces)
    assert padded < 3 * np.maximum(lengths, 8).sum() + 300 * 4
    plain = cut(Padding(), {"x": np.zeros((10, 3))}, 10, 4)  # in order
    assert [piece.tolist() for piece in plain] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_tokens_are_as_wide_as_a_size_class() -> None:
    offsets = np.array([0, 2, 3])
    tokens = SparseFeatures(
        Ragged(np.ones((3, 9), np.int32), offsets, 7), Ragged(np.ones((3, 9)), offsets)
    )
    wide = cutting.widened({"x": tokens, "row": inputs_of([2, 1])["x"]})
    assert wide["row"].rows.shape == (3, 2) and wide["x"].indices.rows.shape == (3, 12)
    np.testing.assert_array_equal(wide["x"].indices.rows[:, 9:], 7)
    np.testing.assert_array_equal(wide["x"].values.rows[:, 9:], 0)


def test_a_batch_is_padded_to_its_classes_with_its_first_record() -> None:
    padded = cutting.padded_batch(Padding(), inputs_of([1, 3, 2]), np.array([2, 0]), 8)
    assert jax.tree.map(np.shape, padded) == {"x": (4, 8, 2), "length": (4,)}
    assert padded["length"].tolist() == [2, 1, 2, 2]
    assert padded["x"][:, :, 0].sum(axis=1).tolist() == [6, 1, 6, 6]
