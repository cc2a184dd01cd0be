"""Certificates of relaxed training against enumeration; `certificate_runs` makes as many as wanted.

`test_structure` has more of the oracles of labellings.
"""

from __future__ import annotations

import pytest

from tests.graphs.certificate_runs import check_run

SEEDS = 10


def test_relaxed_certificates_never_lie() -> None:
    ends = [check_run(seed, "relaxed", "svm1_margin", 2).status.name for seed in range(SEEDS)]
    assert ends.count("CONVERGED") > SEEDS / 2
    assert set(ends) <= {"CONVERGED", "INEXACT_ORACLE"}


@pytest.mark.thorough
def test_escalated_certificates_never_lie_and_save_dear_calls() -> None:
    """Conditional modes find violated outputs: the other oracle is asked for fewer examples."""
    found = [check_run(seed, "escalated", "svm1_margin", 2) for seed in range(SEEDS)]
    assert {one.status.name for one in found} <= {"CONVERGED", "INEXACT_ORACLE"}
    assert "CONVERGED" in {one.status.name for one in found}
    for one in found:
        passes, calls = one.statistics.passes, one.statistics.oracle_calls
        assert 5 * passes < calls < 2 * 5 * passes + 5 * 3  # the last ones certify
