#include "autodiff/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "graph/text.h"
#include "support/cursor.h"
#include "support/overloaded.h"
#include "support/text.h"

namespace tenon::settings {
namespace {

// ---- parsing --------------------------------------------------------------------------------------------------------

class Parser {
 public:
  explicit Parser(std::string_view text) : cursor_(text) {}

  SettingCall run(std::string_view what) {
    SettingCall call = parse_call(what, 0);
    expect_end(cursor_, what);
    return call;
  }

 private:
  static constexpr int kDeepest = 8;  // Calls within calls. A hostile text must not overflow the stack.

  SettingCall parse_call(std::string_view what, int depth) {
    if (depth > kDeepest) cursor_.fail("more than {} names within each other", kDeepest);
    SettingCall call{.name = {}, .arguments = {}, .where = cursor_.here()};
    call.name = cursor_.identifier(what);
    if (!cursor_.accept("(") || cursor_.accept(")")) return call;
    do call.arguments.push_back(parse_argument(depth));
    while (cursor_.accept(","));
    cursor_.expect(")");
    return call;
  }

  SettingArgument parse_argument(int depth) {
    SettingArgument argument{.key = {}, .value = {}, .where = cursor_.here()};
    Cursor ahead = cursor_;
    if (is_letter(ahead.peek())) {
      argument.key = ahead.identifier("a setting");
      if (ahead.accept("=")) {
        cursor_ = ahead;
      } else {
        argument.key.clear();
      }
    }
    argument.value = parse_value(depth);
    return argument;
  }

  decltype(SettingArgument::value) parse_value(int depth) {
    const char next = cursor_.peek();
    if (next == '"') return Quoted{cursor_.string("a text")};
    if (next == '(' || next == '[') return parse_numbers();
    if (!is_letter(next) || number_is_next()) return parse_number();
    SettingCalls calls;
    do calls.push_back(parse_call("a name", depth + 1));
    while (cursor_.accept("+"));
    return calls;
  }

  Numbers parse_numbers() {
    const std::string_view close = cursor_.accept("(") ? ")" : (cursor_.expect("["), "]");
    Numbers numbers;
    while (!cursor_.accept(close)) {
      numbers.push_back(parse_number());
      if (!cursor_.accept(",") && cursor_.peek() != close[0]) cursor_.expected("',' or a closing bracket");
    }
    return numbers;
  }

  Number parse_number() { return {std::string(cursor_.number("a number"))}; }

  bool number_is_next() {
    Cursor ahead = cursor_;
    return ahead.accept_word("inf") || ahead.accept_word("nan");
  }

  Cursor cursor_;
};

// ---- reading --------------------------------------------------------------------------------------------------------

double real_of(const Number& number, const Location& where) { return parse_number<double>(number.text, where); }

double real_of(const SettingArgument& argument) {
  const auto* number = std::get_if<Number>(&argument.value);
  if (number == nullptr) fail_at(argument.where, "expected a number");
  return real_of(*number, argument.where);
}

int64_t integer_of(const SettingArgument& argument) {
  const auto* number = std::get_if<Number>(&argument.value);
  if (number == nullptr) fail_at(argument.where, "expected an integer");
  return parse_number<int64_t>(number->text, argument.where);
}

const std::string& word_of(const SettingArgument& argument, std::string_view what) {
  const auto* calls = std::get_if<SettingCalls>(&argument.value);
  if (calls == nullptr || calls->size() != 1 || !calls->front().arguments.empty()) {
    fail_at(argument.where, "expected {}", what);
  }
  return calls->front().name;
}

// Words as Python spells them too.
bool flag_of(const SettingArgument& argument) {
  const std::string& word = word_of(argument, "true or false");
  if (word != "true" && word != "True" && word != "false" && word != "False") {
    fail_at(argument.where, "expected true or false, got '{}'", word);
  }
  return word == "true" || word == "True";
}

// One number counts as a list of one.
std::vector<double> reals_of(const SettingArgument& argument) {
  if (std::holds_alternative<Number>(argument.value)) return {real_of(argument)};
  const auto* numbers = std::get_if<Numbers>(&argument.value);
  if (numbers == nullptr) fail_at(argument.where, "expected numbers in brackets");
  std::vector<double> reals;
  for (const Number& number : *numbers) reals.push_back(real_of(number, argument.where));
  return reals;
}

Pair pair_of(const SettingArgument& argument) {
  const std::vector<double> reals = reals_of(argument);
  if (reals.size() != 2) fail_at(argument.where, "expected two numbers, got {}", reals.size());
  return {reals[0], reals[1]};
}

size_t choice_of(const SettingArgument& argument, std::span<const std::string_view> names) {
  const std::string& word = word_of(argument, fmt::format("one of {}", fmt::join(names, ", ")));
  const auto found = std::ranges::find(names, word);
  if (found == names.end()) {
    fail_at(argument.where, "expected one of {}, got '{}'{}", fmt::join(names, ", "), word, did_you_mean(word, names));
  }
  return static_cast<size_t>(found - names.begin());
}

void set(const Field& field, const SettingArgument& argument) {
  std::visit(
      Overloaded{[&](double* member) { *member = real_of(argument); },
                 [&](std::optional<double>* member) { *member = real_of(argument); },
                 [&](int64_t* member) { *member = integer_of(argument); },
                 [&](std::optional<int64_t>* member) { *member = integer_of(argument); },
                 [&](bool* member) { *member = flag_of(argument); }, [&](Pair* member) { *member = pair_of(argument); },
                 [&](std::vector<double>* member) { *member = reals_of(argument); },
                 [&](const Choice& member) { member.set(choice_of(argument, member.names)); }},
      field.member);
}

std::vector<double> numbers_in(const Field& field) {
  return std::visit(
      Overloaded{
          [](const double* member) { return std::vector{*member}; },
          [](const int64_t* member) { return std::vector{static_cast<double>(*member)}; },
          [](const std::optional<double>* member) { return *member ? std::vector{**member} : std::vector<double>(); },
          [](const std::optional<int64_t>* member) {
            return *member ? std::vector{static_cast<double>(**member)} : std::vector<double>();
          },
          [](const Pair* member) { return std::vector<double>(member->begin(), member->end()); },
          [](const std::vector<double>* member) { return *member; }, [](const bool*) { return std::vector<double>(); },
          [](const Choice&) { return std::vector<double>(); }},
      field.member);
}

void check_bounds(const Field& field) {
  for (double number : numbers_in(field)) {
    if (!std::isfinite(number)) fail("{} must be finite, got {}", field.name, number);
    if (!field.bounds.hold(number)) fail("{} must be {}, got {}", field.name, field.bounds.text(), number);
  }
}

const Field& field_named(std::span<const Field> fields, const SettingCall& call, const SettingArgument& argument) {
  const auto found = std::ranges::find(fields, argument.key, &Field::name);
  if (found != fields.end()) return *found;
  std::vector<std::string_view> names;
  for (const Field& field : fields) names.push_back(field.name);
  fail_at(argument.where, "{} has no setting '{}'{}", call.name, argument.key, did_you_mean(argument.key, names));
}

}  // namespace

// ---- printing -------------------------------------------------------------------------------------------------------

std::string text_of(const Field& field) {
  return std::visit(
      Overloaded{[](const double* member) { return fmt::format("{}", *member); },
                 [](const int64_t* member) { return fmt::format("{}", *member); },
                 [](const std::optional<double>* member) { return *member ? fmt::format("{}", **member) : ""; },
                 [](const std::optional<int64_t>* member) { return *member ? fmt::format("{}", **member) : ""; },
                 [](const bool* member) { return std::string(*member ? "true" : "false"); },
                 [](const Pair* member) { return fmt::format("({}, {})", (*member)[0], (*member)[1]); },
                 [](const std::vector<double>* member) {
                   return member->empty() ? "" : fmt::format("[{}]", fmt::join(*member, ", "));
                 },
                 [](const Choice& member) { return std::string(member.names[member.now]); }},
      field.member);
}

std::string Bounds::text() const {
  if (std::isinf(high)) return fmt::format("{} {}", above_low ? "above" : "at least", low);
  return fmt::format("in {}{}, {}{}", above_low ? "(" : "[", low, high, below_high ? ")" : "]");
}

bool Bounds::hold(double value) const {
  return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
}

std::optional<SettingArgument> SettingCall::take(std::string_view key) {
  const auto found = std::ranges::find(arguments, key, &SettingArgument::key);
  if (found == arguments.end()) return std::nullopt;
  SettingArgument taken = std::move(*found);
  arguments.erase(found);
  const auto again = std::ranges::find(arguments, key, &SettingArgument::key);
  if (again != arguments.end()) fail_at(again->where, "'{}' is given twice", key);
  return taken;
}

SettingCall parse_call(std::string_view text, std::string_view what) { return Parser(text).run(what); }

const SettingCalls& calls_of(const SettingArgument& argument) {
  const auto* calls = std::get_if<SettingCalls>(&argument.value);
  if (calls == nullptr) fail_at(argument.where, "expected a name");
  return *calls;
}

void read(std::span<const Field> fields, const SettingCall& call) {
  std::vector<std::string_view> given;
  bool keys_began = false;
  for (const SettingArgument& argument : call.arguments) {
    keys_began |= !argument.key.empty();
    const size_t position = given.size();
    if (!keys_began && position >= fields.size()) {
      fail_at(argument.where, "{} has {} settings, this is one more", call.name, fields.size());
    }
    if (keys_began && argument.key.empty()) fail_at(argument.where, "a positional setting follows one with a key");
    const Field& field = keys_began ? field_named(fields, call, argument) : fields[position];
    if (std::ranges::count(given, field.name) > 0) fail_at(argument.where, "'{}' is given twice", field.name);
    given.push_back(field.name);
    set(field, argument);
    located(argument.where, [&] { check_bounds(field); });
  }
}

void check_bounds(std::span<const Field> fields) {
  for (const Field& field : fields) check_bounds(field);
}

std::vector<std::string> differing(std::span<const Field> fields, std::span<const Field> usual,
                                   std::string_view always) {
  check(fields.size() == usual.size(), "settings of {} are compared with {}", fields.size(), usual.size());
  std::vector<std::string> texts;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string text = text_of(fields[i]);
    if (fields[i].name == always || text != text_of(usual[i]))
      texts.push_back(fmt::format("{}={}", fields[i].name, text));
  }
  return texts;
}

std::string to_text(std::string_view name, std::span<const std::string> arguments) {
  return fmt::format("{}({})", name, fmt::join(arguments, ", "));
}

}  // namespace tenon::settings
