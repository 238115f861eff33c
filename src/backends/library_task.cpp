#include "backends/library_task.h"

#include <utility>

#include "graph/ops/kernel_call.h"
#include "runtime/host.h"

namespace tenon {
namespace {

tenon_lines lines_of(const Sizes& shape, int64_t dim) {
  if (shape.empty()) return {1, 1, 1};
  const std::span<const int64_t> sizes = shape;
  const auto at = static_cast<size_t>(dim);
  return {element_count(sizes.first(at)), sizes[at], element_count(sizes.subspan(at + 1))};
}

// ---- order ----------------------------------------------------------------------------------------------------------

void sort(ReferenceContext& c) {
  const Tensor x = c.in().contiguous();
  const tenon_lines lines = lines_of(x.shape(), c.dim("dim"));
  const int64_t error = tenon_sort(tenon_default_host(), code_of(x.dtype()), lines, c.flag("descending"), x.data(),
                                   c.out(0).data(), integers(c.out(1)));
  check_memory(error, c);
}

void argsort(ReferenceContext& c) {
  const Tensor x = c.in().contiguous();
  const tenon_lines lines = lines_of(x.shape(), c.dim("dim"));
  const int64_t error = tenon_sort(tenon_default_host(), code_of(x.dtype()), lines, c.flag("descending"), x.data(),
                                   nullptr, integers(c.out()));
  check_memory(error, c);
}

void topk(ReferenceContext& c) {
  const Tensor x = c.in().contiguous();
  const tenon_lines lines = lines_of(x.shape(), c.dim("dim"));
  const int64_t error = tenon_topk(tenon_default_host(), code_of(x.dtype()), lines, c.size("k"), c.flag("largest"),
                                   x.data(), c.out(0).data(), integers(c.out(1)));
  check_memory(error, c);
}

void kthvalue(ReferenceContext& c) {
  const Tensor x = c.in().contiguous();
  const tenon_lines lines = lines_of(x.shape(), c.dim("dim"));
  const int64_t error = tenon_kthvalue(tenon_default_host(), code_of(x.dtype()), lines, c.size("k"), x.data(),
                                       c.out(0).data(), integers(c.out(1)));
  check_memory(error, c);
}

void nonzero(ReferenceContext& c) {
  const Tensor x = c.in().contiguous();
  int64_t starts[TENON_NONZERO_PARTS];
  const int64_t found = tenon_nonzero_count(tenon_default_host(), code_of(x.dtype()), x.numel(), x.data(), starts);
  const Expr& count = c.expr("count");
  if (count.is_constant() && !count.is_constant(found)) {
    fail("{} elements are not zero, where {} are expected", found, to_string(count));
  }
  c.allocate(0, DType::kI64, {found, x.rank()});
  tenon_nonzero_write(tenon_default_host(), code_of(x.dtype()), x.shape().data(), x.rank(), x.data(), starts,
                      integers(c.out()));
}

// ---- random ---------------------------------------------------------------------------------------------------------

void philox(ReferenceContext& c) {
  const Tensor key = c.in().contiguous();
  tenon_philox(tenon_default_host(), integers(key), c.out().numel(), integers(c.out()));
}

void uniform(ReferenceContext& c) {
  const Tensor key = c.in().contiguous();
  tenon_uniform(tenon_default_host(), code_of(c.out().dtype()), integers(key), c.out().numel(), c.out().data());
}

// The result in i64, for a kernel that writes nothing else.
template <class Fill>
void fill_integers(ReferenceContext& c, Fill fill) {
  const bool direct = c.out().dtype() == DType::kI64;
  const Tensor result = direct ? c.out() : Tensor::zeros(DType::kI64, c.out().shape());
  fill(integers(result));
  if (!direct) c.out().copy_from(result);
}

void randint(ReferenceContext& c) {
  const Tensor key = c.in().contiguous();
  const int64_t low = c.size("low"), range = (c.expr("high") - c.expr("low")).constant();
  fill_integers(
      c, [&](int64_t* to) { tenon_randint(tenon_default_host(), integers(key), low, range, c.out().numel(), to); });
}

void randperm(ReferenceContext& c) {
  const Tensor key = c.in().contiguous();
  const Tensor draws = Tensor::zeros(DType::kI64, c.out().shape());
  tenon_randint(tenon_default_host(), integers(key), 0, int64_t{1} << 59, draws.numel(), integers(draws));
  fill_integers(c, [&](int64_t* to) {
    const int64_t error =
        tenon_sort(tenon_default_host(), TENON_I64, {1, draws.numel(), 1}, 0, draws.data(), nullptr, to);
    check_memory(error, c);
  });
}

// ---- matrices -------------------------------------------------------------------------------------------------------

// Their records call the kernels (src/graph/ops/linalg.cpp).
void linalg(ReferenceContext& c) { std::get<Reference>(c.op().semantics.get()).run(c); }

constexpr std::pair<std::string_view, LibraryTaskFn> kTasks[] = {
    {"argsort", argsort},
    {"kthvalue", kthvalue},
    {"nonzero", nonzero},
    {"philox", philox},
    {"randint", randint},
    {"randperm", randperm},
    {"sort", sort},
    {"topk", topk},
    {"uniform", uniform},
    {"cholesky", linalg},
    {"lu", linalg},
    {"pivots_to_permutation", linalg},
    {"triangular_solve", linalg},
    {"geqrf", linalg},
    {"householder_product", linalg},
    {"eigh", linalg},
    {"svd", linalg},
    {"matrix_exp", linalg},
    {"require_zero", linalg},
};

}  // namespace

LibraryTaskFn find_library_task(const OpDef& op) {
  for (const auto& [name, task] : kTasks) {
    if (name == op.name.get()) return task;
  }
  return nullptr;
}

}  // namespace tenon
