"""The atomic writer, archives, pages of mapped files, Python values through JSON."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core import files
from jaxstruct.core.archive import Archive, DamagedFile, GrowingArray, Schema, forget_pages, write
from jaxstruct.core.files import decode_utf8, remove_leftovers, replacing, write_file
from jaxstruct.core.plain_values import from_plain, record_of, to_plain
from tests.lib.refusals import refused

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "content", ["a\r\nä\n", "a\r\nä\n".encode(), lambda stream: stream.write("a\r\nä\n".encode())]
)
def test_text_bytes_and_callbacks(content, tmp_path) -> None:
    """Line ends stay as they are; the folder is made; what was there is replaced."""
    path = tmp_path / "new" / "folder" / "out"
    for _ in range(2):
        assert write_file(str(path), content) == path
        assert path.read_bytes() == b"a\r\n\xc3\xa4\n"
    assert list(path.parent.iterdir()) == [path]


def _half(stream) -> None:
    stream.write(b"half")
    raise RuntimeError("stop")


@pytest.mark.parametrize("content, error", [(_half, RuntimeError), ("\ud800", UnicodeEncodeError)])
def test_an_error_leaves_what_was_there(content, error, tmp_path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(error):
        write_file(path, content)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_full_disk(step, tmp_path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(files.os, step, fail)
    named = "no space left.*out" if step == "fsync" else "no space left"
    refused(named, write_file, tmp_path / "out", b"content", error=OSError)
    assert not list(tmp_path.iterdir())


def test_the_content_is_on_the_disk_before_the_rename(tmp_path, monkeypatch) -> None:
    """Otherwise a crash of the machine may leave an empty file under the final name."""
    steps = []
    for step in ("fsync", "replace"):
        real = getattr(os, step)
        monkeypatch.setattr(
            files.os, step, lambda *a, step=step, real=real: (steps.append(step), real(*a))
        )
    write_file(tmp_path / "out", b"content")
    assert steps == ["fsync", "replace"]


def test_the_longest_name_that_a_file_system_takes(tmp_path) -> None:
    path = tmp_path / ("ä" * 125)
    assert write_file(path, "text").read_text() == "text"


def test_a_folder(tmp_path) -> None:
    with replacing(tmp_path / "made") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("a")
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]
    with pytest.raises(RuntimeError), replacing(tmp_path / "other") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("a")
        raise RuntimeError
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]


def test_decode() -> None:
    assert decode_utf8("\ufeffä".encode(), "toy") == "ä"
    refused("^toy:2: byte 0xff is not UTF-8; convert", decode_utf8, b"a\nb\xff", "toy")


def test_there_is_no_other_writer() -> None:
    """Nobody renames or makes temporary names on their own."""
    folders = ("jaxstruct", "experiments", "third_party_data")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    words = ("os.replace", "NamedTemporaryFile", "mkstemp", "token_hex", "os.rename")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if any(word in path.read_text(encoding="utf-8") for word in words)
    }
    assert found == {"jaxstruct/core/files.py"}


@pytest.mark.parametrize("links", [True, False])
def test_the_file_of_before_may_stay_beside(links, tmp_path, monkeypatch) -> None:
    """There is always one of the name, where the file system has links."""
    path, previous, seen = tmp_path / "out", tmp_path / "out.previous", []
    real = os.replace

    def replace(source, target) -> None:
        real(source, target)
        seen.append((Path(target).name, path.exists()))

    def no_links(source, target) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(files.os, "replace", replace)
    if not links:
        monkeypatch.setattr(files.os, "link", no_links)
    for content in ("1", "2", "3"):
        write_file(path, content, previous)
    assert (path.read_text(), previous.read_text()) == ("3", "2")
    assert seen[-2:] == [("out.previous", links), ("out", True)]
    with pytest.raises(RuntimeError):
        write_file(path, _half, previous)
    assert (path.read_text(), previous.read_text()) == ("3", "2")
    assert {file.name for file in tmp_path.iterdir()} == {"out", "out.previous"}


def test_leftovers_of_killed_writers(tmp_path) -> None:
    long = "x" * 41
    ours = [".a[1].npz.0123abcd.part"]
    others = [".a[1].npz.0123abcd.par", ".a1.npz.0123abcd.part", ".a[1].npz.0123ABCD.part",
              f".{long[:40]}.0123abcd.part", "a[1].npz"]  # fmt: skip
    for name in [*ours, *others]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a[1].npz")
    remove_leftovers(tmp_path / long)
    remove_leftovers(tmp_path / "absent" / "a[1].npz")
    assert {file.name for file in tmp_path.iterdir()} == set(others)


SCHEMA = Schema("file of tests", "tests", 1, "nobody")


def test_what_was_written_is_read_back(tmp_path):
    arrays = {
        "whole": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "one['é']": np.array(2.5),
        "none": np.zeros((0, 4), bool),
    }
    path = write(tmp_path / "a", SCHEMA, {"own": [1]}, arrays)
    archive = Archive(SCHEMA, path)
    archive.read()
    assert archive.entry("own") == [1] and archive.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        found = archive.arrays[name]
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype and found.flags.writeable
    assert np.load(path, allow_pickle=False)["whole"].tolist() == [[0, 1, 2], [3, 4, 5]]
    part = Archive(SCHEMA, path)
    part.read(lambda name: name == "none")
    assert [*part.arrays] == ["none"] and part.digest == archive.digest
    assert write(tmp_path / "b", SCHEMA, {"own": [1]}, arrays).read_bytes() == path.read_bytes()


def _damaged(content, rng):
    """Cut off, with a hole, with other bits or bytes, or with more at its end."""
    a, b = np.sort(rng.choice(len(content), 2, replace=False))
    changed = bytearray(content)
    changed[a] ^= 1 << int(rng.integers(8))
    other = content[:a] + bytes(255 - each for each in content[a:b]) + content[b:]
    kinds = content[:a], content[:a] + content[b:], bytes(changed), other, content + rng.bytes(9)
    return kinds[rng.integers(len(kinds))]


def test_no_damaged_file_is_read(tmp_path):
    """Files of models, checkpoints and planes are archives."""
    rng, path = np.random.default_rng(0), tmp_path / "a"
    whole = write(path, SCHEMA, {"own": [1]}, {"x": rng.normal(size=(9, 9))}).read_bytes()
    for _ in range(1000):
        path.write_bytes(_damaged(whole, rng))
        with pytest.raises(DamagedFile, match=f"^file of tests {path} (is no|does not)"):
            Archive(SCHEMA, path).read()


def test_what_files_do_not_hold_is_refused(tmp_path):
    for array in (np.array([{}]), np.zeros(2, complex), np.zeros(2, ">f4")):
        with pytest.raises(ValueError, match="mine has dtype .* which files do not hold"):
            write(tmp_path / "a", SCHEMA, {}, {"mine": array})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("pieces", [[], [0], [1], [5, 0, 12_345]])
def test_what_was_added_is_read_back(tmp_path, shape, pieces):
    array, path = GrowingArray(tmp_path / "a.npy", "<i4", shape), tmp_path / "a.npy"
    parts = [np.random.default_rng(n).integers(0, 99, (n, *shape)) for n in pieces]
    for part in parts:
        array.add(part)
    said = array.close()
    found = np.load(path, allow_pickle=False)
    whole = np.concatenate([np.zeros((0, *shape), np.int32), *parts])
    np.testing.assert_array_equal(found, whole)
    assert found.dtype == np.dtype("<i4") and said["shape"] == list(found.shape)
    assert said["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_what_was_read_and_written_stays(tmp_path, mode) -> None:
    """What was written to a private map lies in no file: its pages must not go."""
    np.save(tmp_path / "a.npy", np.arange(5000))
    array = np.load(tmp_path / "a.npy", mmap_mode=mode)
    if mode != "r":
        array[7] = -1
    forget_pages(np.asarray(array)[3:])
    expected = np.arange(5000)
    expected[7] = 7 if mode == "r" else -1
    np.testing.assert_array_equal(array, expected)


def test_pages_are_let_go_of(tmp_path) -> None:
    statm = pytest.importorskip("pathlib").Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("the system has no such table")
    np.save(tmp_path / "a.npy", np.ones(4_000_000))
    array = np.asarray(np.load(tmp_path / "a.npy", mmap_mode="r"))

    def pages() -> int:
        return int(statm.read_text().split()[1])

    before = pages()
    assert array.sum() == 4_000_000
    read = pages()
    forget_pages(array[10:])
    assert read - before > 6000 and pages() - before < 2000


def test_other_arrays_stay_as_they_are() -> None:
    for array in (np.ones(3), np.frombuffer(b"abc", np.int8), np.zeros((2, 0))):
        forget_pages(array)


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
