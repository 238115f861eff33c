#include "schedule/ahead.h"

#include <algorithm>
#include <limits>
#include <map>

#include "schedule/contraction.h"

namespace tenon {
namespace {

using namespace loops;

using NodeMap = std::map<NodeRef, NodeRef>;

// A prepared array is kept if it is small or not much larger than the constants that it is made of.
constexpr double kSmallArray = 1 << 24;  // elements
constexpr double kMostGrowth = 16;

// Copies a node into a kernel whose variables have the same names.
NodeRef copy_node(const IR& from, NodeRef ref, IR& to, const NodeMap& known) {
  Node node = from.node(ref);
  for_each_ref(node, [&](NodeRef& input) { input = known.at(input); });
  for_each_var(node, [&](VarRef& var) { var = *to.var_named(from.var(var).name); });
  return to.add_node(std::move(node));
}

class Splitter {
 public:
  Splitter(const LoopTree& tree, const std::set<int64_t>& constants) : ir_(tree.ir) {
    is_constant_.resize(ir_.nodes().size());
    elements_read_.resize(ir_.nodes().size());
    for (NodeRef ref : ir_.node_refs()) {
      if (ir_.node(ref).is_leaf()) note(ref, constants);
    }
    for (NodeRef ref : ir_.order()) note(ref, constants);
    for (NodeRef ref : ir_.order()) {
      if (is_prepared(ref)) prepared_.insert(ref);
    }
    for (NodeRef ref : ir_.writes()) need(ref);
  }

  AheadOfTime run() {
    for (const auto& [symbol, range] : ir_.symbols()) out_.declare_symbol(symbol, range);
    for (const Var& var : ir_.vars()) out_.add_var(var.name, var.size);
    for (NodeRef ref : ir_.reads()) {
      if (needed_.contains(ref)) add_read(ref);
    }
    for (NodeRef ref : prepared_) {
      if (needed_.contains(ref)) prepare(ref);
    }
    for (NodeRef ref : ir_.node_refs()) {
      const bool is_leaf = ir_.node(ref).as<Constant>() || ir_.node(ref).as<Index>();
      if (is_leaf && needed_.contains(ref)) new_[ref] = copy_node(ir_, ref, out_, new_);
    }
    for (NodeRef ref : ir_.order()) {
      if (needed_.contains(ref) && !ir_.node(ref).as<Write>()) copy(ref);
    }
    // Outputs are added by slot, whatever order they run in.
    for (NodeRef ref : ir_.writes()) copy(ref);
    std::vector<NodeRef> order;
    for (NodeRef ref : ir_.order()) {
      if (needed_.contains(ref)) order.push_back(new_.at(ref));
    }
    out_.set_order(close_to_readers(std::move(order)));
    return {LoopTree(std::move(out_)), std::move(inputs_), std::move(preparations_)};
  }

 private:
  // Called for a node after its inputs.
  void note(NodeRef ref, const std::set<int64_t>& constants) {
    is_constant_[ref.id] = depends_on_constants(ref, constants);
    const Node& node = ir_.node(ref);
    if (node.as<Read>() && is_constant_[ref.id]) elements_read_[ref.id] = elements_of(ref);
    for (NodeRef input : node.inputs)
      elements_read_[ref.id] = std::max(elements_read_[ref.id], elements_read_[input.id]);
  }

  // Infinite if a size is symbolic.
  double elements_of(NodeRef ref) const {
    double elements = 1;
    for (VarRef var : ir_.node(ref).vars) {
      const Expr& size = ir_.var(var).size;
      elements *= size.is_constant() ? static_cast<double>(size.constant()) : std::numeric_limits<double>::infinity();
    }
    return elements;
  }

  // True for nodes of constant size that read only constants, and whose values depend on no symbolic size.
  bool depends_on_constants(NodeRef ref, const std::set<int64_t>& constants) const {
    const Node& node = ir_.node(ref);
    if (const auto* read = node.as<Read>()) return constants.contains(read->slot);
    if (node.as<Write>() || mentions_size(node)) return false;
    if (node.is_leaf()) return true;
    const bool has_fixed_size =
        std::ranges::all_of(node.vars, [&](VarRef var) { return ir_.var(var).size.is_constant(); });
    return has_fixed_size && std::ranges::all_of(node.inputs, [&](NodeRef input) { return is_constant_[input.id]; });
  }

  bool mentions_size(Node node) const {
    bool found = false;
    loops::for_each_expr(node, [&](const Expr& expr) {
      found = found || std::ranges::any_of(sizes_, [&](Symbol size) { return depends_on(expr, size); });
    });
    return found;
  }

  // A small file can describe huge arrays (linspace): an array much larger than its inputs is computed in every run.
  bool is_worth_keeping(NodeRef ref) const {
    return elements_of(ref) <= std::max(kSmallArray, kMostGrowth * elements_read_[ref.id]);
  }

  // Whether the node runs in every run. A constant node with one such reader, in the same loops, is only a way to read:
  // a cast of a narrow array, or a view. It runs with its reader.
  bool is_late(NodeRef ref) const {
    if (!is_constant_[ref.id]) return true;
    const std::vector<NodeRef> readers = ir_.consumers(ref);
    return readers.size() == 1 && ir_.node(readers[0]).loops == ir_.node(ref).loops && is_late(readers[0]);
  }

  // Whether the array of this node is computed ahead. It has one reader, which runs in every run and iterates over all
  // of its variables. A reader that looks elements up reads the array itself.
  bool is_prepared(NodeRef ref) const {
    if (is_late(ref) || elements_read_[ref.id] == 0 || !is_worth_keeping(ref)) return false;
    const std::vector<NodeRef> readers = ir_.consumers(ref);
    return readers.size() == 1 && is_late(readers[0]) && std::ranges::all_of(ir_.node(ref).vars, [&](VarRef var) {
             return std::ranges::find(ir_.node(readers[0]).loops, var, &LoopSpec::var) !=
                    ir_.node(readers[0]).loops.end();
           });
  }

  void copy(NodeRef ref) {
    const bool is_view = prepared_.contains(ref);
    new_[ref] = is_view ? add_view(ref) : copy_node(ir_, ref, out_, new_);
    out_.set_loops(new_[ref], is_view ? loops_of_reader(ref) : ir_.node(ref).loops);
  }

  void need(NodeRef ref) {
    if (!needed_.insert(ref).second || prepared_.contains(ref)) return;
    for (NodeRef input : ir_.node(ref).inputs) need(input);
  }

  void add_read(NodeRef ref) {
    const Node& node = ir_.node(ref);
    new_[ref] = out_.add_read(node.dtype, node.vars, node.name);
    inputs_.push_back({.slot = node.as<Read>()->slot});
  }

  // ---- one array ----

  struct PackedLayout {
    std::vector<VarRef> vars;           // one per dimension in memory
    std::vector<Expr> positions = {};   // index along each dimension, over the variables of the node
    std::map<VarRef, Expr> index = {};  // index along each variable of the node, over `vars`
  };

  // The loops whose order the packed array has: the loops of its writer. If the writer transposes squares in registers,
  // which only makes packing faster, the loops of the reader: packing is done once, reading often.
  std::vector<LoopSpec> layout_loops(NodeRef ref) const {
    std::vector<LoopSpec> own = ir_.node(ref).loops;
    const auto last = own.rbegin();
    const bool turns = own.size() > 1 && last->annotation.mark == Mark::kVectorize &&
                       last[1].annotation.mark == Mark::kUnroll && last[1].var != last->var;
    std::vector<LoopSpec> loops = turns ? loops_of_reader(ref) : std::move(own);
    std::erase_if(loops, [&](const LoopSpec& loop) { return !ir_.node(ref).has(loop.var); });
    if (!turns || loops.empty()) return loops;
    for (size_t i = loops.size() - 1; i-- > 0;) {
      const bool is_lane = loops[i + 1].annotation.mark == Mark::kVectorize;
      if (loops[i].var == loops[i + 1].var && !is_lane) loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return loops;
  }

  // The layout of scratch memory that holds the whole array: see Compiler::Dim.
  PackedLayout layout_of(NodeRef ref, IR& ir) const {
    PackedLayout layout;
    std::map<VarRef, Expr> rest;
    std::map<VarRef, Expr> around;  // elements that one iteration of the loop around covers
    for (const LoopSpec& loop : layout_loops(ref)) {
      const Expr covered = around.try_emplace(loop.var, ir_.var(loop.var).size).first->second;
      const Expr extent = ceildiv(covered, loop.step);
      around.insert_or_assign(loop.var, loop.step);
      const auto [local, is_first] = rest.try_emplace(loop.var, ir_.var(loop.var).symbol());
      if (extent.is_constant(1) && loop.step != 1) continue;
      const VarRef var = ir.add_var(unused_var_name(ir, ir_.var(loop.var).name + "p"), extent);
      layout.vars.push_back(var);
      layout.positions.push_back(floordiv(local->second, loop.step));
      local->second = mod(local->second, loop.step);
      Expr& index = layout.index.try_emplace(loop.var, 0).first->second;
      index += Expr(ir.var(var).symbol()) * loop.step;
    }
    return layout;
  }

  void prepare(NodeRef ref) {
    const PackedLayout here = layout_of(ref, out_);
    packed_[ref] = {out_.add_read(ir_.node(ref).dtype, here.vars, ir_.node(ref).name + "_ahead"), here.positions};
    inputs_.push_back({.preparation = static_cast<int64_t>(preparations_.size())});
    preparations_.push_back(preparation_of(ref));
    if (is_moved(ref)) preparations_.back().positions = here.positions;
  }

  // Whether the array is a copy of an input, element by element and over the same variables.
  bool is_moved(NodeRef ref) const {
    const Node& node = ir_.node(ref);
    if (node.as<Read>()) return true;
    const auto* view = node.as<View>();
    return view && reads_own_index(ir_, *view, node.vars) && ir_.node(node.inputs[0]).vars == node.vars &&
           is_moved(node.inputs[0]);
  }

  Preparation preparation_of(NodeRef ref) const {
    Preparation result{IR(ir_.name() + "_ahead"), {}};
    NodeMap known;
    copy_with_inputs(ref, result, known);
    const PackedLayout layout = layout_of(ref, result.kernel);
    Piece piece{.input = known.at(ref), .index = {}, .where = {}};
    for (VarRef var : ir_.node(ref).vars) {
      const Expr& index = layout.index.at(var);
      piece.index.push_back(index);
      if (!provably_within(index, ir_.var(var).size, result.kernel)) piece.where.push_back({index, ir_.var(var).size});
    }
    const NodeRef packed = result.kernel.add_view({{piece}, zero_of(ir_.node(ref).dtype), {}}, layout.vars);
    result.kernel.add_write(packed, layout.vars);
    return result;
  }

  void copy_with_inputs(NodeRef ref, Preparation& to, NodeMap& known) const {
    if (known.contains(ref)) return;
    for (NodeRef input : ir_.node(ref).inputs) copy_with_inputs(input, to, known);
    for (VarRef var : ir_.iteration_vars(ref)) {
      if (!to.kernel.var_named(ir_.var(var).name)) to.kernel.add_var(ir_.var(var).name, ir_.var(var).size);
    }
    if (const auto* read = ir_.node(ref).as<Read>()) {
      std::vector<VarRef> vars;
      for (VarRef var : ir_.node(ref).vars) vars.push_back(*to.kernel.var_named(ir_.var(var).name));
      known[ref] = to.kernel.add_read(ir_.node(ref).dtype, std::move(vars), ir_.node(ref).name);
      to.inputs.push_back(read->slot);
      return;
    }
    known[ref] = copy_node(ir_, ref, to.kernel, known);
  }

  NodeRef add_view(NodeRef ref) {
    const auto& [read, positions] = packed_.at(ref);
    const Node& node = ir_.node(ref);
    return out_.add_view({{{read, positions, {}}}, zero_of(node.dtype), {}}, node.vars, node.name);
  }

  // The view of a packed array runs in the loops of its reader.
  std::vector<LoopSpec> loops_of_reader(NodeRef ref) const { return ir_.node(ir_.consumers(ref)[0]).loops; }

  std::vector<NodeRef> close_to_readers(std::vector<NodeRef> order) const {
    std::vector<NodeRef> result;
    std::set<NodeRef> views;
    for (NodeRef ref : prepared_) {
      if (needed_.contains(ref)) views.insert(new_.at(ref));
    }
    for (NodeRef ref : order) {
      if (views.contains(ref)) continue;
      for (NodeRef input : out_.node(ref).inputs) {
        if (views.erase(input) > 0) result.push_back(input);
      }
      result.push_back(ref);
    }
    return result;
  }

  const IR& ir_;
  std::vector<Symbol> sizes_ = ir_.size_symbols();
  std::vector<bool> is_constant_;
  std::vector<double> elements_read_;  // elements of the largest constant that the node depends on; 0 if none
  std::set<NodeRef> prepared_;
  std::set<NodeRef> needed_;
  IR out_{ir_.name()};
  NodeMap new_;
  std::map<NodeRef, std::pair<NodeRef, std::vector<Expr>>> packed_;
  std::vector<AheadOfTime::Input> inputs_;
  std::vector<Preparation> preparations_;
};

// ---- a kernel that reads an input in another kernel's layout ----

class PreparedReader {
 public:
  PreparedReader(const IR& ir, int64_t slot, const Preparation& layout)
      : ir_(ir), moved_(ir.reads()[static_cast<size_t>(slot)]), layout_(layout) {}

  IR run() {
    for (const auto& [symbol, range] : ir_.symbols()) out_.declare_symbol(symbol, range);
    for (const Var& var : ir_.vars()) out_.add_var(var.name, var.size);
    for (NodeRef ref : ir_.reads()) new_[ref] = ref == moved_ ? add_prepared() : copy_node(ir_, ref, out_, new_);
    for (NodeRef ref : ir_.node_refs()) {
      if (ir_.node(ref).as<Constant>() || ir_.node(ref).as<Index>()) copy(ref);
    }
    for (NodeRef ref : ir_.order()) {
      if (!ir_.node(ref).as<Write>()) copy(ref);
    }
    for (NodeRef ref : ir_.writes()) copy(ref);
    return std::move(out_);
  }

 private:
  NodeRef add_prepared() {
    const IR& kernel = layout_.kernel;
    Vars vars;
    for (VarRef var : kernel.node(kernel.writes()[0]).vars) {
      const Var& dim = kernel.var(var);
      vars.push_back(out_.add_var(unused_var_name(out_, dim.name), dim.size));
    }
    return out_.add_read(ir_.node(moved_).dtype, std::move(vars), ir_.node(moved_).name);
  }

  // Where the element at `index` of the input is.
  std::vector<Expr> position_of(const std::vector<Expr>& index) const {
    const IR& kernel = layout_.kernel;
    const Vars& vars = kernel.node(kernel.reads()[0]).vars;
    symbolic::Substitution here;
    for (size_t i = 0; i < vars.size(); ++i) here.insert_or_assign(kernel.var(vars[i]).symbol(), index[i]);
    std::vector<Expr> result;
    for (const Expr& position : layout_.positions) result.push_back(substitute(position, here));
    return result;
  }

  // A view reads the elements where they are. Other nodes read the input through a view.
  void copy(NodeRef ref) {
    Node node = ir_.node(ref);
    const bool reads_places =
        node.as<View>() && std::ranges::find(node.lookups(), moved_, &Lookup::indices) == node.lookups().end();
    if (reads_places) {
      for (Piece& piece : std::get<View>(node.action).pieces) {
        if (piece.input == moved_) piece.index = position_of(piece.index);
      }
    }
    for_each_ref(node, [&](NodeRef& input) { input = input == moved_ && !reads_places ? plain() : new_.at(input); });
    new_[ref] = out_.add_node(std::move(node));
  }

  NodeRef plain() {
    if (plain_) return plain_;
    const Node& read = ir_.node(moved_);
    const Piece piece{new_.at(moved_), position_of(ir_.own_index(moved_)), {}};
    plain_ = out_.add_view({{piece}, zero_of(read.dtype), {}}, read.vars, ir_.unused_node_name(read.name + "_plain"));
    return plain_;
  }

  const IR& ir_;
  NodeRef moved_;  // the input
  const Preparation& layout_;
  IR out_{ir_.name()};
  NodeMap new_;
  NodeRef plain_ = {};  // a view of the input in its own order
};

}  // namespace

IR read_prepared(const IR& ir, int64_t slot, const Preparation& layout) {
  check(!layout.positions.empty(), "the layout of a preparation that computes");
  return PreparedReader(ir, slot, layout).run();
}

AheadOfTime split_ahead(const LoopTree& tree, const std::set<int64_t>& constants) {
  return Splitter(tree, constants).run();
}

}  // namespace tenon
