#include "graph/cpp_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "support/checked.h"

namespace tenon::cpp {
namespace {

// C++ computes in nothing narrower than 32 bits, but for lanes.
std::string unsigned_for(Type type) {
  const int64_t bits = size_of(type.dtype) * 8;
  return type.lanes == 1 ? fmt::format("u{}", std::max<int64_t>(bits, 32)) : fmt::format("u{}x{}", bits, type.lanes);
}

// The text of a primitive, with what stands for its operands and types.
std::string substituted(std::string_view text, const std::map<std::string_view, std::string>& words) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    const auto found = words.find(text.substr(at, end - at));
    result += found == words.end() ? text.substr(at, end - at) : std::string_view(found->second);
    at = end;
  }
  return result;
}

std::string primitive_text(Primitive primitive, Type type, const std::vector<std::string>& x) {
  const PrimitiveDef& def = definition_of(in_dtype(primitive, type.dtype));
  const std::string_view text = is_float(type.dtype) ? def.real : def.integer;
  std::map<std::string_view, std::string> words = {{"T", to_string(type)}, {"U", unsigned_for(type)}};
  for (size_t i = 0; i < x.size(); ++i) words.emplace(std::string_view("abc").substr(i, 1), x[i]);
  return substituted(text, words);
}

// Vectors: the condition is a vector of bools, which chooses where it is as wide as the numbers.
std::string chosen(Type type, const std::vector<std::string>& x) {
  return fmt::format("__builtin_convertvector({}, i{}x{}) != 0 ? {} : {}", x[0], size_of(type.dtype) * 8, type.lanes,
                     x[1], x[2]);
}

// One statement for each step that computes something.
std::string body_of(const ScalarFn& fn, DType compute, DType result) {
  std::string body;
  std::vector<std::string> names;
  for (const ScalarStep& step : fn.steps()) {
    const DType dtype = dtype_of(step.type, compute);
    if (step.primitive == Primitive::kOperand) {
      names.emplace_back(1, "abc"[step.operands[0]]);
    } else if (step.primitive == Primitive::kConstant) {
      names.push_back(is_float(dtype) ? literal({dtype}, step.number)
                                      : literal({dtype}, static_cast<int64_t>(step.number)));
    } else {
      std::vector<std::string> x;
      for (size_t i = 0; i < definition_of(step.primitive).operands; ++i) x.push_back(names[step.operands[i]]);
      const DType from = step.primitive == Primitive::kWiden ? dtype : fn.operand_dtype(step, compute);
      names.push_back(fmt::format("v{}", names.size()));
      body += fmt::format("const {} {} = {}; ", to_string(Type{dtype}), names.back(),
                          primitive_text(step.primitive, {from}, x));
    }
  }
  return body + fmt::format("return ({}){};", to_string(Type{result}), names[fn.result()]);
}

// A function of one number of each operand, called a, b and c.
std::string lambda(DType operands, DType result, size_t arity, std::string_view body) {
  std::vector<std::string> parameters;
  for (size_t i = 0; i < arity; ++i) parameters.push_back(fmt::format("{} {}", to_string(Type{operands}), "abc"[i]));
  return fmt::format("[]({}) -> {} {{ {} }}", fmt::join(parameters, ", "), to_string(Type{result}), body);
}

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

std::string function_text(const OpDef& op, DType operands, DType result) {
  const ScalarFn& fn = scalar_fn(op, operands);
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::optional<Primitive> primitive = fn.primitive();
  const std::string body =
      primitive ? "return " + primitive_text(*primitive, {operands}, names) + ";" : body_of(fn, operands, result);
  return lambda(operands, result, fn.arity(), body);
}

std::string apply(const OpDef& op, DType operands, Type result, const std::vector<std::string>& x) {
  const ScalarFn& fn = scalar_fn(op, operands);
  if (fn.steps().size() == fn.arity()) return x[fn.result()];
  const bool is_vector = result.lanes > 1;
  const std::optional<Primitive> primitive = fn.primitive();
  const auto lanes = primitive ? definition_of(*primitive).lanes : PrimitiveLanes::kEach;
  if (is_vector && lanes == PrimitiveLanes::kEach) {
    return fmt::format("map<{}>({}, {})", to_string(result), function_text(op, operands, result.dtype),
                       fmt::join(x, ", "));
  }
  if (!primitive) return fmt::format("{}({})", function_text(op, operands, result.dtype), fmt::join(x, ", "));
  const Type type{operands, result.lanes};
  if (is_vector && primitive == Primitive::kWhere) return chosen(type, x);
  const std::string text = primitive_text(*primitive, type, x);
  return is_vector && lanes == PrimitiveLanes::kMask ? fmt::format("to_bools<{}>({})", to_string(result), text) : text;
}

std::string cast(DType from, Type to, const std::string& x) {
  if (to.lanes == 1) return cast_number(from, to.dtype, x);
  const bool is_plain = !is_narrow_float(from) && !is_narrow_float(to.dtype) && to.dtype != DType::kBool;
  if (is_plain && (is_integral(from) || is_float(to.dtype))) {
    return fmt::format("__builtin_convertvector({}, {})", x, to_string(to));
  }
  return fmt::format("map<{}>({}, {})", to_string(to),
                     lambda(from, to.dtype, 1, "return " + cast_number(from, to.dtype, "a") + ";"), x);
}

std::string literal(Type type, const std::variant<double, int64_t>& value) {
  const std::string name = to_string(Type{type.dtype});
  if (type.lanes > 1) return fmt::format("splat<{}>({})", to_string(type), literal({type.dtype}, value));
  if (is_integral(type.dtype)) {
    const int64_t integer = std::get<int64_t>(value);
    return integer == kInt64Min ? "INT64_MIN" : fmt::format("{}({})", name, integer);
  }
  const double real = std::get<double>(value);
  if (is_narrow_float(type.dtype)) {
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
