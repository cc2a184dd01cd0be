"""Which round several processes go on from; two real ones do so in `test_processes`."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple

import pytest

from jaxstruct.core.archive import DamagedFile
from jaxstruct.core.processes import ALONE, Processes
from jaxstruct.solvers.checkpoints.resuming import check_number, last_whole, path_of
from tests.lib.refusals import refused


class Two(Processes):
    """The first of two processes, the other of which holds these rounds."""

    def __init__(self, other=()):
        super().__init__()
        self.numbers, self.other = (0, 1), [[[number, False] for number in other], []]

    def agree(self, act):
        return act()

    def gather(self, own):
        return [own, self.other]


class Held(NamedTuple):
    round: tuple[int, bool]
    damaged: bool = False


def found(tmp_path, own, other):
    """(round, newer) of a process whose files hold these rounds; 0 is damaged, None is missing."""
    files = dict(zip(("run.process0", "run.process0.previous"), own, strict=True))

    def read(path):
        number = files[path.name]
        if number is None:
            raise FileNotFoundError
        if number == 0:
            raise DamagedFile(f"{path.name} is damaged")
        return Held((number, False))

    end = last_whole(Two(other), tmp_path / "run.process0", read)
    return None if end is None else (end.round[0], end.damaged)


@pytest.mark.parametrize(
    ("own", "other", "expected", "warned"),
    [
        ((7, 5), (7, 5), (7, False), None),
        ((7, 5), (5, 3), (5, True), "rounds. The run goes on from .*previous, after"),
        ((5, 3), (7, 5), (5, False), None),
        ((0, 5), (7, 5), (5, True), "is damaged"),
        ((None, None), (), None, None),
        ((3, None), (), None, "The run begins anew"),
        ((None, None), (3,), None, "process 0 holds none; process 1 holds round 3"),
    ],
)
def test_the_last_round_that_both_hold(tmp_path, recwarn, own, other, expected, warned):
    assert found(tmp_path, own, other) == expected
    words = " ".join(str(each.message) for each in recwarn)
    assert re.search(warned, words) if warned else not words


@pytest.mark.parametrize(("own", "other"), [((7, 5), ()), ((7, 5), (6, 4)), ((0, 0), (7, 5))])
def test_no_round_in_common_is_refused(tmp_path, own, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of damaged files
        refused("hold no round in common: process 0", found, tmp_path, own, other)


def test_files_of_another_number_of_processes_are_refused(tmp_path):
    checkpoint = tmp_path / "run.npz"
    assert path_of(checkpoint, ALONE) == checkpoint
    assert path_of(checkpoint, Two()) == tmp_path / "run.npz.process0"
    for name in ("run.npz.previous", "other.npz.process7"):
        (tmp_path / name).touch()
    check_number(checkpoint, ALONE)
    (tmp_path / "run.npz.process1").touch()
    check_number(checkpoint, Two())
    with refused(r"another number of processes than 1.*run.npz.process1"):
        check_number(checkpoint, ALONE)
    (tmp_path / "run.npz.process2.previous").touch()
    with refused("number of processes than 2: .*process2.previous"):
        check_number(checkpoint, Two())
    (tmp_path / "run.npz.process2.previous").unlink()
    checkpoint.touch()
    with refused("number of processes than 2: .*run.npz. Resume"):
        check_number(checkpoint, Two())
