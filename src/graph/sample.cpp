#include "graph/sample.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/builder.h"
#include "support/cursor.h"

namespace tenon {
namespace {

struct Operand {
  std::string type;  // with T; empty for `none`
  std::optional<Domain> range;
};

std::string_view trim(std::string_view text) {
  const size_t start = text.find_first_not_of(' ');
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(' ') - start + 1);
}

double parse_bound(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size(), "'{}' is not a bound", text);
  return value;
}

Operand parse_operand(std::string_view text) {
  if (text == "none") return {};
  const size_t in = text.find(" in ");
  Operand operand{std::string(trim(text.substr(0, in))), {}};
  if (in == std::string_view::npos) return operand;
  const std::string_view range = trim(text.substr(in + 4));
  const size_t dots = range.find("..");
  check(dots != std::string_view::npos, "'{}' is not a range low..high", range);
  operand.range = Domain{parse_bound(range.substr(0, dots)), parse_bound(range.substr(dots + 2))};
  return operand;
}

struct Line {
  std::vector<Operand> operands;
  std::string attrs;
};

Line parse_line(std::string_view text) {
  const size_t semicolon = text.find(';');
  Line line;
  if (semicolon != std::string_view::npos) line.attrs = trim(text.substr(semicolon + 1));
  const std::string_view operands = trim(text.substr(0, semicolon));
  if (operands.empty()) return line;
  Cursor cursor(operands);
  do line.operands.push_back(parse_operand(trim(cursor.until(","))));
  while (cursor.accept(","));
  return line;
}

bool is_generic(const Operand& operand) { return operand.type.starts_with("T["); }

const OperandDef& definition(const OpDef& op, size_t operand) {
  return op.operands.get()[std::min(operand, op.operands.get().size() - 1)];
}

std::vector<std::optional<DType>> dtypes_of(const OpDef& op, const Line& line) {
  std::vector<std::optional<DType>> dtypes;
  bool generic = false;
  for (const Operand& operand : line.operands) generic |= is_generic(operand);
  if (!generic) return {std::nullopt};
  for (DType dtype : kAllDTypes) {
    bool accepted = true;
    for (size_t i = 0; i < line.operands.size(); ++i) {
      if (is_generic(line.operands[i])) accepted &= definition(op, i).dtypes.contains(dtype);
    }
    if (accepted) dtypes.emplace_back(dtype);
  }
  return dtypes;
}

std::string input_name(const OpDef& op, size_t operand) {
  const OperandDef& def = definition(op, operand);
  const size_t first = op.operands.get().size() - 1;
  return is_variadic(def.arity) ? fmt::format("{}{}", def.name, operand - first) : std::string(def.name);
}

Sample make_sample(const OpDef& op, const std::string& text, const Line& line, std::optional<DType> dtype) {
  Sample sample{&op, text, dtype, Graph(std::string(op.name.get())), {}};
  Builder builder(sample.graph);
  std::vector<Value> operands;
  for (size_t i = 0; i < line.operands.size(); ++i) {
    const Operand& operand = line.operands[i];
    if (operand.type.empty()) {
      operands.emplace_back();
      continue;
    }
    const std::string type = is_generic(operand) ? std::string(name_of(*dtype)) + operand.type.substr(1) : operand.type;
    operands.push_back(builder.value(sample.graph.add_input(input_name(op, i), parse_type(type).value())));
    sample.ranges.push_back(operand.range);
  }
  std::vector<ValueRef> outputs;
  for (const Value& result : builder.results(op.name.get(), operands, parse_attrs(op, line.attrs).value())) {
    outputs.push_back(result.ref());
  }
  sample.graph.set_outputs(std::move(outputs));
  return sample;
}

}  // namespace

std::string Sample::name() const {
  return fmt::format("{}/{}/{}", op->name.get(), dtype ? name_of(*dtype) : "-", text);
}

std::vector<Sample> samples_of(const OpDef& op) {
  std::vector<Sample> samples;
  for (const std::string& text : op.samples.get()) {
    const Line line = parse_line(text);
    for (const auto& dtype : dtypes_of(op, line)) {
      try {
        samples.push_back(make_sample(op, text, line, dtype));
      } catch (const Error& error) {
        check(false, "sample '{}' of {} ({}): {}", text, op.name.get(), dtype ? name_of(*dtype) : "-", error.what());
      }
    }
  }
  return samples;
}

}  // namespace tenon
