/* Writes a matrix to a file in blocks of four columns, reads it back by rows, and lets another
 * engine of this process copy it from here and back, with a notice: the engine from C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tranship/tranship.h>

enum { rows = 300, columns = 200 };
static double matrix[rows][columns], found[rows][columns];

static void check(tranship_code code) {
  if (code == TRANSHIP_OK) return;
  fprintf(stderr, "%s: %s\n", tranship_error_name(code), tranship_last_error());
  if (tranship_last_hint()[0] != '\0') fprintf(stderr, "hint: %s\n", tranship_last_hint());
  exit(1);
}

static void copy(tranship_engine* engine, const tranship_instance* source,
                 const tranship_instance* target) {
  tranship_event* event;
  check(tranship_copy(engine, source, target, NULL, &event));
  check(tranship_event_wait(event, 60.0));
  tranship_event_free(event);
}

int main(void) {
  const tranship_dimension dimensions[] = {{"row", rows}, {"column", columns}};
  const tranship_field fields[] = {{"value", "f8"}};
  const tranship_layout by_row = {dimensions, 2, fields, 1, "column, row"};
  const tranship_layout blocked = {dimensions, 2, fields, 1, "column:4, row, column"};
  for (int k = 0; k < rows * columns; k++) matrix[k / columns][k % columns] = k;

  /* the file has blocks of four columns, row after row */
  const tranship_engine_options accepting = {.size = sizeof accepting, .accept = 1};
  tranship_engine* engine;
  tranship_instance *source, *target, *file;
  check(tranship_engine_open(&accepting, &engine));
  check(tranship_instance_of_memory(engine, matrix, sizeof matrix, &by_row, &source));
  check(tranship_instance_of_memory(engine, found, sizeof found, &by_row, &target));
  const tranship_file_options new_file = {.size = sizeof new_file, .mode = "w"};
  check(tranship_file_open(engine, "matrix.bin", &blocked, &new_file, &file));
  copy(engine, source, file);
  check(tranship_file_close(file));
  tranship_instance_free(file);
  check(tranship_file_open(engine, "matrix.bin", &blocked, NULL, &file));
  copy(engine, file, target);
  if (memcmp(matrix, found, sizeof matrix) != 0) return 1;

  /* another engine, here of the same process, reads what this one exports */
  const char* contact;
  tranship_engine* other;
  tranship_peer* peer;
  tranship_instance *remote, *received;
  check(tranship_export(engine, "matrix", source));
  check(tranship_engine_contact(engine, &contact));
  check(tranship_engine_open(NULL, &other));
  check(tranship_connect(other, contact, 10.0, &peer));
  check(tranship_peer_lookup(peer, "matrix", 10.0, &remote));
  memset(found, 0, sizeof found);
  check(tranship_instance_of_memory(other, found, sizeof found, &by_row, &received));
  copy(other, remote, received);
  if (memcmp(matrix, found, sizeof matrix) != 0) return 1;

  /* it writes into an array of this one, and says so by a notice */
  static double inbox[rows][columns];
  tranship_instance *received_here, *inbox_there;
  const tranship_export_options with_notices = {.size = sizeof with_notices, .notices = 1};
  check(tranship_instance_of_memory(engine, inbox, sizeof inbox, &by_row, &received_here));
  check(tranship_export_with(engine, "inbox", received_here, &with_notices));
  check(tranship_peer_lookup(peer, "inbox", 10.0, &inbox_there));
  const tranship_copy_options notifying = {.size = sizeof notifying, .notify = "step 0"};
  tranship_event* event;
  check(tranship_copy(other, received, inbox_there, &notifying, &event));

  tranship_notices* notices;
  tranship_notice notice;
  check(tranship_engine_notices(engine, 10.0, &notices)); /* waits for the first */
  check(tranship_notices_entry(notices, 0, &notice));
  printf("%s: %s\n", notice.array, notice.name);
  tranship_notices_free(notices);
  if (memcmp(matrix, inbox, sizeof matrix) != 0) return 1;
  check(tranship_event_wait(event, 10.0));
  tranship_event_free(event);

  tranship_instance* all[] = {source, target, file, remote, received, received_here, inbox_there};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) tranship_instance_free(all[k]);
  tranship_peer_free(peer);
  check(tranship_engine_close(other));
  check(tranship_engine_close(engine));
  puts("the matrix arrived");
  return 0;
}
