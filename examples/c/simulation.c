/* Heat spreads in a plate that is cut into rows, one part for each process: simulation RANK RANKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tranship/tranship.h>

enum { side = 256, steps = 20 };
static const double patience = 30.0; /* seconds */

static double heat[side][side];    /* this process's rows */
static double old[side + 2][side]; /* the same one step earlier, and a row of each neighbour */

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s\n", tranship_error_name(code), tranship_last_error());
  if (tranship_last_hint()[0] != '\0') fprintf(stderr, "hint: %s\n", tranship_last_hint());
  exit(1);
}

/* No heat flows over the left and right edges: a cell there is its own neighbour. */
static void spread(int64_t rows) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < side; j++) {
      const double here = old[i + 1][j];
      const double left = old[i + 1][j > 0 ? j - 1 : j];
      const double right = old[i + 1][j < side - 1 ? j + 1 : j];
      heat[i][j] = here + 0.2 * (old[i][j] + old[i + 2][j] + left + right - 4 * here);
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: simulation RANK RANKS\n"), 2;
  const int64_t rank = atoi(argv[1]), ranks = atoi(argv[2]);
  const int64_t first = side * rank / ranks, rows = side * (rank + 1) / ranks - first;
  const int64_t above = rank > 0, below = rank < ranks - 1; /* rows of neighbours */

  const tranship_array block = {
      .data = heat, .type = "f8", .rank = 2, .extents = {rows, side}, .lower = {first, 0}};
  const tranship_array seen = {.data = old[1 - above],
                               .type = "f8",
                               .rank = 2,
                               .extents = {above + rows + below, side},
                               .lower = {first - above, 0}};
  tranship_staging* staging;
  check(tranship_open("staging.contact", NULL, patience, &staging));
  for (int64_t j = 0; rank == 0 && j < side; j++) heat[0][j] = 100.0;
  check(tranship_put(staging, "heat", 0, &block, patience));
  for (int64_t step = 1; step <= steps; step++) {
    check(tranship_get(staging, "heat", step - 1, &seen, patience)); /* waits for neighbours */
    if (!above) memcpy(old[0], old[1], sizeof old[0]);
    if (!below) memcpy(old[rows + 1], old[rows], sizeof old[0]);
    spread(rows);
    check(tranship_put(staging, "heat", step, &block, patience));
  }
  check(tranship_close(staging));
  return 0;
}
