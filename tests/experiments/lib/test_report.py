"""Tables and result files: alignment, missing values, wrapping, JSON that every reader accepts."""

from __future__ import annotations

import csv
import dataclasses
import enum
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.lib.files import file_in, write_results
from experiments.lib.report import Table, render, to_markdown, write_csv
from tests.experiments.scripts import raising, strict_json
from tests.lib.refusals import refused

TABLE = Table(
    "Table 3: label sequences",
    ["method", ("C = 1", "paper"), ("C = 1", "measured"), "passes", "gap"],
    [
        ["HMM", 9.36, np.float32(9.4), np.int64(3), 1e-3],
        ["CRF", None, "5.2 ± 0.1", 100000, 3.2e-7],
        ["a|b", 5.9, float("nan"), 33, 0.0],
    ],
    ["paper: page 1474.", "measured: mean over 3 seeds."],
)


@pytest.mark.smoke
def test_numbers_stand_to_the_right_under_their_group():
    lines = render(TABLE).splitlines()
    rule = "─" * 42
    assert lines == [
        "Table 3: label sequences",
        rule,
        "             C = 1",
        "        ────────────────",
        "method  paper   measured  passes       gap",
        rule,
        "HMM      9.36        9.4       3  1.00e-03",
        "CRF         -  5.2 ± 0.1  100000  3.20e-07",
        "a|b      5.90          -      33         0",
        rule,
        "paper: page 1474.",
        "measured: mean over 3 seeds.",
    ]


def test_a_column_shares_one_number_format():
    for column, shown in (
        ([1, 20], "1 20"), ([0.1, 1.0, 100.0], "0.1 1.0 100.0"), ([2.0, 3.0], "2 3"),
        ([93.125, 5.5, 0], "93.12 5.50 0.00"), ([1234567.8, 1.0], "1234568 1"),
        ([3e8, 1.0], "3.00e+08 1.00e+00"), ([float("inf"), 1.5], "inf 1.5"),
        ([True, False], "yes no"), ([jnp.float32(0.3), np.array(0.25)], "0.30 0.25"),
        ([float("nan"), None], "- -"),
    ):  # fmt: skip
        lines = render(Table("", ["x"], [[cell] for cell in column])).splitlines()
        assert " ".join(line.strip() for line in lines[3:-1]) == shown


def test_a_narrow_width_wraps_words_and_never_numbers():
    rows = [["an explanation of many words that cannot stand on one line", 123456789]]
    table = Table("A title of a good many words", ["text", "a long heading"], rows, ["note " * 12])
    lines = render(table, 30).splitlines()
    assert all(len(line) <= 30 for line in lines)
    assert any(line.endswith("123456789") for line in lines)
    wide = render(Table("t", ["a", "b"], [[10**30, 10**30]]), 20)
    assert wide.count(str(10**30)) == 2 and max(map(len, wide.splitlines())) > 20


def test_a_table_of_many_numbers_goes_on_below_with_what_names_its_rows():
    columns = ["task", "machine", *(("group" if j > 8 else "", f"number {j}") for j in range(20))]
    rows = [["a", "one", *range(10**6, 10**6 + 20)], ["a", "two", *range(20)]]
    text = render(Table("t", columns, rows, ["a note"]), 60)
    assert max(map(len, text.splitlines())) <= 60
    blocks = text.split("\n\n")
    assert len(blocks) > 2 and all("one" in block and "machine" in block for block in blocks)
    assert [text.count(f"{number}") for number in range(10**6, 10**6 + 20)] == [1] * 20
    assert text.split().count("group") == 3 and text.count("a note") == 1


def test_csv_cells_are_numbers_with_their_deviation_beside_them(tmp_path):
    for cell, *found in (
        ("35.337", "35.337"), ("9.4e-04", "9.4e-04"), ("1,234.5", "1234.5"), ("−3", "-3"),
        ("1,10", "1,10"), ("< 0.1", "< 0.1"), ("4/5", "4/5"), ("word", "word"),
        ("5.20 ± 0.10", "5.20", "0.10"), ("2,824 ± 106", "2824", "106"),
    ):  # fmt: skip
        path = write_csv(tmp_path, "t", Table("t", ["x"], [[cell], [1.5]]))
        head, first, second = csv.reader(path.read_text(encoding="utf-8").splitlines())
        assert first == found and second == ["1.5", ""][: len(found)]
        assert head == ["x", "x (deviation)"][: len(found)]


def test_markdown_escapes_pipes_and_csv_holds_the_unrounded_numbers(tmp_path):
    lines = to_markdown(TABLE).splitlines()
    assert lines[0] == "**Table 3: label sequences**"
    assert lines[2] == "| method | C = 1: paper | C = 1: measured | passes | gap |"
    assert lines[3] == "| :--- | ---: | ---: | ---: | ---: |"
    assert lines[6] == "| a\\|b | 5.90 | - | 33 | 0 |"
    assert lines[-1] == "- measured: mean over 3 seeds."
    path = write_csv(tmp_path / "new", "table3", TABLE)
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    assert rows[1] == ["HMM", "9.36", "9.4", "", "3", "0.001"]
    assert rows[2] == ["CRF", "", "5.2", "0.1", "100000", "3.2e-07"]
    assert [*path.parent.iterdir()] == [tmp_path / "new" / "table3.csv"]


class Pair(NamedTuple):
    first: float
    second: np.ndarray


class Way(enum.Enum):
    SLACK = 1


@dataclasses.dataclass
class Record:
    name: str
    values: tuple


def test_values_become_plain_json(tmp_path):
    for value, wanted in (
        (np.float32(0.5), 0.5), (np.int64(3), 3), (np.bool_(True), True), (float("nan"), None),
        (np.float64("inf"), None), (np.array(["a", "b"]), ["a", "b"]), ("Größe", "Größe"),
        (np.array([[1.0, np.nan], [-np.inf, 2.0]]), [[1.0, None], [None, 2.0]]),
        (jnp.arange(3), [0, 1, 2]), (jnp.asarray(0.5, jnp.bfloat16), 0.5),
        (Pair(1.0, np.arange(2)), {"first": 1.0, "second": [0, 1]}),
        (Record("x", (1, 2)), {"name": "x", "values": [1, 2]}),
        ({1: {"b", "a"}, Way.SLACK: Way.SLACK}, {"1": ["a", "b"], "SLACK": "SLACK"}),
        (Path("a") / "b.npz", str(Path("a") / "b.npz")),
    ):  # fmt: skip
        assert strict_json(write_results(tmp_path, "r", {"value": value})) == {"value": wanted}


def test_what_cannot_be_written_is_named_and_leaves_what_was_there(tmp_path, monkeypatch):
    for content, message, error in (
        ({"table": [1, {"cell": object()}]}, r"run\.table\[1\]\.cell: got object", TypeError),
        ({"x": np.array([1j])}, r"run\.x: got an array of complex128", TypeError),
        ({1: 0, "1": 0}, "become the same string", ValueError),
    ):
        refused(message, write_results, tmp_path, "run", content, error=error)
    assert not list(tmp_path.iterdir())
    write_results(tmp_path, "run", {"old": 1})
    with monkeypatch.context() as patch:
        patch.setattr(
            "jaxstruct.core.files.os.replace", lambda *_: raising(OSError("disk full"))(0)
        )
        refused("disk full", write_results, tmp_path, "run", {"new": 2}, error=OSError)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert strict_json(tmp_path / "run.json") == {"old": 1}
    assert strict_json(write_results(tmp_path, "run", {"new": 2})) == {"new": 2}
    for name in ("", "a/b", "../a"):
        refused("plain file name", file_in, tmp_path, name)


def test_an_empty_table_and_a_ragged_one():
    assert render(Table("none", ["a", "b"], [])).splitlines()[2] == "a  b"
    for function in (render, to_markdown, lambda table: write_csv(".", "x", table)):
        ragged = Table("t", ["a", "b"], [[1, 2], [1]])
        refused(r"rows\[1\] of table 't'.*2 columns", function, ragged)
