#include "loops/compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/is_in.h"

namespace tenon::loops {
namespace {

// The most copies of the code of a node that remove guards and tails from its loops.
constexpr int kMostCopies = 27;
// The most terms of a sum or of a sum of products whose total is f32. PyTorch's products are less exact than its sums.
constexpr int64_t kMostNarrowTerms = 1 << 11;
constexpr int64_t kMostNarrowProducts = 1 << 14;

void set_strides(std::vector<Compiler::Dim>& dims) {
  Expr stride = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    dim->stride = stride;
    stride *= dim->extent;
  }
}

}  // namespace

Expr Compiler::Allocation::size() const {
  Expr size = 1;
  for (const Dim& dim : dims) size *= dim.extent;
  return size;
}

Compiler::Compiler(const LoopTree& tree) : tree_(tree) {
  name_counters();
  for (NodeRef read : tree.ir.reads()) allocations.emplace(read, whole_array(read));
  for (NodeRef write : tree.ir.writes()) allocations.emplace(write, whole_array(write));
  for (NodeRef node : tree.ir.order()) {
    if (!tree.ir.node(node).as<Write>()) allocations.emplace(node, scratch(node));
    if (tree.ir.node(node).as<Scan>()) carries.emplace(node, carry(node));
  }
}

// ---- symbols --------------------------------------------------------------------------------------------------------

// The counter of the outermost loop over m is m, the next inside of it m_1, ... Loops side by side may share a name.
void Compiler::name_counters() {
  for (const Var& var : tree_.ir.vars()) taken_.insert(var.name);
  for (Symbol symbol : tree_.ir.size_symbols()) taken_.insert(symbol.name());
  for (const Node& node : tree_.ir.nodes()) {
    for (const Lookup& lookup : node.lookups()) taken_.insert(lookup.symbol.name());
  }
  for (uint32_t id = 0; id < tree_.ir.vars().size(); ++id) {
    const Symbol symbol = tree_.ir.var({id}).symbol();
    var_to_sym.emplace(VarRef{id}, symbol);
    sym_to_var.emplace(symbol, VarRef{id});
  }
  counters_.assign(tree_.size(), Symbol("unused"));
  tree_.walk([&](TreeRef ref, int) {
    if (tree_.kind(ref) == LoopTree::NODE) return;
    const VarRef var = tree_.loop(ref).var;
    const auto is_same_var = [&](TreeRef loop) { return tree_.loop(loop).var == var; };
    const auto level = static_cast<size_t>(std::ranges::count_if(tree_.path(ref), is_same_var)) - 1;
    const std::string& name = tree_.ir.var(var).name;
    counters_[ref.id] = level == 0 ? Symbol(name) : unused_symbol(fmt::format("{}_{}", name, level));
  });
  for (Symbol counter : counters_) taken_.insert(counter.name());
}

Symbol Compiler::unused_symbol(std::string name) const {
  while (taken_.contains(name)) name += "_";
  return Symbol(name);
}

Expr Compiler::index_of(VarRef var, TreeRef at) const {
  std::vector<Expr> terms;
  for (TreeRef ref = at; ref; ref = tree_.parent(ref)) {
    if (tree_.kind(ref) == LoopTree::LOOP && tree_.loop(ref).var == var) {
      terms.push_back(Expr(counter(ref)) * tree_.loop(ref).step);
    }
  }
  return symbolic::sum(terms);
}

Expr Compiler::over_counters(const Expr& over_vars, TreeRef at) const {
  symbolic::Substitution substitution;
  for (Symbol symbol : symbols_of(over_vars)) {
    if (const auto var = sym_to_var.find(symbol); var != sym_to_var.end()) {
      substitution.emplace(symbol, index_of(var->second, at));
    }
  }
  return substitution.empty() ? over_vars : substitute(over_vars, substitution);
}

void Compiler::add_lookups(Box& box, TreeRef leaf) const {
  for (const Lookup& lookup : tree_.ir.node(tree_.node(leaf)).lookups()) box.add(lookup.symbol, 0, lookup.bound - 1);
}

// The bounds of the counters of the loops around a point, ignoring tails.
Box Compiler::box_at(TreeRef at) const {
  Box box(tree_.ir.ranges());
  for (TreeRef ref : tree_.path(at)) {
    box.add(counter(ref), 0, tree_.loop(ref).iterations() - 1);
  }
  if (at && tree_.kind(at) == LoopTree::NODE) add_lookups(box, at);
  return box;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

Compiler::Allocation Compiler::whole_array(NodeRef ref) {
  const Node& node = tree_.ir.node(ref);
  Allocation allocation{next_memory_++, node.dtype, {}, {}, false};
  for (VarRef var : node.vars) allocation.dims.push_back({var, 1, tree_.ir.var(var).size, 0, {}});
  set_strides(allocation.dims);
  return allocation;
}

// The dimensions of scratch memory that lives for one iteration of `around`, in the order of the node's loops.
std::vector<Compiler::Dim> Compiler::layout(NodeRef ref, TreeRef around, VarRef without) const {
  const Node& node = tree_.ir.node(ref);
  std::vector<Dim> dims;
  std::set<VarRef> looped;
  for (TreeRef loop_ref : tree_.path(tree_.find(ref))) {
    const LoopTree::Loop& loop = tree_.loop(loop_ref);
    if (!node.has(loop.var) || loop.var == without) continue;
    looped.insert(loop.var);
    if (tree_.contains(loop_ref, around) && around) continue;
    dims.push_back({loop.var, loop.step, loop.iterations(), 0, loop_ref});
  }
  for (VarRef var : node.vars) {
    if (!looped.contains(var) && var != without) dims.push_back({var, 1, tree_.ir.var(var).size, 0, {}});
  }
  set_strides(dims);
  return dims;
}

Compiler::Allocation Compiler::scratch(NodeRef ref) {
  TreeRef lca = tree_.find(ref);
  // An accumulator starts before its fold, even if nothing reads it.
  if (const TreeRef fold = outermost_fold(ref)) lca = tree_.parent(fold);
  for (NodeRef reader : tree_.ir.consumers(ref)) lca = tree_.lca(lca, tree_.find(reader));
  if (lca && tree_.kind(lca) == LoopTree::NODE) lca = tree_.parent(lca);
  return {next_memory_++, tree_.ir.node(ref).dtype, lca, layout(ref, lca, {}), true};
}

Compiler::Allocation Compiler::carry(NodeRef ref) {
  const TreeRef around = tree_.parent(outermost_fold(ref));
  const VarRef along = tree_.ir.node(ref).as<Scan>()->along;
  return {next_memory_++, tree_.ir.node(ref).dtype, around, layout(ref, around, along), true};
}

TreeRef Compiler::outermost_fold(NodeRef ref) const {
  std::vector<VarRef> folded = tree_.ir.folded_vars(ref);
  if (const auto* scan = tree_.ir.node(ref).as<Scan>()) folded.push_back(scan->along);
  for (TreeRef loop : tree_.path(tree_.find(ref))) {
    if (std::ranges::find(folded, tree_.loop(loop).var) != folded.end()) return loop;
  }
  return tree_.ir.node(ref).as<Scatter>() ? tree_.find(ref) : TreeRef();
}

// ---- wide totals ----------------------------------------------------------------------------------------------------

bool rounds(const OpDef& op, DType dtype) {
  return is_float(dtype) && (op.name.get() == "add" || op.name.get() == "mul" || op.name.get() == "logaddexp");
}

bool Compiler::is_fused(NodeRef product) const {
  const Node& node = tree_.ir.node(product);
  if (!node.computes("mul") || !is_float(node.dtype)) return false;
  const std::vector<NodeRef> readers = tree_.ir.consumers(product);
  return readers.size() == 1 && tree_.ir.node(readers[0]).sums() &&
         tree_.parent(tree_.find(product)) == tree_.parent(tree_.find(readers[0]));
}

Expr Compiler::terms_of(NodeRef reduction) const {
  Expr terms = 1;
  for (VarRef var : tree_.ir.folded_vars(reduction)) terms *= tree_.ir.var(var).size;
  return terms;
}

bool Compiler::needs_wide_total(NodeRef ref) const {
  const Node& node = tree_.ir.node(ref);
  if (!node.sums() || node.dtype != DType::kF32) return false;
  const auto is_tile = [&](TreeRef loop) { return tree_.loop(loop).annotation.mark == Mark::kTile; };
  if (std::ranges::any_of(tree_.path(tree_.find(ref)), is_tile)) return false;
  const Expr terms = terms_of(ref);
  const int64_t most = is_fused(node.inputs[0]) ? kMostNarrowProducts : kMostNarrowTerms;
  return allocations.at(ref).size().is_constant(1) || !terms.is_constant() || terms.constant() > most;
}

void Compiler::widen_totals() {
  for (auto& [ref, memory] : allocations) {
    if (memory.scratch && needs_wide_total(ref)) memory.dtype = DType::kF64;
  }
  for (auto& [ref, memory] : carries) {
    if (memory.dtype == DType::kF32 && rounds(*tree_.ir.node(ref).as<Scan>()->op, memory.dtype))
      memory.dtype = DType::kF64;
  }
}

// ---- accesses -------------------------------------------------------------------------------------------------------

const Compiler::Allocation* Compiler::memory_of(NodeRef node) const {
  const auto found = allocations.find(node);
  return found == allocations.end() ? nullptr : &found->second;
}

Compiler::Access Compiler::gen_access(NodeRef node, TreeRef ref) const {
  const Node& here = tree_.ir.node(tree_.node(ref));
  if (tree_.node(ref) == node) {
    const auto* scatter = here.as<Scatter>();
    if (!scatter) return {node, ref, tree_.ir.own_index(node), {}, memory_of(node)};
    return {node, ref, scatter->index, scatter->where, memory_of(node)};
  }
  check(std::ranges::find(here.inputs, node) != here.inputs.end(), "%{} does not read %{}", here.name,
        tree_.ir.node(node).name);
  if (const auto* view = here.as<View>()) {
    const auto piece = std::ranges::find(view->pieces, node, &Piece::input);
    if (piece != view->pieces.end()) return gen_access(*piece, ref);
  }
  return {node, ref, tree_.ir.own_index(node), {}, memory_of(node)};
}

Compiler::Access Compiler::gen_access(const Piece& piece, TreeRef ref) const {
  return {piece.input, ref, piece.index, piece.where, memory_of(piece.input)};
}

Compiler::Access Compiler::gen_lookup(const Lookup& lookup, TreeRef ref) const {
  return {lookup.indices, ref, tree_.ir.own_index(lookup.indices), {}, memory_of(lookup.indices)};
}

Compiler::Access Compiler::gen_carry(TreeRef ref) const {
  return {tree_.node(ref), ref, tree_.ir.own_index(tree_.node(ref)), {}, &carries.at(tree_.node(ref))};
}

// `coordinates`: the index along each of the node's variables, over counters.
Expr Compiler::offset_in(const Allocation& memory, NodeRef node, const std::vector<Expr>& coordinates) const {
  const std::vector<VarRef>& vars = tree_.ir.node(node).vars;
  std::map<VarRef, Expr> rest;  // the remainder of a variable after the dimensions so far
  std::vector<Expr> terms;
  for (const Dim& dim : memory.dims) {
    const auto position = static_cast<size_t>(std::ranges::find(vars, dim.var) - vars.begin());
    const auto [local, is_first] = rest.try_emplace(dim.var, coordinates[position]);
    if (is_first && memory.scratch) local->second -= index_of(dim.var, memory.lca);
    terms.push_back(floordiv(local->second, dim.step) * dim.stride);
    local->second = mod(local->second, dim.step);
  }
  return symbolic::sum(terms);
}

Expr Compiler::get_scoped_expr(const Access& access) const {
  std::vector<Expr> coordinates;
  for (const Expr& expr : access.index) coordinates.push_back(over_counters(expr, access.at));
  const Node& node = tree_.ir.node(access.node);
  if (const auto* index = node.as<Index>()) {
    symbolic::Substitution substitution;
    for (size_t i = 0; i < node.vars.size(); ++i) {
      substitution.emplace(tree_.ir.var(node.vars[i]).symbol(), coordinates[i]);
    }
    return box_at(access.at).simplify(substitute(index->value, substitution));
  }
  check(access.memory != nullptr, "%{} has no memory", node.name);
  return box_at(access.at).simplify(offset_in(*access.memory, access.node, coordinates));
}

std::vector<Constraint> Compiler::over_counters(const Access& access) const {
  std::vector<Constraint> result;
  for (const Constraint& constraint : access.where) {
    result.push_back({over_counters(constraint.expr, access.at), constraint.bound});
  }
  return result;
}

std::vector<Constraint> Compiler::get_constraints(const Access& access) const {
  std::vector<Constraint> result = over_counters(access);
  const Box box = box_at(access.at);
  std::erase_if(result, [&](const Constraint& constraint) { return box.contains(constraint); });
  return result;
}

std::optional<Expr> Compiler::stride(const Access& access, TreeRef loop) const {
  const Result<Expr> stride = differentiate(get_scoped_expr(access), counter(loop));
  if (!stride) return {};
  return *stride;
}

// ---- control flow ---------------------------------------------------------------------------------------------------

Compiler::Scope Compiler::root() const { return {{}, Box(tree_.ir.ranges()), {}, {}, 1}; }

std::vector<Constraint> Compiler::get_constraints(const Access& access, const Scope& scope) const {
  std::vector<Constraint> result = over_counters(access);
  Box box = scope.box;
  add_lookups(box, access.at);
  std::erase_if(result, [&](const Constraint& constraint) {
    return is_in(scope.proven, constraint) || box.contains(constraint);
  });
  return result;
}

std::vector<Compiler::Stretch> Compiler::stretches(TreeRef ref, const Scope& scope) const {
  const LoopTree::Loop& loop = tree_.loop(ref);
  const auto open = scope.extents.find(loop.var);
  const Expr extent = open == scope.extents.end() ? tree_.ir.var(loop.var).size : open->second;
  if (const std::optional<Expr> past = past_needed(ref, scope)) {
    const Expr end = scope.box.simplify(min(extent, max(*past, 0)));
    std::vector<Stretch> result = peeled(ref, {0, end, inside(ref, scope, 0, end, 1)}, scope);
    for (Stretch& stretch : result) stretch.scope.copies = scope.copies * static_cast<int>(result.size());
    return result;
  }
  const Expr whole = floordiv(extent, loop.step);
  const Expr all = ceildiv(extent, loop.step);
  const bool has_tail = !provably_equal(whole, all, scope.box.ranges());
  std::vector<Stretch> result;
  if (has_tail && !whole.is_constant(0) && scope.copies * 2 > kMostCopies) {
    const Expr covered = min(loop.step, extent - Expr(counter(ref)) * loop.step);
    return {{0, all, inside(ref, scope, 0, all, covered)}};
  }
  if (!whole.is_constant(0)) {
    result = peeled(ref, {0, whole, inside(ref, scope, 0, whole, loop.step)}, scope);
  }
  if (has_tail) {
    result.push_back({whole, all, inside(ref, scope, whole, all, mod(extent, loop.step))});
  }
  for (Stretch& stretch : result) stretch.scope.copies = scope.copies * static_cast<int>(result.size());
  return result;
}

Compiler::Scope Compiler::inside(TreeRef ref, const Scope& scope, const Expr& begin, const Expr& end,
                                 const Expr& extent) const {
  Scope result = scope;
  result.extents.insert_or_assign(tree_.loop(ref).var, extent);
  result.box.add(counter(ref), begin, end - 1);
  return result;
}

// The iteration of the loop from which on no element is read. Empty if there is none. An element is unread if the
// constraint of the view that would read it fails.
std::optional<Expr> Compiler::past_needed(TreeRef loop, const Scope& scope) const {
  const VarRef var = tree_.loop(loop).var;
  const Mark mark = tree_.loop(loop).annotation.mark;
  // A block in registers must stay whole.
  const bool is_whole = mark == Mark::kVectorize || mark == Mark::kUnroll || mark == Mark::kTile;
  if (is_whole || tree_.loop(loop).step != 1 || scope.extents.contains(var)) return {};
  std::optional<Expr> result;
  for (NodeRef ref : tree_.nodes_below(loop)) {
    const Node& node = tree_.ir.node(ref);
    if (node.as<Write>() || node.as<Scatter>() || node.as<Scan>()) return {};
    for (NodeRef reader : tree_.ir.consumers(ref)) {
      if (tree_.contains(loop, tree_.find(reader))) continue;
      const std::optional<Expr> past = node.has(var) ? past_read(reader, ref, loop, scope) : std::nullopt;
      if (!past) return {};
      result = result ? max(*result, *past) : *past;
    }
  }
  return result;
}

// The index of the loop's variable from which on the reader, outside of the loop, reads no element.
std::optional<Expr> Compiler::past_read(NodeRef reader, NodeRef input, TreeRef loop, const Scope& scope) const {
  const auto* view = tree_.ir.node(reader).as<View>();
  const Symbol index = tree_.ir.var(tree_.loop(loop).var).symbol();
  const Piece* const piece = view ? view->only_piece() : nullptr;
  if (!piece || piece->input != input || piece->index != tree_.ir.own_index(input)) return {};
  const TreeRef leaf = tree_.find(reader);
  Box elsewhere(scope.box.ranges());
  for (TreeRef ref : tree_.path(leaf)) {
    if (!tree_.contains(ref, loop)) elsewhere.add(counter(ref), 0, tree_.loop(ref).iterations() - 1);
  }
  std::optional<Expr> result;
  for (const Constraint& constraint : piece->where) {
    const Result<Expr> slope = differentiate(constraint.expr, index);
    if (!slope || !slope->is_constant() || slope->constant() >= 0) continue;
    const std::optional<Expr> most = elsewhere.highest(over_counters(*intercept(constraint.expr, index), leaf));
    if (!most) continue;
    const Expr past = floordiv(*most, -slope->constant()) + 1;
    result = result ? min(*result, past) : past;
  }
  return result;
}

// The constraints below a loop that depend on its counter and are not proven in the stretch.
std::vector<Compiler::Guard> Compiler::guards_below(TreeRef loop, const Scope& scope) const {
  std::vector<Guard> guards;
  for (NodeRef node : tree_.nodes_below(loop)) {
    const TreeRef leaf = tree_.find(node);
    std::vector<Access> accesses;
    if (const auto* view = tree_.ir.node(node).as<View>()) {
      for (const Piece& piece : view->pieces) accesses.push_back(gen_access(piece, leaf));
    } else if (tree_.ir.node(node).as<Scatter>()) {
      accesses.push_back(gen_access(node, leaf));
    }
    for (const Access& access : accesses) {
      for (const Constraint& constraint : over_counters(access)) {
        const bool is_open = depends_on(constraint.expr, counter(loop)) && !is_in(scope.proven, constraint) &&
                             !is_in(scope.guarded, constraint);
        if (is_open) guards.push_back({constraint, leaf});
      }
    }
  }
  return guards;
}

// The values of the counter for which a constraint holds for all counters of inner loops and all lookups.
std::optional<std::pair<Expr, Expr>> Compiler::interior(TreeRef loop, const Guard& guard, const Scope& scope) const {
  Box inner(scope.box.ranges());
  add_lookups(inner, guard.leaf);
  for (TreeRef ref : tree_.path(guard.leaf)) {
    if (tree_.depth(ref) > tree_.depth(loop)) inner.add(counter(ref), 0, tree_.loop(ref).iterations() - 1);
  }
  const Result<Expr> slope = differentiate(guard.constraint.expr, counter(loop));
  if (!slope || !slope->is_constant()) return {};
  const int64_t a = slope->constant();
  const Expr rest = *intercept(guard.constraint.expr, counter(loop));
  const std::optional<Expr> low = inner.lowest(rest), high = inner.highest(rest);
  if (!low || !high || a == 0) return {};
  const Expr last = guard.constraint.bound - 1;
  if (a > 0) return {{ceildiv(-*low, a), floordiv(last - *high, a)}};
  return {{ceildiv(*high - last, -a), floordiv(*low, -a)}};
}

// Splits a stretch so that one part has only iterations in which guards below it always hold.
std::vector<Compiler::Stretch> Compiler::peeled(TreeRef ref, Stretch whole, const Scope& around) const {
  if (around.copies * 3 > kMostCopies) return {std::move(whole)};
  Expr begin = whole.begin, end = whole.end;
  std::vector<Constraint> held;
  for (const Guard& guard : guards_below(ref, whole.scope)) {
    const auto range = interior(ref, guard, whole.scope);
    if (!range) continue;
    const Expr first = max(begin, range->first), past = min(end, range->second + 1);
    // Few iterations are not worth code of their own.
    const int64_t all = bounds(whole.end - whole.begin, whole.scope.box.ranges()).low;
    if (bounds(past - first, whole.scope.box.ranges()).high <= std::max<int64_t>(all, 0) / 4) continue;
    begin = first;
    end = past;
    if (!is_in(held, guard.constraint)) held.push_back(guard.constraint);
  }
  if (held.empty()) return {std::move(whole)};
  return around_interior(ref, whole, around, begin, end, held);
}

std::vector<Compiler::Stretch> Compiler::around_interior(TreeRef ref, const Stretch& whole, const Scope& around,
                                                         const Expr& begin, const Expr& end,
                                                         const std::vector<Constraint>& held) const {
  const Box& box = around.box;
  const Expr from = box.simplify(min(begin, whole.end));
  const Expr to = box.simplify(max(from, end));
  const Expr extent = tree_.loop(ref).step;
  std::vector<Stretch> result;
  const auto add = [&](const Expr& first, const Expr& past, bool is_interior) {
    if (bounds(past - first, box.ranges()).high <= 0) return;
    Stretch stretch{first, past, inside(ref, around, first, past, extent)};
    std::vector<Constraint>& list = is_interior ? stretch.scope.proven : stretch.scope.guarded;
    list.insert(list.end(), held.begin(), held.end());
    result.push_back(std::move(stretch));
  };
  add(whole.begin, from, false);
  add(from, to, true);
  add(to, whole.end, false);
  return result;
}

std::vector<Compiler::Fill> Compiler::fills(TreeRef ref) const {
  std::vector<Fill> result;
  for (NodeRef node : tree_.nodes_below(ref)) {
    if (outermost_fold(node) == ref) result.push_back(fill(node, ref));
  }
  return result;
}

Compiler::Fill Compiler::fill(NodeRef ref, TreeRef loop) const {
  const Node& node = tree_.ir.node(ref);
  const Allocation& memory = node.as<Scan>() ? carries.at(ref) : allocations.at(ref);
  Fill fill{.node = ref, .memory = &memory};
  std::vector<Expr> terms;
  std::map<TreeRef, Expr> positions;  // index along each of the writer's loops
  std::map<VarRef, Expr> elsewhere;   // index along variables without a loop
  for (const Dim& dim : memory.dims) {
    const bool is_outside = dim.loop && tree_.contains(dim.loop, loop);
    const Expr position = is_outside ? counter(dim.loop) : unused_symbol(fmt::format("fill_{}", fill.counters.size()));
    if (!is_outside) {
      fill.counters.push_back(position.symbol());
      fill.extents.push_back(dim.extent);
    }
    terms.push_back(position * dim.stride);
    if (dim.loop) positions.emplace(dim.loop, position);
    if (!dim.loop) elsewhere.emplace(dim.var, position);
  }
  fill.offset = symbolic::sum(terms);
  if (node.as<Scatter>()) add_source(fill, positions, elsewhere);
  return fill;
}

void Compiler::add_source(Fill& fill, const std::map<TreeRef, Expr>& positions,
                          const std::map<VarRef, Expr>& elsewhere) const {
  const NodeRef initial = tree_.ir.node(fill.node).inputs[0];
  const auto coordinate = [&](VarRef var) {
    if (const auto found = elsewhere.find(var); found != elsewhere.end()) return found->second;
    Expr sum = 0;
    for (TreeRef loop : tree_.path(tree_.find(fill.node))) {
      if (tree_.loop(loop).var != var) continue;
      const auto found = positions.find(loop);
      sum += (found == positions.end() ? Expr(counter(loop)) : found->second) * tree_.loop(loop).step;
    }
    return sum;
  };
  std::vector<Expr> coordinates;
  symbolic::Substitution substitution;
  for (VarRef var : tree_.ir.node(initial).vars) {
    coordinates.push_back(coordinate(var));
    substitution.emplace(tree_.ir.var(var).symbol(), coordinates.back());
  }
  Box box = box_at(tree_.find(fill.node));
  for (size_t i = 0; i < fill.counters.size(); ++i) box.add(fill.counters[i], 0, fill.extents[i] - 1);
  for (VarRef var : tree_.ir.node(fill.node).vars) {
    const Constraint exists{coordinate(var), tree_.ir.var(var).size};
    if (!box.contains(exists)) fill.where.push_back(exists);
  }
  fill.source = initial;
  if (const auto* index = tree_.ir.node(initial).as<Index>())
    fill.source_offset = substitute(index->value, substitution);
  const Allocation* memory = memory_of(initial);
  if (memory) fill.source_offset = box.simplify(offset_in(*memory, initial, coordinates));
}

}  // namespace tenon::loops
