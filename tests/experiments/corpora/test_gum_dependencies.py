"""GUM's dependency trees, if present."""

from experiments.corpora.gum_dependencies import load_gum_dependencies


def test_gum(require_corpus):
    require_corpus("gum_dependencies", "gum-dep.tar.xz")
    gum = load_gum_dependencies()
    assert [len(part) for part in gum] == [9933, 1341, 1285]
    assert sum(len(sentence.words) for sentence in gum.train) == 172_374
