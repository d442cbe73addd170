/* Follows the plate's heat, step by step, until the simulation has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <tranship/tranship.h>

enum { side = 256 };
static double plate[side][side];

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s\n", tranship_error_name(code), tranship_last_error());
  if (tranship_last_hint()[0] != '\0') fprintf(stderr, "hint: %s\n", tranship_last_hint());
  exit(1);
}

int main(void) {
  const tranship_array whole = {.data = plate, .type = "f8", .rank = 2, .extents = {side, side}};
  tranship_staging* staging;
  check(tranship_open("staging.contact", NULL, 30.0, &staging));
  int64_t step = INT64_MIN; /* below every version */
  tranship_code code;
  while ((code = tranship_get_next(staging, "heat", step, &whole, 60.0, &step)) == TRANSHIP_OK) {
    double sum = 0;
    for (int k = 0; k < side * side; k++) sum += plate[k / side][k % side];
    printf("%lld %.9f\n", (long long)step, sum);
  }
  if (code != TRANSHIP_CLOSED) check(code); /* closed: every producer has closed */
  check(tranship_close(staging));
  return 0;
}
