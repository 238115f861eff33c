/* Loads a compiled model, says what it takes and gives, runs it on made-up inputs and prints a summary of each result.
 *
 *     run_model model.tenon [SIZE]      SIZE: of every symbolic dimension; 4 unless told
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { kMostDims = 64 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tenon_error());
  return 1;
}

static void describe(const char* role, const tenon_tensor_info* info) {
  printf("%s %s: %s[", role, info->name, tenon_dtype_name(info->dtype));
  for (int32_t i = 0; i < info->rank; ++i) printf("%s%s", i ? ", " : "", info->dims[i].text);
  printf("]\n");
}

/* Small numbers that differ: 0, 0.25, 0.5, ... for f32, and 0, 1, 2 for integers, which are often indices. */
static void fill(void* data, tenon_dtype dtype, size_t elements) {
  if (dtype == TENON_F32) {
    for (size_t i = 0; i < elements; ++i) ((float*)data)[i] = (float)(i % 9) * 0.25f;
  } else if (dtype == TENON_F64) {
    for (size_t i = 0; i < elements; ++i) ((double*)data)[i] = (double)(i % 9) * 0.25;
  } else if (dtype == TENON_I64) {
    for (size_t i = 0; i < elements; ++i) ((int64_t*)data)[i] = (int64_t)(i % 3);
  }
}

static double element(const tenon_tensor* tensor, size_t i) {
  if (tensor->dtype == TENON_F32) return ((const float*)tensor->data)[i];
  if (tensor->dtype == TENON_F64) return ((const double*)tensor->data)[i];
  if (tensor->dtype == TENON_I64) return (double)((const int64_t*)tensor->data)[i];
  return 0;
}

/* Memory of its own for an input, which the context reads at each run. */
static void* set_input(tenon_context* context, const tenon_program* program, size_t number, int64_t size) {
  tenon_tensor_info info;
  int64_t shape[kMostDims];
  size_t elements = 1;
  if (tenon_input_info(program, number, &info) != TENON_OK) return NULL;
  describe("input", &info);
  for (int32_t i = 0; i < info.rank; ++i) {
    shape[i] = info.dims[i].size >= 0 ? info.dims[i].size : size;
    elements *= (size_t)shape[i];
  }
  void* const data = calloc(elements + 1, tenon_dtype_size(info.dtype));
  if (data == NULL) return NULL;
  fill(data, info.dtype, elements);
  const tenon_tensor tensor = {data, info.dtype, info.rank, shape, NULL};
  if (tenon_set_input(context, number, &tensor) == TENON_OK) return data;
  free(data);
  return NULL;
}

static int print_output(const tenon_context* context, const tenon_program* program, size_t number) {
  tenon_tensor_info info;
  tenon_tensor tensor;
  if (tenon_output_info(program, number, &info) != TENON_OK) return failed("describe");
  if (tenon_get_output(context, number, &tensor) != TENON_OK) return failed("result");
  describe("output", &info);
  size_t elements = 1;
  printf("  shape");
  for (int32_t i = 0; i < tensor.rank; ++i) {
    printf(" %lld", (long long)tensor.shape[i]);
    elements *= (size_t)tensor.shape[i];
  }
  double sum = 0;
  for (size_t i = 0; i < elements; ++i) sum += element(&tensor, i);
  printf(", sum %.6g\n", sum);
  return 0;
}

static int run(const tenon_program* program, tenon_context* context, int64_t size) {
  const size_t inputs = tenon_input_count(program);
  void** const data = calloc(inputs + 1, sizeof *data);
  int status = data == NULL;
  for (size_t i = 0; i < inputs && !status; ++i) {
    data[i] = set_input(context, program, i, size);
    if (data[i] == NULL) status = failed("input");
  }
  if (!status && tenon_run(context) != TENON_OK) status = failed("run");
  for (size_t i = 0; i < tenon_output_count(program) && !status; ++i) status = print_output(context, program, i);
  for (size_t i = 0; data != NULL && i < inputs; ++i) free(data[i]);
  free(data);
  return status;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: run_model model.tenon [SIZE]\n");
    return 2;
  }
  tenon_program* program = NULL;
  tenon_context* context = NULL;
  if (tenon_load_file(argv[1], NULL, &program) != TENON_OK) return failed("load");
  printf("%s, by Tenon %s\n", tenon_program_name(program), tenon_version());
  int status = 1;
  if (tenon_context_create(program, NULL, &context) == TENON_OK) {
    status = run(program, context, argc > 2 ? atoll(argv[2]) : 4);
  } else {
    failed("context");
  }
  tenon_context_free(context);
  tenon_program_free(program);
  return status;
}
