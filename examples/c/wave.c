/* A wave runs along a string. Each step has the heights and the speeds of its points, and its time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tranship/tranship.h>

enum { points = 1000, steps = 20 };
static const double patience = 30.0, interval = 0.5; /* seconds */
static double height[points], speed[points];

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s\n", tranship_error_name(code), tranship_last_error());
  if (tranship_last_hint()[0] != '\0') fprintf(stderr, "hint: %s\n", tranship_last_hint());
  exit(1); /* a step that is open is given up: readers pass it by */
}

static void advance(void) {
  for (int i = 1; i < points - 1; i++) {
    speed[i] += interval * (height[i - 1] - 2 * height[i] + height[i + 1]);
  }
  for (int i = 0; i < points; i++) height[i] += interval * speed[i];
}

int main(void) {
  const tranship_array heights = {.data = height, .type = "f8", .rank = 1, .extents = {points}};
  const tranship_array speeds = {.data = speed, .type = "f8", .rank = 1, .extents = {points}};
  tranship_staging* staging;
  check(tranship_open("staging.contact", NULL, patience, &staging));
  check(tranship_set_text(staging, NULL, "code", "wave 1.0")); /* an attribute of the run */
  check(tranship_set_text(staging, "height", "unit", "mm"));   /* and one of a variable */

  for (int i = 0; i < 100; i++) height[450 + i] = i < 50 ? i : 100 - i;
  for (int64_t number = 0; number < steps; number++) {
    tranship_step_writer* step;
    check(tranship_step_begin(staging, number, 1, patience, &step)); /* of one writer */
    check(tranship_step_put(step, "height", &heights, patience));
    check(tranship_step_put(step, "speed", &speeds, patience));
    check(tranship_step_set_double(step, NULL, "time", (double)number * interval));
    check(tranship_step_end(step, patience)); /* from now on readers see all of it */
    tranship_step_writer_free(step);
    advance();
  }
  check(tranship_close(staging));
  return 0;
}
