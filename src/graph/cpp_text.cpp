#include "graph/cpp_text.h"

#include <algorithm>
#include <cmath>

#include "support/checked.h"

namespace tenon::cpp {
namespace {

// Text in a floating and in an integral dtype, over operands a, b and c, their type T, and the unsigned type U in which
// it wraps. Lanes of a vector have the same text, but where that starts with
//   @  it is for one number only,
//   ?  it gives a mask, of type M.
struct OpText {
  std::string_view name;
  std::string_view real;
  std::string_view integer;
};

constexpr OpText kOps[] = {
    {"add", "{a} + {b}", "({T})(({U}){a} + ({U}){b})"},
    {"sub", "{a} - {b}", "({T})(({U}){a} - ({U}){b})"},
    {"mul", "rounded({a} * {b})", "({T})(({U}){a} * ({U}){b})"},
    {"div", "{a} / {b}", ""},
    {"neg", "-{a}", "({T})(-({U}){a})"},
    {"abs", "@std::fabs({a})", "@({T})({a} < 0 ? -(u64){a} : (u64){a})"},
    {"sign", "@({T})(({a} > 0) - ({a} < 0))", "@({T})(({a} > 0) - ({a} < 0))"},
    {"maximum", "(({a} >= {b}) | ({a} != {a})) ? {a} : {b}", "{a} >= {b} ? {a} : {b}"},
    {"minimum", "(({a} <= {b}) | ({a} != {a})) ? {a} : {b}", "{a} <= {b} ? {a} : {b}"},
    {"eq", "?{a} == {b}", "?{a} == {b}"},
    {"ne", "?{a} != {b}", "?{a} != {b}"},
    {"lt", "?{a} < {b}", "?{a} < {b}"},
    {"le", "?{a} <= {b}", "?{a} <= {b}"},
    {"gt", "?{a} > {b}", "?{a} > {b}"},
    {"ge", "?{a} >= {b}", "?{a} >= {b}"},
    {"bitwise_and", "", "({T})({a} & {b})"},
    {"bitwise_or", "", "({T})({a} | {b})"},
    {"bitwise_xor", "", "({T})({a} ^ {b})"},
    {"shift_left", "", "@({T})shift_left({a}, {b})"},
    {"shift_right", "", "@({T})shift_right({a}, {b})"},
    {"floor_div", "@({T})real_floor_div({a}, {b})", "@({T})integer_floor_div({a}, {b})"},
    {"trunc_div", "@({T})std::trunc((f64){a} / {b})", "@({T})integer_quotient({a}, {b})"},
    {"fmod", "@std::fmod({a}, {b})", "@({T})integer_rest({a}, {b})"},
    {"remainder", "@({T})real_remainder({a}, {b})", "@({T})integer_remainder({a}, {b})"},
    {"pow", "@std::pow({a}, {b})", "@({T})integer_pow({a}, {b})"},
    {"logaddexp", "@({T})log_add_exp({a}, {b})", ""},
    {"reciprocal", "@1 / {a}", ""},
    {"rsqrt", "@1 / std::sqrt({a})", ""},
    {"sigmoid", "@1 / (1 + std::exp(-{a}))", ""},
    {"floor", "@std::floor({a})", "{a}"},
    {"ceil", "@std::ceil({a})", "{a}"},
    {"trunc", "@std::trunc({a})", "{a}"},
    {"rint", "@std::nearbyint({a})", "{a}"},
    {"atan2", "@std::atan2({a}, {b})", ""},
    {"hypot", "@std::hypot({a}, {b})", ""},
    {"copysign", "@std::copysign({a}, {b})", ""},
    {"erfinv", "@({T})erfinv({a})", ""},
    {"lgamma", "@({T})log_gamma({a})", ""},
    {"digamma", "@({T})digamma({a})", ""},
    {"trigamma", "@({T})trigamma({a})", ""},
};

// Functions of one number that C++ knows by the same name.
constexpr std::string_view kStandard =
    " sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc ";

std::string pattern_of(std::string_view op, DType dtype, bool vector) {
  if (op == "where") return vector ? "__builtin_convertvector({a}, {M}) != 0 ? {b} : {c}" : "{a} ? {b} : {c}";
  if (op == "add" && dtype == DType::kBool) op = "bitwise_or";
  const auto found = std::ranges::find(kOps, op, &OpText::name);
  if (found != std::end(kOps)) return std::string(is_float(dtype) ? found->real : found->integer);
  const bool is_standard = is_float(dtype) && kStandard.find(fmt::format(" {} ", op)) != kStandard.npos;
  return is_standard ? fmt::format("@std::{}({{a}})", op) : "";
}

// C++ computes in nothing narrower than 32 bits, but for lanes.
std::string unsigned_for(Type type) {
  const int64_t bits = size_of(type.dtype) * 8;
  return type.lanes == 1 ? fmt::format("u{}", std::max<int64_t>(bits, 32)) : fmt::format("u{}x{}", bits, type.lanes);
}

// A function of one number each, for all lanes.
std::string mapped(Type result, DType operands, std::span<const std::string> x, std::string_view body) {
  std::vector<std::string> parameters;
  for (size_t i = 0; i < x.size(); ++i) parameters.push_back(fmt::format("{} {}", to_string(Type{operands}), "abc"[i]));
  return fmt::format("map<{}>([]({}) {{ return {}; }}, {})", to_string(result), fmt::join(parameters, ", "), body,
                     fmt::join(x, ", "));
}

bool is_narrow(DType dtype) { return is_float(dtype) && size_of(dtype) == 2; }

std::string cast_number(DType from, DType to, const std::string& x) {
  const std::string type = to_string(Type{to});
  if (from == to) return x;
  if (from == DType::kF16) return cast_number(DType::kF32, to, fmt::format("from_half({})", x));
  if (from == DType::kBF16) return cast_number(DType::kF32, to, fmt::format("from_brain({})", x));
  if (to == DType::kBool) return fmt::format("{} != 0", x);
  if (to == DType::kF16) return fmt::format("to_half({}{})", is_float(from) ? "" : "(f64)", x);
  if (to == DType::kBF16) return fmt::format("to_brain({})", x);
  return fmt::format("({}){}", type, is_float(from) && is_integral(to) ? fmt::format("to_integer({})", x) : x);
}

}  // namespace

std::string to_string(const Type& type) {
  const std::string_view name = type.dtype == DType::kBool ? "b8" : name_of(type.dtype);
  return type.lanes == 1 ? std::string(name) : fmt::format("{}x{}", name, type.lanes);
}

bool divides_integers(const OpDef& op, DType dtype) {
  constexpr std::string_view kDivisions[] = {"floor_div", "trunc_div", "fmod", "remainder"};
  return is_integral(dtype) && std::ranges::find(kDivisions, op.name.get()) != std::end(kDivisions);
}

std::string apply(const OpDef& op, DType operands, Type result, const std::vector<std::string>& x) {
  std::string pattern = pattern_of(op.name, operands, result.lanes > 1);
  if (pattern.empty()) fail("there is no C++ text for {} of {}", op.name.get(), name_of(operands));
  const bool by_lane = result.lanes > 1 && pattern[0] == '@', is_mask = result.lanes > 1 && pattern[0] == '?';
  if (pattern[0] == '@' || pattern[0] == '?') pattern.erase(0, 1);
  const Type type{operands, by_lane ? 1 : result.lanes};
  std::vector<std::string> names = by_lane ? std::vector<std::string>{"a", "b", "c"} : x;
  names.resize(3);
  const std::string text =
      fmt::format(fmt::runtime(pattern), fmt::arg("a", names[0]), fmt::arg("b", names[1]), fmt::arg("c", names[2]),
                  fmt::arg("T", to_string(type)), fmt::arg("U", unsigned_for(type)),
                  fmt::arg("M", fmt::format("i{}x{}", size_of(operands) * 8, result.lanes)));
  if (by_lane) return mapped(result, operands, x, text);
  return is_mask ? fmt::format("to_bools<{}>({})", to_string(result), text) : text;
}

std::string cast(DType from, Type to, const std::string& x) {
  if (to.lanes == 1) return cast_number(from, to.dtype, x);
  const bool is_plain = !is_narrow(from) && !is_narrow(to.dtype) && to.dtype != DType::kBool;
  if (is_plain && (is_integral(from) || is_float(to.dtype))) {
    return fmt::format("__builtin_convertvector({}, {})", x, to_string(to));
  }
  return mapped(to, from, std::span(&x, 1), cast_number(from, to.dtype, "a"));
}

std::string literal(Type type, const std::variant<double, int64_t>& value) {
  const std::string name = to_string(Type{type.dtype});
  if (type.lanes > 1) return fmt::format("splat<{}>({})", to_string(type), literal({type.dtype}, value));
  if (is_integral(type.dtype)) {
    const int64_t integer = std::get<int64_t>(value);
    return integer == kInt64Min ? "INT64_MIN" : fmt::format("{}({})", name, integer);
  }
  const double real = std::get<double>(value);
  if (is_narrow(type.dtype)) {
    std::byte bits[2];
    store_real(type.dtype, bits, real);
    return fmt::format("{}({:#x})", name, load_integer(DType::kI16, bits) & 0xffff);
  }
  if (std::isnan(real)) return fmt::format("{}(NAN)", name);
  if (std::isinf(round_to(type.dtype, real))) return fmt::format("{}({}INFINITY)", name, real < 0 ? "-" : "");
  return type.dtype == DType::kF32 ? fmt::format("f32({:#}f)", static_cast<float>(real))
                                   : fmt::format("f64({:#})", real);
}

std::map<std::string, std::string> vector_types() {
  std::map<std::string, std::string> types;
  for (const char* type : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "b8"}) {
    for (int lanes = 2; lanes <= 64; lanes *= 2) {
      const std::string name = fmt::format("{}x{}", type, lanes);
      types[name] =
          fmt::format("typedef {0} {1} __attribute__((vector_size({2} * sizeof({0}))));\n", type, name, lanes);
    }
  }
  return types;
}

}  // namespace tenon::cpp
