"""Fetches the corpora of the experiments, checks them, and says where each stands.

    python third_party_data/fetch.py --corpus=clinc150 --corpus=treebank
    python third_party_data/fetch.py --verify_only
    python third_party_data/fetch.py --corpus=ocr_letters --from=letter.data.gz
    python third_party_data/fetch.py --corpus=gum --from=gum-72ce5ac1.zip

The last two build a corpus that no site distributes as we read it from a file that you have
downloaded; without --from the script downloads that file.

Exit code 0 if every file of every corpus asked for is in place with the right sha256, else 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

sys.path.insert(0, str(Path(__file__).parents[1]))  # of this clone, wherever the package is

from experiments.corpora import fetching, locate, registry  # noqa: E402

_CORPUS = flags.DEFINE_multi_string(
    "corpus", ["all"], f"A corpus, repeatable; 'all' or one of: {', '.join(registry.CORPORA)}."
)
_DESTINATION = flags.DEFINE_string(
    "destination",
    None,
    f"The folder of corpora. Default: the one {locate.DATA_VARIABLE} names, else the cache folder.",
)
_VERIFY_ONLY = flags.DEFINE_boolean("verify_only", False, "Check what is there; download nothing.")

_FROM = flags.DEFINE_string(
    "from", None, "Build the one --corpus named (ocr_letters or gum) from this file of its makers."
)

_COLUMNS = "{:<13} {:<24} {:<8} {:>9}  {}"


def chosen_corpora(names: Sequence[str]) -> tuple[registry.Corpus, ...]:
    """Returns the corpora of these names, each once; 'all' stands for every one."""
    if "all" in names:
        return tuple(registry.CORPORA.values())
    return tuple(registry.corpus_named(name) for name in dict.fromkeys(names))


def fetch_all(corpora: Sequence[registry.Corpus], destination: Path) -> None:
    """Fetches each corpus; one that fails is reported and does not stop the others."""
    for corpus in corpora:
        try:
            fetching.fetch(corpus.name, destination)
        except (OSError, ValueError) as error:
            print(f"{corpus.name}: {error}", file=sys.stderr)


def build(corpus: registry.Corpus, source: Path, destination: Path) -> None:
    """Builds one corpus from a file of its makers, and says what was checked and what was not."""
    try:
        built = fetching.rebuild(corpus.name, source, destination)
    except (OSError, ValueError) as error:
        print(f"{corpus.name}: {error}", file=sys.stderr)
        return
    print(f"{built.path}: built from {source}; {built.holds}")
    print("checked: what it holds is the registered corpus, byte for byte")
    if built.source_sha256:
        print(f"not checked: the source itself (sha256 {built.source_sha256}, none is known to us)")


def report(corpora: Sequence[registry.Corpus], destination: Path) -> bool:
    """Prints the table of files, and returns whether all of them are in place."""
    print(_COLUMNS.format("corpus", "file", "status", "bytes", "licence"))
    complete = True
    for corpus in corpora:
        statuses = fetching.inspect(corpus.name, destination)
        for entry, status in zip(corpus.files, statuses, strict=True):
            complete &= status.state == "present"
            cells = (corpus.name, entry.path, status.state, entry.bytes, corpus.licence)
            print(_COLUMNS.format(*cells))
            if status.detail:
                print(f"    {status.detail}")
    return complete


def main(argv: Sequence[str]) -> int:
    """Fetches, builds or only verifies, prints the table, and returns the exit code."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {' '.join(argv[1:])}")
    try:
        corpora = chosen_corpora(_CORPUS.value)
    except ValueError as error:
        raise app.UsageError(str(error)) from error
    if _FROM.value and (len(corpora) != 1 or corpora[0].origin is None or _VERIFY_ONLY.value):
        built = " or ".join(name for name, corpus in registry.CORPORA.items() if corpus.origin)
        raise app.UsageError(f"--from needs one --corpus, {built}, and no --verify_only")
    destination = Path(_DESTINATION.value or locate.search_folders()[0])
    print(f"folder: {destination}")
    if _FROM.value:
        build(corpora[0], Path(_FROM.value), destination)
    elif not _VERIFY_ONLY.value:
        fetch_all(corpora, destination)
    return 0 if report(corpora, destination) else 1


if __name__ == "__main__":
    app.run(main)
