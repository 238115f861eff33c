// The interpreter: walks a LoopTree and does what it says, one element at a time. It knows no segments and peels no
// guards, so it checks what the other backends make of them. It is exact as the reference is: floating folds are kept
// in double and rounded when they are read.
//
// Of the annotations, unroll and tile change nothing here. The iterations of a parallel or vectorized loop run
// backwards: a tree in which their order matters shows it.
#include <cstring>

#include "backends/backend.h"
#include "backends/interpreter/flat_expr.h"
#include "loops/compiler.h"
#include "support/checked.h"

namespace tenon {
namespace {

using loops::Compiler;
using loops::LoopTree;
using loops::NodeRef;
using loops::TreeRef;
using loops::VarRef;

// One element in the domain of its dtype.
struct Cell {
  double real = 0;
  int64_t integer = 0;
};

Cell cell_of(DType dtype, const loops::Scalar& scalar) {
  if (const auto* real = std::get_if<double>(&scalar)) return {round_to(dtype, *real), 0};
  return {0, std::get<int64_t>(scalar)};
}

int64_t allocate_bytes(int64_t count, int64_t size) { return checked_mul(std::max<int64_t>(count, 1), size); }

// A run of a kernel: everything is resolved to flat expressions over one table of counters.
class Run {
 public:
  Run(const Compiler& compiler, std::span<void* const> memory, std::span<const int64_t> sizes)
      : compiler_(compiler), tree_(compiler.tree()), ir_(tree_.ir) {
    const std::vector<Symbol> symbols = ir_.size_symbols();
    check(sizes.size() == symbols.size(), "{} sizes for {} symbols", sizes.size(), symbols.size());
    for (size_t i = 0; i < symbols.size(); ++i) sizes_.emplace(symbols[i], sizes[i]);
    for (const loops::Var& var : ir_.vars()) extents_.push_back(number(var.size));
    for (void* pointer : memory) buffers_.push_back({static_cast<std::byte*>(pointer), {}, DType::kF32});
    for (const auto& [node, allocation] : compiler.allocations) add_buffer(allocation, ir_.node(node));
    for (const auto& [node, allocation] : compiler.carries) add_buffer(allocation, ir_.node(node));
    steps_.resize(ir_.nodes().size());
    for (NodeRef node : ir_.order()) steps_[node.id] = prepare(node);
    fills_.resize(tree_.size());
    tree_.walk([&](TreeRef ref, int) { prepare_fills(ref); });
    counters_.resize(slots_.size());
  }

  void run() {
    for (TreeRef root : tree_.roots()) walk(root);
  }

 private:
  struct Buffer {
    std::byte* data = nullptr;
    std::vector<std::byte> owned;
    DType dtype;
  };
  struct Guard {
    FlatExpr expr;
    int64_t bound;
  };
  struct Source {
    const Buffer* buffer = nullptr;  // null: a constant, or an index
    FlatExpr offset = {};
    std::optional<Cell> constant = {};
    DType dtype;
    std::vector<Guard> where = {};
  };
  struct LookupStep {
    size_t slot;
    Source indices;
    int64_t bound;
  };
  struct Step {
    std::vector<Source> sources;
    std::vector<LookupStep> lookups;
    std::vector<Guard> where;  // of a scatter
    Buffer* out = nullptr;
    FlatExpr out_offset;
    Buffer* carry = nullptr;
    FlatExpr carry_offset;
    Cell fill;
    const Elementwise* elementwise = nullptr;  // null: the value itself
    bool is_bitcast = false;
    DType compute = DType::kF32;
  };
  struct FillStep {
    std::vector<size_t> slots = {};
    std::vector<int64_t> extents = {};
    Buffer* out = nullptr;
    FlatExpr offset = {};
    std::optional<Source> source = {};
    std::vector<Guard> where = {};
    Cell identity = {};
  };

  // ---- preparation ----

  int64_t number(const Expr& size) const { return symbolic::evaluate(size, sizes_); }

  size_t slot_of(Symbol symbol) { return slots_.emplace(symbol, slots_.size()).first->second; }

  FlatExpr flat(const Expr& expr) {
    symbolic::Substitution known;
    for (const auto& [symbol, value] : sizes_) known.emplace(symbol, value);
    return FlatExpr(known.empty() ? expr : substitute(expr, known), [&](Symbol symbol) { return slot_of(symbol); });
  }

  std::vector<Guard> flat(const std::vector<loops::Constraint>& constraints) {
    std::vector<Guard> guards;
    for (const auto& [expr, bound] : constraints) guards.push_back({flat(expr), number(bound)});
    return guards;
  }

  // All of them, also those that are proven to hold.
  std::vector<Guard> guards(const Compiler::Access& access) {
    std::vector<loops::Constraint> constraints = access.where;
    for (loops::Constraint& constraint : constraints) {
      constraint.expr = compiler_.over_counters(constraint.expr, access.at);
    }
    return flat(constraints);
  }

  // Floating folds are kept wide.
  void add_buffer(const Compiler::Allocation& allocation, const loops::Node& node) {
    const auto index = static_cast<size_t>(allocation.mem_idx);
    if (buffers_.size() <= index) buffers_.resize(index + 1);
    Buffer& buffer = buffers_[index];
    buffer.dtype = node.dtype;
    if (!allocation.scratch) return;
    const bool folds = node.as<loops::Reduce>() || node.as<loops::Scan>();
    if (folds && is_float(node.dtype)) buffer.dtype = DType::kF64;
    const int64_t bytes = allocate_bytes(number(allocation.size()), size_of(buffer.dtype));
    try {
      buffer.owned.assign(static_cast<size_t>(bytes), std::byte{0xff});
    } catch (const std::exception&) {
      fail("out of memory: %{} needs {} bytes of scratch", node.name, bytes);
    }
    buffer.data = buffer.owned.data();
  }

  Buffer* buffer_of(const Compiler::Allocation& allocation) {
    return &buffers_[static_cast<size_t>(allocation.mem_idx)];
  }

  Source source(const Compiler::Access& access) {
    const loops::Node& node = ir_.node(access.node);
    Source result{.dtype = node.dtype};
    if (const auto* constant = node.as<loops::Constant>()) {
      result.constant = cell_of(node.dtype, constant->value);
    } else {
      result.offset = flat(compiler_.get_scoped_expr(access));
      if (access.memory) result.buffer = buffer_of(*access.memory);
    }
    result.where = guards(access);
    return result;
  }

  Step prepare(NodeRef ref) {
    const loops::Node& node = ir_.node(ref);
    const TreeRef leaf = tree_.find(ref);
    Step step;
    const Compiler::Access write = compiler_.gen_access(ref, leaf);
    step.out = buffer_of(*write.memory);
    step.out_offset = flat(compiler_.get_scoped_expr(write));
    step.compute = node.inputs.empty() ? node.dtype : ir_.node(node.inputs.back()).dtype;
    if (const auto* view = node.as<loops::View>()) return prepare_view(std::move(step), *view, leaf);
    if (const auto* scatter = node.as<loops::Scatter>()) {
      for (const loops::Lookup& lookup : scatter->lookups) step.lookups.push_back(prepare_lookup(lookup, leaf));
      step.where = guards(write);
      step.sources.push_back(source(compiler_.gen_access(node.inputs[1], leaf)));
      step.compute = node.dtype;
      set_op(step, scatter->op);
      return step;
    }
    for (NodeRef input : node.inputs) step.sources.push_back(source(compiler_.gen_access(input, leaf)));
    if (const auto* compute = node.as<loops::Compute>()) set_op(step, compute->op);
    if (const auto* reduce = node.as<loops::Reduce>()) set_op(step, reduce->op);
    if (const auto* scan = node.as<loops::Scan>()) {
      set_op(step, scan->op);
      const Compiler::Access carry = compiler_.gen_carry(leaf);
      step.carry = buffer_of(*carry.memory);
      step.carry_offset = flat(compiler_.get_scoped_expr(carry));
    }
    return step;
  }

  static void set_op(Step& step, const OpDef* op) {
    if (op) step.elementwise = std::get_if<Elementwise>(&op->semantics.get());
    step.is_bitcast = op && !step.elementwise;
  }

  LookupStep prepare_lookup(const loops::Lookup& lookup, TreeRef leaf) {
    return {slot_of(lookup.symbol), source(compiler_.gen_lookup(lookup, leaf)), number(lookup.bound)};
  }

  Step prepare_view(Step step, const loops::View& view, TreeRef leaf) {
    for (const loops::Lookup& lookup : view.lookups) step.lookups.push_back(prepare_lookup(lookup, leaf));
    for (const loops::Piece& piece : view.pieces) step.sources.push_back(source(compiler_.gen_access(piece, leaf)));
    step.fill = cell_of(ir_.node(tree_.node(leaf)).dtype, view.fill);
    return step;
  }

  void prepare_fills(TreeRef ref) {
    for (const Compiler::Fill& fill : compiler_.fills(ref)) {
      const loops::Node& node = ir_.node(fill.node);
      FillStep step{.out = buffer_of(*fill.memory), .offset = flat(fill.offset)};
      for (size_t i = 0; i < fill.counters.size(); ++i) {
        step.slots.push_back(slot_of(fill.counters[i]));
        step.extents.push_back(number(fill.extents[i]));
      }
      step.where = flat(fill.where);
      if (fill.source) {
        const loops::Node& initial = ir_.node(fill.source);
        Source from{.offset = flat(fill.source_offset), .dtype = initial.dtype};
        if (const auto* constant = initial.as<loops::Constant>())
          from.constant = cell_of(initial.dtype, constant->value);
        const auto memory = compiler_.allocations.find(fill.source);
        if (memory != compiler_.allocations.end()) from.buffer = buffer_of(memory->second);
        step.source = std::move(from);
      } else {
        const OpDef& op = node.as<loops::Scan>() ? *node.as<loops::Scan>()->op : *node.as<loops::Reduce>()->op;
        step.identity = cell_of(node.dtype, *loops::identity_of(op, node.dtype));
      }
      fills_[ref.id].push_back(std::move(step));
    }
  }

  // ---- execution ----

  void walk(TreeRef ref) {
    for (const FillStep& fill : fills_[ref.id]) execute(fill, 0);
    if (tree_.kind(ref) == LoopTree::NODE) return execute(tree_.node(ref));
    const LoopTree::Loop& loop = tree_.loop(ref);
    const int64_t extent = extents_[loop.var.id];
    const int64_t count = checked_add(extent / loop.step, extent % loop.step != 0 ? 1 : 0);
    const size_t slot = slot_of(compiler_.counter(ref));
    if (slot >= counters_.size()) counters_.resize(slot + 1);
    const bool backwards =
        loop.annotation.mark == loops::Mark::kParallel || loop.annotation.mark == loops::Mark::kVectorize;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t iteration = backwards ? count - 1 - i : i;
      counters_[slot] = iteration;
      extents_[loop.var.id] = std::min(loop.step, extent - iteration * loop.step);
      for (TreeRef child : tree_.children(ref)) walk(child);
    }
    extents_[loop.var.id] = extent;
  }

  bool holds(const std::vector<Guard>& guards) const {
    for (const Guard& guard : guards) {
      const int64_t value = guard.expr(counters_);
      if (value < 0 || value >= guard.bound) return false;
    }
    return true;
  }

  static Cell load(const Buffer& buffer, int64_t offset, DType dtype) {
    const std::byte* element = buffer.data + offset * size_of(buffer.dtype);
    if (is_float(dtype)) return {round_to(dtype, load_real(buffer.dtype, element)), 0};
    return {0, load_integer(buffer.dtype, element)};
  }

  static void store(const Buffer& buffer, int64_t offset, DType dtype, const Cell& cell) {
    std::byte* element = buffer.data + offset * size_of(buffer.dtype);
    is_float(dtype) ? store_real(buffer.dtype, element, cell.real) : store_integer(buffer.dtype, element, cell.integer);
  }

  Cell load(const Source& source) const {
    if (source.constant) return *source.constant;
    const int64_t value = source.offset(counters_);
    return source.buffer ? load(*source.buffer, value, source.dtype) : Cell{0, value};
  }

  void execute(NodeRef ref) {
    const loops::Node& node = ir_.node(ref);
    const Step& step = steps_[ref.id];
    for (const LookupStep& lookup : step.lookups) look_up(node, lookup);
    if (node.as<loops::View>()) return store(*step.out, step.out_offset(counters_), node.dtype, first_piece(step));
    if (step.is_bitcast) return bitcast(step, node);
    if (!holds(step.where)) return;
    const int64_t offset = step.out_offset(counters_);
    if (node.as<loops::Compute>()) return apply(step, node.dtype, *step.out, offset);
    if (step.carry) {
      fold(step, *step.carry, step.carry_offset(counters_), node.dtype);
      const Cell total = load(*step.carry, step.carry_offset(counters_), step.carry->dtype);
      return store(*step.out, offset, node.dtype, total);
    }
    if (step.elementwise) return fold(step, *step.out, offset, node.dtype);
    store(*step.out, offset, node.dtype, load(step.sources[0]));
  }

  void look_up(const loops::Node& node, const LookupStep& lookup) {
    const int64_t index = load(lookup.indices).integer;
    if (index < 0 || index >= lookup.bound) {
      fail("%{}: index {} is out of range for a size of {}", node.name, index, lookup.bound);
    }
    counters_[lookup.slot] = index;
  }

  Cell first_piece(const Step& step) const {
    for (const Source& piece : step.sources) {
      if (holds(piece.where)) return load(piece);
    }
    return step.fill;
  }

  void bitcast(const Step& step, const loops::Node& node) {
    const Source& source = step.sources[0];
    std::byte bits[8] = {};
    const Cell cell = load(source);
    is_float(source.dtype) ? store_real(source.dtype, bits, cell.real)
                           : store_integer(source.dtype, bits, cell.integer);
    // The payload of a NaN must survive: it is moved, not converted.
    if (source.buffer && source.buffer->dtype == source.dtype) {
      std::memcpy(bits, source.buffer->data + source.offset(counters_) * size_of(source.dtype),
                  static_cast<size_t>(size_of(source.dtype)));
    }
    std::memcpy(step.out->data + step.out_offset(counters_) * size_of(node.dtype), bits,
                static_cast<size_t>(size_of(node.dtype)));
  }

  void apply(const Step& step, DType dtype, const Buffer& out, int64_t offset) const {
    std::byte* element = out.data + offset * size_of(out.dtype);
    const auto as_real = [&](const Cell& cell, DType from) {
      return is_float(from) ? cell.real : static_cast<double>(cell.integer);
    };
    const size_t count = step.sources.size();
    if (is_float(step.compute)) {
      double x[3] = {};
      for (size_t i = 0; i < count; ++i) x[i] = as_real(load(step.sources[i]), step.sources[i].dtype);
      return store_real(dtype, element, step.elementwise->real(x));
    }
    int64_t x[3] = {};
    for (size_t i = 0; i < count; ++i) x[i] = load(step.sources[i]).integer;
    store_integer(dtype, element, step.elementwise->integer(x));
  }

  void fold(const Step& step, const Buffer& buffer, int64_t offset, DType dtype) const {
    const Cell before = load(buffer, offset, buffer.dtype), next = load(step.sources[0]);
    if (is_float(dtype)) {
      const double x[] = {before.real, next.real};
      return store(buffer, offset, dtype, {step.elementwise->real(x), 0});
    }
    const int64_t x[] = {before.integer, next.integer};
    store(buffer, offset, dtype, {0, step.elementwise->integer(x)});
  }

  void execute(const FillStep& fill, size_t level) {
    if (level < fill.slots.size()) {
      for (int64_t i = 0; i < fill.extents[level]; ++i) {
        counters_[fill.slots[level]] = i;
        execute(fill, level + 1);
      }
      return;
    }
    if (!holds(fill.where)) return;
    const int64_t offset = fill.offset(counters_);
    const DType dtype = fill.source ? fill.source->dtype : fill.out->dtype;
    store(*fill.out, offset, dtype, fill.source ? load(*fill.source) : fill.identity);
  }

  const Compiler& compiler_;
  const LoopTree& tree_;
  const loops::IR& ir_;
  symbolic::Bindings sizes_;
  std::map<Symbol, size_t> slots_;
  std::vector<int64_t> counters_;
  std::vector<int64_t> extents_;              // by variable: what the innermost open loop over it covers
  std::vector<Buffer> buffers_;               // by mem_idx
  std::vector<Step> steps_;                   // by node
  std::vector<std::vector<FillStep>> fills_;  // by tree ref
};

class Interpreted : public Compiled {
 public:
  explicit Interpreted(const LoopTree& tree) : tree_(tree), compiler_(tree_) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(tree_.ir, memory, sizes);
    Run(compiler_, memory, sizes).run();
  }
  std::string dump() const override { return tree_.dump(); }

 private:
  LoopTree tree_;
  Compiler compiler_;
};

struct Interpreter : Backend {
  Interpreter() : Backend("interpreter") {}
  std::string doc() const override { return "walks the loop tree, one element at a time: exact, for tests"; }
  int hardware_requirement() const override { return kCpu; }
  std::unique_ptr<Compiled> compile_impl(const LoopTree& tree) const override {
    return std::make_unique<Interpreted>(tree);
  }
};

const RegisterBackend kRegistration(std::make_shared<Interpreter>());

}  // namespace
}  // namespace tenon
