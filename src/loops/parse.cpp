#include <fmt/format.h>

#include <algorithm>

#include "graph/text.h"
#include "loops/ir.h"

namespace tenon::loops {
namespace {

constexpr int64_t kVersion = 1;

std::string nearest_var(const IR& ir, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Var& var : ir.vars()) names.push_back(var.name);
  return did_you_mean_name(name, names);
}

VarRef variable(Cursor& cursor, const IR& ir) {
  const Location where = cursor.here();
  const std::string_view name = cursor.identifier("a variable");
  if (const auto found = ir.var_named(name)) return *found;
  fail_at(where, "{} is not a variable{}", name, nearest_var(ir, name));
}

LoopSpec parse_loop(Cursor& cursor, const IR& ir) {
  LoopSpec loop;
  loop.fresh = cursor.accept_word("new");
  loop.var = variable(cursor, ir);
  if (cursor.accept_word("by")) loop.step = cursor.integer("the step");
  loop.annotation = parse_annotation(cursor);
  return loop;
}

class IrParser {
 public:
  IrParser(std::string_view text, std::string file) : text_(text, {std::move(file), 1, 1}) {}

  IR parse() {
    parse_version();
    parse_head();
    while (next_line("'}'"), !line_.accept("}")) {
      parse_statement();
      expect_end(line_, "the statement");
    }
    expect_end(line_, "the kernel");
    expect_end(text_, "the kernel");
    if (order_) located(order_->where, [&] { ir_.set_order(std::move(order_->nodes)); });
    return std::move(ir_);
  }

 private:
  // ---- lines ----

  void next_line(std::string_view what) {
    if (text_.at_end()) text_.expected(what);
    line_ = text_.line();
  }

  void parse_version() {
    next_line("'tenon loops 1'");
    if (!line_.accept_word("tenon") || !line_.accept_word("loops")) line_.expected("'tenon loops 1'");
    const Location where = line_.here();
    const int64_t version = line_.integer("the version");
    if (version != kVersion) fail_at(where, "version {} is not known: this reads version {}", version, kVersion);
    expect_end(line_, "the version");
  }

  void parse_head() {
    next_line("'kernel'");
    if (!line_.accept_word("kernel")) line_.expected("'kernel'");
    const bool quoted = line_.peek() == '"';
    constexpr std::string_view what = "the kernel's name";
    ir_ = IR(quoted ? line_.string(what) : std::string(line_.identifier(what)));
    line_.expect("{");
    expect_end(line_, "the head");
  }

  void parse_statement() {
    if (line_.peek() == '%') return parse_definition();
    if (line_.accept_word("symbol")) return parse_symbol();
    if (line_.accept_word("var")) return parse_var();
    if (line_.accept_word("order")) return parse_order();
    line_.expected("'%node: ... = ...', 'symbol', 'var', 'order' or '}'");
  }

  void parse_symbol() {
    const SymbolRange parsed = parse_symbol_range(line_);
    located(parsed.where, [&] { ir_.declare_symbol(parsed.symbol, parsed.range); });
  }

  void parse_var() {
    const Location where = line_.here();
    const std::string name(line_.identifier("a variable"));
    line_.expect("=");
    const Expr size = symbolic::parse(line_);
    located(where, [&] { ir_.add_var(name, size); });
  }

  struct Order {
    Location where;
    std::vector<NodeRef> nodes;
  };

  // Applied at the end, as it names all nodes.
  void parse_order() {
    if (order_) line_.fail("the order is given twice");
    order_.emplace(Order{line_.here(), {}});
    do order_->nodes.push_back(node_use());
    while (line_.accept(","));
  }

  // ---- nodes ----

  struct Target {
    Location where;
    std::string name;
    Location type_where;
    DType dtype;
    std::vector<VarRef> vars;
  };

  void parse_definition() {
    const Target target = parse_target();
    line_.expect("=");
    const NodeRef ref = parse_action(target);
    const DType dtype = ir_.node(ref).dtype;
    if (dtype != target.dtype) {
      fail_at(target.type_where, "%{} is declared {}, but it is {}", target.name, name_of(target.dtype),
              name_of(dtype));
    }
    parse_loops(ref);
  }

  Target parse_target() {
    Target target{line_.here(), {}, {}, {}, {}};
    target.name = node_name();
    if (ir_.node_named(target.name)) fail_at(target.where, "%{} is defined twice", target.name);
    line_.expect(":");
    target.type_where = line_.here();
    target.dtype = parse_dtype(line_);
    target.vars = parse_list<VarRef>(line_, [&] { return var_use(); });
    return target;
  }

  // An Error of the IR gets the place of the action.
  NodeRef parse_action(const Target& target) {
    exprs_.clear();
    return located(line_.here(), [&] {
      if (line_.accept_word("read")) return parse_read(target);
      if (line_.accept_word("constant")) return parse_constant(target);
      if (line_.accept_word("index")) return parse_index(target);
      if (line_.accept_word("reduce")) return parse_reduce(target);
      if (line_.accept_word("scan")) return parse_scan(target);
      if (line_.accept_word("view")) return parse_view(target);
      if (line_.accept_word("scatter")) return parse_scatter(target);
      if (line_.accept_word("write")) return parse_write(target);
      return parse_compute(target);
    });
  }

  NodeRef parse_read(const Target& target) {
    parse_slot("read", ir_.reads().size());
    return ir_.add_read(target.dtype, target.vars, target.name);
  }

  NodeRef parse_write(const Target& target) {
    parse_slot("write", ir_.writes().size());
    return ir_.add_write(enclosed_node(), target.vars, target.name);
  }

  void parse_slot(std::string_view what, size_t next) {
    const Location where = line_.here();
    const int64_t slot = line_.integer(fmt::format("the slot of the {}", what));
    if (slot != static_cast<int64_t>(next)) fail_at(where, "{} {}, but the next one has the slot {}", what, slot, next);
  }

  NodeRef parse_constant(const Target& target) {
    if (!target.vars.empty()) fail_at(target.type_where, "%{} is a constant, which has no variables", target.name);
    return ir_.add_constant(target.dtype, parse_scalar(target.dtype), target.name);
  }

  NodeRef parse_index(const Target& target) {
    const Expr value = expr();
    check_symbols({});
    return ir_.add_index(value, target.vars, target.name);
  }

  NodeRef parse_compute(const Target& target) {
    const OpDef& op = parse_op("an op");
    std::vector<NodeRef> inputs;
    line_.expect("(");
    do inputs.push_back(node_use());
    while (line_.accept(","));
    line_.expect(")");
    const bool chooses = op.attr_named("dtype") != nullptr;
    const std::optional<DType> dtype = chooses ? std::optional(target.dtype) : std::nullopt;
    return ir_.add_compute(op, std::move(inputs), target.vars, dtype, target.name);
  }

  NodeRef parse_reduce(const Target& target) {
    const OpDef& op = parse_op("the op of the reduction");
    return ir_.add_reduce(op, enclosed_node(), target.vars, target.name);
  }

  NodeRef parse_scan(const Target& target) {
    const OpDef& op = parse_op("the op of the scan");
    const NodeRef input = enclosed_node();
    if (!line_.accept_word("along")) line_.expected("'along'");
    const VarRef along = var_use();
    return ir_.add_scan(op, input, along, target.vars, target.name);
  }

  NodeRef parse_view(const Target& target) {
    View view;
    do view.pieces.push_back(parse_piece());
    while (line_.accept("|"));
    const DType dtype = ir_.node(view.pieces[0].input).dtype;
    view.fill = zero_of(dtype);
    if (line_.accept_word("else")) view.fill = parse_scalar(dtype);
    view.lookups = parse_lookups();
    check_symbols(view.lookups);
    return ir_.add_view(std::move(view), target.vars, target.name);
  }

  Piece parse_piece() {
    const NodeRef input = node_use();
    std::vector<Expr> index = parse_list<Expr>(line_, [&] { return expr(); });
    return {input, std::move(index), parse_where()};
  }

  NodeRef parse_scatter(const Target& target) {
    Scatter scatter{nullptr, {}, {}, {}};
    if (!line_.accept_word("set")) scatter.op = &parse_op("the op of the scatter or 'set'");
    line_.expect("(");
    const NodeRef initial = node_use();
    line_.expect(",");
    const NodeRef values = node_use();
    line_.expect(")");
    if (!line_.accept_word("at")) line_.expected("'at'");
    scatter.index = parse_list<Expr>(line_, [&] { return expr(); });
    scatter.where = parse_where();
    scatter.lookups = parse_lookups();
    check_symbols(scatter.lookups);
    return ir_.add_scatter(std::move(scatter), initial, values, target.vars, target.name);
  }

  std::vector<Constraint> parse_where() {
    std::vector<Constraint> constraints;
    if (!line_.accept_word("where")) return constraints;
    do {
      const Expr constrained = expr();
      constraints.push_back({constrained, parse_bound()});
    } while (line_.accept_word("and"));
    return constraints;
  }

  std::vector<Lookup> parse_lookups() {
    std::vector<Lookup> lookups;
    if (!line_.accept_word("with")) return lookups;
    do {
      const Location where = line_.here();
      const Symbol symbol = located(where, [&] { return Symbol(line_.identifier("the name of a lookup")); });
      line_.expect("=");
      const NodeRef indices = node_use();
      lookups.push_back({symbol, indices, parse_bound()});
    } while (line_.accept(","));
    return lookups;
  }

  Expr parse_bound() {
    if (!line_.accept_word("in")) line_.expected("'in'");
    return expr();
  }

  // ---- loops ----

  void parse_loops(NodeRef node) {
    if (!line_.accept_word("for")) return;
    const Location where = line_.here();
    std::vector<LoopSpec> loops = loops::parse_loops(line_, ir_);
    if (!line_.at_end()) line_.expected("',' or the end of the loops");
    located(where, [&] { ir_.set_loops(node, std::move(loops)); });
  }

  // ---- parts ----

  const OpDef& parse_op(std::string_view what) {
    const Location where = line_.here();
    const std::string_view name = line_.identifier(what);
    return located(where, [&]() -> const OpDef& { return op_named(name); });
  }

  Scalar parse_scalar(DType dtype) {
    Tensor element = Tensor::zeros(is_float(dtype) ? DType::kF64 : dtype, {});
    parse_element(line_, element, 0);
    return is_float(dtype) ? Scalar(element.real(0)) : Scalar(element.integer(0));
  }

  Expr expr() {
    const Location where = line_.here();
    exprs_.emplace_back(symbolic::parse(line_), where);
    return exprs_.back().first;
  }

  // Checks the symbols of the statement's expressions, after its lookups are parsed.
  void check_symbols(std::span<const Lookup> lookups) {
    const std::vector<Symbol> sizes = ir_.size_symbols();
    for (const auto& [expr, where] : exprs_) {
      for (Symbol symbol : symbols_of(expr)) {
        const bool known = ir_.var_named(symbol.name()) || std::ranges::find(sizes, symbol) != sizes.end() ||
                           std::ranges::find(lookups, symbol, &Lookup::symbol) != lookups.end();
        if (!known) {
          fail_at(where, "{} in {} is not a variable, size or lookup{}", symbol.name(), expr,
                  nearest_var(ir_, symbol.name()));
        }
      }
    }
  }

  std::string node_name() {
    line_.expect("%");
    return std::string(line_.name("a node's name"));
  }

  NodeRef node_use() {
    const Location where = line_.here();
    const std::string name = node_name();
    if (const auto found = ir_.node_named(name)) return *found;
    std::vector<std::string_view> names;
    for (const Node& node : ir_.nodes()) names.push_back(node.name);
    fail_at(where, "%{} is not defined{}", name, did_you_mean_name(name, names));
  }

  NodeRef enclosed_node() {
    line_.expect("(");
    const NodeRef node = node_use();
    line_.expect(")");
    return node;
  }

  VarRef var_use() { return variable(line_, ir_); }

  Cursor text_;
  Cursor line_{""};  // the current statement
  IR ir_;
  std::optional<Order> order_;
  std::vector<std::pair<Expr, Location>> exprs_;  // expressions of the current statement
};

}  // namespace

std::vector<LoopSpec> parse_loops(Cursor& cursor, const IR& ir) {
  std::vector<LoopSpec> loops;
  do loops.push_back(parse_loop(cursor, ir));
  while (cursor.accept(","));
  return loops;
}

Annotation parse_annotation(Cursor& cursor) {
  for (Mark mark : {Mark::kParallel, Mark::kBlock, Mark::kThread, Mark::kVectorize, Mark::kUnroll}) {
    if (cursor.accept_word(to_string(Annotation{mark}))) return {mark};
  }
  if (cursor.accept_word("tile")) return {Mark::kTile, cursor.string("the name of the tile")};
  return {};
}

Result<IR> parse(std::string_view text, std::string file) {
  return attempt([&] { return IrParser(text, std::move(file)).parse(); });
}

}  // namespace tenon::loops
