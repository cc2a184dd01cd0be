"""CoNLL, CoNLL-U, FASTA and SVM-light files of every habit, damaged ones, and rows from SciPy's."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from jaxstruct.data.conll import Sentence, parse_conll, read_conll
from jaxstruct.data.conllu import Annotated, parse_conllu, read_conllu, write_conllu
from jaxstruct.data.errors import MalformedFile, UnsafeArchive
from jaxstruct.data.fasta import FastaRecord, parse_fasta, read_fasta
from jaxstruct.data.svmlight import from_scipy, load_svmlight
from tests.lib.refusals import refused

CONLL = (
    Sentence(("La", "Coruña"), (("DA", "NC"),), ("B-LOC", "I-LOC")),
    Sentence(("!",), (("F",),), ("O",)),
)
CONLL_TEXT = "La DA B-LOC\nCoruña NC I-LOC\n\n! F O\n\n"


@pytest.mark.parametrize(
    "text",
    [
        CONLL_TEXT, CONLL_TEXT.rstrip("\n"), CONLL_TEXT.replace("\n", "\r\n"),
        CONLL_TEXT.replace("\n", "\r"), CONLL_TEXT.replace(" ", "\t"),
        CONLL_TEXT.replace(" ", " \t  "), "\ufeff" + CONLL_TEXT,
        "\n \n\t\n" + CONLL_TEXT.replace("\n\n", "\n  \n\n\n"),
        "".join(f"  {line} \n" for line in CONLL_TEXT.split("\n")),
        "-DOCSTART- -DOCSTART- O\n" + CONLL_TEXT,
        "-DOCSTART-\n\nLa DA B-LOC\nCoruña NC I-LOC\n-DOCSTART- -X- -X- O\n! F O",
    ],
    ids=range(11),
)  # fmt: skip
def test_habits_of_conll(text: str) -> None:
    """Line ends, blanks, tabs, byte order mark, empty lines, document lines: the same sentences."""
    assert parse_conll(text.encode(), "x") == CONLL


@pytest.mark.smoke
def test_columns() -> None:
    """None or several between word and label; `tags` is the first of them."""
    plain = parse_conll(b"a B\nb O\n", "x")
    assert plain == (Sentence(("a", "b"), (), ("B", "O")),) and plain[0].tags == ()
    wide = parse_conll(b"a 1 2 B\nb 3 4 O\n", "x")
    assert wide == (Sentence(("a", "b"), (("1", "3"), ("2", "4")), ("B", "O")),)
    assert wide[0].tags == ("1", "3")


def test_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "new.txt"
    path.write_bytes(b"a N\nb V\n\nc N\n")
    first, second = read_conll(path, labelled=False)
    assert first == Sentence(("a", "b"), (("N", "V"),), ()) and second.labels == ()
    assert parse_conll(b"a\nb\n", "x", labelled=False) == (Sentence(("a", "b"), (), ()),)


def test_odd_words_stay_whole() -> None:
    """Characters that Python counts as white space or line ends, but CoNLL does not."""
    words = ("New\u00a0York", "a\u2028b", "c\x85d", "#", "\u3000")
    text = "".join(f"{word} O\n" for word in words)
    assert parse_conll(text.encode(), "x") == (Sentence(words, (), ("O",) * 5),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# id 1\tdomain=en\na O\n\n# id 2\tdomain=en\n# more\nb O\n", [("a",), ("b",)]),
        ("# one\n\n# two\n-DOCSTART- O\n# three\na O\n", [("a",)]),
        ("a O\n# O\n\n#tag O\nb O\n", [("a", "#"), ("#tag", "b")]),
        ("#\tO\na\tO\n\n # O\n", [("#", "a"), ("#",)]),
    ],
)
def test_comments_stand_above_a_sentence(text: str, words: list) -> None:
    """Lines that begin with "# " there; inside a sentence, and in "#tag", # is a word's."""
    sentences = parse_conll(text.encode(), "x")
    assert [sentence.words for sentence in sentences] == words
    assert all(set(sentence.labels) == {"O"} for sentence in sentences)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file.txt: holds no token, expected lines such as"),
        (b"\n-DOCSTART- O\n\n", "file.txt: holds no token"),
        (b"# 1 O\n\n# 2 O\n", "file.txt: holds no token, .* 2 comments"),
        (b"a O\n\nb\n", r"file.txt:3: 'b' has 1 columns, expected 2 as on line 1"),
        (b"\na X O\nb O\n", r"file.txt:3: 'b O' has 2 columns, expected 3 as on line 2"),
        (b"a O\r\nb X O\r\n", r"file.txt:2: 'b X O' has 3 columns, expected 2"),
        (b"a\nb\n", r"file.txt:1: 'a' has 1 column, expected .* labelled=False"),
        (b"a O\n\xe9 O\n", "file.txt:2: byte 0xe9 is not UTF-8"),
        ("a O\n".encode("utf-16"), "file.txt:1: byte 0xff is not UTF-8"),
    ],
)
def test_malformed_conll(content: bytes, message: str, tmp_path: Path) -> None:
    """The file, the line, what came and what was expected."""
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    refused(message, read_conll, path, error=MalformedFile)


WORDS = ("1\tIt\tit\tPRON\tPRP\t_\t3\tnsubj\t_\t_", "2\t's\tbe\tAUX\tVBZ\t_\t3\tcop\t_\t_",
        "3\tso\tso\tADV\tRB\t_\t0\troot\t_\t_")  # fmt: skip
CONLLU_TEXT = "\n".join(
    ["# text = It's so", "1-2\tIt's" + "\t_" * 8, *WORDS, "3.1\tx" + "\t_" * 8, "", ""]
)
SENTENCE = Annotated(
    ("It", "'s", "so"), ("PRON", "AUX", "ADV"), ("PRP", "VBZ", "RB"), (3, 3, 0),
    ("nsubj", "cop", "root"),
)  # fmt: skip


def test_comments_and_other_lines_are_left_out():
    for end in ("\n", "\r\n", "\r"):
        content = (CONLLU_TEXT + CONLLU_TEXT).replace("\n", end).encode()
        assert parse_conllu(content, "it") == (SENTENCE, SENTENCE)
    assert SENTENCE.tokens[1] == {"word": "'s", "tag": "AUX", "fine_tag": "VBZ"}
    assert SENTENCE.tree[2] == (0, "root")


def test_a_file_without_heads_is_read_parsed_and_written(tmp_path):
    """As after tagging: the words and tags are there, and the trees that were found go in."""
    bare = SENTENCE._replace(heads=(), relations=())
    path = write_conllu(tmp_path / "tagged.conllu", [bare, SENTENCE])
    assert read_conllu(path) == (bare, SENTENCE) and bare.tokens == SENTENCE.tokens
    with refused("the sentence .*so.* has no heads .* it can be parsed, and not be trained on"):
        _ = bare.tree
    heads, relations = zip(*SENTENCE.tree, strict=True)
    write_conllu(path, [bare._replace(heads=heads, relations=relations)])
    assert read_conllu(path) == (SENTENCE,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no word"),
        ("1\tIt\n", "it:1: .* has 2 columns, expected 10"),
        (WORDS[1] + "\n", "the word is number '2', expected 1"),
        (WORDS[0] + "\n", "has '3' as head of word 1, expected 0..1, or _ of every word"),
        ("\n".join([*WORDS[:2], WORDS[2].replace("0", "_")]), "has '_' as head of word 3"),
    ],
)
def test_damaged_files(text, message):
    refused(message, parse_conllu, text.encode(), "it", error=MalformedFile)


def test_what_could_not_be_read_is_not_written(tmp_path):
    path = tmp_path / "a.conllu"
    for words, changes in (
        (r"sentences\[0\]: its columns", {"heads": ()}),
        ("is empty or holds a tab", {"words": ("It", "", "so")}),
    ):
        refused(words, write_conllu, path, [SENTENCE._replace(**changes)])
    assert not path.exists()


FASTA = (FastaRecord("one", "first of two", "ACDEFG"), FastaRecord("two", "", "KLm*"))
FASTA_TEXT = ">one first of two\nACD\nEFG\n>two\nKLm*\n"


def test_habits_of_fasta():
    """Line ends, blank lines, blanks, byte order mark, comments: the same sequences."""
    for text in (
        FASTA_TEXT, FASTA_TEXT.rstrip("\n"), FASTA_TEXT.replace("\n", "\r\n"),
        FASTA_TEXT.replace("\n", "\r"), "\ufeff" + FASTA_TEXT,
        "\n\n" + FASTA_TEXT.replace("\n", "\n\n"),
        ">  one\tfirst of two \nACD EFG\n>two\nKL\n m *\n",
        "; a comment\n>one first of two\n;another\nACDEFG\n\n>two\nKLm*",
    ):  # fmt: skip
        assert parse_fasta(text.encode(), "x") == FASTA
    bare = FastaRecord("", "", "AC"), FastaRecord("", "", "D")
    assert parse_fasta(b">\nAC\n> \nD", "x") == bare


def test_gaps():
    aligned = parse_fasta(b">a\nA.C-\n>b\n-AC.\n", "x", aligned=True)
    assert [record.sequence for record in aligned] == ["A-C-", "-AC-"]
    with refused("x:2: 'A.C-' has a gap .* aligned=True", error=MalformedFile):
        parse_fasta(b">a\nA.C-\n", "x")


def test_compressed_fasta(tmp_path, monkeypatch):
    path = tmp_path / "a.fasta"
    path.write_bytes(gzip.compress(FASTA_TEXT.encode()))
    assert read_fasta(path) == FASTA
    path.write_bytes(gzip.compress(FASTA_TEXT.encode())[:-6])
    refused("a.fasta: damaged gzip", read_fasta, path, error=MalformedFile)
    path.write_bytes(gzip.compress(FASTA_TEXT.encode()))
    monkeypatch.setattr("jaxstruct.data.fasta.LIMIT", 9)
    refused("more than 9 bytes", read_fasta, path, error=UnsafeArchive)
    with pytest.raises(FileNotFoundError):
        read_fasta(tmp_path / "none")


@pytest.mark.parametrize("content, message", [
    (b"", "file: holds no sequence"), (b"; only\n\n", "holds no sequence"),
    (b"\nACD\n>a\nAC\n", "file:2: 'ACD' comes before any line that begins with '>'"),
    (b">a\nAC\n>b c\n\n>d\nA", "file:3: the sequence 'b c' has no letters"),
    (b">a\n--\n", "file:1: the sequence 'a' has no letters"),
    (b">a\nAC1D\n", "file:2: '1' in 'AC1D' is no letter"),
    (b">a\nAC\n\xe9\n", "file:3: byte 0xe9 is not UTF-8"),
    ("> a\nAC\n".encode("utf-16"), "file:1: byte 0xff"),
])  # fmt: skip
def test_malformed_fasta(content, message):
    refused(message, parse_fasta, content, "file", aligned=True, error=MalformedFile)


TEXT = "+1 1:0.5 4:-2 # first\n-1\n# a comment\n3 2:1e-1\n"


def _write(folder: Path, text: str) -> Path:
    path = folder / "toy.dat"
    path.write_text(text)
    return path


def test_one_based(tmp_path) -> None:
    """The first feature is written 1; an example without features stays."""
    rows, labels, _ = load_svmlight(_write(tmp_path, TEXT))
    assert labels.tolist() == [1.0, -1.0, 3.0] and rows.indptr.tolist() == [0, 2, 2, 3]
    assert rows.indices.tolist() == [0, 3, 1] and rows.number_of_features == 4
    assert rows.values.tolist() == [0.5, -2.0, np.float32(0.1)]


def test_which_features_there_are(tmp_path) -> None:
    """The base is not guessed; a test set takes the training set's number, and none beyond it."""
    path = _write(tmp_path, TEXT)
    rows = load_svmlight(path, zero_based=True).rows
    assert rows.indices.tolist() == [1, 4, 2] and rows.number_of_features == 5
    assert load_svmlight(path, number_of_features=9).rows.number_of_features == 9
    with refused("toy.dat:1: index 4 is more than 3 features allow", error=MalformedFile):
        load_svmlight(path, number_of_features=3)
    path = _write(tmp_path, "1 200000000:1\n")
    refused("toy.dat:1: index 200000000 is more than", load_svmlight, path, error=MalformedFile)
    assert load_svmlight(path, number_of_features=1 << 28).rows.indices.tolist() == [199999999]


def test_queries_and_grades(tmp_path) -> None:
    """Of LETOR files, behind a byte order mark."""
    path = _write(tmp_path, "\ufeff2 qid:7 1:0.5\n0 qid:7 # none\n\n1 qid:-3 2:1\n")
    data = load_svmlight(path)
    assert data.queries is not None and data.queries.tolist() == [7, 7, -3]
    assert data.labels.dtype == np.int64 and data.labels.tolist() == [2, 0, 1]
    assert data.rows.indices.tolist() == [0, 1]
    assert load_svmlight(_write(tmp_path, "1.5 1:1\n")).labels.tolist() == [1.5]
    assert load_svmlight(_write(tmp_path, TEXT)).queries is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:2\n\n2 1:2\n", "toy.dat:3: has no qid, but line 1 has one"),
        ("1 1:2\n2 qid:1 1:2\n", "toy.dat:2: has a qid, but line 1 has none"),
        ("1 qid:1 1:2\n2 qid: 1:2\n", "toy.dat:2: the qid is no integer"),
        ("1 qid:1.5 1:2\n", "toy.dat:1: the qid is no integer"),
        (f"1 qid:{'9' * 30} 1:2\n", "toy.dat:1: the qid is no integer"),
        ("# nothing\n", "toy.dat"),
        ("1 1:nan\n", "toy.dat:1"),
        ("1 1:2 qid:1\n", "toy.dat:1: 'qid:1' does not begin with an integer"),
    ],
)
def test_a_missing_or_broken_query_is_refused(text, message, tmp_path) -> None:
    refused(message, load_svmlight, _write(tmp_path, text), error=MalformedFile)


@pytest.mark.parametrize(
    "line, message",
    [
        ("1 2:1 2:3", "index 2 comes twice"),
        ("1 3:1 2:3", "index 2 comes after 3"),
        ("1 0:1", "index 0 is too low"),
        ("1 1:1 4294967301:2", "index 4294967301 is more than 134217728 features allow"),
        (f"1 {'9' * 40}:2", "9 is more than 134217728 features allow .see number_of_features"),
        ("1 2", "'2' has no value"),
        ("1 2:1e39", "'2:1e39' has no value that is finite in float32"),
        ("1 x:1", "'x:1' does not begin with an integer"),
        ("1 qid:3 2:nan", "'2:nan' has no value"),
        ("nan 1:1", "the label 'nan'"),
        ("\xe4 1:1", "the label '\xe4'"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_the_line_at_fault_is_named(line, message, ending, tmp_path) -> None:
    """A label beyond float32 is no fault, and comments are lines too."""
    path = tmp_path / f"toy.dat{ending}"
    content = f"1e300 qid:1 1:2\n# a comment\n{line}\n1 1:1\n".encode()
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending]
    path.write_bytes(pack(content))
    refused(f"toy.dat{ending}:3: .*{message}", load_svmlight, path, error=MalformedFile)


def test_damaged_packing(tmp_path) -> None:
    """zlib has an error of its own, which is no ValueError."""
    path = tmp_path / "toy.dat.gz"
    packed = bytearray(gzip.compress(TEXT.encode()))
    path.write_bytes(packed)
    assert load_svmlight(path).labels.tolist() == [1.0, -1.0, 3.0]
    path.write_bytes(packed[:-10])
    refused("not a sound SVM-light file", load_svmlight, path, error=MalformedFile)
    packed[10:14] = b"\xff" * 4
    path.write_bytes(packed)
    with refused("toy.dat.gz: not a sound SVM-light file .*block", error=MalformedFile):
        load_svmlight(path)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_array", "coo_matrix", "lil_matrix"])
def test_from_scipy_tidies_a_copy(form) -> None:
    """Repeated entries are summed, what cancels is dropped, the input is left alone."""
    data = np.array([1.0, 2.0, 0.5, 4.0, -4.0])
    indices, indptr = np.array([3, 1, 1, 2, 2]), np.array([0, 3, 5])
    matrix = scipy.sparse.csr_matrix((data, indices, indptr), shape=(2, 4))
    given = matrix if form == "csr_matrix" else getattr(scipy.sparse, form)(matrix.copy())
    rows = from_scipy(given)
    wanted = np.int64([0, 2, 2]), np.int32([1, 3]), np.float32([2.5, 1.0]), 4
    for got, own in zip(rows, wanted, strict=True):
        np.testing.assert_array_equal(got, own, strict=isinstance(own, np.ndarray))
    assert matrix.indices.tolist() == [3, 1, 1, 2, 2]


def test_from_scipy_refuses() -> None:
    """Other types, and numbers that float32 cannot hold."""
    refused("matrix: got ndarray, expected a scipy.sparse", from_scipy, np.eye(2))
    huge = scipy.sparse.csr_matrix([[1e300]])
    refused("row 0, feature 0 is not finite in float32", from_scipy, huge)
    wide = scipy.sparse.csr_array(([1.0], [2**32 + 5], [0, 1]), shape=(1, 2**33))
    refused("number_of_features: got 8589934592, expected at most", from_scipy, wide)
