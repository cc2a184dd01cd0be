"""`python -m jaxstruct` says whether an installation works."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct
from jaxstruct import __main__ as command
from jaxstruct.core.compiler import record_of_passing
from tests.lib.refusals import refused


def test_versions(capsys) -> None:
    assert command.main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"jaxstruct {jaxstruct.__version__}"
    assert [line.split()[0] for line in lines[1:]] == [*command.USED, "python"]


@pytest.mark.smoke
def test_an_installation_that_works(capsys, monkeypatch, tmp_path) -> None:
    """It is noted, which ends the warning of an untried JAX."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert command.main([]) == 0
    assert record_of_passing().exists()
    text = capsys.readouterr().out
    assert "status CONVERGED" in text and text.endswith("jaxstruct works here\n")


def test_one_that_does_not(capsys, monkeypatch) -> None:
    """Weights that predict at random are found out."""
    right = jaxstruct.predict
    monkeypatch.setattr(jaxstruct, "predict", lambda *them: np.roll(right(*them), 1))
    assert command.main([]) == 1
    assert "does not work here" in capsys.readouterr().out


def test_wrong_options_end_in_one_line(capsys) -> None:
    refused("2", command.main, ["--verson"], error=SystemExit)
    assert "unrecognized arguments: --verson" in capsys.readouterr().err
