/* Runs a model of one f32 matrix on threads of this program, a new one for each share of a loop. A program that has a
 * thread pool gives the shares to it, and no CPU gets two pools.
 *
 *     own_threads model.tenon THREADS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { kMostThreads = 64 };

typedef struct share {
  void (*body)(void* data, int64_t index);
  void* data;
  int64_t index;
} share;

static void* run_share(void* argument) {
  const share* const own = argument;
  own->body(own->data, own->index);
  return NULL;
}

/* Leaves out the shares that get no thread: Tenon runs them. */
static void run_on_threads(void* user, int64_t count, void (*body)(void* data, int64_t index), void* data) {
  pthread_t threads[kMostThreads];
  share shares[kMostThreads];
  int64_t started = 0;
  for (; started < count && started < kMostThreads; ++started) {
    shares[started] = (share){body, data, started};
    if (pthread_create(&threads[started], NULL, run_share, &shares[started]) != 0) break;
  }
  for (int64_t i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  ++*(int64_t*)user;
}

static int run(tenon_context* context, int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  float* const ones = malloc((size_t)(rows * columns) * sizeof *ones);
  if (ones == NULL) return 1;
  for (int64_t i = 0; i < rows * columns; ++i) ones[i] = 1;
  const tenon_tensor input = {ones, TENON_F32, 2, shape, NULL};
  const int failed = tenon_set_input(context, 0, &input) != TENON_OK || tenon_run(context) != TENON_OK;
  free(ones);
  return failed;
}

int main(int count, char** arguments) {
  tenon_program* program = NULL;
  tenon_context* context = NULL;
  tenon_tensor_info info;
  tenon_tensor result;
  int64_t loops = 0;
  if (count != 3) return fprintf(stderr, "usage: own_threads model.tenon THREADS\n"), 2;
  const tenon_executor executor = {.size = sizeof executor, .parallel = run_on_threads, .user = &loops};
  const tenon_context_options options = {.size = sizeof options, .threads = atoll(arguments[2]), .executor = &executor};
  int failed = tenon_load_file(arguments[1], NULL, &program) != TENON_OK ||
               tenon_context_create(program, &options, &context) != TENON_OK ||
               tenon_input_info(program, 0, &info) != TENON_OK || info.rank != 2 ||
               run(context, info.dims[0].size, info.dims[1].size) || tenon_get_output(context, 0, &result) != TENON_OK;
  if (failed) {
    fprintf(stderr, "%s\n", tenon_error());
  } else {
    printf("%g, %lld loops\n", ((const float*)result.data)[0], (long long)loops);
  }
  tenon_context_free(context);
  tenon_program_free(program);
  return failed;
}
