#include "schedule/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "symbolic/typical_size.h"

namespace tenon {

using namespace loops;

// ---- what is what ---------------------------------------------------------------------------------------------------

bool is_sum_of_products(const IR& ir, NodeRef ref) {
  if (!ir.node(ref).sums() || ir.node(ref).dtype == DType::kBool) return false;
  const NodeRef product = ir.node(ref).inputs[0];
  return ir.node(product).computes("mul") && ir.consumers(product).size() == 1;
}

VarRef contiguous_of(const IR& ir, const Vars& vars) {
  const auto is_wide = [&](VarRef var) { return !ir.var(var).size.is_constant(1); };
  const auto found = std::find_if(vars.rbegin(), vars.rend(), is_wide);
  return found == vars.rend() ? VarRef() : *found;
}

void collect_makers(const IR& ir, NodeRef ref, NodeRef user, std::set<NodeRef>& makers) {
  const Node& node = ir.node(ref);
  if (!node.as<loops::Compute>() && !node.as<View>()) return;
  const auto serves = [&](NodeRef reader) { return reader == user || makers.contains(reader); };
  if (!std::ranges::all_of(ir.consumers(ref), serves)) return;
  makers.insert(ref);
  for (NodeRef input : node.inputs) collect_makers(ir, input, ref, makers);
}

std::vector<NodeRef> epilogue_of(const IR& ir, NodeRef sum) {
  std::vector<NodeRef> result;
  std::set<NodeRef> depends = {sum};
  for (NodeRef ref : ir.order()) {
    const Node& node = ir.node(ref);
    if (std::ranges::none_of(node.inputs, [&](NodeRef input) { return depends.contains(input); })) continue;
    depends.insert(ref);
    const auto keeps = [&](VarRef var) { return node.has(var); };
    const bool is_elementwise = (node.as<loops::Compute>() || node.as<Write>()) &&
                                std::ranges::all_of(ir.node(sum).vars, keeps) &&
                                node.vars.size() >= ir.node(sum).vars.size();
    const auto is_inside = [&](NodeRef input) {
      return !depends.contains(input) || input == sum || is_in(result, input);
    };
    if (is_elementwise && std::ranges::all_of(node.inputs, is_inside)) result.push_back(ref);
  }
  return result;
}

namespace {

// Whether the node is elementwise over exactly the fold's variables, and only `readers` read it.
bool serves(const IR& ir, NodeRef ref, NodeRef sum, const std::set<NodeRef>& readers) {
  const Node& node = ir.node(ref);
  const auto* view = node.as<View>();
  if (!node.as<loops::Compute>() && !(view && view->only_piece())) return false;
  const auto keeps = [&](VarRef var) { return node.has(var); };
  return node.vars.size() == ir.node(sum).vars.size() && std::ranges::all_of(ir.node(sum).vars, keeps) &&
         std::ranges::all_of(ir.consumers(ref), [&](NodeRef reader) { return readers.contains(reader); });
}

constexpr int64_t kMostAbout = 1 << 29;  // The product of two such numbers, in bytes, fits 64 bits.
constexpr double kBusyEnough = 0.85;     // The share of time that threads work, from which an inner loop is no better.

// Sorts variables in the order of the operand's dimensions. The last is contiguous.
void sort_by_layout(const IR& ir, NodeRef operand, Vars& vars) {
  const Vars& layout = ir.node(operand).vars;
  const auto position = [&](VarRef var) { return std::ranges::find(layout, var) - layout.begin(); };
  std::ranges::stable_sort(vars, {}, position);
}

void move_to_end(Vars& vars, VarRef var) {
  std::erase(vars, var);
  vars.push_back(var);
}

}  // namespace

std::vector<NodeRef> with_operands(const IR& ir, NodeRef sum, const std::vector<NodeRef>& epilogue) {
  std::set<NodeRef> all(epilogue.begin(), epilogue.end());
  for (auto ref = ir.order().rbegin(); ref != ir.order().rend(); ++ref) {
    if (*ref != sum && serves(ir, *ref, sum, all)) all.insert(*ref);
  }
  std::vector<NodeRef> result;
  std::ranges::copy_if(ir.order(), std::back_inserter(result), [&](NodeRef ref) { return all.contains(ref); });
  return result;
}

VarRef column_of(const IR& ir, NodeRef sum, const std::vector<NodeRef>& epilogue) {
  for (NodeRef ref : epilogue) {
    if (ir.node(ref).as<Write>()) return contiguous_of(ir, ir.node(ref).vars);
  }
  return contiguous_of(ir, ir.node(sum).vars);
}

std::optional<Contraction> find_contraction(const IR& ir) {
  std::vector<NodeRef> sums;
  for (NodeRef ref : ir.order()) {
    if (is_sum_of_products(ir, ref)) sums.push_back(ref);
  }
  if (sums.size() != 1) return {};
  Contraction c{.sum = sums[0], .product = ir.node(sums[0]).inputs[0]};
  c.a = ir.node(c.product).inputs[0];
  c.b = ir.node(c.product).inputs[1];
  c.epilogue = with_operands(ir, c.sum, epilogue_of(ir, c.sum));
  const VarRef column = column_of(ir, c.sum, c.epilogue);
  if (!column || !ir.node(c.sum).has(column)) return {};
  if (!ir.node(c.b).has(column)) std::swap(c.a, c.b);
  if (c.a == c.b || !ir.node(c.b).has(column) || ir.node(c.a).has(column)) return {};
  for (VarRef var : ir.node(c.sum).vars) {
    const bool in_a = ir.node(c.a).has(var), in_b = ir.node(c.b).has(var);
    (in_a && in_b ? c.batch : in_a ? c.rows : c.columns).push_back(var);
  }
  c.folded = ir.folded_vars(c.sum);
  sort_by_layout(ir, c.a, c.folded);
  move_to_end(c.columns, column);
  collect_makers(ir, c.a, c.product, c.makes_a);
  collect_makers(ir, c.b, c.product, c.makes_b);
  return c;
}

std::optional<NarrowContraction> find_narrow_contraction(const IR& ir) {
  std::optional<Contraction> c = find_contraction(ir);
  if (!c || c->rows.empty()) return {};
  const std::vector<NodeRef> casts = {c->a, c->b};
  const auto is_own_cast = [&](NodeRef ref) { return ir.node(ref).computes("cast") && ir.consumers(ref).size() == 1; };
  if (!std::ranges::all_of(casts, is_own_cast)) return {};
  c->a = ir.node(casts[0]).inputs[0];
  c->b = ir.node(casts[1]).inputs[0];
  if (ir.consumers(c->b).size() != 1) return {};
  c->makes_a.clear();
  c->makes_b.clear();
  collect_makers(ir, c->a, casts[0], c->makes_a);
  collect_makers(ir, c->b, casts[1], c->makes_b);
  return NarrowContraction{*std::move(c), casts};
}

// ---- names and loops ------------------------------------------------------------------------------------------------

NodeRef add_named_copy(IR& ir, NodeRef of, std::string_view suffix) {
  return ir.add_copy(of, ir.node(of).vars, ir.unused_node_name(ir.node(of).name + std::string(suffix)));
}

std::string unused_var_name(const IR& ir, const std::string& name) {
  std::string result = name;
  for (int i = 1; ir.var_named(result); ++i) result = fmt::format("{}{}", name, i);
  return result;
}

LoopSpecs joined(LoopSpecs first, const LoopSpecs& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

LoopSpecs loops_over(const Vars& vars) {
  LoopSpecs loops;
  for (VarRef var : vars) loops.push_back({.var = var});
  return loops;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

int64_t about(const Expr& size) {
  return size.is_constant() ? std::min(size.constant(), kMostAbout) : symbolic::kTypicalSize;
}

int64_t about(const IR& ir, const Vars& vars) {
  int64_t product = 1;
  for (VarRef var : vars) product = std::min(product * std::max<int64_t>(about(ir.var(var).size), 1), 2 * kMostAbout);
  return product;
}

double cost_of(const RegisterTile& tile, int64_t rows, int64_t columns, int64_t lanes, const Machine& machine) {
  const auto block = [&](int64_t r, int64_t c) {
    return std::max(static_cast<double>(r * c) + machine.load_cost * static_cast<double>(r + c),
                    static_cast<double>(machine.in_flight()));
  };
  const int64_t vectors = divided_up(columns, lanes), wide = tile.columns / lanes;
  const int64_t row_blocks = rows / tile.rows, row_rest = rows % tile.rows;
  const int64_t column_blocks = vectors / wide, column_rest = vectors % wide;
  const auto times = [](int64_t a, int64_t b) { return static_cast<double>(a * b); };
  double cost = times(row_blocks, column_blocks) * block(tile.rows, wide);
  if (row_rest > 0) cost += times(column_blocks, 1) * block(row_rest, wide);
  if (column_rest > 0) cost += times(row_blocks, 1) * block(tile.rows, column_rest);
  if (row_rest > 0 && column_rest > 0) cost += block(row_rest, column_rest);
  return cost;
}

RegisterTile pick_tile(int64_t lanes, const Machine& machine,
                       const std::function<double(const RegisterTile&)>& cost_of) {
  RegisterTile best{1, lanes};
  double best_cost = std::numeric_limits<double>::infinity();
  for (int64_t wide = machine.most_block_vectors; wide >= 1; --wide) {
    for (int64_t high = 1; high <= machine.most_block_rows && machine.holds_block(high, wide); ++high) {
      const RegisterTile tile{high, wide * lanes};
      const double cost = cost_of(tile);
      if (cost >= best_cost) continue;
      best = tile;
      best_cost = cost;
    }
  }
  return best;
}

RegisterTile pick_tile(int64_t rows, int64_t columns, int64_t lanes, const Machine& machine) {
  return pick_tile(lanes, machine,
                   [&](const RegisterTile& tile) { return cost_of(tile, rows, columns, lanes, machine); });
}

LoopSpecs with_threads(const IR& ir, LoopSpecs loops, const Machine& machine) {
  const auto busy = [&](const LoopSpec& loop) {
    return machine.busy_share(divided_up(about(ir.var(loop.var).size), loop.step));
  };
  if (loops.empty()) return loops;
  auto best = loops.begin();
  for (auto loop = loops.begin(); loop != loops.end(); ++loop) {
    if (busy(*best) >= kBusyEnough) break;
    if (busy(*loop) > busy(*best)) best = loop;
  }
  best->annotation.mark = Mark::kParallel;
  std::rotate(loops.begin(), best, best + 1);
  return loops;
}

LoopSpecs loops_it_has(const IR& ir, NodeRef ref, LoopSpecs loops) {
  const Vars own = ir.iteration_vars(ref);
  std::erase_if(loops, [&](const LoopSpec& loop) { return !is_in(own, loop.var); });
  for (VarRef var : own) {
    if (std::ranges::any_of(loops, [&](const LoopSpec& loop) { return loop.var == var && loop.step == 1; })) continue;
    const auto lanes =
        std::ranges::find(loops, Mark::kVectorize, [](const LoopSpec& loop) { return loop.annotation.mark; });
    loops.insert(lanes, {.var = var});  // a loop over lanes stays the innermost
  }
  return loops;
}

std::vector<NodeRef> needed_by(const IR& ir, const std::vector<NodeRef>& core) {
  std::set<NodeRef> needed;
  const std::function<void(NodeRef)> need = [&](NodeRef ref) {
    if (!needed.insert(ref).second) return;
    for (NodeRef input : ir.node(ref).inputs) need(input);
  };
  std::ranges::for_each(core, need);
  std::vector<NodeRef> result;
  std::ranges::copy_if(ir.order(), std::back_inserter(result),
                       [&](NodeRef ref) { return needed.contains(ref) && !is_in(core, ref); });
  return result;
}

void order_around(IR& ir, const std::vector<NodeRef>& core) {
  const std::set<NodeRef> listed(ir.order().begin(), ir.order().end());
  std::vector<NodeRef> order;
  std::set<NodeRef> done;
  const std::function<void(NodeRef)> place = [&](NodeRef ref) {
    if (!listed.contains(ref) || !done.insert(ref).second) return;
    std::ranges::for_each(ir.node(ref).inputs, place);
    order.push_back(ref);
  };
  // Nodes that the core needs and that depend on the core are placed between its nodes.
  std::set<NodeRef> of_core(core.begin(), core.end());
  for (NodeRef ref : ir.order()) {
    if (std::ranges::any_of(ir.node(ref).inputs, [&](NodeRef input) { return of_core.contains(input); }))
      of_core.insert(ref);
  }
  for (NodeRef ref : needed_by(ir, core)) {
    if (!of_core.contains(ref)) place(ref);
  }
  std::ranges::for_each(core, place);
  std::ranges::for_each(std::vector(ir.order()), place);
  ir.set_order(std::move(order));
}

}  // namespace tenon
