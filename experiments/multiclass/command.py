"""The multiclass machines of the thesis's chapter 2, all of them, beside scikit-learn's own.

    python -m experiments.multiclass                                  # all data
    python -m experiments.multiclass --data=digits_gaussian --c_over_n=10
    python -m experiments.multiclass --data=clinc150 --per_class=20 --machines=weston_watkins

One against all (2.22), all pairs by votes and by margins, random error-correcting codes by Hamming
distance and by margins, Weston and Watkins (2.27, 2.28), Crammer and Singer (2.29, 2.30), each with
linear (L1) and squared (L2) slack. The first three are made of binary machines whose bias is not
regularised (2.6, 2.7). Every slack of every machine costs C'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot, bar_groups
from experiments.lib.progress import jobs_bar
from experiments.lib.report import Table
from experiments.multiclass.machines import (
    MACHINES,
    NAMES,
    PENALTIES,
    WORDS,
    Data,
    Run,
    Trained,
    load,
    trained,
)
from experiments.multiclass.peers import Peer, peers_of


class Options(fields.Tolerance, fields.Common):
    """The flags of this command."""

    data: Sequence[str] = flag(NAMES, "Examples to train on.", NAMES, some=True)
    machines: Sequence[str] = flag(MACHINES, "Machines to train.", MACHINES, some=True)
    penalties: Sequence[str] = flag(
        tuple(PENALTIES), "Slack in the objective as it is (L1) or squared (L2).", PENALTIES
    )
    c_over_n: float = flag(1.0, "C', what a slack costs in every machine.", above=0)
    per_class: int = flag(0, "Learn from so many examples of each class; 0 for all.", least=0)
    code_length: int = flag(
        0, "Machines of the random code; 0: 4 log2 of the classes, rounded up.", least=0
    )
    twice: bool = flag(True, "Train each machine a second time, for the seconds without compiling.")
    peers: bool = flag(True, "Train scikit-learn's machines, too.")


def run(options: Options) -> common.Outcome:
    """Train all machines on all data, print the table and write it.

    Raises:
      ValueError: an option that does not fit.
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    how = Run(options.c_over_n, options.tolerance, options.code_length, dtype, options.seed)
    rows: list[dict[str, Any]] = []
    sets = {name: load(name, options.per_class, options.seed) for name in options.data}
    jobs = [(name, machine) for name in options.data for machine in options.machines]
    with (
        common.kept_if_stopped(options, {"rows": rows}),
        jobs_bar(jobs, "multiclass", options.progress) as bar,
    ):
        for name, machine in bar:
            rows.extend(_measurements(options, name, sets[name], machine, how))
    table = _table(options, sets, rows)
    plots = {f"multiclass_{name}": _plot(name, sets[name], rows) for name in sets}
    return common.save(options, table, {"rows": rows}, plots)


def _measurements(
    options: Options, name: str, data: Data, machine: str, how: Run
) -> Iterator[dict[str, Any]]:
    for penalty in options.penalties:
        ours = trained(machine, penalty, data, how, options.twice)
        yield {"data": name} | _our_row(ours, data)
        for peer in peers_of(machine, penalty, data, how) if options.peers else ():
            yield {"data": name} | _peer_row(peer, ours, data)


def _accuracy(data: Data, guess: np.ndarray) -> float:
    return 100 * float(np.mean(guess == data.test_labels))


def _our_row(ours: Trained, data: Data) -> dict[str, Any]:
    accuracies = {rule: _accuracy(data, guess) for rule, guess in ours.guesses.items()}
    return {
        "machine": ours.machine, "penalty": ours.penalty, "peer": None,
        "hyperplanes": ours.machines, "status": ours.status, "objective": ours.objective,
        "gap": ours.gap, "support": ours.support, "accuracy": next(iter(accuracies.values())),
        "accuracies": accuracies, "first": ours.first, "seconds": ours.second,
        "above_ours": None, "ratio": None,
    }  # fmt: skip


def _peer_row(peer: Peer, ours: Trained, data: Data) -> dict[str, Any]:
    return {
        "machine": peer.machine, "penalty": peer.penalty, "peer": peer.name,
        "hyperplanes": None, "status": None, "objective": peer.objective, "gap": None,
        "support": None, "accuracy": _accuracy(data, peer.guess), "accuracies": None,
        "first": None, "seconds": peer.seconds,
        "above_ours": peer.objective / ours.objective - 1,
        "ratio": ours.second.process / peer.seconds.process,
    }  # fmt: skip


def _table(options: Options, sets: Mapping[str, Data], rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        "data", "machine", "slack", "hyperplanes", "status", ("objective", "J"),
        ("objective", "gap"), ("objective", "J / ours - 1"), "support", ("accuracy %", "usual"),
        ("accuracy %", "hinge"), ("accuracy %", "linear"), ("seconds", "wall"),
        ("seconds", "processor"), "ours / theirs",
    ]  # fmt: skip
    notes = [
        *(f"{name}: {data.title}; {len(data.labels)} to learn from, {len(data.test_labels)} to "
          f"test, {data.number_of_classes} classes." for name, data in sets.items()),
        f"C' = {options.c_over_n:g} for every slack: C = C' n, of Weston and Watkins C' n (k - 1). "
        f"Relative gap {options.tolerance:g}, {'float64' if options.x64 else 'float32'}. "
        "Objectives of binary machines are sums over them.",
        "Usual decoders: the largest value of one against all, Hamming distance (votes of all "
        "pairs) of codes, ties to the better margins; hinge and linear: by margins.",
        "Indented: scikit-learn's machine, its weights in our objective (float64). LIBSVM (SVC) "
        "minimises the same; liblinear's bias costs b^2 / 2, so its J is of a near machine; "
        "OutputCode draws a code of its own. Seconds without compiling"
        f"{' (second run)' if options.twice else ' NOT left out'}; the ratio is of processor time.",
    ]  # fmt: skip
    return Table("Multiclass machines of chapter 2", columns, [_cells(row) for row in rows], notes)


def _cells(row: Mapping[str, Any]) -> list[Any]:
    rules = row["accuracies"] or {}
    theirs = row["peer"] is not None
    above, objective = row["above_ours"], row["objective"]
    name = f"- {row['peer']}" if theirs else WORDS[row["machine"]]
    known = objective == objective
    return [
        row["data"], name, row["penalty"], row["hyperplanes"], row["status"],
        f"{objective:.3f}" if known else None, None if theirs else f"{row['gap']:.1e}",
        f"{above:+.1e}" if theirs and known else None, row["support"], f"{row['accuracy']:.2f}",
        *(f"{rules[rule]:.2f}" if rule in rules else None for rule in ("hinge", "linear")),
        f"{row['seconds'].wall:.2f}", f"{row['seconds'].process:.2f}",
        f"{row['ratio']:.1f}" if theirs else None,
    ]  # fmt: skip


def _plot(name: str, data: Data, rows: Sequence[Mapping[str, Any]]) -> Plot:
    own = [row for row in rows if row["data"] == name and row["peer"] is None]
    machines = list(dict.fromkeys(row["machine"] for row in own))
    found = {(row["machine"], row["penalty"]): row["accuracy"] for row in own}
    penalties = list(dict.fromkeys(row["penalty"] for row in own))
    series = {
        f"{penalty} slack": [round(100 - found[machine, penalty], 2) for machine in machines]
        for penalty in penalties
    }
    title = f"Test error by machine: {data.title}"
    return bar_groups([WORDS[each] for each in machines], series, title=title, ylabel="error, %")
