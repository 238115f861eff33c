// The text form of losses, optimizers and learning-rate schedules: a name with settings.
//
//     adamw(lr=0.001, betas=(0.9, 0.95), schedule=warmup(100) + cosine(1000), group("*.bias", weight_decay=0))
//
// A setting is given by its key or by its position, as an argument of a Python function. `parse_call` reads such a
// text. What a name's settings are, a list of Fields says, which points at the members of a struct: one list serves to
// read them, to check them and to print them.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/diagnostic.h"

namespace tenon::settings {

// ---- the text -------------------------------------------------------------------------------------------------------

struct SettingCall;
struct Number {
  std::string text;
};
struct Quoted {
  std::string text;
};
using Numbers = std::vector<Number>;            // "(0.9, 0.95)" or "[0.9, 0.95]"
using SettingCalls = std::vector<SettingCall>;  // "warmup(100) + cosine(1000)"; a word is a call without arguments

struct SettingArgument {
  std::string key;  // empty when it is given by its position
  std::variant<Number, Quoted, Numbers, SettingCalls> value;
  Location where;
};

struct SettingCall {
  std::string name;
  std::vector<SettingArgument> arguments;
  Location where;

  // Moves the argument of that key out, if there is one. A key that is given twice is an error.
  std::optional<SettingArgument> take(std::string_view key);
};

SettingCall parse_call(std::string_view text, std::string_view what);  // `what` is meant: "a loss"
const SettingCalls& calls_of(const SettingArgument& argument);         // or fails: "expected a name"

// ---- the struct -----------------------------------------------------------------------------------------------------

struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // `low` itself is too little
  bool below_high = false;  // `high` itself is too much

  std::string text() const;  // "at least 0", "in [0, 1)"
  bool hold(double value) const;
};
inline constexpr Bounds kAnyNumber = {};
inline constexpr Bounds kNotNegative = {.low = 0};
inline constexpr Bounds kPositive = {.low = 0, .above_low = true};
inline constexpr Bounds kBelowOne = {.low = 0, .high = 1, .below_high = true};
inline constexpr Bounds kFraction = {.low = 0, .high = 1};

using Pair = std::array<double, 2>;

// A member of an enum: the name that `now` has among `names`.
struct Choice {
  std::span<const std::string_view> names;
  size_t now;
  std::function<void(size_t)> set;
};
template <class Enum>
Choice choice(Enum& member, std::span<const std::string_view> names) {
  return {names, static_cast<size_t>(member), [&member](size_t position) { member = static_cast<Enum>(position); }};
}

// The bounds are of each number. An optional number or an empty list is not printed.
struct Field {
  std::string_view name;
  std::variant<double*, std::optional<double>*, int64_t*, std::optional<int64_t>*, bool*, Pair*, std::vector<double>*,
               Choice>
      member;
  Bounds bounds = kAnyNumber;
};

// Sets the members that the call gives. Fails for an unknown key, a wrong kind of value or one out of bounds, at its
// place.
void read(std::span<const Field> fields, const SettingCall& call);
// Fails where a number is out of bounds or not finite.
void check_bounds(std::span<const Field> fields);

using Texts = std::vector<std::pair<std::string, std::string>>;  // key and value
Texts print(std::span<const Field> fields);
// Those whose text differs in `base`, which has the same fields.
Texts differing(const Texts& texts, const Texts& base);
std::string to_text(std::string_view name, std::span<const std::string> arguments);
std::string to_text(const std::pair<std::string, std::string>& setting);  // "lr=0.1"

}  // namespace tenon::settings
