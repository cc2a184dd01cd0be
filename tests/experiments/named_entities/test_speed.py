"""Time, memory, oracle calls and scores of the contenders."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.named_entities import command as named_entities
from experiments.named_entities import speed as named_entities_speed
from experiments.named_entities import speed as named_entities_speed_report
from experiments.named_entities.command import Options
from experiments.named_entities.speed import Point, reached
from tests.experiments.named_entities.cases import CHEAP
from tests.experiments.scripts import kept_settings, strict_json


def test_levels_are_reached_when_certified_and_before_that_in_hindsight():
    points = [
        Point(1.0, 1.5, np.inf, -np.inf, 10), Point(2.0, 2.5, 10.05, 9.0, 20),
        Point(3.0, 3.5, 10.05, 9.96, 30), Point(4.0, 4.5, 10.005, 10.0, 45),
    ]  # fmt: skip
    assert reached(points, 1e-2) == {
        "gap": {"wall": 3.0, "process": 3.5, "oracle_calls": 30, "rounds": 3},
        "primal": {"wall": 2.0, "process": 2.5, "oracle_calls": 20, "rounds": 2},
    }
    assert reached(points, 1e-3)["primal"]["rounds"] == 4
    assert reached(points, 1e-4) == {"gap": None, "primal": None}


@pytest.mark.thorough
def test_speed_holds_time_memory_calls_and_scores(archive, tmp_path, monkeypatch):
    """Both contenders in this process, for speed instead of in processes of their own."""
    options = Options(path=archive, output=str(tmp_path), speed=True, **CHEAP)
    options = options.replace(sentences=8)

    def here(options, name):
        found = named_entities_speed.run_contender(options)
        content = strict_json(tmp_path / f"{name}.json")["rows"]
        assert len(content) == len(found)
        return content

    monkeypatch.setattr(named_entities_speed_report, "run_apart", here)
    with kept_settings():
        speed = named_entities.run(options)
    first, second, *crf = speed.numbers["rows"]
    assert first["compilations"] >= second["compilations"] == 0
    assert first["compile_seconds"] >= 0 <= second["compile_seconds"] < 1
    for row in (first, second):
        assert row["status"] == "CONVERGED" and row["relative_gap"] <= 0.1
        assert row["oracle_calls"] == row["points"][-1]["oracle_calls"] > 0
        assert row["peak_memory"] >= row["memory_before"] > 1e7
    assert second["primal"] == first["primal"]
    for row in (second, *crf):
        assert row["testa"]["token_error"] < 25 and row["testb"]["f1"] > 40
        assert row["sentences"] == 8
    shown = [row[0] for row in speed.table.rows]
    assert shown == ["svm2", "CRFsuite, c2 = 1"][: len(shown)] and len(crf) == len(shown) - 1
    assert speed.table.rows[0][1] == f"{first['compile_seconds']:.1f}"
    assert speed.table.rows[0][2] == f"{second['wall_seconds']:.2f}"
    assert strict_json(speed.files[0])["left_out"] == speed.numbers["left_out"]
    check_note_without_crfsuite([first, second], monkeypatch, tmp_path)


def check_note_without_crfsuite(rows, monkeypatch, tmp_path):
    """python-crfsuite is optional."""
    monkeypatch.setattr(named_entities_speed.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(named_entities_speed_report, "run_apart", lambda *_: rows)
    with kept_settings():
        found = named_entities.run(Options(output=str(tmp_path), speed=True, **CHEAP))
    assert found.numbers["left_out"] == ["crfsuite"]
    assert any("jaxstruct[compare]" in note for note in found.table.notes)
