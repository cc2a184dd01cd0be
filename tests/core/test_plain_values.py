"""Python values through JSON and back, and what files do not hold."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.plain_values import from_plain, record_of, to_plain
from tests.lib.refusals import refused

VALUES = [
    None, True, False, 0, -(10**30), 0.0, -0.0, 1e-300, math.inf, -math.inf, "", "é\n\x00", [], (),
    [1, [2.0, "x"]], (1, (True, None)), {}, {"b": (1,), "a": [2]}, {"tuple": 1},
]  # fmt: skip


def _there_and_back(value: object) -> object:
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(to_plain(value, "value", arrays, {}), allow_nan=False)
    return from_plain(json.loads(text), arrays, {})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_with_their_types(value: object) -> None:
    found = _there_and_back(value)
    assert repr(found) == repr(value) and type(found) is type(value)


def test_numpy_scalars_come_back_as_pythons_and_nan_as_nan() -> None:
    assert repr(_there_and_back((np.float64(2.5), np.int8(3), np.bool_(True)))) == "(2.5, 3, True)"
    assert math.isnan(_there_and_back(math.nan))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "uint8"])
def test_arrays_stand_aside(dtype: str) -> None:
    value = np.arange(6).reshape(2, 3).astype(dtype)
    arrays: dict[str, np.ndarray] = {}
    plain = to_plain({"x": [value], "x[0]": value + value}, "value", arrays, {})
    names = ["value.x[0]", "value.x[0] 1"]  # by where they stand, and never twice
    assert plain == {"dict": [["x", [{"array": names[0]}]], ["x[0]", {"array": names[1]}]]}
    assert list(arrays) == names
    found = from_plain(plain, arrays, {})
    np.testing.assert_array_equal(found["x"][0], value)
    np.testing.assert_array_equal(found["x[0]"], value + value)
    assert not arrays  # taken out


def test_arrays_of_jax_come_back_on_the_device() -> None:
    with jax.enable_x64(True):
        for dtype in ("float32", "float64"):
            found = _there_and_back([jnp.arange(3, dtype=dtype), np.arange(3)])
            assert isinstance(found[0], jax.Array) and isinstance(found[1], np.ndarray)
            assert found[0].dtype == dtype
        plain = to_plain(jnp.zeros(2, "float64"), "own", arrays := {}, {})
    refused("own is in float64, which JAX is not set to hold", from_plain, plain, arrays, {})


@pytest.mark.parametrize(
    "value", [len, {1: 2}, {1, 2}, frozenset("a"), b"x", datetime.date(2026, 1, 1), 1j, float],
    ids=repr,
)  # fmt: skip
def test_other_values_are_refused_by_name(value: object) -> None:
    with refused(r"value\[1\] is .*, which a file does not hold"):
        to_plain(["x", value], "value", {}, {})


def test_arrays_of_texts_are_refused() -> None:
    with refused("value is an array of <U1, expected real numbers or bool"):
        to_plain(np.array(["a"]), "value", {}, {})


class Made(NamedTuple):
    """What files hold by its annotations."""

    count: int
    size: float
    own: jax.Array | None
    names: tuple[str, ...]
    more: Any = None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": 2}, None), ({"own": np.zeros(2)}, None), ({"own": None}, None),
        ({"count": 1.0}, "count is a float"), ({"count": True}, "count is a bool"),
        ({"size": True}, "size is a bool"), ({"own": [1]}, "own is a list"),
        ({"names": (1,)}, "names is a tuple"), ({"names": ["a"]}, "names is a list"),
        ({"count": -1}, "made does not hold together: count is -1"),
    ],
)  # fmt: skip
def test_records_hold_what_their_annotations_say(change: dict, words: str | None) -> None:
    def check(made: Made) -> None:
        if made.count < 0:
            raise ValueError(f"count is {made.count}")

    records, arrays = {"made": record_of(Made, None, check)}, {}
    made = Made(3, 0.5, jnp.ones(2), ("a", "b"))._replace(**change)
    plain = json.loads(json.dumps(to_plain(made, "made", arrays, records)))
    if words is None:
        assert repr(from_plain(plain, arrays, records)) == repr(made)
    else:
        refused(words, from_plain, plain, arrays, records)


DEEP: list = []
for _ in range(50):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "plain",
    [
        {}, {"a": 1, "b": 2}, {"float": "1"}, {"float": 1}, {"array": "7"}, {"array": 0},
        {"tuple": 3}, {"dict": [["a"]]}, {"dict": [["a", 1], ["a", 2]]}, {"dict": [[1, 2]]},
        {"record": ["none", {}]}, {"record": ["x"]}, {"record": [["x"], {}]}, {"pickle": "x"}, DEEP,
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_plain_form_is_refused(plain: object) -> None:
    with pytest.raises(ValueError):
        from_plain(plain, {}, {})
