"""Tables, texts and files of `experiments.align_sequences`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.align_sequences.costs import (
    Costs,
    align,
    measure,
    problem_of,
    uniform_costs,
    weights_of,
    write_costs,
    write_gap_costs,
)
from experiments.align_sequences.data import Pairs, inputs_of
from experiments.align_sequences.options import Options
from experiments.align_sequences.training import Trained
from experiments.lib import common
from experiments.lib.report import Table
from jaxstruct.alignments.alphabets import Alphabet
from jaxstruct.alignments.structure import written_alignments
from jaxstruct.alignments.text import (
    PairScores,
    WrittenAlignment,
    alignment_numbers,
    alignment_text,
    write_rows,
)
from jaxstruct.core.files import write_file
from jaxstruct.data.fasta import GAP, FastaRecord, write_fasta
from jaxstruct.solvers.checkpoints.run_state import save_weights

TRAINING_COLUMNS = [
    "costs", "gap open", "gap extend", "part", "pairs", "true pairs found %", "made pairs right %",
    "mean loss",
]  # fmt: skip
ALIGNED_COLUMNS = [
    "pair", "first", "second", "score", "columns", "identical %", "positive %", "gaps %"
]  # fmt: skip


def training_outcome(
    options: Options, alphabet: Alphabet, trained: Trained, given: Costs | None, dtype: str
) -> common.Outcome:
    """Print the table of a training, and write it, the matrix, the gap costs and the weights."""
    problem = problem_of(alphabet, options.mode, options.loss, dtype)
    compared = {"trained": trained.costs, "uniform": uniform_costs(alphabet)}
    if given and options.matrix:
        compared[Path(options.matrix).name] = given
    rows, numbers = [], []
    for name, costs in compared.items():
        for part in ("train", "held_out"):
            pairs = getattr(trained, part)
            if pairs.names:
                found = measure(problem, weights_of(costs, dtype), pairs)
                rows.append(_training_row(name, costs, part, found))
                numbers.append({"costs": name, "part": part} | found)
    folder = Path(options.output)
    matrix = write_costs(
        folder / "matrix.txt", alphabet, trained.costs, options.mode, options.matrix_scale
    )
    gaps = write_gap_costs(folder, trained.costs, options.gaps, options.matrix_scale)
    save_weights(folder / "weights.npz", trained.solution.weights)
    notes = [_solution_note(options, trained), _uniform_note(),
             f"Matrix written to {matrix}, gap costs to {gaps}, weights to "
             f"{folder / 'weights.npz'}."]  # fmt: skip
    table = Table("Costs learned from aligned sequences", TRAINING_COLUMNS, rows, notes)
    content = {"rows": numbers, "learned": trained.costs} | _training_numbers(trained)
    outcome = common.save(options, table, content)
    return outcome._replace(files=(*outcome.files, matrix, gaps, folder / "weights.npz"))


def _training_row(name: str, costs: Costs, part: str, found: dict[str, Any]) -> list[Any]:
    shares = [f"{found[key]:.2f}" for key in ("true_pairs_found", "made_pairs_right")]
    gaps = [f"{gap:.3f}" for gap in costs[1:]]
    return [name, *gaps, part.replace("_", " "), found["pairs"], *shares, f"{found['loss']:.3f}"]


def _solution_note(options: Options, trained: Trained) -> str:
    solution, left_out = trained.solution, ""
    if trained.left_out:
        left_out = f" {trained.left_out} pairs with letters outside the alphabet were left out."
    return (
        f"{options.formulation}, {options.mode}, loss {options.loss}, C' = C / n = "
        f"{options.c_over_n:g}; {solution.status.name} after {trained.seconds:.1f} s "
        f"({trained.compile_seconds:.1f} s of it compiling), relative gap "
        f"{solution.gap / abs(solution.primal):.1e} (asked for {options.tolerance:g}): "
        f"{solution.message}.{left_out}"
    )


def _uniform_note() -> str:
    return "uniform: equal letters score 1, others -1, each letter against a gap costs 1."


def _training_numbers(trained: Trained) -> dict[str, Any]:
    solution = trained.solution
    return {
        "status": solution.status, "primal": solution.primal, "dual": solution.dual,
        "relative_gap": solution.gap / abs(solution.primal), "seconds": trained.seconds,
        "compile_seconds": trained.compile_seconds,
        "left_out": trained.left_out, "passes": solution.statistics.passes,
        "oracle_calls": solution.statistics.oracle_calls,
        "planes_added": solution.statistics.planes_added,
    }  # fmt: skip


def aligned_outcome(
    options: Options, alphabet: Alphabet, pairs: Pairs, costs: Costs, dtype: str
) -> common.Outcome:
    """Align, print and write the alignments of pairs of sequences, and their numbers."""
    problem = problem_of(alphabet, options.mode, options.loss, dtype)
    inputs = inputs_of(pairs)
    found, scores = align(problem, weights_of(costs, dtype), inputs)
    written = written_alignments(alphabet, inputs, found)
    similar = PairScores(alphabet, costs.substitution)
    texts, rows = [], []
    for place, (names, score) in enumerate(zip(pairs.names, scores, strict=True)):
        number, each = place + 1, written[place]
        row = [number, *names, *_show(each, float(score), similar)]
        rows.append(row)
        texts.append(_block(options, row, each, similar))
    text = "\n".join(texts)
    print(text)
    path = write_file(Path(options.output) / "alignments.txt", text)
    fasta, missing = _write_rows(options, pairs, written, scores)
    notes = [f"{options.mode} alignments, written to {path} and {fasta}."]
    if missing:
        notes.append(f"{missing} of them have a row without letters and are in {path.name} only.")
    if pairs.left_out:
        notes.append(f"{pairs.left_out} pairs with letters outside the alphabet were left out.")
    table = Table("Aligned sequences", ALIGNED_COLUMNS, rows, notes)
    numbers = {"scores": scores, "left_out": pairs.left_out, "costs": costs}
    name = "align_sequences_aligned"
    outcome = common.save(options, table, numbers, name=name)
    return outcome._replace(files=(*outcome.files, path, fasta))


def _write_rows(
    options: Options, pairs: Pairs, written: Sequence[WrittenAlignment], scores: np.ndarray
) -> tuple[Path, int]:
    """(the FASTA file of all rows, how many pairs it cannot hold)."""
    records = [
        aligned_records(number, *each)
        for number, each in enumerate(zip(pairs.names, written, scores, strict=True), 1)
    ]
    path = Path(options.output) / "alignments.fasta"
    write_fasta(path, [row for pair in records for row in pair], aligned=True)
    return path, records.count(())


def aligned_records(
    number: int, names: tuple[str, str], written: WrittenAlignment, score: float
) -> tuple[FastaRecord, ...]:
    """The two rows of an alignment for a FASTA file.

    Args:
      number: of the pair, from 1, and names of its sequences, which may be empty: they stand in the
        records' names, so that each occurs once in a file.
      written: the alignment; which letters of the sequences it has, stands in the descriptions.

    Returns:
      Two records, or none where one row would have no letter, which FASTA cannot hold.
    """
    rows = write_rows(written)
    counts = [len(row) - row.count(GAP) for row in rows]
    if not all(counts):
        return ()
    records = []
    for side, place in enumerate(("first", "second")):
        name = f"pair{number}_{place}" + (f"|{names[side]}" if names[side] else "")
        begin = int(written.begin[side])
        place = f"letters {begin + 1}-{begin + counts[side]} of {len(written[side])}"
        records.append(FastaRecord(name, f"{place}, score {score:.6g}", rows[side]))
    return tuple(records)


def _show(written: WrittenAlignment, score: float, similar: PairScores) -> list[Any]:
    """score, columns, and shares of them in percent."""
    numbers = alignment_numbers(written, similar)
    shares = np.array([numbers.identical, numbers.positive, numbers.gaps]) / max(numbers.columns, 1)
    return [f"{score:.2f}", numbers.columns, *(f"{100 * share:.1f}" for share in shares)]


def _block(options: Options, row: list[Any], written: WrittenAlignment, similar: PairScores) -> str:
    number, first, second, score, columns, identical, positive, gaps = row
    names = first or "first", second or "second"
    head = (
        f"# {number}: {names[0]} with {names[1]}, score {score}, {columns} columns, identical "
        f"{identical} %, positive {positive} %, gaps {gaps} %\n\n"
    )
    text = alignment_text(written, names=names, scores=similar, width=options.columns)
    return head + text
