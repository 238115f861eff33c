#include "runtime/scalar_ops.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "runtime/scalar_functions.h"

namespace tenon::runtime {
namespace {

using b8 = bool;
using f64 = double;
using i64 = int64_t;
using u64 = uint64_t;

constexpr ScalarKind kPlain = ScalarKind::kPlain, kFolds = ScalarKind::kFolds, kDivides = ScalarKind::kDivides;

f64 rounded(f64 product) { return product; }  // no addition is near that could fuse with it

template <class T, class Function>
Lanes<T> lanes(Function) {
  return [](const Operands<T>& x, T* out, i64 out_step, i64 count) {
    const auto [a, b, c] = x.data;
    const auto [a_step, b_step, c_step] = x.step;
    for (i64 i = 0; i < count; ++i) {
      if constexpr (std::is_invocable_v<Function, T>) {
        out[i * out_step] = Function()(a[i * a_step]);
      } else if constexpr (std::is_invocable_v<Function, T, T>) {
        out[i * out_step] = Function()(a[i * a_step], b[i * b_step]);
      } else {
        out[i * out_step] = Function()(a[i * a_step], b[i * b_step], c[i * c_step]);
      }
    }
  };
}

// For an op that folds: keeps the total in a register.
template <class T, class Function>
Lanes<T> folding(Function) {
  return [](const Operands<T>& x, T* out, i64 out_step, i64 count) {
    const bool folds = x.data[0] == out && x.step[0] == 0 && out_step == 0;
    if (!folds) return lanes<T>(Function())(x, out, out_step, count);
    T total = *out;
    for (i64 i = 0; i < count; ++i) total = Function()(total, x.data[1][i * x.step[1]]);
    *out = total;
  };
}

const ScalarOp kOps[] = {
#include "runtime/scalar_ops.inc"
};

}  // namespace

const ScalarOp* find_scalar_op(std::string_view name) {
  const auto found = std::ranges::find(kOps, name, &ScalarOp::name);
  return found == std::end(kOps) ? nullptr : found;
}

}  // namespace tenon::runtime
