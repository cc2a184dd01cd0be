"""experiments.reproduce: what runs, what is left out, what fails, and the summary of it."""

from __future__ import annotations

import pytest

from experiments.lib import common
from experiments.lib.report import Table
from experiments.reproduce import command as reproduce
from experiments.reproduce.command import EXPERIMENTS, Experiment, Options
from jaxstruct.data.registry import CORPORA
from tests.experiments.scripts import kept_settings, strict_json


@pytest.fixture
def no_corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXSTRUCT_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def options(tmp_path):
    with kept_settings():
        yield Options(output=str(tmp_path / "out"), compilation_cache=False, progress=False, seed=5)


def stub(name, corpora=(), quick=None, calls=None, error=None):
    def run(options):
        if calls is not None:
            calls.append(options)
        if error:
            raise error
        return common.Outcome(Table(name, ["a"], [[1]]), {}, (f"{name}.json",))

    return Experiment(name, corpora, run, reproduce.digits.Options(), quick)


def statuses(outcome):
    return {row["name"]: row["status"] for row in outcome.numbers["experiments"]}


def test_quick_runs_what_it_can(no_corpora, options, capsys):
    absent = (
        "taxonomy_clinc150", "taxonomy_wipo_alpha_d", "handwriting", "named_entities",
        "parsing", "snakes", "multi_label_scene", "reranking", "clinc150_whole",
    )  # fmt: skip
    outcome = reproduce.run(options._replace(quick=True, only=("digits", *absent)))
    assert statuses(outcome) == {"digits": "done"} | dict.fromkeys(absent, "left out")
    for row in outcome.numbers["experiments"]:
        if row["status"] == "done":
            content = strict_json(row["file"])
            assert content["record"]["seed"] == 5 and row["seconds"] > 0
            assert row["file"].with_suffix(".csv").exists()
    assert strict_json(outcome.files[0])["record"]["flags"]["quick"] is True
    printed = capsys.readouterr().out
    assert "fetch.py --corpus=clinc150" in printed and "by hand" in printed
    assert "Summary of the quick version" in printed


def test_quick_options_leave_the_command_of_each_script(no_corpora, options):
    found = reproduce.run(options._replace(quick=True, only=("digits",)))
    content = strict_json(found.numbers["experiments"][0]["file"])
    assert "python -m experiments.digits " in content["record"]["command"]
    assert "--formulations=svm1_margin,svm2_slack" in content["record"]["command"]


def test_missing_corpora_are_named_with_a_way_to_get_them(no_corpora, options):
    calls = []
    outcome = reproduce.run(options, [stub("a", ("clinc150", "gum"), calls=calls), stub("b")])
    assert statuses(outcome) == {"a": "left out", "b": "done"} and not calls
    detail = outcome.numbers["experiments"][0]["detail"]
    assert "fetch.py --corpus=clinc150" in detail and "gum.tar" not in detail
    assert "JAXSTRUCT_DATA" in detail and "gum-const.tar.xz" in detail


def test_a_failure_is_reported_and_the_rest_goes_on(options, capsys):
    outcome = reproduce.run(options, [stub("a", error=RuntimeError("boom")), stub("b")])
    assert statuses(outcome) == {"a": "failed", "b": "done"}
    assert outcome.numbers["experiments"][0]["detail"] == "RuntimeError: boom"
    assert "Traceback" in capsys.readouterr().err


def test_shared_options_reach_every_script(options):
    calls = []
    reproduce.run(options, [stub("a", calls=calls, quick={"tolerance": 0.5})])
    reproduce.run(options._replace(quick=True), [stub("a", calls=calls, quick={"tolerance": 0.5})])
    assert [call.seed for call in calls] == [5, 5]
    assert [call.output for call in calls] == [options.output] * 2
    assert [call.tolerance for call in calls] == [1e-3, 0.5]


def test_only_chooses_and_refuses_what_there_is_not(options):
    calls = []
    experiments = [stub("a", calls=calls), stub("b", error=RuntimeError())]
    assert statuses(reproduce.run(options._replace(only=("a",)), experiments)) == {"a": "done"}
    with pytest.raises(ValueError, match="'c'"):
        reproduce.run(options._replace(only=("c",)), experiments)


def test_the_registry_is_sound():
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names) and {"handwriting", "named_entities"} < set(names)
    for experiment in EXPERIMENTS:
        assert set(experiment.corpora) <= set(CORPORA)
        assert set(experiment.quick or {}) <= set(experiment.options._fields)


def test_the_exit_code_tells_of_failures(monkeypatch, tmp_path):
    monkeypatch.setattr(reproduce.run, "__defaults__", ([stub("a", error=RuntimeError("x"))],))
    options = Options(output=str(tmp_path), compilation_cache=False)
    with kept_settings():
        assert reproduce.main(options) == 1


def test_ctrl_c_keeps_the_tables_that_are_done_and_prints_the_summary(options, capsys):
    stopped = common.Stopped(["b.stopped.json"])
    experiments = [stub("a"), stub("b", error=stopped), stub("c", error=RuntimeError())]
    outcome = reproduce.run(options, experiments)
    assert statuses(outcome) == {"a": "done", "b": "stopped", "c": "not begun"}
    assert "b.stopped.json" in outcome.numbers["experiments"][1]["detail"]
    printed = capsys.readouterr()
    assert "Summary" in printed.out and "not begun" in printed.out and not printed.err
    assert strict_json(outcome.files[0])["stopped"] is True


def test_the_exit_code_tells_of_ctrl_c(monkeypatch, tmp_path):
    monkeypatch.setattr(reproduce.run, "__defaults__", ([stub("a", error=KeyboardInterrupt())],))
    with kept_settings():
        assert reproduce.main(Options(output=str(tmp_path), compilation_cache=False)) == 130
