#include <algorithm>

#include "schedule/attention_kernel.h"

namespace tenon {

using namespace loops;

namespace {

class TiledAttention {
 public:
  TiledAttention(IR& ir, AttentionKernel& attention, const Machine& machine) : ir_(ir), a_(attention) {
    const auto multiplies = [](const TileIntrinsic& tile) { return tile.m > 1 && tile.a == DType::kBF16; };
    const auto found = std::ranges::find_if(machine.tiles, multiplies);
    if (found != machine.tiles.end()) tile_ = &*found;
  }

  void run() {
    if (!tile_ || !find_operands() || !has_sizes()) return;
    a_.tile = tile_;
    narrow_scores();
    narrow_mix();
  }

 private:
  // ---- what is what ----

  // The cast of a narrow operand that nothing else reads, and that is computed before the products.
  bool is_own_cast(NodeRef ref) const {
    const Node& cast = ir_.node(ref);
    return cast.computes("cast") && ir_.node(cast.inputs[0]).dtype == tile_->a && ir_.consumers(ref).size() == 1;
  }

  bool is_in_stage(NodeRef ref, AttentionStage stage) const { return is_in(a_.stages, std::pair(ref, stage)); }

  bool find_operands() {
    cast_of_queries_ = a_.scores.a;
    if (const Node& scaled = ir_.node(a_.scores.a); scaled.computes("mul")) {
      const auto is_factor = [&](NodeRef input) { return ir_.node(input).vars.empty(); };
      const auto factor = std::ranges::find_if(scaled.inputs, is_factor);
      if (factor == scaled.inputs.end() || ir_.consumers(a_.scores.a).size() != 1) return false;
      scale_ = *factor;
      cast_of_queries_ = scaled.inputs[factor == scaled.inputs.begin() ? 1 : 0];
    }
    const NodeRef casts[] = {cast_of_queries_, a_.scores.b, a_.mix.b};
    if (!std::ranges::all_of(casts, [&](NodeRef ref) { return is_own_cast(ref); })) return false;
    const NodeRef keys = ir_.node(a_.scores.b).inputs[0], values = ir_.node(a_.mix.b).inputs[0];
    const auto* view = ir_.node(values).as<View>();
    return is_in_stage(cast_of_queries_, AttentionStage::kQueries) && is_in_stage(keys, AttentionStage::kKeys) &&
           is_in_stage(values, AttentionStage::kValues) && view && view->only_piece() &&
           view->fill == zero_of(tile_->b) && ir_.consumers(values).size() == 1 && is_weights(ir_.node(a_.mix.a));
  }

  bool is_weights(const Node& node) const {
    return node.dtype == tile_->c && node.has(a_.lane) && (!a_.group || node.has(a_.group));
  }

  // Whether tiles have as many lanes as groups of keys, whole steps, and more rows than one tile.
  bool has_sizes() const {
    const auto size = [&](VarRef var) { return var && ir_.var(var).size.is_constant() ? about(ir_.var(var).size) : 0; };
    return size(a_.query) > tile_->m && size(a_.lane) == tile_->n && size(a_.features) > 0 &&
           size(a_.features) % tile_->k == 0 && size(a_.columns) > 0 && size(a_.columns) % tile_->n == 0 &&
           (!a_.group || size(a_.group) > 0);
  }

  // ---- changes ----

  void move(NodeRef ref, AttentionStage to) {
    for (auto& [each, stage] : a_.stages) stage = each == ref ? to : stage;
  }

  void add(NodeRef ref, AttentionStage stage) { a_.stages.emplace_back(ref, stage); }

  void replace_input(NodeRef of, NodeRef by) {
    for (NodeRef reader : ir_.consumers(of)) {
      if (reader != by) ir_.set_input(reader, of, by);
    }
  }

  // The refs of the nodes after one that is dropped move.
  void drop(NodeRef dropped) {
    ir_ = ir_.without(dropped);
    std::erase_if(a_.stages, [&](const auto& entry) { return entry.first == dropped; });
    const auto moved = [&](NodeRef& ref) {
      if (ref && ref.id > dropped.id) --ref.id;
    };
    for (auto& [ref, stage] : a_.stages) moved(ref);
    for (SumOfProducts* each : {&a_.scores, &a_.mix}) {
      for (NodeRef* ref : {&each->sum, &each->product, &each->a, &each->b}) moved(*ref);
    }
    moved(a_.packed_weights);
  }

  void narrow_scores() {
    move(cast_of_queries_, AttentionStage::kScores);
    move(a_.scores.b, AttentionStage::kScores);
    const NodeRef queries = ir_.node(cast_of_queries_).inputs[0];
    if (!is_in_stage(queries, AttentionStage::kQueries)) {
      const NodeRef copy = add_named_copy(ir_, queries, "_packed");
      ir_.set_input(cast_of_queries_, queries, copy);
      add(copy, AttentionStage::kQueries);
    }
    if (!scale_) return;
    const NodeRef scaled_queries = a_.scores.a;
    ir_.set_input(a_.scores.product, scaled_queries, cast_of_queries_);
    a_.scores.a = cast_of_queries_;
    const NodeRef sum = a_.scores.sum;
    const NodeRef scaled = ir_.add_compute(op_named("mul"), {sum, scale_}, ir_.node(sum).vars);
    replace_input(sum, scaled);
    const auto after = std::ranges::find(a_.stages, std::pair(sum, AttentionStage::kScores));
    a_.stages.insert(after + 1, {scaled, AttentionStage::kRaw});
    drop(scaled_queries);
  }

  int64_t groups() const { return a_.group ? ir_.var(a_.group).size.constant() : 1; }

  // Where a node over groups and lanes has the elements of a key.
  Expr at_key(const Expr& index) const {
    const Expr key(ir_.var(a_.key).symbol());
    symbolic::Substitution by = {{ir_.var(a_.lane).symbol(), mod(key, tile_->n)}};
    if (a_.group) by.emplace(ir_.var(a_.group).symbol(), floordiv(key, tile_->n));
    return substitute(index, by);
  }

  // A view of the piece, with keys in place of groups and lanes.
  NodeRef over_keys(Piece piece, const Vars& vars) {
    for (Expr& index : piece.index) index = at_key(index);
    for (Constraint& guard : piece.where) guard.expr = at_key(guard.expr);
    const int64_t keys = groups() * tile_->n;
    if (!ir_.var(a_.key).size.is_constant(keys)) piece.where.push_back({Expr(ir_.var(a_.key).symbol()), keys});
    for (size_t dim = 0; dim < piece.index.size(); ++dim) {
      const Constraint exists{piece.index[dim], ir_.var(ir_.node(piece.input).vars[dim]).size};
      if (!provably_within(exists.expr, exists.bound, ir_) && !is_in(piece.where, exists))
        piece.where.push_back(exists);
    }
    Vars own;
    for (VarRef var : vars) {
      if (var == a_.lane) own.push_back(a_.key);
      if (var != a_.lane && var != a_.group) own.push_back(var);
    }
    return ir_.add_view({{piece}, zero_of(tile_->a), {}}, own);
  }

  void narrow_mix() {
    const auto cast = [&](NodeRef ref, DType dtype) {
      return ir_.add_compute(op_named("cast"), {ref}, ir_.node(ref).vars, dtype);
    };
    const SumOfProducts old = a_.mix;
    const NodeRef old_values = ir_.node(old.b).inputs[0];
    a_.key = ir_.add_var(unused_var_name(ir_, "r"), divided_up(groups() * tile_->n, tile_->k) * tile_->k);
    const NodeRef weights = cast(old.a, tile_->a);
    a_.packed_weights = over_keys({weights, ir_.own_index(weights), {}}, ir_.node(weights).vars);
    const NodeRef values = over_keys(ir_.node(old_values).as<View>()->pieces[0], ir_.node(old_values).vars);
    add(weights, AttentionStage::kRows);
    add(a_.packed_weights, AttentionStage::kRows);
    add(values, AttentionStage::kValues);
    a_.mix.a = cast(a_.packed_weights, tile_->c);
    a_.mix.b = cast(values, tile_->c);
    Vars all = ir_.node(old.sum).vars;
    all.push_back(a_.key);
    a_.mix.product = ir_.add_compute(op_named("mul"), {a_.mix.a, a_.mix.b}, all);
    a_.mix.sum = ir_.add_reduce(op_named("add"), a_.mix.product, ir_.node(old.sum).vars);
    for (NodeRef ref : {a_.mix.a, a_.mix.b, a_.mix.product, a_.mix.sum}) add(ref, AttentionStage::kMix);
    replace_input(old.sum, a_.mix.sum);
    std::vector<NodeRef> dropped = {old.sum, old.product, old.b, old_values};
    std::ranges::sort(dropped, std::greater(), &NodeRef::id);
    for (NodeRef ref : dropped) drop(ref);
  }

  IR& ir_;
  AttentionKernel& a_;
  const TileIntrinsic* tile_ = nullptr;
  NodeRef cast_of_queries_ = {};
  NodeRef scale_ = {};
};

}  // namespace

void take_tiles(IR& ir, AttentionKernel& attention, const Machine& machine) {
  TiledAttention(ir, attention, machine).run();
}

}  // namespace tenon
