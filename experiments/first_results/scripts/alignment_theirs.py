"""Alignments by Biopython with the costs of BLOSUM62."""

from Bio.Align import PairwiseAligner, substitution_matrices

from experiments.first_results.data import aligned, partner_share

_, test = aligned()
matrix = substitution_matrices.load("BLOSUM62")
aligner = PairwiseAligner(substitution_matrix=matrix, open_gap_score=-11, extend_gap_score=-1)
found = []
for rows in test:
    best = aligner.align(*(row.replace("-", "") for row in rows))[0]
    found.append((best[0], best[1]))
print(partner_share(found, test))
