// Attention: two sums of products with a softmax between them.
//
// The op's loops have a variable for queries, and three for keys: blocks of groups of lanes. The schedule runs a block
// of queries over one block of keys at a time, so that scores and weights stay in the cache:
//
//     for batch parallel
//       %k_packed[block, group, feature, lane]   keys become lanes, once for all queries
//       for query by 32
//         for block
//           scores by register tiles: queries x lanes
//           the best score, exp and their sum, row by row
//           weights times values by register tiles: queries x features of values
//         for query                              the blocks together, ..., write
//
// With few queries each key is read only a few times, and packing does not pay: scores are dot products along the
// features.
//
// Where the machine multiplies tiles of rows and columns (tiled_attention.cpp), both products are such tiles: rows are
// queries, columns are keys or features of values. Queries, keys and values are packed as the tiles read them.
#include <algorithm>
#include <set>

#include "loops/schedule.h"
#include "schedule/attention_kernel.h"
#include "schedule/default_schedule.h"
#include "symbolic/typical_size.h"

namespace tenon {
namespace {

using namespace loops;

// ---- what is what ---------------------------------------------------------------------------------------------------

std::set<NodeRef> dependents(const IR& ir, NodeRef of) {
  std::set<NodeRef> result = {of};
  for (NodeRef ref : ir.order()) {
    const auto depends = [&](NodeRef input) { return result.contains(input); };
    if (std::ranges::any_of(ir.node(ref).inputs, depends)) result.insert(ref);
  }
  return result;
}

std::vector<SumOfProducts> sums_of_products(const IR& ir) {
  std::vector<SumOfProducts> sums;
  for (NodeRef ref : ir.order()) {
    if (!is_sum_of_products(ir, ref) || !is_float(ir.node(ref).dtype)) continue;
    const NodeRef product = ir.node(ref).inputs[0];
    sums.push_back({ref, product, ir.node(product).inputs[0], ir.node(product).inputs[1]});
  }
  return sums;
}

class AttentionFinder {
 public:
  explicit AttentionFinder(const IR& ir) : ir_(ir) {}

  std::optional<AttentionKernel> run() {
    if (!find_sums() || !find_vars() || !find_stages()) return {};
    return found_;
  }

 private:
  // The first sum gives the scores. The second is the only sum with one operand that depends on the scores and one that
  // does not.
  bool find_sums() {
    std::vector<SumOfProducts> sums = sums_of_products(ir_);
    if (sums.size() < 2) return false;
    found_.scores = sums[0];
    on_scores_ = dependents(ir_, sums[0].sum);
    std::erase_if(sums, [&](const SumOfProducts& s) { return on_scores_.contains(s.a) == on_scores_.contains(s.b); });
    if (sums.size() != 1) return false;
    found_.mix = sums[0];
    if (!on_scores_.contains(found_.mix.a)) std::swap(found_.mix.a, found_.mix.b);
    return found_.mix.a != found_.scores.sum;
  }

  bool find_vars() {
    const Node &scores = ir_.node(found_.scores.sum), &mix = ir_.node(found_.mix.sum);
    Vars keys = ir_.folded_vars(found_.mix.sum);
    const auto is_key = [&](VarRef var) { return is_in(keys, var); };
    if (keys.empty() || keys.size() > 2 || !std::ranges::all_of(keys, [&](VarRef var) { return scores.has(var); })) {
      return false;
    }
    for (VarRef var : scores.vars) {
      if (is_key(var)) (found_.group = found_.lane, found_.lane = var);
    }
    if (!ir_.node(found_.scores.b).has(found_.lane)) std::swap(found_.scores.a, found_.scores.b);
    const Node &queries = ir_.node(found_.scores.a), &key = ir_.node(found_.scores.b);
    if (!key.has(found_.lane) || queries.has(found_.lane) || !ir_.node(found_.mix.b).has(found_.lane)) return false;
    for (VarRef var : scores.vars) {
      if (is_key(var)) continue;
      if (queries.has(var) && !key.has(var)) found_.query = var;
      if (!queries.has(var) && mix.has(var) && ir_.node(found_.mix.b).has(var)) found_.block = var;
    }
    for (VarRef var : scores.vars) {
      if (!is_key(var) && var != found_.query && var != found_.block) found_.batch.push_back(var);
    }
    const Vars folded = ir_.folded_vars(found_.scores.sum);
    Vars columns = mix.vars;
    std::erase_if(columns, [&](VarRef var) { return scores.has(var); });
    if (folded.size() != 1 || columns.size() != 1 || columns == folded) return false;
    found_.features = folded[0];
    found_.columns = columns[0];
    return ir_.var(found_.lane).size.is_constant();
  }

  // ---- stages ----

  bool find_stages() {
    collect_makers(found_.scores.b, found_.scores.product, keys_);
    collect_makers(found_.scores.a, found_.scores.product, queries_);
    collect_makers(found_.mix.b, found_.mix.product, values_);
    for (NodeRef ref : ir_.order()) {
      const std::optional<AttentionStage> stage = on_scores_.contains(ref) ? stage_after(ref) : stage_before(ref);
      if (!stage) return false;
      stages_[ref] = *stage;
      found_.stages.emplace_back(ref, *stage);
    }
    return true;
  }

  // Collects the elementwise nodes whose results are used for `ref` only.
  void collect_makers(NodeRef ref, NodeRef user, std::set<NodeRef>& makers) const {
    const Node& node = ir_.node(ref);
    if (!is_elementwise(node) || node.vars.empty() || !node.lookups().empty()) return;
    const auto serves = [&](NodeRef reader) { return reader == user || makers.contains(reader); };
    if (!std::ranges::all_of(ir_.consumers(ref), serves)) return;
    makers.insert(ref);
    for (NodeRef input : node.inputs) collect_makers(input, ref, makers);
  }

  static bool is_elementwise(const Node& node) { return node.as<loops::Compute>() || node.as<View>(); }

  std::optional<AttentionStage> stage_before(NodeRef ref) const {
    if (ref == found_.scores.product) return AttentionStage::kScores;
    if (keys_.contains(ref))
      return only_over(ref, {found_.block, found_.group, found_.lane, found_.features}, AttentionStage::kKeys);
    if (queries_.contains(ref)) return only_over(ref, {found_.query, found_.features}, AttentionStage::kQueries);
    if (values_.contains(ref))
      return only_over(ref, {found_.block, found_.group, found_.lane, found_.columns}, AttentionStage::kValues);
    const Node& node = ir_.node(ref);
    const bool is_beside_scores = is_elementwise(node) && node.has(found_.lane) && serves_scores(ref);
    return is_beside_scores ? AttentionStage::kRaw : AttentionStage::kBefore;
  }

  std::optional<AttentionStage> only_over(NodeRef ref, Vars vars, AttentionStage stage) const {
    vars.insert(vars.end(), found_.batch.begin(), found_.batch.end());
    const auto is_known = [&](VarRef var) { return is_in(vars, var); };
    return std::ranges::all_of(ir_.iteration_vars(ref), is_known) ? stage : AttentionStage::kBefore;
  }

  // Whether all readers are elementwise nodes on scores. A mask is such a node.
  bool serves_scores(NodeRef ref) const {
    const Node& scores = ir_.node(found_.scores.sum);
    if (!std::ranges::all_of(ir_.node(ref).vars, [&](VarRef var) { return scores.has(var); })) return false;
    return std::ranges::all_of(ir_.consumers(ref), [&](NodeRef reader) {
      return (on_scores_.contains(reader) && is_elementwise(ir_.node(reader)) && ir_.node(reader).has(found_.lane)) ||
             (is_elementwise(ir_.node(reader)) && serves_scores(reader));
    });
  }

  std::optional<AttentionStage> stage_after(NodeRef ref) const {
    if (ref == found_.scores.sum) return AttentionStage::kScores;
    if (ref == found_.mix.product || ref == found_.mix.sum) return AttentionStage::kMix;
    const Node& node = ir_.node(ref);
    if (!is_elementwise(node) && !node.as<Reduce>() && !node.as<Write>()) return {};
    if (!node.lookups().empty() || !reads_in_place(ref)) return {};
    AttentionStage stage = AttentionStage::kRaw;
    for (NodeRef input : node.inputs) {
      if (const auto known = stages_.find(input); known != stages_.end() && on_scores_.contains(input)) {
        stage = std::max(stage, known->second);
      }
    }
    // A view of the results of blocks selects the blocks that exist. It runs after all blocks.
    const bool is_of_blocks = node.as<View>() && !node.has(found_.lane);
    const bool is_late =
        stage >= AttentionStage::kMix || node.as<Write>() || ir_.folds(ref, found_.block) || is_of_blocks;
    if (is_late) return fits_end(ref) ? std::optional(AttentionStage::kEnd) : std::nullopt;
    if (stage <= AttentionStage::kRaw && has_all_of_scores(node)) return AttentionStage::kRaw;
    return fits_rows(ref) ? std::optional(AttentionStage::kRows) : std::nullopt;
  }

  // Whether the node reads everything that depends on scores at its own index. Then rows and blocks can run separately.
  bool reads_in_place(NodeRef ref) const {
    return std::ranges::all_of(ir_.node(ref).inputs, [&](NodeRef input) {
      return !on_scores_.contains(input) ||
             std::ranges::all_of(ir_.node(input).vars, [&](VarRef var) { return ir_.reads_in_step(ref, input, var); });
    });
  }

  bool has_all_of_scores(const Node& node) const {
    const Node& scores = ir_.node(found_.scores.sum);
    return is_elementwise(node) && node.vars.size() == scores.vars.size() &&
           std::ranges::all_of(scores.vars, [&](VarRef var) { return node.has(var); });
  }

  bool fits_rows(NodeRef ref) const {
    const auto is_key = [&](VarRef var) { return var == found_.group || var == found_.lane; };
    const Node& scores = ir_.node(found_.scores.sum);
    return std::ranges::all_of(ir_.folded_vars(ref), is_key) &&
           std::ranges::all_of(ir_.iteration_vars(ref), [&](VarRef var) { return scores.has(var); });
  }

  bool fits_end(NodeRef ref) const {
    const auto may_fold = [&](VarRef var) { return var == found_.block || var == found_.columns; };
    const auto is_known = [&](VarRef var) {
      return is_in(found_.batch, var) || var == found_.query || may_fold(var) || ir_.var(var).size.is_constant(1);
    };
    return std::ranges::all_of(ir_.folded_vars(ref), may_fold) &&
           std::ranges::all_of(ir_.iteration_vars(ref), is_known);
  }

  const IR& ir_;
  AttentionKernel found_{};
  std::set<NodeRef> on_scores_;
  std::set<NodeRef> keys_;
  std::set<NodeRef> queries_;
  std::set<NodeRef> values_;
  std::map<NodeRef, AttentionStage> stages_;
};

// ---- the schedule ---------------------------------------------------------------------------------------------------

constexpr int64_t kTileRows[] = {6, 5, 4};  // Queries of a register tile, the best first.
// The share of time that threads work from which batches are parallel. Blocks of queries would be shared more evenly,
// but every thread would pack all keys.
constexpr double kBusyEnough = 0.8;

class AttentionScheduler {
 public:
  AttentionScheduler(IR ir, AttentionKernel attention, const Machine& machine)
      : ir_(std::move(ir)), a_(std::move(attention)), machine_(machine) {
    lanes_ = machine.lanes(ir_.node(a_.scores.sum).dtype);
    wide_ = machine.most_block_vectors;
    if (!machine.holds_block(kTileRows[0], wide_)) wide_ /= 2;
    groups_ = std::max<int64_t>(1, wide_ * lanes_ / size(a_.lane));
    pick_rows();
  }

  LoopTree run() {
    set_outer();
    keep(AttentionStage::kRaw, a_.scores.sum);
    keep(AttentionStage::kMixed, a_.mix.sum);
    // Nodes that are not packed run in the tile that reads them.
    if (is_dots_) move(AttentionStage::kKeys, AttentionStage::kScores);
    if (is_dots_ || !are_values_packed()) move(AttentionStage::kValues, AttentionStage::kMix);
    std::map<AttentionStage, std::vector<NodeRef>> stages;
    for (const auto& [ref, stage] : a_.stages) {
      stages[stage].push_back(ref);
      if (stage != AttentionStage::kBefore) ir_.set_loops(ref, loops_of(ref, stage));
    }
    std::vector<NodeRef> order;
    for (const auto& [stage, refs] : stages) order.insert(order.end(), refs.begin(), refs.end());
    ir_.set_order(std::move(order));
    return LoopTree(std::move(ir_));
  }

 private:
  // ---- sizes ----

  int64_t size(VarRef var) const {
    if (!var) return 1;
    const Expr& size = ir_.var(var).size;
    return size.is_constant() ? size.constant() : symbolic::kTypicalSize;
  }

  bool is_longer(VarRef var, int64_t than) const {
    return var && !(ir_.var(var).size.is_constant() && size(var) <= than);
  }

  // A number of rows that divides the queries; otherwise a small one. The remaining rows need code of their own.
  void pick_rows() {
    const int64_t queries = size(a_.query);
    if (a_.tile) {
      rows_ = a_.tile->m;
      queries_ = 2 * rows_;
      return;
    }
    const bool is_known = a_.query && ir_.var(a_.query).size.is_constant();
    rows_ = std::ranges::min(kTileRows);
    for (int64_t rows : kTileRows) {
      if (is_known && queries % rows == 0) {
        rows_ = rows;
        break;
      }
    }
    if (is_known) rows_ = std::max<int64_t>(1, std::min(rows_, queries));
    is_dots_ = (is_known || !a_.query) && queries <= machine_.most_dot_queries;
    const int64_t wanted = machine_.attention_queries, most = machine_.most_attention_queries;
    queries_ = wanted / rows_ * rows_;
    for (int64_t block = most / rows_ * rows_; is_known && block >= wanted / 2; block -= rows_) {
      if (queries % block == 0) {
        queries_ = block;
        break;
      }
    }
  }

  // ---- tiles ----

  void tile(LoopSpecs& loops, VarRef rows, VarRef columns, VarRef steps) const {
    const int64_t group = a_.tile->k / a_.tile->m;
    loops.push_back({.var = rows, .annotation = {Mark::kTile, a_.tile->name}});
    loops.push_back({.var = steps, .step = group});
    loops.push_back({.var = columns});
    loops.push_back({.var = steps});
  }

  // Makes the steps of a group neighbours.
  void interleaved(LoopSpecs& loops, VarRef columns, VarRef steps) const {
    loops.push_back({.var = steps, .step = a_.tile->k / a_.tile->m});
    by(loops, columns, a_.tile->n);
    loops.push_back({.var = columns, .annotation = {Mark::kTile, "interleave"}});
    loops.push_back({.var = steps});
  }

  LoopSpecs tiles_of_scores() const {
    LoopSpecs loops = in_block();
    by(loops, a_.group, 2);
    loops.push_back({.var = a_.features, .step = a_.tile->k});
    loops.push_back({.var = a_.query, .step = rows_, .annotation = {Mark::kUnroll}});
    unrolled(loops, a_.group);
    tile(loops, a_.query, a_.lane, a_.features);
    return loops;
  }

  LoopSpecs after_tiles_of_scores() const {
    LoopSpecs loops = in_block();
    by(loops, a_.group, 2);
    loops.push_back({.var = a_.query, .step = rows_});
    plain(loops, a_.query);
    unrolled(loops, a_.group);
    loops.push_back({.var = a_.lane, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs tiles_of_mix() const {
    LoopSpecs loops = in_block();
    by(loops, a_.columns, 2 * a_.tile->n);
    loops.push_back({.var = a_.key, .step = a_.tile->k});
    loops.push_back({.var = a_.query, .step = rows_, .annotation = {Mark::kUnroll}});
    by(loops, a_.columns, a_.tile->n, Mark::kUnroll);
    tile(loops, a_.query, a_.columns, a_.key);
    return loops;
  }

  LoopSpecs after_tiles_of_mix() const {
    LoopSpecs loops = in_block();
    by(loops, a_.columns, 2 * a_.tile->n);
    loops.push_back({.var = a_.query, .step = rows_});
    plain(loops, a_.query);
    by(loops, a_.columns, a_.tile->n, Mark::kUnroll);
    loops.push_back({.var = a_.columns, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs packed_weight_loops() const {
    LoopSpecs loops = in_block();
    plain(loops, a_.query);
    loops.push_back({.var = a_.key, .step = lanes_});
    loops.push_back({.var = a_.key, .annotation = {Mark::kVectorize}});
    return loops;
  }

  // ---- loops ----

  // Batches run on threads: those of one loop, or of all batch loops together. If there are too few, blocks of queries
  // do, but then every thread packs all keys.
  void set_outer() {
    int64_t count = 1;
    for (VarRef var : a_.batch) {
      batches_.push_back({.var = var});
      count *= size(var);
    }
    const auto share = [&](const LoopSpec& loop) { return machine_.busy_share(size(loop.var)); };
    const auto best = std::ranges::max_element(batches_, {}, share);
    const bool has_blocks = is_longer(a_.query, queries_);
    const double of_queries = has_blocks ? machine_.busy_share(divided_up(size(a_.query), queries_)) : 0;
    const double of_one = best != batches_.end() ? share(*best) : 0, of_all = machine_.busy_share(count);
    const bool by_batch = best != batches_.end() && std::max(of_one, of_all) >= std::min(of_queries, kBusyEnough);
    if (by_batch && of_one < kBusyEnough && of_all > of_one) {
      for (LoopSpec& loop : batches_) loop.annotation.mark = Mark::kParallel;
    } else if (by_batch) {
      best->annotation.mark = Mark::kParallel;
      std::rotate(batches_.begin(), best, best + 1);
    }
    around_ = batches_;
    if (has_blocks) around_.push_back({.var = a_.query, .step = queries_});
    if (has_blocks && !by_batch) around_.back().annotation.mark = Mark::kParallel;
  }

  void plain(LoopSpecs& loops, VarRef var) const {
    if (var) loops.push_back({.var = var});
  }

  void by(LoopSpecs& loops, VarRef var, int64_t step, Mark mark = Mark::kNone) const {
    if (is_longer(var, step)) loops.push_back({.var = var, .step = step, .annotation = {mark}});
  }

  // The innermost loop over the variable, unless there is one.
  void unrolled(LoopSpecs& loops, VarRef var) const {
    const auto is_done = [&](const LoopSpec& loop) { return loop.var == var && loop.step == 1; };
    if (var && std::ranges::none_of(loops, is_done)) loops.push_back({.var = var, .annotation = {Mark::kUnroll}});
  }

  // Two steps per iteration.
  void pairs(LoopSpecs& loops, VarRef var) const {
    if (size(var) % 2 != 0 || size(var) < 4 || !ir_.var(var).size.is_constant()) return plain(loops, var);
    by(loops, var, 2);
    unrolled(loops, var);
  }

  void vectors(LoopSpecs& loops, VarRef var, int64_t step) const {
    if (step > lanes_) by(loops, var, lanes_, Mark::kUnroll);
    loops.push_back({.var = var, .annotation = {Mark::kVectorize}});
  }

  LoopSpecs in_block() const {
    LoopSpecs loops = around_;
    plain(loops, a_.block);
    return loops;
  }

  LoopSpecs key_loops() const {
    LoopSpecs loops = batches_;
    plain(loops, a_.block);
    plain(loops, a_.group);
    if (a_.tile) {
      interleaved(loops, a_.lane, a_.features);
      return loops;
    }
    by(loops, a_.lane, lanes_);
    by(loops, a_.features, lanes_);
    unrolled(loops, a_.features);
    loops.push_back({.var = a_.lane, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs value_loops() const {
    LoopSpecs loops = batches_;
    if (a_.tile) {
      plain(loops, a_.block);
      interleaved(loops, a_.columns, a_.key);
      return loops;
    }
    for (VarRef var : {a_.block, a_.group, a_.lane}) plain(loops, var);
    loops.push_back({.var = a_.columns, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs query_loops() const {
    LoopSpecs loops = around_;
    if (a_.tile) {
      loops.push_back({.var = a_.query, .step = rows_});
      by(loops, a_.features, a_.tile->k);
    }
    plain(loops, a_.query);
    loops.push_back({.var = a_.features, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs score_tile(bool folds) const {
    LoopSpecs loops = in_block();
    const int64_t columns = wide_ * lanes_;
    by(loops, a_.group, groups_);
    by(loops, a_.lane, columns);
    by(loops, a_.query, rows_);
    if (folds) pairs(loops, a_.features);
    unrolled(loops, a_.query);
    unrolled(loops, a_.group);
    vectors(loops, a_.lane, std::min(size(a_.lane), columns));
    return loops;
  }

  LoopSpecs dot_loops() const {
    LoopSpecs loops = in_block();
    for (VarRef var : {a_.group, a_.lane, a_.query}) plain(loops, var);
    loops.push_back({.var = a_.features, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs row_loops(NodeRef ref) const {
    const Vars own = ir_.iteration_vars(ref);
    LoopSpecs loops = in_block();
    plain(loops, a_.query);
    if (is_in(own, a_.group)) {
      by(loops, a_.group, groups_);
      unrolled(loops, a_.group);
    }
    if (is_in(own, a_.lane)) vectors(loops, a_.lane, size(a_.lane));
    return loops;
  }

  LoopSpecs mix_tile(bool folds) const {
    const int64_t columns = wide_ * lanes_;
    LoopSpecs loops = in_block();
    by(loops, a_.columns, columns);
    by(loops, a_.query, rows_);
    if (folds) plain(loops, a_.group);
    if (folds) pairs(loops, a_.lane);
    unrolled(loops, a_.query);
    vectors(loops, a_.columns, columns);
    return loops;
  }

  LoopSpecs end_loops(NodeRef ref) const {
    const Vars own = ir_.iteration_vars(ref);
    LoopSpecs loops = around_;
    plain(loops, a_.query);
    for (VarRef var : own) {
      const bool is_other = var != a_.query && var != a_.block && var != a_.columns && !is_in(a_.batch, var);
      if (is_other) plain(loops, var);
    }
    if (is_in(own, a_.block)) plain(loops, a_.block);
    if (is_in(own, a_.columns)) loops.push_back({.var = a_.columns, .annotation = {Mark::kVectorize}});
    return loops;
  }

  LoopSpecs loops_of(NodeRef ref, AttentionStage stage) const {
    switch (stage) {
      case AttentionStage::kKeys:
        return loops_it_has(ref, key_loops());
      case AttentionStage::kValues:
        return loops_it_has(ref, value_loops());
      case AttentionStage::kQueries:
        return loops_it_has(ref, query_loops());
      case AttentionStage::kScores:
        return a_.tile ? tiles_of_scores() : is_dots_ ? dot_loops() : score_tile(true);
      case AttentionStage::kRaw:
        return a_.tile ? after_tiles_of_scores() : score_tile(false);
      case AttentionStage::kRows:
        return ref == a_.packed_weights ? packed_weight_loops() : row_loops(ref);
      case AttentionStage::kMix:
        return a_.tile ? tiles_of_mix() : mix_tile(true);
      case AttentionStage::kMixed:
        return a_.tile ? after_tiles_of_mix() : mix_tile(false);
      default:
        return end_loops(ref);
    }
  }

  // A node without some of the variables is computed once for all of their iterations.
  LoopSpecs loops_it_has(NodeRef ref, LoopSpecs loops) const {
    const Vars own = ir_.iteration_vars(ref);
    std::erase_if(loops, [&](const LoopSpec& loop) { return !is_in(own, loop.var); });
    return loops;
  }

  // Values are packed if something must be computed for them: a cast, or a guard of a view. A plain view reads them in
  // place.
  bool are_values_packed() const {
    if (a_.tile) return true;
    const auto is_work = [&](const auto& entry) {
      if (entry.second != AttentionStage::kValues) return false;
      const auto* view = ir_.node(entry.first).template as<View>();
      return !view || view->pieces.size() != 1 || !view->pieces[0].where.empty();
    };
    return std::ranges::any_of(a_.stages, is_work);
  }

  // ---- nodes ----

  void move(AttentionStage from, AttentionStage to) {
    for (auto& [ref, stage] : a_.stages) stage = stage == from ? to : stage;
  }

  // Adds a node that copies the sums of a tile from registers to memory.
  void keep(AttentionStage stage, NodeRef sum) {
    const std::vector<NodeRef> readers = ir_.consumers(sum);
    const auto is_in_stage = [&](NodeRef reader) { return is_in(a_.stages, std::pair(reader, stage)); };
    if (std::ranges::all_of(readers, is_in_stage)) return;
    const NodeRef kept = add_named_copy(ir_, sum, "_kept");
    for (NodeRef reader : readers) ir_.set_input(reader, sum, kept);
    a_.stages.emplace_back(kept, stage);
  }

  IR ir_;
  AttentionKernel a_;
  const Machine& machine_;
  LoopSpecs batches_;
  LoopSpecs around_;
  int64_t lanes_ = 1;
  int64_t wide_ = 1;      // vectors in a row of a tile
  int64_t groups_ = 1;    // groups of keys in a tile
  int64_t rows_ = 1;      // queries in a tile
  int64_t queries_ = 1;   // queries in a block
  bool is_dots_ = false;  // scores are dot products
};

}  // namespace

std::optional<LoopTree> schedule_attention(const IR& kernel, const Machine& machine) {
  IR ir = initial_schedule(kernel);
  std::optional<AttentionKernel> attention = AttentionFinder(ir).run();
  if (!attention) return {};
  take_tiles(ir, *attention, machine);
  return AttentionScheduler(std::move(ir), *std::move(attention), machine).run();
}

}  // namespace tenon
