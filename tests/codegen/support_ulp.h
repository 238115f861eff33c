// Errors of functions in units of the last place (ulp), against long double.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tenon::test {

using LongUnary = long double (*)(long double);
using LongBinary = long double (*)(long double, long double);

struct MathCase {
  const char* name;
  LongUnary unary;
  LongBinary binary;
  double low, high;     // where it is neither trivial nor constant
  double limit = 2;     // of the error, in ulp
  double smallest = 0;  // the error is measured as if no result were smaller: for sums that cancel
};

const std::vector<MathCase>& math_cases();

// Arguments (of one operand or two) and what should come out. They are all exponents, both signs, the case's own range,
// special values, and neighbours of the multiples of pi/2 and ln(2)/2.
template <class T>
struct MathPoints {
  std::vector<T> x, y;
  std::vector<long double> expected;
};

template <class T>
MathPoints<T> make_points(const MathCase& math_case, int64_t count);

struct Worst {
  double ulp = 0;  // infinite where a special value is wrong
  int64_t index = 0;
};

template <class T>
Worst worst_of(const MathCase& math_case, const MathPoints<T>& points, const std::vector<T>& results);

}  // namespace tenon::test
