// The text form of losses, optimizers and learning-rate schedules: a name with settings.
//
//     adamw(lr=0.001, betas=(0.9, 0.95), schedule=warmup(100) + cosine(1000), group("*.bias", weight_decay=0))
//
// A setting is given by its key or by its position, like an argument of a Python function. `parse_call` reads such a
// text. A list of Fields describes the settings of a name. A Field points at a member of a struct: one list serves to
// read, check and print the settings.
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
  std::string key;  // empty: given by position
  std::variant<Number, Quoted, Numbers, SettingCalls> value;
  Location where;
};

struct SettingCall {
  std::string name;
  std::vector<SettingArgument> arguments;
  Location where;

  // Removes and returns the argument with that key. Fails if the key is given twice.
  std::optional<SettingArgument> take(std::string_view key);
};

SettingCall parse_call(std::string_view text, std::string_view what);  // `what`, for messages: "a loss"
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

// Sets the members that the call gives. Fails for an unknown key, a value of a wrong kind, and a value out of bounds.
void read(std::span<const Field> fields, const SettingCall& call);
// Fails if a number is out of bounds or not finite.
void check_bounds(std::span<const Field> fields);

// "lr=0.1", for each field whose text differs from that in `usual`, which has the same fields; and for `always`.
std::vector<std::string> differing(std::span<const Field> fields, std::span<const Field> usual,
                                   std::string_view always = {});
std::string text_of(const Field& field);  // empty for an optional number that is not set, and for an empty list
std::string to_text(std::string_view name, std::span<const std::string> arguments);  // "adam(lr=0.1, amsgrad=true)"

}  // namespace tenon::settings
