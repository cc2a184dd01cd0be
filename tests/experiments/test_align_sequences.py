"""experiments.align_sequences on generated files: what is learned, written, read and printed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from Bio import AlignIO, SeqIO

from experiments.align_sequences import command as align_sequences
from experiments.align_sequences.command import Options
from experiments.align_sequences.costs import (
    Costs,
    batch_size,
    read_costs,
    read_gap_costs,
    write_costs,
    write_gap_costs,
)
from experiments.align_sequences.data import (
    Reading,
    inputs_of,
    outputs_of,
    read_aligned,
    read_plain,
    split,
    without_end_gaps,
)
from experiments.align_sequences.report import aligned_records
from experiments.corpora.substitution_matrices import read_substitution_matrix
from experiments.lib import common
from jaxstruct.alignments.alphabets import DNA
from jaxstruct.alignments.potentials import DELETE, INSERT, PAIR
from jaxstruct.alignments.structure import pairwise_alignment
from jaxstruct.alignments.text import WrittenAlignment
from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.fasta import FastaRecord, read_fasta, write_fasta
from jaxstruct.solvers.checkpoints.run_state import load_weights
from tests.experiments.scripts import kept_settings, stop_after, strict_json

N = 30
READING = Reading(DNA, "error", "error")


def records(n, seed):
    """2 n rows of DNA that changes by transitions (A with G, C with T) and long gaps only."""
    random, rows = np.random.default_rng(seed), []
    swapped = dict(zip("ACGT", "GTAC", strict=True))
    for pair in range(n):
        first, second = [], []
        for _ in range(int(random.integers(8, 13))):
            letter = str(random.choice(list("ACGT")))
            first.append(letter)
            second.append(swapped[letter] if random.random() < 0.4 else letter)
            if random.random() < 0.1:
                gap = "".join(random.choice(list("ACGT"), 3))
                (first if random.random() < 0.5 else second).append(gap)
                other = second if len("".join(first)) > len("".join(second)) else first
                other.append("---")
        for name, row in (("a", first), ("b", second)):
            rows.append(FastaRecord(f"{pair}{name}", "", "".join(row)))
    return rows


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("align")
    write_fasta(folder / "known.fasta", records(N, 0), aligned=True)
    new = [row._replace(sequence=row.sequence.replace("-", "")) for row in records(3, 1)]
    write_fasta(folder / "new.fasta", new)
    return Options(
        aligned=str(folder / "known.fasta"), align=str(folder / "new.fasta"), alphabet="dna",
        c_over_n=0.3, tolerance=0.05, held_out=0.4, output=str(folder / "out"),
        compilation_cache=False, progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def outcome(options):
    with kept_settings():
        return align_sequences.run(options)


def test_trained_costs_find_more_pairs_than_uniform_ones(outcome):
    rows = {(row["costs"], row["part"]): row for row in outcome.numbers["rows"]}
    assert len(rows) == 4 and outcome.numbers["status"].name == "CONVERGED"
    assert [rows["trained", part]["pairs"] for part in ("train", "held_out")] == [18, 12]
    for part in ("train", "held_out"):
        ours, theirs = rows["trained", part], rows["uniform", part]
        assert ours["true_pairs_found"] > theirs["true_pairs_found"] + 3
        assert ours["true_pairs"] == theirs["true_pairs"] and ours["loss"] < theirs["loss"]
        assert ours["true_pairs_found"] == 100 * ours["right_pairs"] / ours["true_pairs"]
    assert outcome.numbers["learned"].gap_open > outcome.numbers["learned"].gap_extend


def test_files_hold_what_was_learned(options, outcome):
    assert [path.name for path in outcome.files] == [
        "align_sequences.json", "align_sequences.csv", "matrix.txt", "gap_costs.json",
        "weights.npz", "align_sequences_aligned.json", "align_sequences_aligned.csv",
        "alignments.txt", "alignments.fasta",
    ]  # fmt: skip
    content, costs = strict_json(outcome.files[0]), outcome.numbers["learned"]
    assert "python -m experiments.align_sequences " in content["record"]["command"]
    assert content["rows"] == outcome.numbers["rows"]
    matrix = read_substitution_matrix(outcome.files[2])
    assert matrix.letters == "ACGT"
    np.testing.assert_allclose(matrix.scores, costs.substitution, atol=5.1e-5)
    assert f"gap_open {costs.gap_open:.6g} gap_extend {costs.gap_extend:.6g}" in matrix.comments[1]
    assert strict_json(outcome.files[3]) == {
        "scale": 1.0, "gap_open": costs.gap_open, "gap_extend": costs.gap_extend,
    }  # fmt: skip
    weights = load_weights(outcome.files[4], pairwise_alignment(4))
    np.testing.assert_allclose(weights["substitution"], costs.substitution, atol=1e-5)
    assert weights["gap_open"] == pytest.approx(costs.gap_open)


def test_alignments_are_printed_and_written(options, outcome):
    text = outcome.files[-2].read_text()
    new = read_fasta(options.align)
    assert text.count("# ") == 3 and "|" in text
    for number, (first, second) in enumerate(zip(new[::2], new[1::2], strict=True), 1):
        block = text.split("# ")[number]
        assert block.startswith(f"{number}: {first.name} with {second.name}, score ")
        lines = block.split("\n")[2:5]
        for line, record in ((lines[0], first), (lines[2], second)):
            name, begin, row, end = line.split()
            assert (name, begin, int(end)) == (record.name, "1", len(record.sequence))
            assert row.replace("-", "") == record.sequence


def test_alignments_are_rows_for_other_programs_too(options, outcome):
    """By Biopython's readers and by --aligned; rows without gaps are the sequences."""
    path, new = outcome.files[-1], read_fasta(options.align)
    names = [f"pair{i}_{side}" for i in (1, 2, 3) for side in ("first", "second")]
    found = list(SeqIO.parse(path, "fasta"))
    assert [one.id for one in found] == [
        f"{name}|{record.name}" for name, record in zip(names, new, strict=True)
    ]
    assert [str(one.seq).replace("-", "") for one in found] == [row.sequence for row in new]
    assert (
        found[1]
        .description.split(" ", 1)[1]
        .startswith(f"letters 1-{len(new[1].sequence)} of {len(new[1].sequence)}, score ")
    )
    pairs, rows = list(AlignIO.parse(path, "fasta", seq_count=2)), outcome.files[-2].read_text()
    columns = [f" {pair.get_alignment_length()} columns, " for pair in pairs]
    assert len(pairs) == 3
    assert all(column in head for column, head in zip(columns, heads(rows), strict=True))
    again = read_aligned(str(path), READING, "global")
    assert len(again.names) == 3 and any("-" in one.seq for one in found)


def test_end_gaps_are_left_out_of_a_local_alignment():
    operations, begin = without_end_gaps(
        np.array([DELETE, INSERT, DELETE, PAIR, INSERT, PAIR, DELETE]), np.array([1, 0])
    )
    assert operations.tolist() == [PAIR, INSERT, PAIR] and begin.tolist() == [3, 1]
    operations, begin = without_end_gaps(np.array([DELETE, INSERT]), np.array([1, 0]))
    assert operations.tolist() == [] and begin.tolist() == [0, 0]


def test_rows_of_a_local_alignment_say_where_they_stand():
    written = WrittenAlignment("ACGT", "TTGT", np.array([0, 1, 0]), np.array([1, 2]))
    assert aligned_records(7, ("a", ""), written, 1.25) == (
        FastaRecord("pair7_first|a", "letters 2-4 of 4, score 1.25", "CGT"),
        FastaRecord("pair7_second", "letters 3-4 of 4, score 1.25", "G-T"),
    )
    for operations in ([], [1, 1]):
        nothing = written._replace(operations=np.array(operations, int))
        assert aligned_records(1, ("a", "b"), nothing, 0.0) == ()


def test_pairs_that_fasta_cannot_hold_are_told(options, tmp_path, capsys):
    """No letter of A fits one of C: the local alignment is empty."""
    rows = [FastaRecord(row[0], "", row[1:]) for row in ("aAA", "bCC", "cAA", "dCA")]
    new = write_fasta(tmp_path / "new.fasta", rows)
    matrix = "  A C G T\nA 1 -1 -1 -1\nC -1 1 -1 -1\nG -1 -1 1 -1\nT -1 -1 -1 1\n"
    (tmp_path / "m").write_text(matrix)
    (tmp_path / "g").write_text('{"gap": 1}')
    bare = options.replace(
        aligned=None, align=str(new), matrix=str(tmp_path / "m"), gap_costs=str(tmp_path / "g"),
        mode="local", output=str(tmp_path),
    )  # fmt: skip
    with kept_settings():
        outcome = align_sequences.run(bare)
    assert [row.name for row in read_fasta(outcome.files[-1])] == [
        "pair2_first|c",
        "pair2_second|d",
    ]
    assert "1 of them have a row without letters" in capsys.readouterr().out


def heads(text):
    """What is said of each alignment; of equal ones the file's decimals may choose another."""
    return [line for line in text.splitlines() if line.startswith("#")]


def test_a_written_matrix_aligns_as_the_trained_one(options, outcome, tmp_path, capsys):
    """Local alignments of the same costs are not longer; gap flags win over the comment."""
    loaded = options.replace(aligned=None, matrix=str(outcome.files[2]), output=str(tmp_path))
    gaps = loaded.replace(gap_costs=str(outcome.files[3]))
    with kept_settings():
        again = align_sequences.run(gaps)
        assert again.numbers["costs"][1:] == outcome.numbers["learned"][1:]
        printed = heads(capsys.readouterr().out)
        assert printed and printed == heads(outcome.files[-2].read_text())
        dear = align_sequences.run(loaded.replace(gap_open=99.0, gap_extend=99.0, mode="local"))
    assert (tmp_path / "alignments.txt").read_text() != outcome.files[-2].read_text()
    np.testing.assert_allclose(
        again.numbers["scores"],
        strict_json(outcome.files[5])["scores"], rtol=1e-3,
    )  # fmt: skip
    for row in dear.table.rows:
        assert row[-1] == "0.0"  # no gaps
    assert dear.numbers["costs"].gap_extend == 99.0


def test_integers_and_their_scale(options, outcome, tmp_path):
    costs = outcome.numbers["learned"]
    path = write_costs(tmp_path / "m", DNA, costs, "global", 10.0)
    found = read_substitution_matrix(path)
    np.testing.assert_allclose(found.scores, 10 * costs.substitution, atol=0.5 + 1e-9)
    assert (found.scores == np.round(found.scores)).all()
    assert f"gap_open {10 * costs.gap_open:.0f} " in found.comments[1]


@pytest.mark.parametrize("scale", [0.0, 2.0])
def test_gap_costs_come_back_with_their_matrix(scale, tmp_path):
    costs = Costs(np.eye(4), 1.2345678, 0.25)
    matrix = str(write_costs(tmp_path / "m", DNA, costs, "global", scale))
    path = write_gap_costs(tmp_path, costs, "affine", scale)
    found = read_costs(matrix, DNA, None, None, str(path))
    assert found[1:] == ((2.0, 1.0) if scale else costs[1:])
    assert read_costs(matrix, DNA, None, None)[1:] == pytest.approx(found[1:], rel=1e-5)
    path = write_gap_costs(tmp_path, costs._replace(gap_extend=1.2345678), "linear", scale)
    linear = {"scale": 2.0, "gap": 2.0} if scale else {"scale": 1.0, "gap": 1.2345678}
    assert strict_json(path) == linear
    assert read_gap_costs(str(path)) == (
        dict.fromkeys(costs._fields[1:], linear["gap"]),
        scale or 1,
    )
    other = write_gap_costs(tmp_path, costs, "affine", 3.0)
    with pytest.raises(
        ValueError, match="gap_costs: .* goes with scores multiplied by 3, those of"
    ):
        read_costs(matrix, DNA, None, None, str(other))


@pytest.mark.parametrize("text, message", [
    ("{", "f: not JSON"), ("[1, 2]", "f: holds no gap costs, expected"),
    ('{"gap_open": 1}', "holds no gap costs"), ('{"gap": 1, "gaps": 2}', "holds no gap costs"),
    ('{"gap": true}', "f: gap is True, expected a finite number"), ('{"gap": NaN}', "gap is nan"),
    ('{"gap_open": 1, "gap_extend": "1"}', "gap_extend is '1'"), ('{"gap": 1e999}', "gap is inf"),
    ('{"scale": null, "gap": 1}', "scale is None"), ('{"gap": 1' + "0" * 400 + "}", "gap is 10"),
])  # fmt: skip
def test_files_that_hold_no_gap_costs(text, message, tmp_path):
    (tmp_path / "f").write_text(text)
    with pytest.raises(MalformedFile, match=message):
        read_gap_costs(str(tmp_path / "f"))


def test_gap_costs_written_by_hand(tmp_path):
    (tmp_path / "f").write_text('{"gap_open": 11, "gap_extend": -0.5}')
    assert read_gap_costs(str(tmp_path / "f")) == ({"gap_open": 11.0, "gap_extend": -0.5}, None)
    (tmp_path / "m").write_text("  A C G T\nA 1 0 0 0\nC 0 1 0 0\nG 0 0 1 0\nT 0 0 0 1\n")
    costs = read_costs(str(tmp_path / "m"), DNA, None, None, str(tmp_path / "f"))
    assert costs[1:] == (11.0, -0.5)


def written(folder, *rows):
    records = [FastaRecord(f"r{i}", "", row) for i, row in enumerate(rows)]
    return str(write_fasta(folder / "f", records, aligned=True))


def test_rows_become_alignments(tmp_path):
    """Columns of two gaps are dropped, gaps gathered, and end gaps left out of local ones."""
    path = written(tmp_path, "A--C-GT--", "-A-CT--GG", "AC", "AC")
    pairs = read_aligned(path, READING, "global")
    assert pairs.names == [("r0", "r1"), ("r2", "r3")] and not pairs.left_out
    operations, begin = pairs.alignments[0]
    assert operations.tolist() == [1, 2, 0, 1, 1, 2, 2, 2] and begin.tolist() == [0, 0]
    operations, begin = read_aligned(path, READING, "local").alignments[0]
    assert operations.tolist() == [0] and begin.tolist() == [1, 1]
    assert [codes.tolist() for codes in pairs.codes[0]] == [[0, 1, 2, 3], [0, 1, 3, 2, 2]]
    assert read_plain(path, READING).codes[0][1].tolist() == [0, 1, 3, 2, 2]


def test_other_letters_are_an_error_or_left_out(tmp_path):
    path = written(tmp_path, "AC", "aC", "AN", "AC", "AC", "AG")
    with pytest.raises(ValueError, match="pair 1, 'r0' with 'r1': .*'a' at .*--lower_case=upper"):
        read_aligned(path, READING, "global")
    found = read_aligned(path, READING._replace(other_letters="leave_out"), "global")
    assert found.left_out == 2 and found.names == [("r4", "r5")]
    upper = READING._replace(lower_case="upper", other_letters="leave_out")
    assert read_aligned(path, upper, "global").left_out == 1
    with pytest.raises(ValueError, match="all 1 pairs have letters outside"):
        read_aligned(written(tmp_path, "AN", "AC"), upper, "global")
    with pytest.raises(MalformedFile, match="the rows of pair 1, 'r0' and 'r1', have 2 and 1"):
        read_aligned(written(tmp_path, "AC", "A"), READING, "global")


def test_splits_and_stores_hold_each_pair_once(options):
    pairs = read_aligned(options.aligned, READING, "global")
    train, held_out = split(pairs, 0.3, 4)
    assert len(held_out.names) == 9 and sorted(train.names + held_out.names) == sorted(pairs.names)
    assert split(pairs, 0.3, 4)[1].names == held_out.names != split(pairs, 0.3, 5)[1].names
    assert split(pairs, 0, 0)[1].names == []
    inputs, outputs = inputs_of(pairs), outputs_of(pairs)
    for i, (codes, alignment) in enumerate(zip(pairs.codes, pairs.alignments, strict=True)):
        np.testing.assert_array_equal(inputs.first[i], codes[0])
        np.testing.assert_array_equal(inputs.second[i], codes[1])
        np.testing.assert_array_equal(outputs.operations[i], alignment[0])


def test_long_sequences_go_in_small_batches():
    assert batch_size(100) == 64 and batch_size(1000) == 32 and batch_size(20000) == 1


def test_matrices_that_do_not_fit(options, outcome, tmp_path):
    loaded = options.replace(aligned=None, matrix=str(tmp_path / "m"), output=str(tmp_path / "o"))
    (tmp_path / "m").write_text("  A C\nA 1 0\nC 0 1\n")
    with kept_settings(), pytest.raises(ValueError, match="has no scores of G, T; it has AC"):
        align_sequences.run(loaded)
    (tmp_path / "m").write_text(outcome.files[2].read_text().replace("gap_open", "gap"))
    with kept_settings(), pytest.raises(ValueError, match="what gaps cost; give --gap_open"):
        align_sequences.run(loaded)


def test_ctrl_c_while_aligning_tells_of_the_training(options, tmp_path, monkeypatch):
    kept = common.Outcome(None, {}, ("matrix.txt",))
    trained = SimpleNamespace(costs=None)
    monkeypatch.setattr(align_sequences, "train_costs", stop_after(1, trained))
    monkeypatch.setattr(align_sequences, "training_outcome", stop_after(1, kept))
    monkeypatch.setattr(align_sequences, "aligned_outcome", stop_after(0, None))
    with kept_settings(), pytest.raises(common.Stopped, match="finished is in matrix.txt$"):
        align_sequences.run(options.replace(output=str(tmp_path)))
    (tmp_path / "m").write_text("  A C G T\nA 1 0 0 0\nC 0 1 0 0\nG 0 0 1 0\nT 0 0 0 1\n")
    bare = options.replace(aligned=None, matrix=str(tmp_path / "m"), gap_open=1.0, gap_extend=1.0)
    with kept_settings(), pytest.raises(KeyboardInterrupt) as stop:
        align_sequences.run(bare)
    assert not isinstance(stop.value, common.Stopped)
