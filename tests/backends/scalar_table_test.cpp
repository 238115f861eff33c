// The runtime's table of elementwise ops is the op records' text, and does what the records say.
#include "backends/interpreter/scalar_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "graph/op.h"
#include "runtime/scalar_ops.h"

namespace tenon {
namespace {

TEST(ScalarTable, IsUpToDate) {
  std::ifstream file("runtime/scalar_ops.inc");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), scalar_table()) << "runtime/scalar_ops.inc is stale: run `make docs`";
}

const std::vector<double>& reals() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> list = {
      0.0,   -0.0,   1,      -1,        0.5,        -0.5, 2,
      -2,    3,      -7,     1e-3,      0.99,       1e10, -1e10,
      1e300, 1e-300, 5e-324, 709,       -745,       2.5,  3.5,
      -2.5,  170.5,  -3.25,  kInfinity, -kInfinity, NAN,  std::numeric_limits<double>::max()};
  return list;
}

const std::vector<int64_t>& integers() {
  static const std::vector<int64_t> list = {0,  1,  -1, 2,   -2,  3,         -3,        7,         8,
                                            63, 64, 65, 100, -77, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN};
  return list;
}

bool same(double a, double b) { return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b) || (a != a && b != b); }
bool same(int64_t a, int64_t b) { return a == b; }

// Every combination of numbers, by the record and by the table.
template <class T, class Record>
void expect_agrees(const Record& record, const runtime::ScalarOp& op, size_t arity, const std::vector<T>& numbers,
                   bool divides) {
  const size_t count = numbers.size();
  const size_t cases = arity == 1 ? count : count * count * (arity == 3 ? 2 : 1);
  for (size_t i = 0; i < cases; ++i) {
    const T x[] = {numbers[i % count], numbers[i / count % count], numbers[i / count / count + 1]};
    if (divides && x[1] == 0) continue;
    T got;
    op.run(runtime::Operands<T>{{x, x + 1, x + 2}, {0, 0, 0}}, &got, 1, 1);
    const T wanted = record(x);
    ASSERT_TRUE(same(got, wanted)) << "of " << x[0] << ", " << x[1] << ", " << x[2] << ": " << got << ", not "
                                   << wanted;
  }
}

TEST(ScalarTable, DoesWhatTheRecordsSay) {
  size_t seen = 0;
  for (const OpDef* op : op_table()) {
    const auto* record = std::get_if<Elementwise>(&op->semantics.get());
    if (!record) continue;
    SCOPED_TRACE(op->name.get());
    const runtime::ScalarOp* entry = runtime::find_scalar_op(op->name);
    ASSERT_NE(entry, nullptr);
    const size_t arity = op->operands.get().size();
    EXPECT_EQ(size_t{entry->arity}, arity);
    EXPECT_EQ(entry->is_real, static_cast<bool>(record->real));
    EXPECT_EQ(entry->is_integer, static_cast<bool>(record->integer));
    const bool divides = divides_integers(*op, DType::kI64);
    EXPECT_EQ(entry->kind == runtime::ScalarKind::kDivides, divides);
    if (entry->is_real) expect_agrees(record->real, *entry, arity, reals(), false);
    if (entry->is_integer) expect_agrees(record->integer, *entry, arity, integers(), divides);
    ++seen;
  }
  EXPECT_GT(seen, 60u);
  EXPECT_EQ(runtime::find_scalar_op("softmax"), nullptr);
}

TEST(ScalarTable, FoldsAndStrides) {
  const double x[] = {1, 2, 3, 4};
  double total = 10, sums[] = {10, 20};
  const runtime::ScalarOp& add = *runtime::find_scalar_op("add");
  add.run({{&total, x, nullptr}, {0, 1, 0}}, &total, 0, 4);
  EXPECT_EQ(total, 20);
  add.run({{sums, x, nullptr}, {1, 2, 0}}, sums, 1, 2);
  EXPECT_EQ(sums[0], 11);
  EXPECT_EQ(sums[1], 23);
}

}  // namespace
}  // namespace tenon
