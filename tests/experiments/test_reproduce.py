"""experiments.reproduce: what runs, what is left out, what fails, and the summary of it."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from experiments import digits
from experiments.corpora.registry import CORPORA
from experiments.lib import common
from experiments.lib.report import Table
from experiments.reproduce import command as reproduce
from experiments.reproduce.command import EXPERIMENTS, SHORT, Experiment, Options, chosen_of
from experiments.reproduce.overview import VERDICTS, Course, verdict
from tests.experiments.scripts import QUIET, strict_json
from tests.lib.refusals import refused


@pytest.fixture
def no_corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXSTRUCT_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def options(tmp_path):
    return Options(all=True, output=str(tmp_path / "out"), seed=5, **QUIET)


def stub(name, corpora=(), quick=None, calls=None, error=None, file=None):
    def run(options):
        if calls is not None:
            calls.append((name, options))
        if error:
            raise error
        return common.Outcome(Table(name, ["a"], [[1]]), {}, (file or f"{name}.json",))

    return Experiment(name, corpora, run, digits.Options(), quick, "", (3.0, 0.1))


def statuses(outcome):
    return {row["name"]: row["status"] for row in outcome.numbers["experiments"]}


def test_missing_corpora_are_steps_a_line_each_and_said_once(no_corpora, options, capsys):
    calls = []
    needs = [stub("a", ("clinc150", "gum"), calls=calls), stub("b"), stub("c", ("gum", "snakes"))]
    outcome = reproduce.run(options, needs)
    assert statuses(outcome) == {"a": "left out", "b": "done", "c": "left out"} and not calls
    assert outcome.numbers["experiments"][0]["detail"] == "it needs clinc150 and gum"
    printed = capsys.readouterr().out
    assert printed.index("fetch.py") < printed.index("=== 1/1 b")
    for name, step in (
        ("clinc150", "run: python third_party_data/fetch.py --corpus=clinc150"),
        ("gum", "run: python third_party_data/fetch.py --corpus=gum"),
        ("snakes", "place snakes.npz in the folder snakes of JAXSTRUCT_DATA"),
    ):
        assert [line for line in printed.splitlines() if line.startswith(f"  {name}: {step}")]
        assert printed.count(step) == 1


def test_download_fetches_and_goes_on(no_corpora, options, register, server, tmp_path, capsys):
    """A corpus that came is used; one whose download fails or is damaged is left out."""
    register({"a.txt": b"alpha"}, url=server.url)
    server.pages["/a.txt"] = (5, b"alphx")
    experiments = [stub("a", ("toy",)), stub("b")]
    assert statuses(reproduce.run(options, experiments)) == {"a": "left out", "b": "done"}
    assert not server.hits
    asked = options.replace(download=True)
    assert statuses(reproduce.run(asked, experiments)) == {"a": "left out", "b": "done"}
    said = capsys.readouterr()
    assert "toy: " in said.err and "nothing was kept, try again" in said.err
    server.pages["/a.txt"] = (5, b"alpha")
    assert statuses(reproduce.run(asked, experiments)) == {"a": "done", "b": "done"}
    assert "how to get" not in capsys.readouterr().out
    assert (tmp_path / "nothing" / "toy" / "a.txt").read_bytes() == b"alpha"
    reproduce.run(asked, experiments)
    assert server.hits == ["/a.txt"] * 2


def test_a_failure_is_reported_and_the_rest_goes_on(options, capsys):
    outcome = reproduce.run(options, [stub("a", error=RuntimeError("boom")), stub("b")])
    assert statuses(outcome) == {"a": "failed", "b": "done"}
    assert outcome.numbers["experiments"][0]["detail"] == "RuntimeError: boom"
    assert "Traceback" in capsys.readouterr().err


def test_the_chosen_get_the_shared_options(options):
    calls = []
    two = [stub("a", calls=calls, quick={"tolerance": 0.5}), stub("b", error=RuntimeError())]
    only = options.replace(only=("a",))
    assert statuses(reproduce.run(only, two)) == {"a": "done"}
    reproduce.run(only.replace(quick=True), two)
    given = [(own.seed, own.output, own.tolerance) for _, own in calls]
    assert given == [(5, options.output, 1e-3), (5, options.output, 0.5)]
    refused("'c'", reproduce.run, options.replace(only=("c",)), two)


def test_the_registry_is_sound():
    names = [experiment.name for experiment in EXPERIMENTS]
    assert len(set(names)) == len(names) and {"handwriting", "named_entities"} < set(names)
    assert set(SHORT) <= set(VERDICTS) <= set(names)
    for experiment in EXPERIMENTS:
        assert set(experiment.corpora) <= set(CORPORA)
        assert not (experiment.corpora and experiment.name in SHORT)
        assert set(experiment.quick or {}) <= set(experiment.options.values())


def test_the_list_has_every_experiment_and_command_in_lines_that_fit(no_corpora, options, capsys):
    assert reproduce.main(options.replace(list=True)) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    rows = {row[0]: row for row in reproduce.listed(EXPERIMENTS, {}).rows}
    assert {each.name for each in EXPERIMENTS} < set(rows) and "oracle_speed" in rows
    assert "reproduce" not in rows and "taxonomy" not in rows  # its experiments have rows
    assert all(what and name in text for name, *_, what in rows.values())
    assert rows["parsing"][1] == "gum (not here)" and rows["digits"][1] == "none"
    before = {"digits": {"status": "done", "seconds": 90.0, "quick": False}}
    (row,) = (row for row in reproduce.listed(EXPERIMENTS, before).rows if row[0] == "digits")
    assert row[2] == "1.5" and all(float(rows[each.name][2]) > 0 for each in EXPERIMENTS)
    rows = {row[0]: row[2] for row in reproduce.listed(EXPERIMENTS, before, quick=True).rows}
    assert "multi_label_yeast" not in rows  # too long for --quick
    assert float(rows["digits"]) < 0.5  # the minutes of a long run say nothing of it


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("pace", [1 / 3, 1.0, 3.0])
def test_the_time_left_is_right_within_half_from_the_second_table_on(quick, pace):
    """Simulated: a machine of this pace, on which a table is up to 1.3 times off its minutes."""
    draws = np.random.default_rng(5)
    run = [each for each in EXPERIMENTS if not (quick and each.quick is None)]
    minutes = [each.minutes[quick] for each in run]
    for _ in range(20):
        taken = pace * np.asarray(minutes) * 1.3 ** draws.uniform(-1, 1, len(run))
        course, ratios = Course(minutes), []
        for place in range(len(run)):
            ratios.append(course.left(place) / (60 * taken[place:].sum()))
            course.add(minutes[place], 60 * taken[place])
        assert np.all((np.asarray(ratios[1:]) > 1 / 1.5) & (np.asarray(ratios[1:]) < 1.5)), ratios


def test_minutes_of_an_earlier_run_give_the_pace(options, capsys):
    """A machine that took half of the minutes then takes half of them now."""
    output = Path(options.output)
    output.mkdir()
    row = {"name": "a", "status": "done", "seconds": 90.0, "quick": False}
    (output / "reproduce.json").write_text(json.dumps({"experiments": [row]}))
    reproduce.run(options, [stub(name) for name in "abcd"])
    assert "=== 1/4 a (0 s so far, about 6 min left)" in capsys.readouterr().out


def test_resume_makes_only_what_is_not_there(options, tmp_path, capsys):
    """After Ctrl-C, and after a run that was cut short; other code or options start anew."""
    calls, file = [], tmp_path / "a.json"
    file.write_text("{}")
    errors = {"b": KeyboardInterrupt()}
    first = [stub(name, calls=calls, error=errors.get(name), file=file) for name in "abc"]
    found = statuses(reproduce.run(options, first))
    assert found == {"a": "done", "b": "stopped", "c": "not begun"}
    again = options.replace(resume=True)
    every = [stub(name, calls=calls, file=file) for name in "abc"]
    found = statuses(reproduce.run(again, every))
    assert found == {"a": "done before", "b": "done", "c": "done"}
    assert "".join(name for name, _ in calls) == "abbc"
    assert set(statuses(reproduce.run(again, every)).values()) == {"done before"}
    assert len(calls) == 4 and f"a: done before: {file}" in capsys.readouterr().out
    other = again.replace(seed=6)
    reproduce.run(other, every[:1])
    reproduce.run(other.replace(resume=False), every[:1])  # without it all is made anew
    assert len(calls) == 6
    file.unlink()
    reproduce.run(other, every[:1])
    assert len(calls) == 7


def test_a_run_that_is_cut_short_leaves_its_rows(options, tmp_path):
    def cut(given):
        kept = strict_json(tmp_path / "out" / "reproduce.stopped.json")
        assert [row["name"] for row in kept["experiments"]] == ["a"]
        raise SystemExit(9)

    last = stub("b")._replace(run=cut)
    with pytest.raises(SystemExit):
        reproduce.run(options, [stub("a"), last])
    assert (tmp_path / "out" / "reproduce.stopped.json").exists()
    reproduce.run(options, [stub("a")])
    assert not (tmp_path / "out" / "reproduce.stopped.json").exists()


def test_the_exit_code_tells_how_a_run_ended(no_corpora, options, monkeypatch, capsys):
    nothing = options.replace(all=False, quick=True, only=("handwriting", "multi_label_yeast"))
    assert reproduce.main(nothing) == 2
    assert capsys.readouterr().err == (
        "reproduce: nothing was made: handwriting: it needs ocr_letters, "
        "multi_label_yeast: too long for --quick\n"
    )
    for error, code in ((RuntimeError("x"), 1), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(reproduce.run, "__defaults__", ([stub("a", error=error)],))
        assert reproduce.main(options) == code


def test_a_second_ctrl_c_does_not_lose_the_summary(options, monkeypatch):
    """It comes while the summary is written."""
    save = common.save

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return save(*arguments)

    monkeypatch.setattr(common, "save", interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcome = reproduce.run(options, [stub("a"), stub("b", error=KeyboardInterrupt())])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert strict_json(outcome.files[0])["stopped"] is True


def test_a_full_disk_is_said_and_the_run_goes_on(options, monkeypatch, capsys):
    """The rows after each table cannot be kept; the summary at the end can."""

    def written(folder, name, content):
        raise OSError(errno.ENOSPC, "No space left on device", f"{folder}/{name}.json")

    monkeypatch.setattr(reproduce, "write_results", written)
    assert statuses(reproduce.run(options, [stub("a"), stub("b")])) == {"a": "done", "b": "done"}
    said = capsys.readouterr().err
    assert "reproduce.stopped.json': no space left on device: make room" in said


def test_a_few_tables_without_corpora_run_first():
    """Two minutes of processor time at most; --only=NAME is the whole table, --all every one."""
    few = chosen_of(Options(), EXPERIMENTS)
    assert {each.name for each in few} == set(SHORT) and sum(e.minutes[0] for e in few) <= 2
    (whole,) = chosen_of(Options(only=("alignment",)), EXPERIMENTS)
    (part,) = (each for each in few if each.name == "alignment")
    assert len(part.options.sizes) < len(whole.options.sizes)
    assert part.options.samples == whole.options.samples
    assert chosen_of(Options(all=True), EXPERIMENTS) == list(EXPERIMENTS)


def test_the_page_has_all_that_is_made_and_loads_nothing(no_corpora, options):
    """Tables of the last run and of those before, their pictures, and how to make the rest."""
    reproduce.run(options.replace(quick=True, only=("digits", "snakes")))
    reproduce.run(options.replace(quick=True, only=("snakes",)))
    text = (Path(options.output) / "index.html").read_text(encoding="utf-8")
    opened, closed = (Counter(re.findall(rf"<{end}([a-z]\w*)", text)) for end in ("", "/"))
    assert closed == Counter({tag: n for tag, n in opened.items() if tag not in ("meta", "img")})
    loaded = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(each.startswith(("data:image/png;base64,", "#")) for each in loaded)
    pictures = [each.split(",", 1)[1] for each in loaded if each.startswith("data:")]
    (picture,) = map(base64.b64decode, pictures)
    assert picture == (Path(options.output) / "digits.png").read_bytes()
    for said in ("Seven formulations", "trainings ended with a proof", "svm2_slack", "--all"):
        assert said in text, said
    assert "python -m experiments.digits " in text
    assert "snakes (not here)" in text and text.count("<section") == 2


def test_verdicts_are_of_the_numbers():
    row = {"status": "CONVERGED", "formulation": "svm1", "c_over_n": 0.1, "primal": 30.5334268,
           "test_error": 2.0}  # fmt: skip
    other = row | {"status": "PASS_LIMIT", "formulation": "svm2", "primal": 1.0, "test_error": 4.0}
    found = verdict("digits", {"rows": [row, other]})
    assert "2.002 % above" in found or "2.00" in found
    assert "2.0 to 4.0 %" in found and "1 of 2 trainings" in found
    assert verdict("parsing", {"tables": []}) == ""
    assert verdict("named_entities", {"rows": [("CRF", 4.0)]}) == ""
    trial = {"part": "table", "n": 4, "status": "EPSILON"}
    trials = [trial | {"test_error": error} for error in (14, 15)]
    found = verdict("alignment", {"rows": trials})
    assert "for 1 of 1 sizes" in found and "2 of 2 trainings" in found
