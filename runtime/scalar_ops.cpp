#include "runtime/scalar_ops.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>
#include <utility>

#include "runtime/scalar_functions.h"

namespace tenon::runtime {
namespace {

using b8 = bool;
using f64 = double;
using i64 = int64_t;
using u64 = uint64_t;

constexpr ScalarKind kPlain = ScalarKind::kPlain, kFolds = ScalarKind::kFolds, kDivides = ScalarKind::kDivides;

f64 rounded(f64 product) { return product; }  // no addition is near that could fuse with it

template <class T>
using Lanes = void (*)(const Operands<T>& x, T* out, i64 out_step, i64 count);

template <class T, class Function>
constexpr Lanes<T> lanes(Function) {
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
constexpr Lanes<T> folding(Function) {
  return [](const Operands<T>& x, T* out, i64 out_step, i64 count) {
    const bool folds = x.data[0] == out && x.step[0] == 0 && out_step == 0;
    if (!folds) return lanes<T>(Function())(x, out, out_step, count);
    T total = *out;
    for (i64 i = 0; i < count; ++i) total = Function()(total, x.data[1][i * x.step[1]]);
    *out = total;
  };
}

// The rows of the table, of which code is made.
struct Row {
  ShortName<16> name;
  uint8_t arity;
  ScalarKind kind;
  Lanes<f64> real;     // null if the op is not defined on reals
  Lanes<i64> integer;  // null if not on integers
};

constexpr Row kRows[] = {
#include "runtime/scalar_ops.inc"
};
constexpr auto kNumbers = std::make_index_sequence<std::size(kRows)>();

constexpr auto kOps = []<size_t... kNumber>(std::index_sequence<kNumber...>) {
  return std::array{ScalarOp{kRows[kNumber].name, kRows[kNumber].arity, kRows[kNumber].kind,
                             kRows[kNumber].real != nullptr, kRows[kNumber].integer != nullptr, kNumber}...};
}(kNumbers);

template <class T, size_t kNumber>
void run_row(const Operands<T>& x, T* out, i64 out_step, i64 count) {
  constexpr auto kLanes = std::get<Lanes<T>>(std::pair(kRows[kNumber].real, kRows[kNumber].integer));
  if constexpr (kLanes != nullptr) kLanes(x, out, out_step, count);
}

template <class T, size_t... kNumber>
void run_number(const Operands<T>& x, T* out, i64 out_step, i64 count, size_t number, std::index_sequence<kNumber...>) {
  (void)((number == kNumber && (run_row<T, kNumber>(x, out, out_step, count), true)) || ...);
}

}  // namespace

void ScalarOp::run(const Operands<double>& x, double* out, int64_t out_step, int64_t count) const {
  run_number(x, out, out_step, count, number, kNumbers);
}

void ScalarOp::run(const Operands<int64_t>& x, int64_t* out, int64_t out_step, int64_t count) const {
  run_number(x, out, out_step, count, number, kNumbers);
}

const ScalarOp* find_scalar_op(std::string_view name) {
  const auto found = std::ranges::find(kOps, name, &ScalarOp::name);
  return found == kOps.end() ? nullptr : &*found;
}

}  // namespace tenon::runtime
