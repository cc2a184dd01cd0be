"""experiments.gpu: what one process measures, and answers held against those of float64."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import gpu
from experiments.gpu import Options

SMALL = Options(families=("chains",), sizes=1, batch=2, repeats=1, fits=())


@pytest.mark.thorough
def test_processes_beside_each_other(tmp_path, monkeypatch):
    """In this process, the CPU in place of an accelerator, of chains their first program."""
    rows_of, (make, *others) = gpu._rows, gpu.FAMILIES["chains"]

    def viterbi(*given):
        case = make(*given)
        return case._replace(ours={"Viterbi": case.ours["Viterbi"]})

    def apart(options, name, environment):
        assert environment == ({} if options.part == "accelerator" else {"JAX_PLATFORMS": "cpu"})
        gpu.common.prepare(options)
        part = "cpu" if options.part == "accelerator" else options.part
        monkeypatch.setattr(gpu, "_name", lambda own: f"gpu_{own}_{options.part}")
        return rows_of(part, options)

    monkeypatch.setattr(gpu, "run_apart", apart)
    monkeypatch.setitem(gpu.FAMILIES, "chains", (viterbi, *others))
    rows = gpu.run(SMALL.replace(output=str(tmp_path))).numbers["rows"]
    assert {row["family"] for row in rows} == {"chains"}
    for row in rows:
        assert row["error"] < 1e-5 and row["differ"] == 0 and row["times"] > 0, row
    assert not list(tmp_path.glob("*.npz")) and (tmp_path / "gpu.png").exists()


def test_a_wrong_answer_shows(tmp_path):
    given = [(np.array([1.0, 9.0]), np.array([1, 2])), (np.array([1.0, 4.0]), np.array([1, 3]))]
    rows = []
    for number, answer in enumerate(given):
        np.savez(tmp_path / f"{number}.npz", *answer)
        rows.append({"family": "f", "size": "1", "program": "p", "rate": 2.0, "device": "d",
                     "answer": str(tmp_path / f"{number}.npz")})  # fmt: skip
    np.savez(tmp_path / "cpu.npz", 0)
    cpu = rows[0] | {"rate": 1.0, "answer": str(tmp_path / "cpu.npz")}
    row = gpu._beside(rows[0], cpu, rows[1])
    assert (row["error"], row["differ"], row["times"]) == (1.0, 0.5, 2.0)
