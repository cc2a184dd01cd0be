"""A stream gives what `predict` gives of all at once, in order, whatever is among the records."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import jaxstruct as js
from jaxstruct.core.feature_encoding import UnseenFeatures
from jaxstruct.models import BadRecord
from jaxstruct.models.stream import BATCHES
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
    thorough_after(
        8, [*((name, 3) for name in CASES), *itertools.product(["chain", "dense"], [1, 64])]
    ),
)
def test_it_is_predict_of_all_at_once(name: str, batch: int) -> None:
    model, records = model_of(name), records_of(name)
    stream = js.predict_stream(model, iter(records), batch=batch)
    found, wanted = list(map(output, stream)), model.predict(records)
    assert found == wanted
    assert len({json.dumps(one, default=str) for one in found}) > 1
    assert (stream.count, stream.bad, stream.waiting) == (N, wanted.count(None), 0)
    assert list(js.predict_stream(model, [], batch=batch)) == []


@pytest.mark.parametrize("name", CASES)
def test_no_junk_stops_a_stream_or_changes_its_neighbours(name: str) -> None:
    """What is bad is so by itself, too; what is sound has the prediction that it has alone."""
    model, good = model_of(name), records_of(name, 3)
    wanted = model.predict(good)
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
    "first": [0],
    "last": [299],
    "many in a row": range(40, 210),
    "now and then": range(0, 300, 9),
    "all": range(300),
}


@pytest.mark.parametrize("where", PLACES)
def test_order_is_kept_around_bad_records(where: str) -> None:
    model, good = model_of("chain"), records_of("chain", 300)
    places = set(PLACES[where])
    wanted = model.predict(good)
    records = [BAD if i in places else one for i, one in enumerate(good)]
    stream = js.predict_stream(model, records, batch=40)
    for i, one in enumerate(stream):
        if i in places:
            assert one.number == i and one.reason.startswith("record must be a sequence")
        else:
            assert one == wanted[i]
        assert stream.count == i + 1
    assert stream.bad == len(places) and stream.count == 300


def test_errors_of_records_may_be_raised_in_their_place() -> None:
    model, good = model_of("chain"), records_of("chain", 6)
    stream = js.predict_stream(model, [*good[:2], BAD, *good], batch=2, on_error="raise")
    assert [next(stream), next(stream)] == model.predict(good[:2])
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


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_stream() -> None:
    model = model_of("multiclass")
    list(js.predict_stream(model, records_of("multiclass", 64), batch=8))  # compiled
    peaks = []
    for n in (256, 4096):
        records = ({"word": "x", "n": float(i), "long": "x" * 2000} for i in range(n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenFeatures)
            tracemalloc.start()
            assert sum(1 for _ in js.predict_stream(model, records, batch=8)) == n
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 100_000  # 4,096 records alone are 8 MB


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


@pytest.mark.thorough
def test_few_programs_serve_streams_of_all_lengths() -> None:
    model, rng = model_of("chain"), np.random.default_rng(0)
    lengths = rng.integers(1, 40, 1500)
    stream = js.predict_stream(model, ([["a"]] * int(n) for n in lengths), batch=32)
    assert [len(one) for one in stream] == lengths.tolist()
    assert stream.programs <= 16 and stream.compile_seconds > 0


TWO = """
import hashlib, json, sys
import jax
import jaxstruct as js
from tests.models.test_stream import model_of, records_of
assert len(jax.local_devices()) == 2
for name in ("chain", "multiclass"):
    model, records = model_of(name), records_of(name, 60)
    streams = [js.predict_stream(model, records, batch=4, devices=d)
               for d in (None, jax.local_devices()[:1], jax.local_devices()[1:])]
    found = [list(map(str, stream)) for stream in streams]
    assert found[0] == found[1] == found[2]
    assert [len(stream.devices) for stream in streams] == [2, 1, 1]
    print(hashlib.sha256(json.dumps(found[0]).encode()).hexdigest())
"""


@pytest.mark.thorough
def test_two_devices_give_what_one_gives() -> None:
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", TWO], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for name, digest in zip(("chain", "multiclass"), done.stdout.split(), strict=True):
        own = list(map(str, js.predict_stream(model_of(name), records_of(name, 60), batch=4)))
        assert hashlib.sha256(json.dumps(own).encode()).hexdigest() == digest


WRONG = {
    "no model": (lambda m: js.predict_stream(3, []), "model must be"),
    "a text": (lambda m: js.predict_stream(m, TREES), "records must be an iterable of records"),
    "a mapping": (lambda m: js.predict_stream(m, {"a": 1}), "records must be an iterable of rec"),
    "no iterable": (lambda m: js.predict_stream(m, 3), "records must be an iterable of records"),
    "batch": (lambda m: js.predict_stream(m, [], batch=0), "batch must be at least 1"),
    "on_error": (lambda m: js.predict_stream(m, [], on_error="skip"), "on_error must be one of"),
    "devices": (lambda m: js.predict_stream(m, [], devices=["cpu"]), "devices must be jax devices"),
    "no device": (lambda m: js.predict_stream(m, [], devices=[]), "devices must be jax devices"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit_are_refused(case: str) -> None:
    call, message = WRONG[case]
    refused(message, lambda: call(model_of("multiclass")))
