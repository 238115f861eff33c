// Reads sympy's `srepr`, as PyTorch writes it into exported programs.
#include <algorithm>
#include <array>

#include "support/text.h"
#include "symbolic/parsing.h"

namespace tenon::symbolic {
namespace {

constexpr int64_t kMaxExponent = 64;

using Arguments = std::span<const Expr>;

Expr power(Arguments a) {
  if (!a[1].is_constant() || a[1].constant() < 0) fail("the exponent {} is not a natural number", a[1]);
  const int64_t exponent = a[1].constant();
  if (exponent > kMaxExponent) fail("the exponent {} is larger than {}", exponent, kMaxExponent);
  return product(std::vector<Expr>(static_cast<size_t>(exponent), a[0]));
}

Expr power_of_two(const Expr& shift) { return power(std::array<Expr, 2>{2, shift}); }

template <Expr (*Apply)(const Expr&, const Expr&)>
Expr binary(Arguments a) {
  return Apply(a[0], a[1]);
}

Expr identity(Arguments a) { return a[0]; }

// Takes from `least` to `most` arguments; `most` 0 is any number.
struct Function {
  std::string_view name;
  size_t least;
  size_t most;
  Expr (*build)(Arguments);
};

constexpr std::array kFunctions = {
    Function{"Add", 1, 0, [](Arguments a) { return sum(a); }},
    Function{"Mul", 1, 0, [](Arguments a) { return product(a); }},
    Function{"Pow", 2, 2, power},
    Function{"PowByNatural", 2, 2, power},
    Function{"FloorDiv", 2, 2, binary<floordiv>},
    Function{"CleanDiv", 2, 2, binary<floordiv>},
    Function{"CeilDiv", 2, 2, binary<ceildiv>},
    Function{"Mod", 2, 2, binary<mod>},
    Function{"PythonMod", 2, 2, binary<mod>},
    Function{"ModularIndexing", 3, 3, [](Arguments a) { return mod(floordiv(a[0], a[1]), a[2]); }},
    Function{"LShift", 2, 2, [](Arguments a) { return a[0] * power_of_two(a[1]); }},
    Function{"RShift", 2, 2, [](Arguments a) { return floordiv(a[0], power_of_two(a[1])); }},
    Function{"Max", 1, 0, [](Arguments a) { return extremum(Kind::kMax, {a.begin(), a.end()}); }},
    Function{"Min", 1, 0, [](Arguments a) { return extremum(Kind::kMin, {a.begin(), a.end()}); }},
    Function{"Equality", 2, 2, binary<eq>},
    Function{"Unequality", 2, 2, binary<ne>},
    Function{"StrictLessThan", 2, 2, binary<lt>},
    Function{"LessThan", 2, 2, binary<le>},
    Function{"StrictGreaterThan", 2, 2, binary<gt>},
    Function{"GreaterThan", 2, 2, binary<ge>},
    Function{"And", 1, 0, [](Arguments a) { return product(a); }},
    Function{"Or", 1, 0, [](Arguments a) { return extremum(Kind::kMax, {a.begin(), a.end()}); }},
    Function{"Not", 1, 1, [](Arguments a) { return eq(a[0], 0); }},
    Function{"Identity", 1, 1, identity},
};

// These round a / b, or an integer that ToFloat converted, to an integer.
struct Rounding {
  std::string_view name;
  Expr (*of_quotient)(const Expr&, const Expr&);
};

Expr truncated(const Expr& a, const Expr& b) { return max(floordiv(a, b), 0) + min(ceildiv(a, b), 0); }

constexpr std::array kRoundings = {Rounding{"FloorToInt", floordiv}, Rounding{"CeilToInt", ceildiv},
                                   Rounding{"TruncToInt", truncated}};

struct Constant {
  std::string_view name;
  int64_t value;
};

constexpr std::array kConstants = {Constant{"true", 1},        Constant{"false", 0}, Constant{"True", 1},
                                   Constant{"False", 0},       Constant{"Zero", 0},  Constant{"One", 1},
                                   Constant{"NegativeOne", -1}};

// A function of sympy that is no integer expression.
struct Refusal {
  std::string_view name;
  std::string_view reason;
};

constexpr std::array kRefusals = {
    Refusal{"Rational", "it is not an integer; PyTorch's integer division is FloorDiv"},
    Refusal{"Float", "it is not an integer"},
    Refusal{"IntTrueDiv", "it is not an integer outside FloorToInt, CeilToInt and TruncToInt"},
    Refusal{"FloatTrueDiv", "it is not an integer"},
    Refusal{"ToFloat", "it is not an integer outside FloorToInt, CeilToInt and TruncToInt"},
    Refusal{"RoundToInt", "rounding to the nearest even integer is not supported"},
    Refusal{"Piecewise", "conditional sizes are not supported"},
    Refusal{"Where", "conditional sizes are not supported"},
    Refusal{"oo", "infinity is not an integer"},
    Refusal{"int_oo", "infinity is not an integer"},
    Refusal{"Dummy", "it has no name outside its process; use Symbol"},
};

template <class Entries>
const auto* find_named(const Entries& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, [](const auto& entry) { return entry.name; });
  return found == entries.end() ? nullptr : &*found;
}

class Parser {
 public:
  Parser(std::string_view text, Location start) : cursor_(text, std::move(start)) {}

  Expr parse() {
    Expr expr = expression();
    expect_end(cursor_);
    return expr;
  }

 private:
  Expr expression() {
    const Nesting nesting(cursor_, depth_);
    const Location where = cursor_.here();
    if (cursor_.peek() == '-' || (cursor_.peek() >= '0' && cursor_.peek() <= '9')) return cursor_.integer("an integer");
    const std::string_view name = unqualified(cursor_.identifier("an expression"));
    if (const Refusal* refusal = find_named(kRefusals, name)) {
      fail_at(where, "{} can't be read as an integer expression: {}", name, refusal->reason);
    }
    if (name == "Integer") return integer();
    if (name == "Symbol") return symbol();
    if (const Constant* constant = find_named(kConstants, name)) return constant->value;
    if (const Rounding* rounding = find_named(kRoundings, name)) return rounded(*rounding, where);
    if (const Function* function = find_named(kFunctions, name)) return call(*function, where);
    fail_unknown(name, where);
  }

  // "torch.utils._sympy.functions.FloorDiv" is FloorDiv.
  static std::string_view unqualified(std::string_view name) { return name.substr(name.rfind('.') + 1); }

  Expr integer() {
    cursor_.expect("(");
    const int64_t value = cursor_.integer("an integer");
    cursor_.expect(")");
    return value;
  }

  // Symbol('s0', positive=True, integer=True)
  Expr symbol() {
    cursor_.expect("(");
    const Location where = cursor_.here();
    const std::string_view quote = cursor_.peek() == '"' ? "\"" : "'";
    cursor_.expect(quote);
    const std::string_view name = cursor_.until(quote);
    cursor_.expect(quote);
    while (cursor_.accept(",")) {
      cursor_.identifier("an assumption");
      cursor_.expect("=");
      cursor_.identifier("True or False");
    }
    cursor_.expect(")");
    return located(where, [&] { return Symbol(name); });
  }

  std::vector<Expr> arguments() {
    cursor_.expect("(");
    std::vector<Expr> parsed;
    if (cursor_.accept(")")) return parsed;
    do {
      parsed.push_back(expression());
    } while (cursor_.accept(","));
    cursor_.expect(")");
    return parsed;
  }

  std::vector<Expr> arguments(std::string_view name, size_t least, size_t most, const Location& where) {
    std::vector<Expr> parsed = arguments();
    if (parsed.size() < least || (most != 0 && parsed.size() > most)) {
      fail_at(where, "{} takes {} {}, got {}", name, least, most == 0 ? "or more arguments" : "arguments",
              parsed.size());
    }
    return parsed;
  }

  Expr call(const Function& function, const Location& where) {
    const std::vector<Expr> parsed = arguments(function.name, function.least, function.most, where);
    return located(where, [&] { return function.build(parsed); });
  }

  // FloorToInt(IntTrueDiv(a, b)), FloorToInt(ToFloat(a))
  Expr rounded(const Rounding& rounding, const Location& where) {
    cursor_.expect("(");
    const std::string_view inner = unqualified(cursor_.identifier("IntTrueDiv or ToFloat"));
    const bool is_quotient = inner == "IntTrueDiv";
    if (!is_quotient && inner != "ToFloat") fail_at(where, "{} of {} can't be read exactly", rounding.name, inner);
    std::vector<Expr> parsed = arguments(inner, is_quotient ? 2 : 1, is_quotient ? 2 : 1, where);
    cursor_.expect(")");
    if (!is_quotient) return parsed[0];
    return located(where, [&] { return rounding.of_quotient(parsed[0], parsed[1]); });
  }

  [[noreturn]] static void fail_unknown(std::string_view name, const Location& where) {
    std::vector<std::string_view> known = {"Integer", "Symbol"};
    for (const Function& function : kFunctions) known.push_back(function.name);
    fail_at(where, "{} is not a function of integer expressions{}", name, did_you_mean(name, known));
  }

  Cursor cursor_;
  uint32_t depth_ = 0;
};

}  // namespace

Result<Expr> parse_srepr(std::string_view text, Location start) {
  return attempt([&] { return Parser(text, std::move(start)).parse(); });
}

}  // namespace tenon::symbolic
