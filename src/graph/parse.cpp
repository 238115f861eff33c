#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/graph.h"
#include "graph/text.h"

namespace tenon {
namespace {

constexpr int64_t kLargestConstant = int64_t{1} << 28;  // elements; a larger one is a parameter or a `full`

bool looks_real(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text == "nan" || text == "inf") return true;
  const bool starts_as_number = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
  return starts_as_number && text.find_first_not_of("0123456789.e+-") == std::string_view::npos &&
         text.find_first_of(".e") != std::string_view::npos;
}

class Parser {
 public:
  Parser(std::string_view text, std::string file) : cursor_(text, {std::move(file), 1, 1}) {}

  Graph parse() {
    if (!cursor_.accept_word("graph")) cursor_.expected("'graph'");
    graph_ = Graph(std::string(cursor_.identifier("the graph's name")));
    parse_inputs();
    cursor_.expect("{");
    while (!cursor_.accept_word("return")) parse_statement();
    parse_outputs();
    cursor_.expect("}");
    expect_end(cursor_, "the graph");
    return std::move(graph_);
  }

  TensorType parse_lone_type() {
    TensorType type = parse_type();
    expect_end(cursor_, "the type");
    return type;
  }

  NamedAttrs parse_lone_attrs(const OpDef& op) {
    NamedAttrs named;
    if (!cursor_.at_end()) named = parse_attr_list(op);
    expect_end(cursor_, "the attributes");
    return named;
  }

 private:
  void parse_inputs() {
    cursor_.expect("(");
    if (cursor_.accept(")")) return;
    do {
      const Location where = cursor_.here();
      const std::string name = value_name();
      cursor_.expect(":");
      TensorType type = parse_type();
      define(name, where, located(where, [&] { return graph_.add_input(name, std::move(type)); }));
    } while (cursor_.accept(","));
    cursor_.expect(")");
  }

  void parse_statement() {
    if (cursor_.peek() == '%') return parse_definition();
    if (cursor_.accept_word("symbol")) return parse_symbol();
    if (cursor_.accept_word("update")) return parse_update();
    cursor_.expected("'%value = ...', 'symbol', 'update' or 'return'");
  }

  void parse_outputs() {
    std::vector<ValueRef> outputs;
    if (cursor_.peek() == '%') {
      do outputs.push_back(value_use());
      while (cursor_.accept(","));
    }
    graph_.set_outputs(std::move(outputs));
  }

  void parse_symbol() {
    const SymbolRange parsed = parse_symbol_range(cursor_);
    located(parsed.where, [&] { graph_.declare_symbol(parsed.symbol, parsed.range); });
  }

  void parse_update() {
    const Location where = cursor_.here();
    const ValueRef target = value_use();
    cursor_.expect("=");
    const ValueRef value = value_use();
    located(where, [&] { graph_.add_update(target, value); });
  }

  struct Target {
    std::string name;
    std::optional<TensorType> type;
    Location where;
  };

  void parse_definition() {
    std::vector<Target> targets;
    do {
      Target target{{}, {}, cursor_.here()};
      target.name = value_name();
      if (cursor_.accept(":")) target.type = parse_type();
      targets.push_back(std::move(target));
    } while (cursor_.accept(","));
    cursor_.expect("=");
    const Location where = cursor_.here();
    const std::string_view word = cursor_.identifier("an op");
    if (word == "parameter" || word == "buffer" || word == "constant") return parse_leaf(word, targets);
    parse_node(word, where, targets);
  }

  void parse_leaf(std::string_view kind, const std::vector<Target>& targets) {
    const Target& target = targets[0];
    if (targets.size() != 1) fail_at(targets[1].where, "a {} defines one value", kind);
    if (!target.type) fail_at(target.where, "a {} needs its type: '%{}: f32[...] = {} ...'", kind, target.name, kind);
    if (kind == "constant") return define(target, graph_.add_constant(parse_constant(*target.type)));
    const Location where = cursor_.here();
    const std::string name = cursor_.string("the name");
    const bool parameter = kind == "parameter";
    define(target, located(where, [&] {
             return parameter ? graph_.add_parameter(name, *target.type) : graph_.add_buffer(name, *target.type);
           }));
  }

  Tensor parse_constant(const TensorType& type) {
    const Location where = cursor_.here();
    if (!is_static(type.shape)) fail_at(where, "a constant cannot have the symbolic type {}", to_string(type));
    Sizes shape = evaluate(type.shape, {});
    const int64_t count = located(where, [&] { return element_count(shape); });
    if (count > kLargestConstant) {
      fail_at(where, "a constant of {} elements is too large: use a parameter or full", count);
    }
    if (cursor_.accept("[")) return parse_elements(type, std::move(shape), count, where);
    if (count == 0) cursor_.expected("'[]' for a constant without elements");
    // One value for all elements is held once, whatever the shape says.
    Tensor element = Tensor::zeros(type.dtype, {});
    parse_element(cursor_, element, 0);
    Sizes strides(shape.size(), 0);
    return Tensor::borrow(type.dtype, std::move(shape), std::move(strides), element.data(), element.owner());
  }

  Tensor parse_elements(const TensorType& type, Sizes shape, int64_t count, const Location& where) {
    // Before memory is taken: each element has a character at least.
    if (count > static_cast<int64_t>(cursor_.remaining())) {
      fail_at(where, "the element count of {} is {}, but fewer are given", to_string(type), count);
    }
    Tensor tensor = Tensor::zeros(type.dtype, std::move(shape));
    int64_t given = 0;
    while (!cursor_.accept("]")) {
      if (given > 0) cursor_.expect(",");
      if (given == count) cursor_.fail("the element count of {} is {}, but more are given", to_string(type), count);
      parse_element(cursor_, tensor, given++);
    }
    if (given != count) {
      fail_at(where, "the element count of {} is {}, but {} are given", to_string(type), count, given);
    }
    return tensor;
  }

  void parse_node(std::string_view op_name, const Location& where, const std::vector<Target>& targets) {
    const OpDef& op = located(where, [&]() -> const OpDef& { return op_named(op_name); });
    std::vector<ValueRef> operands = parse_operands();
    NamedAttrs named = parse_attrs(op);
    Location location = parse_location();
    const NodeRef node = located(where, [&] {
      return graph_.add_node(op, std::move(operands), complete_attrs(op, std::move(named)), std::move(location));
    });
    const std::vector<ValueRef> results = graph_.node(node).results;
    if (results.size() != targets.size()) {
      const std::string given = targets.size() == 1 ? "1 value is" : fmt::format("{} values are", targets.size());
      fail_at(targets[0].where, "{} named, but {} gives {}", given, op_name, results.size());
    }
    for (size_t i = 0; i < results.size(); ++i) define(targets[i], results[i]);
  }

  std::vector<ValueRef> parse_operands() {
    std::vector<ValueRef> operands;
    cursor_.expect("(");
    if (cursor_.accept(")")) return operands;
    do operands.push_back(cursor_.accept_word("none") ? ValueRef() : value_use());
    while (cursor_.accept(","));
    cursor_.expect(")");
    return operands;
  }

  NamedAttrs parse_attrs(const OpDef& op) {
    if (!cursor_.accept("{") || cursor_.accept("}")) return {};
    NamedAttrs named = parse_attr_list(op);
    cursor_.expect("}");
    return named;
  }

  NamedAttrs parse_attr_list(const OpDef& op) {
    NamedAttrs named;
    do {
      const Location where = cursor_.here();
      const std::string name(cursor_.identifier("an attribute"));
      const AttrDef* def = op.attr_named(name);
      if (!def) located(where, [&] { return complete_attrs(op, {{name, None{}}}); });  // throws: says which there are
      check(def != nullptr, "an unknown attribute passed");
      const auto has_name = [&](const auto& attr) { return attr.first == name; };
      if (std::ranges::any_of(named, has_name)) {
        fail_at(where, "{}: attribute '{}' is given twice", op.name.get(), name);
      }
      cursor_.expect("=");
      named.emplace_back(name, parse_attr(def->kind));
    } while (cursor_.accept(","));
    return named;
  }

  Attr parse_attr(AttrKind kind) {
    if (cursor_.accept_word("none")) return None{};
    switch (kind) {
      case AttrKind::kBool:
        if (cursor_.accept_word("true")) return true;
        if (cursor_.accept_word("false")) return false;
        cursor_.expected("true or false");
      case AttrKind::kInt:
        return cursor_.integer("an integer");
      case AttrKind::kReal:
        return parse_real();
      case AttrKind::kString:
        return cursor_.string("a text");
      case AttrKind::kDType:
        return parse_dtype(cursor_);
      case AttrKind::kExpr:
      case AttrKind::kSymbol:
        return symbolic::parse(cursor_);
      case AttrKind::kScalar:
        return parse_scalar();
      case AttrKind::kInts:
        return parse_list<int64_t>(cursor_, [&] { return cursor_.integer("an integer"); });
      case AttrKind::kReals:
        return parse_list<double>(cursor_, [&] { return parse_real(); });
      case AttrKind::kExprs:
        return parse_list<Expr>(cursor_, [&] { return symbolic::parse(cursor_); });
    }
    return None{};
  }

  double parse_real() {
    const Location where = cursor_.here();
    return parse_number<double>(cursor_.number("a number"), where);
  }

  Attr parse_scalar() {
    if (real_is_next()) return parse_real();
    return symbolic::parse(cursor_);
  }

  bool real_is_next() {
    const char next = cursor_.peek();
    const bool starts_number = is_identifier(std::string{'_', next}) || next == '-';
    return starts_number && looks_real(Cursor(cursor_).number("a number"));
  }

  TensorType parse_type() {
    TensorType type{parse_dtype(cursor_), {}};
    type.shape = parse_list<Expr>(cursor_, [&] { return symbolic::parse(cursor_); });
    return type;
  }

  Location parse_location() {
    Location location;
    if (!cursor_.accept("@")) return location;
    location.file = cursor_.string("the file");
    if (cursor_.accept(":")) location.line = parse_position("the line");
    if (location.line > 0 && cursor_.accept(":")) location.column = parse_position("the column");
    return location;
  }

  int parse_position(std::string_view what) {
    const Location where = cursor_.here();
    const int64_t position = cursor_.integer(what);
    if (position < 1 || position > std::numeric_limits<int>::max())
      fail_at(where, "{} {} is out of range", what, position);
    return static_cast<int>(position);
  }

  std::string value_name() {
    cursor_.expect("%");
    return std::string(cursor_.name("a value's name"));
  }

  ValueRef value_use() {
    const Location where = cursor_.here();
    const std::string name = value_name();
    const auto found = values_.find(name);
    if (found == values_.end()) fail_at(where, "%{} is not defined{}", name, nearest_value(name));
    return found->second;
  }

  std::string nearest_value(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const auto& [known, value] : values_) names.push_back(known);
    std::ranges::sort(names);
    return did_you_mean_name(name, names);
  }

  void define(const Target& target, ValueRef value) {
    if (target.type && *target.type != graph_.type(value)) {
      fail_at(target.where, "%{} is declared {}, but it is {}", target.name, to_string(*target.type),
              to_string(graph_.type(value)));
    }
    define(target.name, target.where, value);
  }

  void define(const std::string& name, const Location& where, ValueRef value) {
    if (!values_.emplace(name, value).second) fail_at(where, "%{} is defined twice", name);
    graph_.set_value_name(value, is_identifier(name) ? name : std::string());
  }

  Cursor cursor_;
  Graph graph_;
  std::unordered_map<std::string, ValueRef> values_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, std::string file) {
  return attempt([&] { return Parser(text, std::move(file)).parse(); });
}

Result<TensorType> parse_type(std::string_view text) {
  return attempt([&] { return Parser(text, {}).parse_lone_type(); });
}

std::vector<TensorType> parse_types(std::string_view text) {
  std::vector<TensorType> types;
  Cursor cursor(text);
  while (!cursor.at_end()) {
    types.push_back(parse_type(cursor.until(";")).value());
    cursor.accept(";");
  }
  return types;
}

Result<NamedAttrs> parse_attrs(const OpDef& op, std::string_view text) {
  return attempt([&] { return Parser(text, {}).parse_lone_attrs(op); });
}

}  // namespace tenon
