/* A runtime of one's own over the C interface: calls the kernels of a compiled model one after the other, by name. Each
 * takes what the kernel before it gave: the model is a chain.
 *
 *     tenon --plugin hello.so compile model.pt2 --device hello -o model.tenon
 *     call_kernel model.tenon hello.so
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/device.h>
#include <tenon/tenon.h>

enum { kMostDims = 16 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tenon_error());
  return 1;
}

/* A tensor of the kernel's type, with memory of its own; its data is null if that fails. */
static tenon_tensor made(const tenon_tensor_info* info, int64_t* shape) {
  size_t elements = 1;
  tenon_tensor tensor = {NULL, info->dtype, info->rank, shape, NULL};
  if (info->rank > kMostDims) return tensor;
  for (int32_t i = 0; i < info->rank; ++i) elements *= (size_t)(shape[i] = info->dims[i].size);
  tensor.data = calloc(elements + 1, tenon_dtype_size(info->dtype));
  for (size_t i = 0; info->dtype == TENON_F32 && i < elements; ++i) ((float*)tensor.data)[i] = (float)(i % 7) - 3;
  return tensor;
}

/* Calls a kernel of one input and one output. Returns its result in `x`. */
static int call(const tenon_program* program, size_t number, tenon_tensor* x, int64_t* shape) {
  tenon_kernel_info kernel;
  tenon_tensor_info input, output;
  int64_t input_shape[kMostDims];
  if (tenon_describe_kernel(program, number, &kernel) != TENON_OK) return failed("describe");
  printf("%s on %s: %d in, %d out\n", kernel.name, kernel.device, (int)kernel.input_count, (int)kernel.output_count);
  if (kernel.input_count != 1 || kernel.output_count != 1) return fprintf(stderr, "the model is no chain\n"), 1;
  if (tenon_kernel_argument(program, number, 0, &input) != TENON_OK) return failed("input");
  if (tenon_kernel_argument(program, number, 1, &output) != TENON_OK) return failed("output");
  if (x->data == NULL) {
    *x = made(&input, input_shape);
  } else {
    for (int32_t i = 0; i < x->rank; ++i) input_shape[i] = x->shape[i];
    x->shape = input_shape;
  }
  tenon_tensor y = made(&output, shape);
  const int is_done =
      x->data != NULL && y.data != NULL && tenon_call_kernel(program, kernel.name, x, 1, &y, 1) == TENON_OK;
  free(x->data);
  *x = y;
  return is_done ? 0 : failed(kernel.name);
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: call_kernel model.tenon plugin.so\n"), 2;
  const char* device = NULL;
  tenon_program* program = NULL;
  if (tenon_load_plugin(argv[2], &device) != TENON_OK) return failed("plug-in");
  const tenon_load_options options = {.size = sizeof options, .device = device};
  if (tenon_load_file(argv[1], &options, &program) != TENON_OK) return failed("load");
  int64_t shape[kMostDims];
  tenon_tensor x = {0};
  int status = 0;
  for (size_t i = 0; i < tenon_kernel_count(program) && status == 0; ++i) status = call(program, i, &x, shape);
  double sum = 0;
  for (int64_t i = 0; status == 0 && x.dtype == TENON_F32 && i < shape[0] * shape[1]; ++i) sum += ((float*)x.data)[i];
  if (status == 0) printf("the sum of the result is %.4f\n", sum);
  free(x.data);
  tenon_program_free(program);
  return status;
}
