#include "symbolic/interval.h"

#include <fmt/format.h>

#include <algorithm>

#include "symbolic/canonical.h"

// The smallest int64 is infinite as a low end, and a number as a high end; the largest the other way round.

namespace tenon::symbolic {
namespace {

int64_t saturate(Wide value) { return static_cast<int64_t>(std::clamp<Wide>(value, kInt64Min, kInt64Max)); }

bool has_low(Interval a) { return a.low != kInt64Min; }
bool has_high(Interval a) { return a.high != kInt64Max; }

Interval hull(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

// The high end as a factor: an infinite one is so large that its product with anything but zero saturates. The smallest
// int64 is large enough for that as it is.
Wide high_factor(Interval a) { return has_high(a) ? Wide{a.high} : Wide{1} << 63; }

Interval floordiv_by_positive(Interval a, Interval b) {
  const auto smallest_magnitude = [&](int64_t end) { return has_high(b) ? checked_floordiv(end, b.high) : -(end < 0); };
  const int64_t low = a.low >= 0 ? smallest_magnitude(a.low) : checked_floordiv(a.low, b.low);
  const int64_t high = a.high >= 0 ? checked_floordiv(a.high, b.low) : smallest_magnitude(a.high);
  return {has_low(a) ? low : kInt64Min, has_high(a) ? high : kInt64Max};
}

Interval mod_by_positive(Interval a, Interval b) {
  if (a.low >= 0 && a.high < b.low) return a;
  if (a.is_bounded() && b.is_single()) {
    const int64_t period = checked_floordiv(a.low, b.low);
    if (period == checked_floordiv(a.high, b.low)) return {checked_mod(a.low, b.low), checked_mod(a.high, b.low)};
  }
  const int64_t high = has_high(b) ? b.high - 1 : kInt64Max;
  return {0, a.low >= 0 ? std::min(high, a.high) : high};
}

// Applies `positive` to the divisors on either side of zero; a // b == -a // -b, and a % b == -(-a % -b).
template <class Positive, class Negative>
Interval for_each_sign(Interval b, const Positive& positive, const Negative& negative) {
  const bool has_positive = b.high > 0, has_negative = b.low < 0;
  if (!has_positive && !has_negative) return Interval::all();
  if (!has_negative) return positive(Interval{std::max<int64_t>(b.low, 1), b.high});
  const Interval mirrored = -Interval{b.low, std::min<int64_t>(b.high, -1)};
  if (!has_positive) return negative(mirrored);
  return hull(positive(Interval{1, b.high}), negative(mirrored));
}

// True when every value of `a` is below every one of `b`.
bool always_less(Interval a, Interval b) { return a.high < b.low; }
bool always_less_equal(Interval a, Interval b) {
  return a.high < b.low || (a.high == b.low && has_high(a) && has_low(b));
}

Interval truth(bool is_always, bool is_never) { return {is_always ? 1 : 0, is_never ? 0 : 1}; }

}  // namespace

std::string to_string(const Interval& interval) {
  const std::string low = has_low(interval) ? std::to_string(interval.low) : "-inf";
  const std::string high = has_high(interval) ? std::to_string(interval.high) : "inf";
  return fmt::format("[{}, {}]", low, high);
}

Interval operator+(Interval a, Interval b) {
  return {has_low(a) && has_low(b) ? saturate(Wide{a.low} + b.low) : kInt64Min,
          has_high(a) && has_high(b) ? saturate(Wide{a.high} + b.high) : kInt64Max};
}

Interval operator-(Interval a) {
  return {has_high(a) ? saturate(-Wide{a.high}) : kInt64Min, has_low(a) ? saturate(-Wide{a.low}) : kInt64Max};
}

Interval operator*(Interval a, Interval b) {
  const auto ends = {Wide{a.low} * b.low, a.low * high_factor(b), high_factor(a) * b.low,
                     high_factor(a) * high_factor(b)};
  return {saturate(std::min(ends)), saturate(std::max(ends))};
}

Interval power(Interval base, int exponent) {
  Interval result = exponent % 2 == 0 ? Interval::exactly(1) : base;
  const Interval square = base * base;
  const bool may_be_zero = base.contains(0);
  const Interval tight = {may_be_zero ? 0 : square.low, square.high};
  for (int pairs = exponent / 2; pairs > 0; --pairs) result = result * tight;
  return result;
}

Interval floordiv(Interval a, Interval b) {
  return for_each_sign(
      b, [&](Interval divisor) { return floordiv_by_positive(a, divisor); },
      [&](Interval divisor) { return floordiv_by_positive(-a, divisor); });
}

Interval mod(Interval a, Interval b) {
  return for_each_sign(
      b, [&](Interval divisor) { return mod_by_positive(a, divisor); },
      [&](Interval divisor) { return -mod_by_positive(-a, divisor); });
}

Interval min(Interval a, Interval b) { return {std::min(a.low, b.low), std::min(a.high, b.high)}; }
Interval max(Interval a, Interval b) { return {std::max(a.low, b.low), std::max(a.high, b.high)}; }

Interval compare(Kind kind, Interval a, Interval b) {
  const bool differ = always_less(a, b) || always_less(b, a);
  const bool agree = a.is_single() && a == b;
  switch (kind) {
    case Kind::kEq:
      return truth(agree, differ);
    case Kind::kNe:
      return truth(differ, agree);
    case Kind::kLt:
      return truth(always_less(a, b), always_less_equal(b, a));
    case Kind::kLe:
      return truth(always_less_equal(a, b), always_less(b, a));
    default:
      check(false, "not a comparison");
      return Interval::all();
  }
}

Interval intersect(Interval a, Interval b) {
  const Interval both = {std::max(a.low, b.low), std::min(a.high, b.high)};
  return both.low <= both.high ? both : a;
}

Interval divide_multiples(Interval a, int64_t c) {
  return {has_low(a) ? -checked_floordiv(-a.low, c) : kInt64Min, has_high(a) ? checked_floordiv(a.high, c) : kInt64Max};
}

}  // namespace tenon::symbolic
