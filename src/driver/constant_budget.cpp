#include "driver/constant_budget.h"

#include "fusion/live_memory.h"
#include "fusion/work.h"

namespace tenon {
namespace {

// For each byte that a group reads. A product of two matrices of 4096 x 4096 takes 18 ns for a byte of them.
constexpr double kFreeNanoseconds = 32;
constexpr double kFreeBytes = 8;
constexpr double kReferenceSlowdown = 200;

double bytes_of(const Graph& graph, const std::vector<ValueRef>& values) {
  double bytes = 0;
  for (ValueRef value : values) bytes += static_cast<double>(bytes_of(graph.type(value), {}));
  return bytes;
}

}  // namespace

bool ConstantBudget::covers(const Graph& graph, const FusedGroup& group, bool runs_reference) {
  const double read = bytes_of(graph, group.inputs);
  const double written = bytes_of(graph, group.outputs);
  const double work = work_of(graph, group, {}) * (runs_reference ? kReferenceSlowdown : 1);
  const double extra_work = work > kFreeNanoseconds * read ? work : 0;
  const double extra_bytes = written > kFreeBytes * read ? written : 0;
  if (extra_work > nanoseconds_ || extra_bytes > bytes_) return false;
  nanoseconds_ -= extra_work;
  bytes_ -= extra_bytes;
  return true;
}

}  // namespace tenon
