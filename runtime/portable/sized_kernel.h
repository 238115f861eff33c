// A SizedKernel is a portable kernel for given sizes. Index expressions are sums of multiples of numbers. A part that
// is not such a sum (a quotient, a minimum, ...) becomes a number of its own, computed in the outermost possible loop.
//
// An innermost loop runs in strips: one step for up to kStrip iterations, then the next step. From one iteration of a
// strip to the next, a position moves by a constant stride, except where it depends on a lookup or on a quotient of the
// counter: those are rows, with an entry for each iteration. A scratch element that every iteration overwrites becomes
// a row as well. If strips would change the results of steps that depend on each other, a strip is one iteration.
#pragma once

#include <vector>

#include "runtime/elements.h"
#include "runtime/portable/tables.h"

namespace tenon::runtime::portable {

inline constexpr int64_t kStrip = 256;

// Applies an operator of index expressions. Wraps on overflow. A division by zero, which no valid kernel needs, gives
// 0.
int64_t apply(ExprOp op, int64_t a, int64_t b);

struct SumTerm {
  uint32_t symbol;  // of a number or a row
  int64_t factor;
  bool operator==(const SumTerm&) const = default;
};

// constant + the sum of the terms, at the first iteration of a strip.
struct Position {
  int64_t constant = 0;
  int64_t stride = 0;            // from one iteration of the strip to the next
  std::vector<SumTerm> numbers;  // constant within a strip
  std::vector<SumTerm> rows;
  bool operator==(const Position&) const = default;
};

// A number or a row: op(a, b).
struct Derived {
  ExprOp op;
  Position a;
  Position b;
  uint32_t number;
  uint32_t row;  // kNone: it is a number
};

struct SizedGuard {
  Position value;
  int64_t bound;
};

struct SizedSource {
  SourceKind kind;
  tenon_dtype dtype;
  uint32_t buffer;
  uint32_t row;  // the row that an earlier step of the strip wrote; kNone: read the buffer
  Position at;
  double real;      // of a constant
  int64_t integer;  // of a constant
  std::vector<SizedGuard> where;
};

struct SizedLookup {
  uint32_t row;
  int64_t bound;
  SizedSource source;
};

struct SizedStep {
  Action action;
  uint32_t node;
  const ScalarOp* op;
  uint32_t out;
  uint32_t row;  // the row that later steps of the strip read; kNone: write the buffer only
  Position at;
  uint32_t carry;
  Position carry_at;
  std::vector<SizedLookup> lookups;
  std::vector<Derived> derived;  // computed from lookups
  std::vector<SizedGuard> where;
  std::vector<SizedSource> sources;
};

struct Child {
  bool is_loop;
  uint32_t index;
};

struct SizedLoop {
  uint32_t counter;
  uint32_t variable;
  int64_t step;
  Order order;
  std::vector<Derived> derived;
  std::vector<Child> children;
  int64_t strip = 0;  // iterations per strip, of an innermost loop; 0: other loops
  bool backwards() const { return order != Order::InOrder; }
};

struct SizedBuffer {
  tenon_dtype dtype;
  uint32_t node;
  int64_t elements;
  uint32_t parallel;  // the outermost parallel loop around it, of which each thread has its own copy; kNone: one copy
  int64_t bytes() const { return elements * size_of(dtype); }
};

struct SizedKernel {
  // Throws a StatusError (TENON_INVALID_ARGUMENT) if the sizes overflow.
  SizedKernel(const Tables& tables, std::span<const int64_t> sizes);

  std::vector<int64_t> sizes;
  std::vector<int64_t> extents;  // by variable
  std::vector<SizedBuffer> buffers;
  std::vector<SizedLoop> loops;
  std::vector<SizedStep> steps;
  std::vector<Child> roots;
  size_t argument_count;
  size_t number_count;
  size_t row_count = 0;
};

}  // namespace tenon::runtime::portable
