/* The best dependency tree of one sentence after another, as a C programmer writes it down: what
   `experiments.dependency_speed` compares with. No library calls it.

   arcs: [B][T + 1][T], row 0 the root. heads: [B][T], 0 for the root and 1.. for words. One word
   hangs on the root. Both return 0, or 1 where memory is missing. */

#include <math.h>
#include <stdlib.h>

/* Eisner's algorithm. Spans i..j: joined by an arc to the right (JR) or left (JL); with their head
   at the first word (R) or the last (L). */

enum { JR, JL, R, L };

static void trace(int T, const int *split, int kind, int i, int j, int *heads) {
  if (i == j) return;
  int q = split[(kind * T + i) * T + j];
  if (kind == JR || kind == JL) {
    heads[kind == JR ? j : i] = (kind == JR ? i : j) + 1;
    trace(T, split, R, i, q, heads);
    trace(T, split, L, q + 1, j, heads);
  } else if (kind == R) {
    trace(T, split, JR, i, q, heads);
    trace(T, split, R, q, j, heads);
  } else {
    trace(T, split, L, i, q, heads);
    trace(T, split, JL, q, j, heads);
  }
}

int eisner(int B, int T, const float *all_arcs, int *all_heads) {
  size_t cells = (size_t)T * T;
  float *chart = malloc(4 * cells * sizeof *chart);
  int *split = malloc(4 * cells * sizeof *split);
  if (!chart || !split) return free(chart), free(split), 1;
  float *jr = chart, *jl = jr + cells, *r = jl + cells, *l = r + cells;
  for (int b = 0; b < B; b++) {
    const float *arcs = all_arcs + b * (cells + T);
    for (int i = 0; i < T; i++) r[i * T + i] = l[i * T + i] = 0;
    for (int w = 1; w < T; w++) {
      for (int i = 0; i + w < T; i++) {
        int j = i + w, at = i * T + j, place[4] = {i, i, j, i};
        float best = -INFINITY, right = -INFINITY, left = -INFINITY;
        for (int q = i; q < j; q++) {
          float s = r[i * T + q] + l[(q + 1) * T + j];
          if (s > best) best = s, place[JR] = place[JL] = q;
        }
        jr[at] = best + arcs[(i + 1) * T + j];
        jl[at] = best + arcs[(j + 1) * T + i];
        for (int q = i + 1; q <= j; q++) {
          float s = jr[i * T + q] + r[q * T + j];
          if (s > right) right = s, place[R] = q;
        }
        for (int q = i; q < j; q++) {
          float s = l[i * T + q] + jl[q * T + j];
          if (s > left) left = s, place[L] = q;
        }
        r[at] = right, l[at] = left;
        for (int kind = 0; kind < 4; kind++) split[kind * cells + at] = place[kind];
      }
    }
    int root = 0;
    float best = -INFINITY;
    for (int m = 0; m < T; m++) {
      float s = arcs[m] + l[m] + r[m * T + T - 1];
      if (s > best) best = s, root = m;
    }
    int *heads = all_heads + (size_t)b * T;
    heads[root] = 0;
    trace(T, split, L, 0, root, heads);
    trace(T, split, R, root, T - 1, heads);
  }
  return free(chart), free(split), 0;
}

/* Chu and Liu, Edmonds, dense, O(T^2) and as much again for each circle in the worst case. A circle
   is contracted into one of its nodes; of each arc between nodes the words are kept that it joins.
   An arc from the root costs ROOT, so that the best tree has one. */

#define ROOT 1e6

typedef struct {
  double score;
  int head, word; /* joined: 0 is the root, words are 1..T */
} Arc;

int edmonds(int B, int T, const float *all_arcs, int *all_heads) {
  int N = T + 1, cells = N * N;
  Arc *arc = malloc(cells * sizeof *arc), *in_circle = malloc(N * sizeof *in_circle);
  /* of each node: its best head, where its walk met it, what it is in now, who entered it */
  int *best = malloc(6 * N * sizeof *best), *seen = best + N, *node = seen + N;
  int *entered = node + N, *alive = entered + N, *rep = alive + N;
  int *before = malloc(cells * sizeof *before), *circle = malloc(cells * sizeof *circle);
  Arc *kept = malloc(cells * sizeof *kept);
  int failed = !arc || !in_circle || !best || !before || !circle || !kept;
  for (int b = 0; b < B && !failed; b++) {
    const float *arcs = all_arcs + (size_t)b * N * T;
    int rounds = 0;
    for (int h = 0; h < N; h++)
      for (int m = 1; m < N; m++)
        arc[h * N + m] = (Arc){h == m ? -INFINITY : arcs[h * T + m - 1] - (h ? 0 : ROOT), h, m};
    for (int v = 0; v < N; v++) alive[v] = 1, node[v] = v;
    for (int v = 1; v < N; v++) {
      best[v] = 0;
      for (int h = 0; h < N; h++)
        if (arc[h * N + v].score > arc[best[v] * N + v].score) best[v] = h;
    }
    for (;;) {
      int found = 0; /* a node on a circle */
      for (int v = 0; v < N; v++) seen[v] = 0;
      for (int v = 1; v < N && !found; v++) {
        int u = v;
        while (alive[v] && u && !seen[u]) seen[u] = v, u = best[u];
        if (alive[v] && u && seen[u] == v) found = u;
      }
      if (!found) break;
      int *on = circle + rounds * N; /* which nodes are on this circle */
      for (int v = 0; v < N; v++) before[rounds * N + v] = node[v], on[v] = 0;
      for (int u = found; !on[u]; u = best[u])
        on[u] = 1, kept[rounds * N + u] = in_circle[u] = arc[best[u] * N + u];
      for (int v = 0; v < N; v++) {
        if (!alive[v] || on[v]) continue;
        Arc in = {-INFINITY, 0, 0}, out = {-INFINITY, 0, 0};
        for (int u = 1; u < N; u++) {
          if (!on[u]) continue;
          Arc a = arc[v * N + u];
          a.score -= in_circle[u].score;
          if (a.score > in.score) in = a;
          if (v && arc[u * N + v].score > out.score) out = arc[u * N + v];
        }
        arc[v * N + found] = in;
        if (v) arc[found * N + v] = out;
        if (v && on[best[v]]) best[v] = found;
      }
      for (int v = 1; v < N; v++) {
        if (on[node[v]]) node[v] = found;
      }
      for (int v = 1; v < N; v++)
        if (on[v] && v != found) alive[v] = 0;
      best[found] = 0;
      for (int h = 0; h < N; h++)
        if (alive[h] && h != found && arc[h * N + found].score > arc[best[found] * N + found].score)
          best[found] = h;
      rep[rounds++] = found;
    }
    int *heads = all_heads + (size_t)b * T;
    for (int v = 1; v < N; v++)
      if (alive[v]) {
        Arc a = arc[best[v] * N + v];
        heads[a.word - 1] = a.head, entered[v] = a.word;
      }
    while (rounds--) { /* circles are opened where they are entered, the last one first */
      int word = entered[rep[rounds]], through = before[rounds * N + word];
      for (int v = 1; v < N; v++)
        if (circle[rounds * N + v] && v != through) {
          Arc a = kept[rounds * N + v];
          heads[a.word - 1] = a.head, entered[v] = a.word;
        }
      entered[through] = word;
    }
  }
  free(arc), free(in_circle), free(best), free(before), free(circle), free(kept);
  return failed;
}
