/* Writes a step, or puts back what a step has that somebody else wrote:
 * steps CONTACT write|echo|leave NUMBER */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tranship/tranship.h>

static const double patience = 20;
static double energy[3][4];
static int32_t ids[5];

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s; %s\n", tranship_error_name(code), tranship_last_error(),
          tranship_last_hint());
  exit(1);
}

/* Fills this step's arrays, and describes a part of them. */
static tranship_array rows(int first, int count) {
  for (int k = 0; k < 12; k++) energy[k / 4][k % 4] = k / 7.0;
  for (int k = 0; k < 5; k++) ids[k] = 100 - 50 * k;
  const tranship_array block = {
      .data = energy[first], .type = "f8", .rank = 2, .extents = {count, 4}, .lower = {first, -2}};
  return block;
}

static tranship_step_writer* begun(tranship_staging* staging, int64_t number) {
  const tranship_array upper = rows(0, 1), below = rows(1, 2);
  const tranship_array all = {.data = ids, .type = "i4", .rank = 1, .extents = {5}};
  tranship_step_writer* step;
  tranship_request* request;
  check(tranship_step_begin(staging, number, 1, patience, &step));
  check(tranship_step_put_async(step, "energy", &below, patience, &request));
  check(tranship_step_put(step, "energy", &upper, patience));
  check(tranship_step_put(step, "ids", &all, patience));
  tranship_request_free(request);
  check(tranship_step_set_double(step, NULL, "time", 0.1));
  check(tranship_step_set_int64(step, NULL, "count", INT64_MIN));
  check(tranship_step_set_text(step, NULL, "label", "a \"label\"\n\twith \xc3\xa4, \x01 and \\"));
  check(tranship_step_set_json(step, NULL, "sizes", "[3, 4, {\"deep\": null}]"));
  check(tranship_step_set_text(step, "energy", "unit", "eV"));
  check(tranship_step_set_text(step, "energy", "unit", "J")); /* the later value holds */
  return step;
}

static void echo_variable(tranship_staging* staging, const tranship_step* step, const char* name) {
  tranship_variable variable;
  check(tranship_step_describe(step, name, &variable));
  tranship_array array = {.type = variable.type, .rank = variable.rank};
  size_t bytes = 16;
  for (int k = 0; k < variable.rank; k++) {
    array.lower[k] = variable.lower[k];
    array.extents[k] = variable.upper[k] - variable.lower[k];
    bytes *= (size_t)array.extents[k];
  }
  array.data = malloc(bytes);
  check(tranship_step_get(step, name, &array, patience));
  char copy[200];
  snprintf(copy, sizeof copy, "echo of %s", name);
  check(tranship_put(staging, copy, tranship_step_number(step), &array, patience));
  free(array.data);
}

static void echo_attributes(tranship_staging* staging, const tranship_step* step,
                            const char* variable) {
  const tranship_attributes* found;
  check(tranship_step_attributes(step, variable, &found));
  for (int64_t k = 0; k < tranship_attributes_size(found); k++) {
    const char *key, *json;
    check(tranship_attributes_entry(found, k, &key, &json));
    check(tranship_set_json(staging, variable, key, json));
  }
}

static void echo(tranship_staging* staging, int64_t number) {
  tranship_step* step;
  check(tranship_step_next(staging, number - 1, patience, &step));
  for (int64_t k = 0; k < tranship_step_size(step); k++) {
    const char* name;
    check(tranship_step_name(step, k, &name));
    echo_variable(staging, step, name);
    echo_attributes(staging, step, name);
  }
  echo_attributes(staging, step, NULL);
  const tranship_attributes* found;
  double time;
  int64_t count;
  const char* label;
  check(tranship_step_attributes(step, NULL, &found));
  check(tranship_attributes_double(found, "time", &time));
  check(tranship_attributes_int64(found, "count", &count));
  check(tranship_attributes_text(found, "label", &label));
  printf("%" PRId64 " %.17g %" PRId64 " %s\n", tranship_step_number(step), time, count, label);
  tranship_step_free(step);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int64_t number = atoll(argv[3]);
  tranship_staging* staging;
  check(tranship_open(argv[1], "steps", patience, &staging));
  if (strcmp(argv[2], "write") == 0) {
    tranship_step_writer* step = begun(staging, number);
    check(tranship_step_end(step, patience));
    tranship_step_writer_free(step);
  } else if (strcmp(argv[2], "leave") == 0) { /* within the step */
    tranship_step_writer_free(begun(staging, number));
  } else {
    echo(staging, number);
  }
  check(tranship_close(staging));
  return 0;
}
