"""third_party_data/fetch.py: flags, table and exit code, as a user runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.corpora import archives, registry
from tests.lib.thorough import thorough_after

ROOT = Path(__file__).parents[3]


def _run(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "third_party_data" / "fetch.py"), *flags],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        timeout=300,  # of a machine with much else to do
    )


def test_verify_only_reports_what_is_missing(tmp_path) -> None:
    """Nothing is downloaded; the table has every file; the exit code is not zero."""
    done = _run("--verify_only", JAXSTRUCT_DATA=str(tmp_path / "data"))
    assert done.returncode == 1
    for corpus in registry.CORPORA.values():
        for entry in corpus.files:
            row = next(line for line in done.stdout.splitlines() if f" {entry.path} " in line)
            assert row.split()[:4] == [corpus.name, entry.path, "missing", str(entry.bytes)]
            assert corpus.licence in row
    assert not (tmp_path / "data").exists()


def test_corpus_to_place_by_hand_fails_with_the_reason(tmp_path) -> None:
    """`--destination` wins over the environment; the error is on stderr."""
    done = _run("--corpus=snakes", f"--destination={tmp_path}", JAXSTRUCT_DATA="elsewhere")
    assert done.returncode == 1
    assert f"folder: {tmp_path}\n" in done.stdout
    assert "cannot be downloaded: train and test of the source" in done.stderr


def test_unknown_corpus_is_a_usage_error(tmp_path) -> None:
    """The known names are listed."""
    done = _run("--corpus=gun", f"--destination={tmp_path}")
    assert done.returncode != 0
    assert "got 'gun', expected one of conll2002" in done.stderr + done.stdout


def test_real_corpus_verifies(require_corpus, tmp_path) -> None:
    """With the files in place the exit code is zero, and a damaged copy is found out."""
    (tmp_path / "clinc150").mkdir()
    for entry in registry.CORPORA["clinc150"].files:
        source = require_corpus("clinc150", entry.path)
        shutil.copyfile(source, tmp_path / "clinc150" / entry.path)
    flags = ("--corpus=clinc150", "--corpus=clinc150", f"--destination={tmp_path}")
    done = _run(*flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" present ") == 3
    (tmp_path / "clinc150" / "LICENSE").write_text("mine")
    done = _run(*flags, "--verify_only")
    assert done.returncode == 1
    assert done.stdout.count(" present ") == 2
    assert "LICENSE                  damaged" in done.stdout


def test_built_from_a_release(require_corpus, tmp_path) -> None:
    """The corpus is in place afterwards, built from the folder of a checkout (`test_rebuild` has
    the archive), which holds more; a source that is another one is refused."""
    folder = tmp_path / "release"
    others = ("const/GUM_reddit_pandas.ptb", "const/readme.txt", "README.md", "_build/LICENSE.txt")
    members = archives.read_members(require_corpus("gum", "gum-const.tar.xz"), lambda name: True)
    for name, content in (dict.fromkeys(others, b"(ROOT (_ _))") | members).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    flags = ("--corpus=gum", f"--from={folder}", f"--destination={tmp_path / 'data'}")
    done = _run(*flags)
    assert done.returncode == 0, done.stderr
    assert "263 documents with trees\nchecked: what it holds is the registered" in done.stdout
    assert "gum-const.tar.xz         present" in done.stdout
    shutil.rmtree(folder / "const")
    (folder / "const").mkdir()
    (folder / "const" / "GUM_bio_byron.ptb").write_text("(A b)")
    shutil.rmtree(tmp_path / "data")
    done = _run(*flags)
    assert done.returncode == 1
    assert "It is another version or damaged" in done.stderr
    assert "gum-const.tar.xz         missing" in done.stdout


@pytest.mark.parametrize(
    "flags", thorough_after(1, [["--corpus=gum", "--verify_only"], ["--corpus=clinc150"], []])
)
def test_building_needs_one_corpus_that_is_built(tmp_path, flags) -> None:
    done = _run(*flags, "--from=x", f"--destination={tmp_path}")
    assert done.returncode != 0
    assert "--from needs one --corpus, gum or ocr_letters" in done.stderr + done.stdout


def test_stray_argument_is_refused(tmp_path) -> None:
    """A forgotten '--' does not fetch everything."""
    done = _run("gum", f"--destination={tmp_path}")
    assert done.returncode != 0
    assert "unexpected arguments: gum" in done.stderr + done.stdout
    assert not list(tmp_path.iterdir())
