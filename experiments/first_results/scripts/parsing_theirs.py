"""Trees of sentences by the PCFG of NLTK."""

import nltk

from experiments.first_results.data import bracket_f1, treebank

train, test = treebank()
rules = []
for text in train:
    tree = nltk.Tree.fromstring(text)
    tree.chomsky_normal_form(horzMarkov=0)
    rules += tree.productions()
parser = nltk.ViterbiParser(nltk.induce_pcfg(nltk.Nonterminal("S"), rules))
found = []
for text in test:
    tree = next(parser.parse(nltk.Tree.fromstring(text).leaves()))
    tree.un_chomsky_normal_form()
    found.append(tree.pformat())
print(bracket_f1(found, test))
