/* A writer that ends as it is told: program CONTACT VARIABLE close|end|fork */
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <tranship/tranship.h>
#include <unistd.h>

static int failed(const char* what, tranship_code code) {
  if (code == TRANSHIP_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, tranship_error_name(code), tranship_last_error());
  return 1;
}

/* In the child, which has none of the parent's threads. */
static int refuses(tranship_staging* staging, tranship_request* request,
                   const tranship_array* array) {
  const tranship_code code = tranship_put(staging, "forked", 9, array, 5.0);
  printf("%s: %s\n", tranship_error_name(code), tranship_last_error());
  fflush(stdout);
  tranship_request_free(request);
  if (failed("close", tranship_close(staging))) return 1;
  return code == TRANSHIP_CLOSED ? 0 : 1;
}

int main(int argc, char** argv) {
  int32_t values[2][2] = {{1, 2}, {3, 4}};
  const tranship_array array = {.data = values, .type = "i4", .rank = 2, .extents = {2, 2}};
  tranship_staging* staging;
  if (argc != 4) return 2;
  if (failed("open", tranship_open(argv[1], "writer", 20.0, &staging))) return 1;
  if (failed("put", tranship_put(staging, argv[2], 1, &array, 20.0))) return 1;
  if (strcmp(argv[3], "end") == 0) return 0;
  if (strcmp(argv[3], "fork") == 0) {
    tranship_request* request;
    if (failed("get", tranship_get_async(staging, argv[2], 2, &array, 1.0, &request))) return 1;
    const pid_t child = fork();
    if (child == 0) _exit(refuses(staging, request, &array));
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    tranship_request_free(request);
  }
  return failed("close", tranship_close(staging));
}
