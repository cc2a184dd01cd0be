"""Phrase trees (thesis 4.5): weighted grammars, oracles, losses, treebanks."""

from jaxstruct.data.bracketing import clean, read_tree, read_trees, write_line
from jaxstruct.data.trees import Tree, constituents, leaves, tags, words
from jaxstruct.trees.encoding import Brackets, TreeEncoding, prepare
from jaxstruct.trees.inference import TreeProbabilities
from jaxstruct.trees.oracles.inside_outside import log_partition, rule_marginals, sample_tree
from jaxstruct.trees.oracles.k_best_trees import cky, k_best_trees, tree_levels
from jaxstruct.trees.parts import SentenceInput, TreeTheta
from jaxstruct.trees.phrases.binarisation import Binarisation, binarise, debinarise
from jaxstruct.trees.phrases.evaluation import Measure, score, summarise
from jaxstruct.trees.phrases.grammar import Grammar, read_grammar
from jaxstruct.trees.phrases.integer_trees import Encoding, decode, encode
from jaxstruct.trees.potentials import GrammarRules, TreePotentials, score_tree
from jaxstruct.trees.structure import (
    grammar_potentials,
    sentence_inputs,
    tree_outputs,
    weighted_grammar,
)

__all__ = [
    "prepare",
    "TreeProbabilities",
    "Binarisation",
    "Brackets",
    "Encoding",
    "Grammar",
    "GrammarRules",
    "Measure",
    "SentenceInput",
    "Tree",
    "TreeEncoding",
    "TreePotentials",
    "TreeTheta",
    "binarise",
    "cky",
    "clean",
    "constituents",
    "debinarise",
    "decode",
    "encode",
    "grammar_potentials",
    "k_best_trees",
    "leaves",
    "log_partition",
    "read_grammar",
    "read_tree",
    "read_trees",
    "rule_marginals",
    "sample_tree",
    "score",
    "score_tree",
    "sentence_inputs",
    "summarise",
    "tags",
    "tree_levels",
    "tree_outputs",
    "weighted_grammar",
    "words",
    "write_line",
]
