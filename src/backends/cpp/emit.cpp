// The walk over a LoopTree that prints C++.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "backends/cpp/cpp.h"
#include "graph/cpp_text.h"
#include "loops/compiler.h"
#include "loops/in_place.h"
#include "loops/limits.h"
#include "machine/machine.h"
#include "support/cpp_source.h"
#include "symbolic/c_text.h"
#include "symbolic/format.h"

namespace tenon {
namespace {

using namespace loops;
using cpp::Type;
using loops::Compute;
using Access = Compiler::Access;
using Allocation = Compiler::Allocation;

constexpr int64_t kMostBodies = 64;           // Copies of an unrolled body.
constexpr int64_t kMostStackBytes = 1 << 20;  // All arrays on the stack.
// C++ compilers split vectors that are wider than the CPU's.
const int64_t kVectorBytes = Machine().vector_bytes;

bool is_one_element(const Allocation& memory) { return memory.scratch && memory.size().is_constant(1); }

class CppEmitter {
 public:
  explicit CppEmitter(const LoopTree& tree) : tree_(tree), ir_(tree.ir), compiler_(tree) {
    compiler_.widen_totals();
    for (const auto& [ref, memory] : compiler_.allocations) arrays_[memory.mem_idx] = ir_.node(ref).name;
    for (const auto& [ref, memory] : compiler_.carries) arrays_[memory.mem_idx] = ir_.node(ref).name + "_so_far";
    for (const InPlacePair& pair : in_place_pairs(tree)) {
      overlaid_.insert(ir_.reads()[static_cast<size_t>(pair.input)]);
      overlaid_.insert(ir_.writes()[static_cast<size_t>(pair.output)]);
    }
  }

  std::string function(std::string_view name) {
    line("extern \"C\" i64 {}(void* const* memory, const i64* sizes, i64* error, const tenon_services* services) {{",
         name);
    int64_t position = 0;
    for (Symbol symbol : ir_.size_symbols()) line("const i64 {} = sizes[{}];", name_of(symbol), position++);
    for (NodeRef ref : ir_.reads()) parameter(ref, "const ");
    for (NodeRef ref : ir_.writes()) parameter(ref, "");
    const Compiler::Scope root = compiler_.root();
    scope_ = &root;
    body({}, tree_.roots());
    line("return 0;");
    line("}}");
    return std::move(out_);
  }

 private:
  // ---- lines and names ----

  // Lines that end with { indent the following lines.
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    if (text[0] == '}') --depth_;
    out_ += fmt::format("{:{}}{}\n", "", 2 * depth_, text);
    if (text.back() == '{') ++depth_;
  }

  const std::string& name_of(Symbol symbol) { return names_.get("symbol " + symbol.name(), symbol.name()); }
  const std::string& name_of(const Allocation& memory, const std::string& suffix = "") {
    return names_.get(fmt::format("memory {}{}", memory.mem_idx, suffix), arrays_.at(memory.mem_idx) + suffix);
  }

  void parameter(NodeRef ref, std::string_view constant) {
    const Allocation& memory = compiler_.allocations.at(ref);
    line("{0}{1}* {2}{3} = static_cast<{0}{1}*>(memory[{4}]);", constant, to_string(Type{memory.dtype}),
         overlaid_.contains(ref) ? "" : "__restrict ", name_of(memory), memory.mem_idx);
  }

  // ---- expressions ----

  std::string print(const Expr& expr) {
    const Expr known = literals_.empty() ? expr : substitute(expr, literals_);
    return to_c(known, scope_->box.ranges(), [&](Symbol symbol) { return name_of(symbol); });
  }

  std::string print(const std::vector<Constraint>& constraints) {
    std::vector<std::string> texts;
    for (const auto& [expr, bound] : constraints) {
      if (!scope_->box.never_negative(expr)) texts.push_back(fmt::format("0 <= {}", print(expr)));
      texts.push_back(fmt::format("{} < {}", print(expr), print(bound)));
    }
    return fmt::format("{}", fmt::join(texts, " && "));
  }

  Type type_of(DType dtype) const { return {dtype, lanes_}; }

  Expr position_of(const Access& access) const {
    return ir_.node(access.node).as<Constant>() ? Expr(0) : compiler_.get_scoped_expr(access);
  }

  // ---- memory ----

  // Whether the statement of the node also declares its variable.
  bool declares_itself(NodeRef ref) const {
    const Node& node = ir_.node(ref);
    const Allocation& memory = compiler_.allocations.at(ref);
    return (node.as<Compute>() || node.as<View>()) && node.lookups().empty() && is_one_element(memory) &&
           tree_.parent(tree_.find(ref)) == memory.lca;
  }

  void declare_in(TreeRef loop) {
    for (NodeRef ref : ir_.order()) {
      const Allocation& memory = compiler_.allocations.at(ref);
      const auto carry = compiler_.carries.find(ref);
      if (memory.scratch && memory.lca == loop && !declares_itself(ref) && !compiler_.is_fused(ref))
        declare(ref, memory);
      if (carry != compiler_.carries.end() && carry->second.lca == loop) declare(ref, carry->second);
    }
  }

  void declare(NodeRef ref, const Allocation& memory) {
    const std::string name = name_of(memory), type = to_string(type_of(memory.dtype));
    if (is_one_element(memory)) return line("{} {};", type, name);
    const Expr size = memory.size();
    if (size.is_constant() && size.constant() <= kMostStackArrayBytes / size_of(memory.dtype) &&
        stack_bytes_ < kMostStackBytes) {
      stack_bytes_ += size.constant() * size_of(memory.dtype);
      return line("alignas(64) {} {}[{}];", type, name, std::max<int64_t>(size.constant(), 1));
    }
    std::vector<std::string> extents;
    for (const Compiler::Dim& dim : memory.dims) extents.push_back(print(dim.extent));
    const std::string& owner = name_of(memory, "_memory");
    line("const Scratch<{}> {}(services, {{{}}});", type, owner, fmt::join(extents, ", "));
    line("if (!{}.data) return failed(error, kTenonOutOfMemory, {}, 0, 0);", owner, ref.id);
    line("{}* const {} = {}.data;", type, name, owner);
  }

  // ---- elements ----

  // A vector variable in the body of the vectorized loop.
  bool is_lane_local(const Access& access) const {
    return vector_ && access.memory && access.memory->scratch && access.memory->lca == vector_;
  }

  std::string element(const Allocation& memory, const Expr& position) {
    return is_one_element(memory) ? name_of(memory) : fmt::format("{}[{}]", name_of(memory), print(position));
  }

  // A scalar expression: an element, a constant, or the value of an Index.
  std::string number(NodeRef ref, const Expr& position) {
    const Node& node = ir_.node(ref);
    if (const auto* constant = node.as<Constant>()) return cpp::literal({node.dtype}, constant->value);
    if (node.as<Index>()) return fmt::format("i64({})", print(position));
    const Allocation& memory = compiler_.allocations.at(ref);
    const std::string text = element(memory, position);
    if (memory.dtype != node.dtype) return cpp::cast(memory.dtype, {node.dtype}, text);
    return node.as<Read>() && node.dtype == DType::kBool ? fmt::format("({} != 0)", text) : text;
  }

  std::string value(const Access& access) {
    const Node& node = ir_.node(access.node);
    if (is_lane_local(access)) return name_of(*access.memory) + (lanes_ == 1 ? "[lane]" : "");
    const Expr position = position_of(access);
    if (lanes_ == 1) return number(access.node, position);
    const std::string type = to_string(type_of(node.dtype));
    const Result<Expr> stride = differentiate(position, compiler_.counter(vector_));
    if (stride && stride->is_constant(0)) return fmt::format("splat<{}>({})", type, number(access.node, position));
    if (!stride || !access.memory) return each_lane(node.dtype, [&] { return number(access.node, position); });
    const std::string vector = access.memory->dtype == node.dtype
                                   ? stored(access)
                                   : cpp::cast(access.memory->dtype, type_of(node.dtype), stored(access));
    if (!node.as<Read>() || node.dtype != DType::kBool) return vector;
    return fmt::format("to_bools<{}>({} != 0)", type, vector);
  }

  // The expression for an element in memory: a scalar, or a vector with a known stride.
  std::string stored(const Access& access) {
    const std::string at = element(*access.memory, position_of(access));
    if (lanes_ == 1 || is_lane_local(access)) return at;
    const std::string type = to_string(type_of(access.memory->dtype));
    const Expr stride = *compiler_.stride(access, vector_);
    if (stride.is_constant(0)) return fmt::format("splat<{}>({})", type, at);
    if (stride.is_constant(1)) return fmt::format("load<{}>(&{})", type, at);
    return fmt::format("gather<{}>(&{}, {})", type, at, print(stride));
  }

  // A vector whose lanes are one(value of the counter).
  template <class One>
  std::string each_lane(DType dtype, One one) {
    const Symbol counter = compiler_.counter(vector_);
    const std::string first = print(counter), type = to_string(type_of(dtype));
    auto outside = literals_.extract(counter);
    const int64_t lanes = std::exchange(lanes_, 1);
    const std::string text = one();
    lanes_ = lanes;
    literals_.insert(std::move(outside));
    return fmt::format("each_lane<{}>({}, [&](i64 {}, i64 lane) {{ return {}; }})", type, first, name_of(counter),
                       text);
  }

  void store(const Access& access, const std::string& text) {
    const std::string type = to_string(type_of(access.memory->dtype));
    const std::string at = element(*access.memory, position_of(access));
    if (access.memory->scratch && declares_itself(access.node)) return line("const {} {} = {};", type, at, text);
    if (lanes_ == 1 || is_lane_local(access)) return line("{} = {};", at, text);
    const Expr stride = *compiler_.stride(access, vector_);
    if (stride.is_constant(0)) return line("{} = ({})[0];", at, text);
    if (stride.is_constant(1)) return line("store<{}>(&{}, {});", type, at, text);
    line("spread<{}>(&{}, {}, {});", type, at, print(stride), text);
  }

  // ---- nodes ----

  std::vector<std::string> inputs_of(TreeRef ref) {
    std::vector<std::string> values;
    for (NodeRef input : ir_.node(tree_.node(ref)).inputs) values.push_back(value(compiler_.gen_access(input, ref)));
    return values;
  }

  Access own_access(TreeRef ref) const { return compiler_.gen_access(tree_.node(ref), ref); }

  void node(TreeRef ref) {
    const Node& node = ir_.node(tree_.node(ref));
    if (explained_.insert(ref).second) line("// {}", loops::to_string(ir_, tree_.node(ref)));
    if (compiler_.is_fused(tree_.node(ref))) return;
    const std::span<const Lookup> lookups = node.lookups();
    if (!lookups.empty()) line("{{");
    for (const Lookup& lookup : lookups) look_up(lookup, ref);
    std::visit([&](const auto& action) { emit(action, ref, node); }, node.action);
    if (!lookups.empty()) line("}}");
  }

  // One value for all lanes.
  void look_up(const Lookup& lookup, TreeRef ref) {
    const Access access = compiler_.gen_lookup(lookup, ref);
    const std::string& index = name_of(lookup.symbol);
    line("const i64 {} = {};", index, number(access.node, position_of(access)));
    line("if ({0} < 0 || {0} >= {1}) return failed(error, kTenonOutOfRange, {2}, {0}, {1});", index,
         print(lookup.bound), tree_.node(ref).id);
  }

  void emit(const auto&, TreeRef, const Node& node) { check(false, "%{} cannot be printed as a statement", node.name); }

  void emit(const Compute& compute, TreeRef ref, const Node& node) {
    const std::vector<std::string> x = inputs_of(ref);
    const std::string_view op = compute.op->name.get();
    const DType operands = ir_.node(node.inputs.back()).dtype;
    const Type type = type_of(node.dtype);
    if (divides_integers(*compute.op, operands)) {
      line("if ({} == 0) return failed(error, kTenonDivisionByZero, {}, {}, 0);", x[1], tree_.node(ref).id, x[0]);
    }
    if (op == "cast") return store(own_access(ref), cpp::cast(operands, type, x[0]));
    if (op == "bitcast") return store(own_access(ref), fmt::format("bits_as<{}>({})", to_string(type), x[0]));
    store(own_access(ref), cpp::apply(*compute.op, operands, type, x));
  }

  void emit(const Write&, TreeRef ref, const Node&) { store(own_access(ref), inputs_of(ref)[0]); }

  void emit(const View& view, TreeRef ref, const Node& node) {
    store(own_access(ref), first_piece(view, ref, node.dtype));
  }

  std::string first_piece(const View& view, TreeRef ref, DType dtype) {
    std::string text;
    for (const Piece& piece : view.pieces) {
      const Access access = compiler_.gen_access(piece, ref);
      const std::vector<Constraint> guards = compiler_.get_constraints(access, *scope_);
      const auto varies = [&](const Constraint& guard) { return depends_on(guard.expr, compiler_.counter(vector_)); };
      if (lanes_ > 1 && std::ranges::any_of(guards, varies)) {
        return each_lane(dtype, [&] { return first_piece(view, ref, dtype); });
      }
      if (guards.empty()) return text + value(access);
      text += fmt::format("{} ? {} : ", print(guards), value(access));
    }
    return text + cpp::literal(type_of(dtype), view.fill);
  }

  void emit(const Reduce& reduce, TreeRef ref, const Node& node) {
    const Access self = own_access(ref);
    const bool by_lane = lanes_ > 1 && ir_.folds(self.node, tree_.loop(vector_).var);
    const Type type = type_of(by_lane ? node.dtype : self.memory->dtype);
    const std::string sum = by_lane ? name_of(*self.memory, "_lanes") : stored(self);
    const bool fused = compiler_.is_fused(node.inputs[0]);
    std::vector<std::string> x = inputs_of(fused ? tree_.find(node.inputs[0]) : ref);
    for (std::string& operand : x) operand = cpp::cast(node.dtype, type, operand);
    const std::string next = fused ? fmt::format("mul_add<{}>({}, {}, {})", to_string(type), x[0], x[1], sum)
                                   : cpp::apply(*reduce.op, type.dtype, type, {sum, x[0]});
    by_lane ? line("{} = {};", sum, next) : store(self, next);
  }

  void emit(const Scan& scan, TreeRef ref, const Node& node) {
    const Access carry = compiler_.gen_carry(ref);
    const Type wide{carry.memory->dtype};
    const std::string sum = element(*carry.memory, position_of(carry));
    const std::string x = cpp::cast(node.dtype, wide, inputs_of(ref)[0]);
    line("{} = {};", sum, cpp::apply(*scan.op, wide.dtype, wide, {sum, x}));
    store(own_access(ref), cpp::cast(wide.dtype, {node.dtype}, sum));
  }

  void emit(const Scatter& scatter, TreeRef ref, const Node& node) {
    const Access self = own_access(ref);
    const std::vector<Constraint> guards = compiler_.get_constraints(self, *scope_);
    const std::string at = element(*self.memory, position_of(self));
    const std::string next = value(compiler_.gen_access(node.inputs[1], ref));
    line("{}{} = {};", guards.empty() ? "" : fmt::format("if ({}) ", print(guards)), at,
         scatter.op ? cpp::apply(*scatter.op, node.dtype, {node.dtype}, {at, next}) : next);
  }

  // ---- folds ----

  const OpDef& fold_op(NodeRef ref) const {
    const auto* reduce = ir_.node(ref).as<Reduce>();
    return reduce ? *reduce->op : *ir_.node(ref).as<Scan>()->op;
  }

  std::string identity(NodeRef ref, Type type) const {
    return cpp::literal(type, *identity_of(fold_op(ref), type.dtype));
  }

  void start(const Compiler::Fill& fill) {
    const std::string first =
        fill.source ? number(fill.source, fill.source_offset) : identity(fill.node, {fill.memory->dtype});
    const bool is_all = !fill.source && fill.counters.size() == fill.memory->dims.size();
    if (is_all && !is_one_element(*fill.memory)) {
      return line("for (i64 at = 0; at < {}; ++at) {}[at] = {};", print(fill.memory->size()), name_of(*fill.memory),
                  first);
    }
    std::string around;
    for (size_t i = 0; i < fill.counters.size(); ++i) {
      around += fmt::format("for (i64 {0} = 0; {0} < {1}; ++{0}) ", name_of(fill.counters[i]), print(fill.extents[i]));
    }
    if (!fill.where.empty()) around += fmt::format("if ({}) ", print(fill.where));
    line("{}{} = {};", around, element(*fill.memory, fill.offset), first);
  }

  void fold_lanes(NodeRef ref, Type type) {
    const Access self = own_access(tree_.find(ref));
    const Type wide{self.memory->dtype};
    const std::string sum = element(*self.memory, position_of(self));
    const std::string lane = cpp::cast(type.dtype, wide, name_of(*self.memory, "_lanes") + "[lane]");
    line("for (i64 lane = 0; lane < {}; ++lane) {} = {};", type.lanes, sum,
         cpp::apply(fold_op(ref), wide.dtype, wide, {sum, lane}));
  }

  // ---- loops ----

  void body(TreeRef ref, const std::vector<TreeRef>& children) {
    declare_in(ref);
    for (TreeRef child : children) {
      for (const Compiler::Fill& fill : compiler_.fills(child)) start(fill);
      tree_.kind(child) == LoopTree::NODE ? node(child) : loop(child);
    }
  }

  void loop(TreeRef ref) {
    const Compiler::Scope* const around = scope_;
    for (const Compiler::Stretch& part : compiler_.stretches(ref, *around)) {
      scope_ = &part.scope;
      stretch(ref, part.begin, part.end);
    }
    scope_ = around;
  }

  void stretch(TreeRef ref, const Expr& begin, const Expr& end) {
    const Expr count = end - begin;
    const auto& [var, size, tail, step, annotation] = tree_.loop(ref);
    if (annotation.mark == Mark::kTile) {
      fail("backend cpp has no tile \"{}\": take it off the loop over {}", annotation.tile, ir_.var(var).name);
    }
    if (count.is_constant() && count.constant() <= 0) return;
    if (annotation.mark == Mark::kParallel) return parallel(ref, begin, end);
    if (annotation.mark == Mark::kVectorize) return vectors(ref, begin, end);
    const int64_t most = annotation.mark == Mark::kUnroll ? kMostBodies / copies_ : 1;
    if (count.is_constant() && count.constant() <= most) return unrolled(ref, begin, count.constant());
    if (annotation.mark == Mark::kUnroll) line("#pragma GCC unroll 8");
    serial(ref, print(begin), print(end));
  }

  void serial(TreeRef ref, const std::string& begin, const std::string& end) {
    line("for (i64 {0} = {1}; {0} < {2}; {0} += {3}) {{", name_of(compiler_.counter(ref)), begin, end, lanes_);
    body(ref, tree_.children(ref));
    line("}}");
  }

  void unrolled(TreeRef ref, const Expr& begin, int64_t count) {
    const Symbol counter = compiler_.counter(ref);
    copies_ *= count;
    for (int64_t i = 0; i < count; ++i) {
      const Expr at = begin + i;
      if (at.is_constant()) literals_.insert_or_assign(counter, at);
      line("/* {} = {} */ {{", name_of(counter), at);
      if (!at.is_constant()) line("const i64 {} = {};", name_of(counter), print(at));
      body(ref, tree_.children(ref));
      line("}}");
    }
    literals_.erase(counter);
    copies_ /= count;
  }

  void parallel(TreeRef ref, const Expr& begin, const Expr& end) {
    line("if (const i64 wrong = in_parallel(services, {}, {}, [&](i64 begin, i64 end) -> i64 {{", print(begin),
         print(end));
    serial(ref, "begin", "end");
    line("return 0;");
    line("}})) return wrong;");
  }

  // ---- vectors ----

  // Whether the loop can be vectorized: no node can fail or depends on the iteration before.
  bool has_vector_form(TreeRef leaf, TreeRef loop) const {
    const Node& node = ir_.node(tree_.node(leaf));
    const auto differs = [&](const Lookup& lookup) {
      const Access access = compiler_.gen_lookup(lookup, leaf);
      return (access.memory && access.memory->scratch && access.memory->lca == loop) ||
             depends_on(position_of(access), compiler_.counter(loop));
    };
    const auto* compute = node.as<Compute>();
    if (compute && divides_integers(*compute->op, ir_.node(node.inputs[0]).dtype)) return false;
    if (node.as<Scan>() || node.as<Scatter>() || std::ranges::any_of(node.lookups(), differs)) return false;
    return compiler_.stride(own_access(leaf), loop).has_value();
  }

  int64_t lanes_of(TreeRef loop, const Expr& count) const {
    int64_t widest = 1;
    for (TreeRef leaf : tree_.children(loop)) {
      if (!has_vector_form(leaf, loop)) return 1;
      const Node& node = ir_.node(tree_.node(leaf));
      widest = std::max(widest, size_of(node.dtype));
      for (NodeRef input : node.inputs) widest = std::max(widest, size_of(ir_.node(input).dtype));
    }
    if (!count.is_constant()) return kVectorBytes / widest;
    return std::min(kVectorBytes / widest, int64_t{1} << (std::bit_width(static_cast<uint64_t>(count.constant())) - 1));
  }

  // Prints whole vectors, then the remaining iterations one by one. A fold has a sum per lane and folds the lanes after
  // each block of terms.
  void vectors(TreeRef ref, const Expr& begin, const Expr& end) {
    const int64_t lanes = lanes_of(ref, end - begin);
    if (lanes == 1) return serial(ref, print(begin), print(end));
    const Expr past = scope_->box.simplify(begin + max(floordiv(end - begin, lanes), 0) * lanes);
    std::vector<NodeRef> folded = tree_.nodes_below(ref);
    std::erase_if(folded, [&](NodeRef node) { return !ir_.folds(node, tree_.loop(ref).var); });
    std::string from = print(begin), to = print(past);
    if (!folded.empty()) {
      const std::string& block = names_.get(fmt::format("block {}", ref.id), "block");
      line("for (i64 {0} = {1}; {0} < {2}; {0} += {3}) {{", block, from, to, kLongestChain * lanes);
      to = fmt::format("least({}, {} + {})", to, block, kLongestChain * lanes);
      from = block;
    }
    for (NodeRef node : folded) {
      const Type type{ir_.node(node).dtype, lanes};
      line("{} {} = {};", to_string(type), name_of(compiler_.allocations.at(node), "_lanes"), identity(node, type));
    }
    vector_ = ref;
    lanes_ = lanes;
    folded.empty() && (past - begin).is_constant(lanes) ? unrolled(ref, begin, 1) : serial(ref, from, to);
    vector_ = {};
    lanes_ = 1;
    for (NodeRef node : folded) fold_lanes(node, {ir_.node(node).dtype, lanes});
    if (!folded.empty()) line("}}");
    if (past != end) serial(ref, print(past), print(end));
  }

  const LoopTree& tree_;
  const IR& ir_;
  Compiler compiler_;
  std::map<int64_t, std::string> arrays_;  // names of arrays, by mem_idx
  std::set<NodeRef> overlaid_;             // inputs and outputs that may share memory
  CppNames names_{cpp_words()};
  const Compiler::Scope* scope_ = nullptr;
  symbolic::Substitution literals_;  // values of the counters of unrolled loops
  int64_t copies_ = 1;               // how often the text at this point is printed
  int64_t stack_bytes_ = 0;          // bytes of arrays on the stack so far
  std::set<TreeRef> explained_;      // nodes whose comment is printed
  TreeRef vector_;                   // the vectorized loop around this point
  int64_t lanes_ = 1;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string emit_cpp(const LoopTree& tree, std::string_view function_name) {
  if (!is_cpp_name(function_name)) fail("a C++ function cannot be named '{}'", function_name);
  return cpp_file(emit_cpp_function(tree, function_name));
}

std::string emit_cpp_function(const LoopTree& tree, std::string_view function_name) {
  return CppEmitter(tree).function(function_name);
}

}  // namespace tenon
