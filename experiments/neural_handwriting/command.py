"""Handwritten words, read by a small convolutional network under a chain, by losses as layers.

    python -m experiments.neural_handwriting
    python -m experiments.neural_handwriting --folds=3
    python -m experiments.neural_handwriting --folds=1 --machines=chain_log_loss,chain_perturbed
    python -m experiments.neural_handwriting --folds=1 --epochs=20 --drop=0.15

Each fold of words trains in turn, all others test, as in Taskar et al. (2003). The same network
without a chain and the linear chain of pixels (svm1_margin) stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import COLOURS, DOTS_PER_INCH, STYLE, Plot
from experiments.lib.progress import jobs_bar
from experiments.lib.report import Table, spread_text
from experiments.neural_handwriting.training import (
    HEADS,
    LOSSES,
    Moves,
    Setting,
    Shape,
    Trained,
    images_of,
    read,
    train,
)
from experiments.tasks.handwriting import (
    CAPITALS,
    ChainOptions,
    Data,
    Split,
    errors,
    fold_splits,
    load,
    measure,
    train_chain,
)
from experiments.tasks.word_pictures import picture_of

ERRORS = {"train": "train_letter_error", "test": "test_letter_error"}
SAID = {
    "linear": "pixels + pairs, linear",
    "letters": "network, no chain",
    "chain": "network + pairs",
    "triples": "network + triples",
}


def described(machine: str) -> tuple[str, str]:
    """(what reads, its loss)."""
    head, _, loss = machine.partition("_")
    return SAID[head], loss or "svm1_margin"


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else None


def by_machine(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each machine, in the order of the first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["machine"], []).append(row)
    return found


def folds_table(
    options: Any, data: Data, splits: Sequence[Split], rows: Sequence[dict[str, Any]]
) -> Table:
    """A row a machine: means over the folds, and their deviation."""
    columns = [
        "reads", "loss", ("letters wrong %", "train"), ("letters wrong %", "test"),
        ("words wrong %", "test"), ("seconds a fold", "wall"), ("seconds a fold", "processor"),
    ]  # fmt: skip
    errors = (*ERRORS.values(), "test_word_error")
    body = [
        [*described(machine),
         *(spread_text([row[name] for row in own]) for name in errors),
         _mean(own, "seconds"), _mean(own, "processor_seconds")]
        for machine, own in by_machine(rows).items()
    ]  # fmt: skip
    words = ", ".join(str(len(split.train)) for split in splits)
    notes = [
        f"{len(splits)} folds; one trains ({words} words), the words of all others test; mean ± "
        "sample standard deviation. Seconds are those of training, with compiling in the first "
        "fold." + ("" if options.letter_data else f" {CAPITALS}"),
        f"Network: convolutions of {options.channels} and {2 * options.channels} channels, "
        f"{options.hidden} features a letter; AdamW, rate {options.rate:g}, decay "
        f"{options.decay:g}, drop {options.drop:g}, "
        f"{options.epochs} epochs of {options.batch} words a step; images move by "
        f"{options.shift:g} pixels and slant by {options.slant:g}.",
    ]
    return Table(f"Handwritten words by networks, {len(splits)} folds", columns, body, notes)


def error_plot(rows: Sequence[dict[str, Any]]) -> Plot:
    """Letters read wrong in every fold, a dot each, and their means; a machine a line."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    title = "Handwritten words: letters read wrong, one fold in training"
    groups = by_machine(rows)
    names = [", ".join(described(machine)) for machine in groups]
    with rc_context(STYLE):
        figure = Figure((9.0, 1.6 + 0.5 * len(groups)), dpi=DOTS_PER_INCH)
        axes = figure.subplots()
        for place, own in enumerate(groups.values()):
            for j, (part, name) in enumerate(ERRORS.items()):
                values, colour = [row[name] for row in own], COLOURS[j]
                label = part if place == 0 else None
                axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.7, label=label)
                if part == "test":
                    axes.annotate(
                        f"{np.mean(values):.1f}", (max(values), place), xytext=(8, -4),
                        textcoords="offset points", fontsize=11,
                    )  # fmt: skip
        axes.set_yticks(range(len(groups)), names)
        axes.invert_yaxis()
        axes.margins(x=0.12, y=0.12)
        axes.set(xlabel="letters wrong, %", xlim=(0, None))
        figure.suptitle(title, x=0.01, ha="left", fontsize=14)
        figure.legend(loc="outside lower right", ncols=2)
    body = [[*described(row["machine"]), row["split"], row[ERRORS["train"]], row[ERRORS["test"]]]
            for row in rows]  # fmt: skip
    return Plot(figure, Table(title, ["reads", "loss", "split", *ERRORS], body))


LINEAR = "linear"
MACHINES = (LINEAR, *(f"{head}_{loss}" for head in HEADS for loss in LOSSES))
DEFAULT = (LINEAR, "letters_log_loss", "chain_log_loss", "triples_log_loss",
           "triples_structured_hinge")  # fmt: skip


class Options(fields.Common):
    """The flags of this command."""

    letter_data: str | None = flag(
        None,
        "Words of your own: a file as letter.data of its makers, plain or .gz; default: the "
        "corpus, see third_party_data.",
    )
    folds: int = flag(
        10, "Each of the first so many folds trains in turn, all other words test.", least=1
    )
    machines: Sequence[str] = flag(
        DEFAULT,
        "What to train: linear (pixels, svm1_margin), or a network HEAD_LOSS with the head "
        f"{', '.join(HEADS)} (single letters, pairs, triples) and the loss "
        f"{', '.join(LOSSES)}.",
        MACHINES,
        some=True,
    )
    examples: int = flag(0, "Learn from so many words of a fold, at random; 0 for all.", least=0)
    test_examples: int = flag(0, "Read so many test words, at random; 0 for all.", least=0)
    epochs: int = flag(60, "Passes over the training words.", least=1)
    rate: float = flag(0.002, "Largest rate of AdamW.", above=0)
    decay: float = flag(0.01, "Weight decay of AdamW.", least=0)
    drop: float = flag(0.3, "Part of the units dropped.", least=0, most=0.9)
    hidden: int = flag(128, "Features of a letter.", least=1)
    channels: int = flag(
        24, "Channels of the first convolution; the second has twice as many.", least=1
    )
    shift: float = flag(1.0, "Training images move by at most so many pixels.", least=0)
    slant: float = flag(
        0.15, "Standard deviation of the shear of training images, in columns a row.", least=0
    )
    batch: int = flag(32, "Words in a step of the training.", least=1)
    c_over_n: float = flag(0.1, "C' = C / n of the linear machine.", above=0)
    picture_words: int = flag(24, "Words in the picture; 0: none.", least=0)


class _Network(NamedTuple):
    """A trained network and how it was made."""

    setting: Setting
    trained: Trained


def run(options: Options) -> common.Outcome:
    """Train every machine on every fold, test, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
      ValueError: an option that does not fit; the message names it.
    """
    dtype = common.prepare(options)
    data = load(options.letter_data, dtype)
    splits = [_cut(options, split) for split in fold_splits(data.words, options.folds)]
    rows: list[dict[str, Any]] = []
    plots: dict[str, Plot] = {}
    trainings = len(splits) * len(options.machines)
    with (
        common.kept_if_stopped(options, {"rows": rows}),
        jobs_bar(description="trainings", enabled=options.progress, total=trainings) as bar,
    ):
        for split in splits:
            for row, network in _machines(options, data, split):
                rows.append(row | {"split": split.name})
                wrong = 100 * row["test_letter_error"]
                bar.set_postfix_str(f"{row['machine']} {wrong:.2f} % of letters", refresh=False)
                bar.update()
                if network is not None and options.picture_words and not plots.get("words"):
                    if row["machine"] == _of_picture(options):
                        plots["words"] = _words(options, data, split, row, network)
    table = folds_table(options, data, splits, rows)
    pictures = {"neural_handwriting": error_plot(rows)}
    pictures |= {f"neural_handwriting_{name}": plot for name, plot in plots.items()}
    numbers = {"rows": rows}
    return common.save(options, table, numbers, pictures)


def _cut(options: Options, split: Split) -> Split:
    """Fewer words: equal words stand together in the corpus, so at random."""

    def some(chosen: np.ndarray, count: int) -> np.ndarray:
        order = np.random.default_rng(options.seed).permutation(chosen)
        return np.sort(order[:count]) if count else chosen

    return split._replace(
        train=some(split.train, options.examples), test=some(split.test, options.test_examples)
    )


def _of_picture(options: Options) -> str:
    """The last network named."""
    networks = [name for name in options.machines if name != LINEAR]
    return networks[-1] if networks else ""


def _words(
    options: Options, data: Data, split: Split, row: dict[str, Any], network: _Network
) -> Plot:
    images, (setting, trained) = images_of(data), network

    def found(chosen: np.ndarray) -> list[np.ndarray]:
        return read(setting, data, images, trained.parameters, chosen)

    wrong = row["test_letter_error"], row["test_word_error"]
    name = row["machine"].partition("_")[0]
    return picture_of(options, data, name, found, split.test, "test words", wrong)


def _machines(
    options: Options, data: Data, split: Split
) -> Iterator[tuple[dict[str, Any], _Network | None]]:
    """A row a machine, as soon as it is trained and tested; also the network."""
    for name in options.machines:
        if name == LINEAR:
            given = ChainOptions(
                c_over_n=options.c_over_n, progress=options.progress, seed=options.seed
            )
            machine = train_chain(given, data, split, "svm1_margin", 1)
            row = measure(machine, data, split)
            yield row | {"machine": LINEAR, "seconds": row["first_seconds"]}, None
        else:
            yield _network(options, data, split, name)


def _setting(options: Options, name: str) -> Setting:
    head, loss = name.split("_", 1)
    shape = Shape(options.channels, 2 * options.channels, options.hidden)
    return Setting(
        head, loss, options.epochs, options.rate, options.decay, options.drop, shape,
        Moves(options.shift, options.slant), options.batch,
    )  # fmt: skip


def _network(
    options: Options, data: Data, split: Split, name: str
) -> tuple[dict[str, Any], _Network]:
    """Train on all training words, test."""
    images, setting = images_of(data), _setting(options, name)
    trained = train(setting, data, images, split.train, options.seed)
    row: dict[str, Any] = {"machine": name, "setting": setting}
    row |= {"seconds": trained.seconds, "processor_seconds": trained.processor_seconds,
            "steps": trained.steps, "losses": trained.losses}  # fmt: skip
    for part, chosen in (("train", split.train), ("test", split.test)):
        found = errors(data, chosen, read(setting, data, images, trained.parameters, chosen))
        row |= {f"{part}_letter_error": found.letters, f"{part}_word_error": found.words}
    return row, _Network(setting, trained)
