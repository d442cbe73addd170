/* Packs a column of a matrix, writes it to a row of another, and prints what a faulty copy says:
 * types from C alone. Built by tests/python/test_cpp_api.py against the installed package. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tranship/tranship.h>

enum { rows = 30, columns = 20 };
static double matrix[rows][columns], turned[columns][rows], packed[rows];

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s\n", tranship_error_name(code), tranship_last_error());
  exit(1);
}

static tranship_instance* instance_of(tranship_engine* engine, double* data, int64_t count) {
  const tranship_array array = {.data = data, .type = "f8", .rank = 1, .extents = {count}};
  tranship_instance* made;
  check(tranship_instance_of_array(engine, &array, &made));
  return made;
}

int main(void) {
  for (int k = 0; k < rows * columns; k++) matrix[k / columns][k % columns] = k;
  tranship_engine* engine;
  check(tranship_engine_open(NULL, &engine));
  tranship_type *number, *column, *seventh, *row;
  const int64_t whole[] = {columns, rows}, part[] = {1, rows}, first[] = {3, 0};
  const int64_t place = 7;
  check(tranship_type_element("f8", &number));
  check(tranship_type_vector(rows, 1, columns, number, &column));
  check(tranship_type_hindexed_block(1, 1, &(int64_t){place * 8}, column, &seventh));
  check(tranship_type_subarray(2, whole, part, first, TRANSHIP_C_ORDER, number, &row));

  tranship_instance* ends[] = {instance_of(engine, &matrix[0][0], rows * columns),
                               instance_of(engine, packed, rows),
                               instance_of(engine, &turned[0][0], rows * columns)};
  const tranship_typed_pair pairs[] = {{ends[0], ends[1], seventh, NULL},
                                       {ends[0], ends[2], seventh, row}};
  tranship_event* event;
  check(tranship_copy_types(engine, pairs, 2, NULL, &event));
  check(tranship_event_wait(event, 60.0));
  tranship_event_free(event);
  for (int i = 0; i < rows; i++) {
    if (packed[i] != matrix[i][7] || turned[3][i] != matrix[i][7]) return 1;
  }

  tranship_prepared* prepared;
  check(tranship_prepare_types(engine, pairs, 1, NULL, &prepared));
  tranship_type_free(seventh);
  memset(packed, 0, sizeof packed);
  check(tranship_start(prepared, NULL, &event));
  check(tranship_event_wait(event, 60.0));
  tranship_event_free(event);
  tranship_prepared_free(prepared);
  for (int i = 0; i < rows; i++) {
    if (packed[i] != matrix[i][7]) return 1;
  }

  const tranship_typed_pair faulty = {ends[1], ends[2], column, NULL};
  const tranship_code code = tranship_copy_types(engine, &faulty, 1, NULL, &event);
  printf("%s: %s\n", tranship_error_name(code), tranship_last_error());
  printf("%s has %lld bytes in %lld\n", tranship_type_text(row),
         (long long)tranship_type_bytes(row), (long long)tranship_type_extent(row));
  for (int k = 0; k < 3; k++) tranship_instance_free(ends[k]);
  tranship_type_free(number);
  tranship_type_free(column);
  tranship_type_free(row);
  check(tranship_engine_close(engine));
  return 0;
}
