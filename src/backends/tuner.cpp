#include "backends/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>

#include "loops/work.h"
#include "machine/machine.h"
#include "schedule/edit.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using loops::NodeRef;
using loops::TreeRef;
using loops::VarRef;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Small whole numbers: their sums are exact in any order. Never 0, as integers may be divided by them.
Tensor random_tensor(DType dtype, Sizes shape, std::mt19937& random) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  const bool is_bool = dtype == DType::kBool, is_signed = !is_bool && dtype != DType::kU8;
  std::uniform_int_distribution<int64_t> numbers(is_bool ? 0 : 1, is_bool ? 1 : 2);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const int64_t number = is_signed && random() % 2 == 0 ? -numbers(random) : numbers(random);
    is_float(dtype) ? tensor.set_real(i, static_cast<double>(number)) : tensor.set_integer(i, number);
  }
  return tensor;
}

// The inputs that are used as indices. They are all zero, so as to be in range.
std::set<NodeRef> index_inputs(const IR& ir) {
  std::set<NodeRef> result;
  for (const loops::Node& node : ir.nodes()) {
    for (const loops::Lookup& lookup : node.lookups()) result.insert(lookup.indices);
  }
  for (auto ref = ir.order().rbegin(); ref != ir.order().rend(); ++ref) {
    if (!result.contains(*ref)) continue;
    for (NodeRef input : ir.node(*ref).inputs) result.insert(input);
  }
  return result;
}

bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-3 * std::max(std::abs(a), std::abs(b)) + 1e-5;
}

}  // namespace

// ---- measuring ------------------------------------------------------------------------------------------------------

Workload::Workload(const IR& kernel, const symbolic::Bindings& sizes, uint32_t seed) : sizes_(sizes) {
  check_sizes(kernel, sizes);
  for (Symbol symbol : kernel.size_symbols()) {
    const auto found = sizes.find(symbol);
    if (found == sizes.end()) fail("kernel {}: the size {} has no value", kernel.name(), symbol.name());
    values_.push_back(found->second);
  }
  std::mt19937 random(seed);
  const std::set<NodeRef> indices = index_inputs(kernel);
  for (NodeRef read : kernel.reads()) {
    const TensorType type = kernel.type(read);
    Sizes shape = evaluate(type.shape, sizes_);
    inputs_.push_back(indices.contains(read) ? Tensor::zeros(type.dtype, std::move(shape))
                                             : random_tensor(type.dtype, std::move(shape), random));
  }
  flops_ = static_cast<double>(symbolic::evaluate(loops::flops(LoopTree(kernel)), sizes_));
}

void Workload::check_results(const std::vector<Tensor>& outputs) {
  if (expected_.empty()) {
    expected_ = outputs;
    return;
  }
  for (size_t slot = 0; slot < outputs.size(); ++slot) {
    for (int64_t i = 0; i < outputs[slot].numel(); ++i) {
      const double got = outputs[slot].real(i), wanted = expected_[slot].real(i);
      if (!agree(got, wanted))
        fail("the schedule gives {} at element {} of output {}, where the first gave {}", got, i, slot, wanted);
    }
  }
}

Result<double> Workload::measure(const LoopTree& tree, const Backend& backend, double budget, double give_up) {
  return attempt([&] {
    const std::unique_ptr<Compiled> kernel = backend.compile(tree).value();
    std::vector<Tensor> outputs = run(*kernel, tree.ir, inputs_, sizes_).value();
    check_results(outputs);
    std::vector<void*> memory;
    for (const Tensor& tensor : inputs_) memory.push_back(tensor.data());
    for (const Tensor& tensor : outputs) memory.push_back(tensor.data());
    double best = 1e9;
    const Clock::time_point start = Clock::now();
    for (int runs = 0; runs < 2 || seconds_since(start) < budget; ++runs) {
      const Clock::time_point begin = Clock::now();
      kernel->run(memory, values_);
      best = std::min(best, seconds_since(begin));
      if (best > give_up) break;
    }
    return best;
  });
}

// ---- searching ------------------------------------------------------------------------------------------------------

namespace {

// A tree, and the edits that made it.
struct Draft {
  LoopTree tree;
  std::vector<std::string> edits;
  int candidate = -1;

  bool apply(const std::string& edit) {
    Result<LoopTree> next = loops::apply_edit(tree, edit);
    if (!next.ok()) return false;
    tree = std::move(next).value();
    edits.push_back(edit);
    return true;
  }
};

struct TunedTile {
  int64_t rows;
  int64_t columns;
};
const int64_t kLanes = Machine().lanes(DType::kF32);
constexpr TunedTile kTiles[] = {{8, 64}, {6, 64}, {4, 64}, {8, 48},  {12, 32},
                                {8, 32}, {4, 32}, {1, 64}, {16, 16}, {1, 16}};

// Register tiles for a fold with two or more kept variables: a block of the last two stays in registers during the
// fold.
class Tiling {
 public:
  Tiling(const IR& ir, NodeRef fold) : ir_(ir), fold_(fold), kept_(layout_of(fold)), folded_(ir.folded_vars(fold)) {
    if (kept_.empty()) return;
    column_ = kept_.back();
    if (kept_.size() > 1) row_ = kept_[kept_.size() - 2];
  }

  bool applies() const { return static_cast<bool>(column_); }

  bool apply(Draft& draft, const TunedTile& tile, bool parallel) const {
    for (NodeRef node : ir_.order()) {
      const std::string loops = loops_of(node, tile);
      if (!loops.empty() && !draft.apply(fmt::format("order %{} {}", ir_.node(node).name, loops))) return false;
    }
    mark(draft, parallel);
    return true;
  }

 private:
  // The variables in the order in which the result of the fold is written. The last is contiguous.
  const std::vector<VarRef>& layout_of(NodeRef fold) const {
    for (NodeRef write : ir_.writes()) {
      if (ir_.node(write).vars.size() >= ir_.node(fold).vars.size() &&
          std::ranges::all_of(ir_.node(fold).vars, [&](VarRef var) { return ir_.node(write).has(var); })) {
        return ir_.node(write).vars;
      }
    }
    return ir_.node(fold).vars;
  }

  // The variables of a node: first those of the result, in the order of writing; folded variables last.
  std::vector<VarRef> in_order(const std::vector<VarRef>& own) const {
    std::vector<VarRef> result;
    const auto add = [&](const std::vector<VarRef>& vars, const std::vector<VarRef>& but) {
      for (VarRef var : vars) {
        if (is_in(own, var) && !is_in(result, var) && !is_in(but, var)) result.push_back(var);
      }
    };
    add(kept_, {});
    add(own, folded_);
    add(folded_, {});
    return result;
  }

  std::string loops_of(NodeRef ref, const TunedTile& tile) const {
    std::vector<std::string> outer, inner;
    for (VarRef var : in_order(ir_.iteration_vars(ref))) {
      const std::string& name = ir_.var(var).name;
      const int64_t block = var == row_ ? tile.rows : var == column_ ? tile.columns : 1;
      outer.push_back(block > 1 ? fmt::format("{} by {}", name, block) : name);
      if (var == column_ && block > kLanes) inner.push_back(fmt::format("{} by {}", name, kLanes));
      if (block > 1) inner.push_back(name);
    }
    outer.insert(outer.end(), inner.begin(), inner.end());
    return fmt::format("{}", fmt::join(outer, ", "));
  }

  // The outermost loop becomes parallel; the loops of a block are unrolled and vectorized.
  void mark(Draft& draft, bool parallel) const {
    if (parallel) draft.apply(fmt::format("annotate {} parallel", draft.tree.roots().back().id));
    for (uint32_t line = 0; line < draft.tree.size(); ++line) {
      if (draft.tree.kind({line}) != LoopTree::LOOP || !is_inside_of_a_block(draft.tree, {line})) continue;
      const LoopTree::Loop& loop = draft.tree.loop({line});
      const bool is_lanes = loop.var == column_ && loop.step == 1;
      draft.apply(fmt::format("annotate {} {}", line, is_lanes ? "vectorize" : "unroll"));
    }
  }

  static bool is_inside_of_a_block(const LoopTree& tree, TreeRef loop) {
    for (TreeRef around = tree.parent(loop); around; around = tree.parent(around)) {
      if (tree.loop(around).var == tree.loop(loop).var) return true;
    }
    return false;
  }

  static bool is_in(const std::vector<VarRef>& vars, VarRef var) { return std::ranges::find(vars, var) != vars.end(); }

  const IR& ir_;
  NodeRef fold_;
  std::vector<VarRef> kept_;  // variables of the result
  std::vector<VarRef> folded_;
  VarRef row_;
  VarRef column_;
};

// A random edit of a kind that may change speed.
std::string random_edit(const LoopTree& tree, std::mt19937& random, bool parallel) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto line = static_cast<uint32_t>(pick(0, static_cast<int64_t>(tree.size()) - 1));
  constexpr int64_t kSizes[] = {2, 4, 6, 8, 16, 32, 64, 128};
  switch (pick(0, 5)) {
    case 0:
      return fmt::format("split {} {}", line, kSizes[pick(0, 7)]);
    case 1:
      return tree.parent({line}) ? fmt::format("swap {} {}", tree.parent({line}).id, line)
                                 : fmt::format("merge {}", line);
    case 2:
      return fmt::format("annotate {} {}", line, pick(0, 1) == 0 ? "vectorize" : "unroll");
    case 3:
      return fmt::format("annotate {} {}", line, parallel && pick(0, 1) == 0 ? "parallel" : "none");
    case 4:
      return fmt::format("merge {}", line);
    default: {
      const auto reader =
          tree.ir.order()[static_cast<size_t>(pick(0, static_cast<int64_t>(tree.ir.order().size()) - 1))];
      const std::vector<NodeRef>& inputs = tree.ir.node(reader).inputs;
      const NodeRef input = inputs[static_cast<size_t>(pick(0, static_cast<int64_t>(inputs.size()) - 1))];
      const std::string copy = fmt::format("copy %{} %{}", tree.ir.node(reader).name, tree.ir.node(input).name);
      return pick(0, 1) == 0 ? copy : fmt::format("{} {}", copy, line);
    }
  }
}

class ScheduleSearch {
 public:
  ScheduleSearch(const LoopTree& start, const Backend& backend, Workload& workload, const SearchOptions& options)
      : start_(start), backend_(backend), workload_(workload), options_(options), random_(options.seed) {}

  Schedule run() {
    const double seconds = workload_.measure(start_, backend_).value();
    best_.push_back({start_, seconds, {}});
    start_seconds_ = seconds;
    seen_.push_back(start_.ir);
    report();
    try_candidates();
    try_tiles();
    while (!is_over()) try_random();
    return best_.front();
  }

 private:
  static constexpr size_t kKept = 4;  // random edits start from the best so many schedules

  double elapsed() const { return seconds_since(begin_); }
  bool is_over() const { return elapsed() > options_.seconds || (options_.stop && options_.stop()); }

  void try_candidates() {
    for (size_t i = 0; i < options_.candidates.size() && !is_over(); ++i) {
      attempt({options_.candidates[i], {}, static_cast<int>(i)});
    }
  }

  void try_tiles() {
    for (NodeRef node : start_.ir.order()) {
      if (!start_.ir.node(node).as<loops::Reduce>()) continue;
      const Tiling tiling(start_.ir, node);
      if (!tiling.applies()) continue;
      for (const TunedTile& tile : kTiles) {
        if (is_over()) return;
        Draft draft{start_, {}};
        if (tiling.apply(draft, tile, options_.parallel)) attempt(std::move(draft));
      }
    }
  }

  void try_random() {
    const Schedule& from = best_[std::uniform_int_distribution<size_t>(0, best_.size() - 1)(random_)];
    Draft draft{from.tree, from.edits, from.candidate};
    const int wanted = std::uniform_int_distribution<int>(1, 3)(random_);
    for (int i = 0, applied = 0; i < 50 && applied < wanted; ++i) {
      applied += draft.apply(random_edit(draft.tree, random_, options_.parallel)) ? 1 : 0;
    }
    attempt(std::move(draft));
  }

  void attempt(Draft draft) {
    if (std::ranges::find(seen_, draft.tree.ir) != seen_.end()) return report();
    seen_.push_back(draft.tree.ir);
    ++tried_;
    const Result<double> seconds = workload_.measure(draft.tree, backend_, budget_, 3 * best_.front().seconds);
    if (seconds.ok()) {
      const auto place = std::ranges::upper_bound(best_, *seconds, {}, &Schedule::seconds);
      best_.insert(place, {std::move(draft.tree), *seconds, std::move(draft.edits), draft.candidate});
      if (best_.size() > kKept) best_.pop_back();
    } else {
      ++failed_;
    }
    report();
  }

  void report() const {
    if (options_.progress) options_.progress({elapsed(), tried_, failed_, start_seconds_, best_.front().seconds});
  }

  const LoopTree& start_;
  const Backend& backend_;
  Workload& workload_;
  SearchOptions options_;
  double budget_ = std::clamp(options_.seconds / 100, 0.005, 0.1);  // seconds for measuring one schedule
  std::mt19937 random_;
  Clock::time_point begin_ = Clock::now();
  double start_seconds_ = 0;
  int tried_ = 0;
  int failed_ = 0;
  std::vector<Schedule> best_;  // the fastest first
  std::vector<IR> seen_;
};

}  // namespace

Result<Schedule> search(const LoopTree& start, const Backend& backend, Workload& workload,
                        const SearchOptions& options) {
  return attempt([&] {
    if (start.size() == 0) fail("kernel {} writes nothing: there is no schedule to search for", start.ir.name());
    return ScheduleSearch(start, backend, workload, options).run();
  });
}

}  // namespace tenon
