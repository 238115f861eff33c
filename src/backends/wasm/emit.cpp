// The walk over a LoopTree that writes WebAssembly. It happens twice: the draft says which arrays can be locals, and
// what the module imports.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "backends/wasm/elements.h"
#include "backends/wasm/vectors.h"
#include "backends/wasm/wasm.h"
#include "loops/limits.h"
#include "runtime/kernel.h"

namespace tenon {
namespace wasm {
namespace {

using namespace loops;
using loops::Compute;
using Access = Compiler::Access;
using Allocation = Compiler::Allocation;

constexpr int64_t kMostBodies = 64;                      // Copies of an unrolled body.
constexpr int64_t kMostUnrolledLanes = 8;                // Vectors of a loop that is unrolled without being asked.
constexpr int64_t kMostFilled = 256;                     // Elements of a fold's start whose positions are listed.
constexpr int64_t kAlignment = 64;                       // Of scratch arrays.
constexpr uint32_t kMemory = 0, kSizes = 1, kError = 2;  // The parameters; the last, services, is not used.

Expr rounded_up(const Expr& bytes) { return ceildiv(bytes, kAlignment) * kAlignment; }

// No symbol of the kernel starts with it.
std::string unused_prefix(const IR& ir) {
  std::string prefix = "wasm_";
  const auto avoid = [&](Symbol symbol) {
    while (symbol.name().starts_with(prefix)) prefix += "_";
  };
  for (const Var& var : ir.vars()) avoid(var.symbol());
  for (Symbol size : ir.size_symbols()) avoid(size);
  return prefix;
}

void require_small(const IR& ir) {
  for (const Var& var : ir.vars()) {
    if (!var.size.is_constant() || var.size.constant() <= INT32_MAX) continue;
    fail("backend wasm: {} elements along {} are too many for addresses of 32 bits", var.size, var.name);
  }
}

class WasmEmitter {
 public:
  WasmEmitter(const LoopTree& tree, const WasmOptions& options, WasmModule& module, Elements::InLocals in_locals)
      : tree_(tree),
        ir_(tree.ir),
        compiler_(tree),
        module_(module),
        function_(module, std::vector(4, ValueType::kI32)),
        arithmetic_(function_, options.relaxed),
        prefix_(unused_prefix(ir_)),
        elements_(function_, arithmetic_, prefix_, std::move(in_locals)) {
    require_small(ir_);
    compiler_.widen_totals();
  }

  // Adds the function to the module.
  uint32_t write() {
    const Compiler::Scope root = compiler_.root();
    enter(root);
    read_sizes();
    read_pointers();
    allocate_scratch();
    body(tree_.roots());
    leave(0);
    Function& f = function_;
    return module_.add({std::vector(4, ValueType::kI32), {ValueType::kI64}}, f.locals(), f.close());
  }

  Elements::InLocals arrays_for_locals() const { return elements_.arrays_for_locals(); }

 private:
  Code& code() { return function_.code(); }

  void enter(const Compiler::Scope& scope) {
    scope_ = &scope;
    function_.set_ranges(scope.box.ranges());
  }

  Symbol fresh_symbol() { return Symbol(prefix_ + std::to_string(next_symbol_++)); }

  // ---- the start and the end ----

  // Nothing with more elements along a dimension has a place in a memory of 32 bits.
  void read_sizes() {
    uint32_t position = 0;
    for (Symbol symbol : ir_.size_symbols()) {
      code().op(Op::kGet, kSizes);
      code().memory(Op::kI64Load, 8 * position++);
      const uint32_t size = function_.set_temporary(ValueType::kI64), narrow = function_.add_local(ValueType::kI32);
      code().op(Op::kGet, size), code().i64(int64_t{INT32_MAX} + 1), code().op(Op::kI64GeU);
      fail_if(kTenonOutOfMemory, ir_.writes().empty() ? 0 : ir_.writes()[0].id);
      code().op(Op::kGet, size), code().op(Op::kI32WrapI64), code().op(Op::kSet, narrow);
      function_.define(symbol, narrow);
    }
  }

  void read_pointers() {
    for (const std::vector<NodeRef>* refs : {&ir_.reads(), &ir_.writes()}) {
      for (NodeRef ref : *refs) {
        const Allocation& memory = compiler_.allocations.at(ref);
        const uint32_t pointer = function_.add_local(ValueType::kI32);
        code().op(Op::kGet, kMemory);
        code().memory(Op::kI32Load, static_cast<uint32_t>(4 * memory.mem_idx));
        code().op(Op::kSet, pointer);
        function_.define(elements_.pointer_of(memory), pointer);
      }
    }
  }

  // One block for all arrays.
  void allocate_scratch() {
    std::vector<std::pair<const Allocation*, Expr>> arrays;
    Expr bytes = 0;
    NodeRef first;
    const auto add = [&](NodeRef ref, const Allocation& memory) {
      if (!elements_.needs_memory(memory)) return;
      if (arrays.empty()) first = ref;
      arrays.emplace_back(&memory, bytes);
      bytes += rounded_up(memory.size() * size_of(memory.dtype));
    };
    for (NodeRef ref : ir_.order()) {
      if (!compiler_.is_fused(ref)) add(ref, compiler_.allocations.at(ref));
      if (const auto carry = compiler_.carries.find(ref); carry != compiler_.carries.end()) add(ref, carry->second);
    }
    if (arrays.empty()) return;
    const uint32_t frame = function_.add_local(ValueType::kI32);
    function_.push(bytes, ValueType::kI64), code().i64(int64_t{INT32_MAX} + 1), code().op(Op::kI64GeU);
    fail_if(kTenonOutOfMemory, first.id);
    function_.push(bytes, ValueType::kI32);
    code().op(Op::kCall, module_.import("allocate", {{ValueType::kI32}, {ValueType::kI32}}));
    code().op(Op::kSet, frame), code().op(Op::kGet, frame), code().op(Op::kI32Eqz);
    fail_if(kTenonOutOfMemory, first.id);
    frame_ = frame;
    const Symbol start = fresh_symbol();
    function_.define(start, frame);
    for (const auto& [memory, offset] : arrays) {
      function_.push(start + offset, ValueType::kI32);
      const uint32_t pointer = function_.add_local(ValueType::kI32);
      code().op(Op::kSet, pointer);
      function_.define(elements_.pointer_of(*memory), pointer);
    }
  }

  void leave(int64_t kind) {
    if (frame_) {
      code().op(Op::kGet, *frame_);
      code().op(Op::kCall, module_.import("release", {{ValueType::kI32}, {}}));
    }
    code().i64(kind);
    if (kind != 0) code().op(Op::kReturn);
  }

  // Ends the kernel if the condition on the stack holds. `value` and `bound` are i64, for the message.
  void fail_if(int64_t kind, uint32_t node, std::optional<uint32_t> value = {}, const Expr& bound = 0) {
    const auto note = [&](uint32_t position, const auto& push) {
      code().op(Op::kGet, kError);
      push();
      code().memory(Op::kI64Store, 8 * position);
    };
    const Code inside = scoped([&] {
      note(0, [&] { code().i64(kind); });
      note(1, [&] { code().i64(node); });
      note(2, [&] { value ? code().op(Op::kGet, *value) : code().i64(0); });
      note(3, [&] { function_.push(bound, ValueType::kI64); });
      leave(kind);
    });
    code().open(Op::kIf), code().append(inside), code().op(Op::kEnd);
  }

  // ---- conditions ----

  // The code of a scope, to be added at once. What is computed before it is written before it, so a condition is on the
  // stack by then.
  template <class Body>
  Code scoped(Body body) {
    function_.open();
    body();
    return function_.close();
  }

  template <class Body>
  void where(const std::vector<Constraint>& guards, Body body) {
    if (guards.empty()) return body();
    push(guards);
    const Code inside = scoped(body);
    code().open(Op::kIf), code().append(inside), code().op(Op::kEnd);
  }

  // ---- expressions ----

  Expr known(const Expr& expr) const { return literals_.empty() ? expr : substitute(expr, literals_); }

  Expr position_of(const Access& access) const {
    return ir_.node(access.node).as<Constant>() ? Expr(0) : known(compiler_.get_scoped_expr(access));
  }

  void push(const std::vector<Constraint>& constraints) {
    Expr all = 1;
    for (const auto& [expr, bound] : constraints) {
      if (!scope_->box.never_negative(expr)) all *= ge(known(expr), 0);
      all *= lt(known(expr), known(bound));
    }
    function_.push(all, ValueType::kI32);
  }

  Access own_access(TreeRef ref) const { return compiler_.gen_access(tree_.node(ref), ref); }

  // ---- elements ----

  // A vector variable in the body of the vectorized loop.
  bool is_lane_local(const Access& access) const {
    return vector_ && access.memory && access.memory->scratch && access.memory->lca == vector_;
  }

  Expr stride_of(const Access& access) const { return known(*compiler_.stride(access, vector_)); }

  // Loads the elements of an access: one number, or in a vectorized loop a vector.
  WasmValue stored(const Access& access) {
    const Expr position = position_of(access);
    if (lanes_ == 1) return elements_.load(*access.memory, position);
    if (is_lane_local(access)) return elements_.load_lanes(*access.memory, lanes_);
    return elements_.load(*access.memory, position, stride_of(access), lanes_);
  }

  void store(const Access& access, const WasmValue& value) {
    const Expr position = position_of(access);
    if (lanes_ == 1) return elements_.store(*access.memory, position, value);
    const WasmValue vector = arithmetic_.splat(value, lanes_);
    if (is_lane_local(access)) return elements_.store_lanes(*access.memory, vector);
    elements_.store(*access.memory, position, stride_of(access), vector);
  }

  // A number: an element, a constant, or the value of an Index.
  WasmValue number(NodeRef ref, const Expr& position) {
    const Node& node = ir_.node(ref);
    if (const auto* constant = node.as<Constant>()) return {node.dtype, 1, constant->value};
    if (node.as<Index>()) {
      function_.push(position, ValueType::kI64);
      return arithmetic_.keep(DType::kI64, 1);
    }
    return arithmetic_.cast(elements_.load(compiler_.allocations.at(ref), position), node.dtype);
  }

  // A total that is wider than its node is the same in all lanes.
  WasmValue value(const Access& access) {
    const bool is_number = lanes_ == 1 || !access.memory || access.memory->dtype != ir_.node(access.node).dtype;
    return is_number ? number(access.node, position_of(access)) : stored(access);
  }

  // ---- nodes ----

  std::vector<WasmValue> inputs_of(TreeRef ref) {
    std::vector<WasmValue> values;
    for (NodeRef input : ir_.node(tree_.node(ref)).inputs) values.push_back(value(compiler_.gen_access(input, ref)));
    return values;
  }

  void node(TreeRef ref) {
    const Node& node = ir_.node(tree_.node(ref));
    if (compiler_.is_fused(tree_.node(ref))) return;
    for (const Lookup& lookup : node.lookups()) look_up(lookup, ref);
    std::visit([&](const auto& action) { emit(action, ref, node); }, node.action);
    for (const Lookup& lookup : node.lookups()) literals_.erase(lookup.symbol);
  }

  // Looks up one index for all lanes. Each lookup gets a new symbol: expressions are remembered by their symbols.
  void look_up(const Lookup& lookup, TreeRef ref) {
    const Access access = compiler_.gen_lookup(lookup, ref);
    const WasmValue index = arithmetic_.cast(number(access.node, position_of(access)), DType::kI64);
    arithmetic_.push(index);
    const uint32_t wide = function_.set_temporary(ValueType::kI64), narrow = function_.temporary(ValueType::kI32);
    const Expr bound = known(lookup.bound);
    code().op(Op::kGet, wide), function_.push(bound, ValueType::kI64), code().op(Op::kI64GeU);
    fail_if(kTenonOutOfRange, tree_.node(ref).id, wide, bound);
    code().op(Op::kGet, wide), code().op(Op::kI32WrapI64), code().op(Op::kSet, narrow);
    const Symbol symbol = fresh_symbol();
    function_.define(symbol, narrow);
    literals_.insert_or_assign(lookup.symbol, symbol);
  }

  void emit(const auto&, TreeRef, const Node& node) { check(false, "%{} has no code of its own", node.name); }

  void emit(const Compute& compute, TreeRef ref, const Node& node) {
    const std::vector<WasmValue> x = inputs_of(ref);
    const DType operands = ir_.node(node.inputs.back()).dtype;
    if (divides_integers(*compute.op, operands)) refuse_zero(x, ref);
    const std::string_view op = compute.op->name.get();
    store(own_access(ref), op == "cast"      ? arithmetic_.cast(x[0], node.dtype)
                           : op == "bitcast" ? arithmetic_.bitcast(x[0], node.dtype)
                                             : arithmetic_.apply(*compute.op, operands, node.dtype, x));
  }

  void refuse_zero(const std::vector<WasmValue>& x, TreeRef ref) {
    arithmetic_.push(arithmetic_.cast(x[0], DType::kI64));
    const uint32_t dividend = function_.set_temporary(ValueType::kI64);
    arithmetic_.push(arithmetic_.cast(x[1], DType::kI64));
    code().op(Op::kI64Eqz);
    fail_if(kTenonDivisionByZero, tree_.node(ref).id, dividend);
  }

  void emit(const Write&, TreeRef ref, const Node&) { store(own_access(ref), inputs_of(ref)[0]); }

  void emit(const View& view, TreeRef ref, const Node& node) {
    const std::vector<Piece>& pieces = view.pieces;
    const bool is_plain = !pieces.empty() && guards_of(pieces[0], ref).empty();
    if (is_plain) return store(own_access(ref), value(compiler_.gen_access(pieces[0], ref)));
    const uint32_t result = function_.temporary(type_of(node.dtype, lanes_));
    set_piece(view, 0, ref, result);
    store(own_access(ref), {node.dtype, lanes_, result});
  }

  std::vector<Constraint> guards_of(const Piece& piece, TreeRef ref) const {
    return compiler_.get_constraints(compiler_.gen_access(piece, ref), *scope_);
  }

  // Sets the local to the first piece from `first` on whose guards hold.
  void set_piece(const View& view, size_t first, TreeRef ref, uint32_t result) {
    const DType dtype = ir_.node(tree_.node(ref)).dtype;
    if (first == view.pieces.size()) return arithmetic_.set(result, {dtype, lanes_, view.fill});
    const Piece& piece = view.pieces[first];
    const std::vector<Constraint> guards = guards_of(piece, ref);
    const auto set = [&] {
      arithmetic_.set(result, arithmetic_.splat(value(compiler_.gen_access(piece, ref)), lanes_));
    };
    if (guards.empty()) return set();
    push(guards);
    const Code inside = scoped(set), outside = scoped([&] { set_piece(view, first + 1, ref, result); });
    code().open(Op::kIf), code().append(inside), code().op(Op::kElse), code().append(outside), code().op(Op::kEnd);
  }

  void emit(const Reduce& reduce, TreeRef ref, const Node& node) {
    const Access self = own_access(ref);
    const bool by_lane = lanes_ > 1 && ir_.folds(self.node, tree_.loop(vector_).var);
    const DType dtype = by_lane ? node.dtype : self.memory->dtype;
    const WasmValue sum = by_lane ? WasmValue{dtype, lanes_, lane_sums_.at(self.node)} : stored(self);
    const bool fused = compiler_.is_fused(node.inputs[0]);
    std::vector<WasmValue> x = inputs_of(fused ? tree_.find(node.inputs[0]) : ref);
    for (WasmValue& operand : x) operand = arithmetic_.cast(operand, dtype);
    const WasmValue next =
        fused ? arithmetic_.multiply_add(x[0], x[1], sum) : arithmetic_.apply(*reduce.op, dtype, dtype, {sum, x[0]});
    by_lane ? arithmetic_.set(lane_sums_.at(self.node), next) : store(self, next);
  }

  void emit(const Scan& scan, TreeRef ref, const Node& node) {
    const Access carry = compiler_.gen_carry(ref);
    const DType dtype = carry.memory->dtype;
    const Expr position = position_of(carry);
    const WasmValue x = arithmetic_.cast(inputs_of(ref)[0], dtype);
    const WasmValue next = arithmetic_.apply(*scan.op, dtype, dtype, {elements_.load(*carry.memory, position), x});
    elements_.store(*carry.memory, position, next);
    store(own_access(ref), arithmetic_.cast(next, node.dtype));
  }

  void emit(const Scatter& scatter, TreeRef ref, const Node& node) {
    const Access self = own_access(ref);
    const Expr position = position_of(self);
    where(compiler_.get_constraints(self, *scope_), [&] {
      const WasmValue next = value(compiler_.gen_access(node.inputs[1], ref));
      const auto combined = [&] {
        return arithmetic_.apply(*scatter.op, node.dtype, node.dtype, {elements_.load(*self.memory, position), next});
      };
      elements_.store(*self.memory, position, scatter.op ? combined() : next);
    });
  }

  // ---- folds ----

  const OpDef& fold_op(NodeRef ref) const {
    const auto* reduce = ir_.node(ref).as<Reduce>();
    return reduce ? *reduce->op : *ir_.node(ref).as<Scan>()->op;
  }

  WasmValue identity(NodeRef ref, DType dtype, int64_t lanes) const {
    return {dtype, lanes, *identity_of(fold_op(ref), dtype)};
  }

  WasmValue first_of(const Compiler::Fill& fill) {
    if (!fill.source) return identity(fill.node, fill.memory->dtype, 1);
    return arithmetic_.cast(number(fill.source, known(fill.source_offset)), fill.memory->dtype);
  }

  void start(const Compiler::Fill& fill) {
    const Allocation& memory = *fill.memory;
    const bool is_plain = !fill.source && fill.where.empty(), is_array = memory.scratch && !is_one_element(memory);
    if (is_array && !is_plain) elements_.keep_in_memory(memory);
    if (is_array && is_plain) {
      const WasmValue first = identity(fill.node, memory.dtype, 1);
      if (elements_.fill_locals(memory, positions_of(fill), first)) return;
      if (fill.counters.size() == memory.dims.size() && is_zero(first)) return elements_.clear(memory);
    }
    function_.forget_loads(memory.mem_idx);
    start_from(fill, 0);
  }

  // The positions that it fills, if they are known and not many.
  std::optional<std::set<int64_t>> positions_of(const Compiler::Fill& fill) const {
    std::vector<Expr> offsets = {known(fill.offset)};
    for (size_t i = 0; i < fill.counters.size(); ++i) {
      const Expr extent = known(fill.extents[i]);
      if (!extent.is_constant() || extent.constant() * static_cast<int64_t>(offsets.size()) > kMostFilled) return {};
      std::vector<Expr> next;
      for (const Expr& offset : offsets) {
        for (int64_t at = 0; at < extent.constant(); ++at) next.push_back(substitute(offset, {{fill.counters[i], at}}));
      }
      offsets = std::move(next);
    }
    std::set<int64_t> positions;
    for (const Expr& offset : offsets) {
      if (!offset.is_constant()) return {};
      positions.insert(offset.constant());
    }
    return positions;
  }

  static bool is_zero(const WasmValue& value) {
    const auto* number = std::get_if<Scalar>(&value.is);
    return number &&
           (std::holds_alternative<int64_t>(*number) ? std::get<int64_t>(*number) == 0
                                                     : std::bit_cast<int64_t>(std::get<double>(*number)) == 0);
  }

  // Loops over the block from the dimension `level` on.
  void start_from(const Compiler::Fill& fill, size_t level) {
    if (level < fill.counters.size()) {
      return loop(fill.counters[level], 0, known(fill.extents[level]), 1, [&] { start_from(fill, level + 1); });
    }
    where(fill.where, [&] { elements_.store(*fill.memory, known(fill.offset), first_of(fill)); });
  }

  void fold_lanes(NodeRef ref, int64_t lanes) {
    const Access self = own_access(tree_.find(ref));
    const DType wide = self.memory->dtype;
    const WasmValue sums{ir_.node(ref).dtype, lanes, lane_sums_.at(ref)};
    const Expr position = position_of(self);
    WasmValue total = elements_.load(*self.memory, position);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      total =
          arithmetic_.apply(fold_op(ref), wide, wide, {total, arithmetic_.cast(arithmetic_.lane(sums, lane), wide)});
    }
    elements_.store(*self.memory, position, total);
  }

  // ---- loops ----

  void body(const std::vector<TreeRef>& children) {
    for (TreeRef child : children) {
      for (const Compiler::Fill& fill : compiler_.fills(child)) start(fill);
      tree_.kind(child) == LoopTree::NODE ? node(child) : loop(child);
    }
  }

  void loop(TreeRef ref) {
    const Compiler::Scope& around = *scope_;
    for (const Compiler::Stretch& part : compiler_.stretches(ref, around)) {
      enter(part.scope);
      stretch(ref, known(part.begin), known(part.end));
    }
    enter(around);
  }

  void stretch(TreeRef ref, const Expr& begin, const Expr& end) {
    const Expr count = end - begin;
    const auto& [var, size, tail, step, annotation] = tree_.loop(ref);
    if (annotation.mark == Mark::kTile) {
      fail("backend wasm has no tile \"{}\": take it off the loop over {}", annotation.tile, ir_.var(var).name);
    }
    if (count.is_constant() && count.constant() <= 0) return;
    if (annotation.mark == Mark::kVectorize) return vectors(ref, begin, end);
    const int64_t most = annotation.mark == Mark::kUnroll ? kMostBodies / copies_ : 1;
    if (count.is_constant() && count.constant() <= most) return unrolled(ref, begin, count.constant(), 1);
    serial(ref, begin, end, 1);
  }

  void serial(TreeRef ref, const Expr& begin, const Expr& end, int64_t step) {
    forget_loads_of(ref);
    loop(compiler_.counter(ref), begin, end, step, [&] { body(tree_.children(ref)); });
  }

  // Iterations read what those before them wrote.
  void forget_loads_of(TreeRef ref) {
    for (NodeRef node : tree_.nodes_below(ref)) {
      function_.forget_loads(compiler_.allocations.at(node).mem_idx);
      const auto carry = compiler_.carries.find(node);
      if (carry != compiler_.carries.end()) function_.forget_loads(carry->second.mem_idx);
    }
  }

  template <class Body>
  void loop(Symbol counter, const Expr& begin, const Expr& end, int64_t step, Body emit_body) {
    const uint32_t local = function_.temporary(ValueType::kI32);
    const Expr count = end - begin;
    const bool is_certain = count.is_constant() && count.constant() > 0;
    function_.push(begin, ValueType::kI32), code().op(Op::kSet, local);
    if (!is_certain) code().op(Op::kGet, local), function_.push(end, ValueType::kI32), code().op(Op::kI32LtS);
    const Code inside = scoped([&] {
      function_.define(counter, local);
      emit_body();
      code().op(Op::kGet, local), code().i32(static_cast<int32_t>(step)), code().op(Op::kI32Add);
      code().op(Op::kSet, local), code().op(Op::kGet, local);
      function_.push(end, ValueType::kI32), code().op(Op::kI32LtS), code().op(Op::kBranchIf, 0);
    });
    if (!is_certain) code().open(Op::kIf);
    code().open(Op::kLoop), code().append(inside), code().op(Op::kEnd);
    if (!is_certain) code().op(Op::kEnd);
  }

  void unrolled(TreeRef ref, const Expr& begin, int64_t count, int64_t step) {
    if (count == 0) return;
    const Symbol counter = compiler_.counter(ref);
    copies_ *= count;
    for (int64_t i = 0; i < count; ++i) {
      literals_.insert_or_assign(counter, begin + i * step);
      body(tree_.children(ref));
    }
    literals_.erase(counter);
    copies_ /= count;
  }

  // ---- vectors ----

  // Whole vectors, then the remaining iterations one by one. A fold has a sum per lane and folds the lanes after each
  // block of terms.
  void vectors(TreeRef ref, const Expr& begin, const Expr& end) {
    const int64_t lanes = vector_lanes(compiler_, ref, *scope_);
    const Expr count = end - begin;
    if (lanes == 1 || (count.is_constant() && count.constant() < lanes)) return serial(ref, begin, end, 1);
    const Expr past = known(scope_->box.simplify(begin + max(floordiv(count, lanes), 0) * lanes));
    std::vector<NodeRef> folded = tree_.nodes_below(ref);
    std::erase_if(folded, [&](NodeRef node) { return !ir_.folds(node, tree_.loop(ref).var); });
    const int64_t block = kLongestChain * lanes;
    const Expr whole = past - begin;
    if (folded.empty() || (whole.is_constant() && whole.constant() <= block)) {
      whole_vectors(ref, begin, past, lanes, folded);
    } else {
      forget_loads_of(ref);
      const Symbol from = fresh_symbol();
      loop(from, begin, past, block, [&] { whole_vectors(ref, from, min(past, from + block), lanes, folded); });
    }
    if (past != end) serial(ref, past, end, 1);
  }

  void whole_vectors(TreeRef ref, const Expr& begin, const Expr& end, int64_t lanes,
                     const std::vector<NodeRef>& folded) {
    for (NodeRef node : folded) {
      const DType dtype = ir_.node(node).dtype;
      lane_sums_[node] = function_.temporary(ValueType::kV128);
      arithmetic_.set(lane_sums_[node], identity(node, dtype, lanes));
    }
    vector_ = ref;
    lanes_ = lanes;
    const Expr count = end - begin;
    const int64_t most = std::min(kMostUnrolledLanes, kMostBodies / copies_);
    const bool is_short = count.is_constant() && count.constant() <= most * lanes;
    is_short ? unrolled(ref, begin, count.constant() / lanes, lanes) : serial(ref, begin, end, lanes);
    vector_ = {};
    lanes_ = 1;
    for (NodeRef node : folded) fold_lanes(node, lanes);
  }

  const LoopTree& tree_;
  const IR& ir_;
  Compiler compiler_;
  WasmModule& module_;
  Function function_;
  Arithmetic arithmetic_;
  std::string prefix_;  // of symbols of the emitter's
  Elements elements_;
  std::map<NodeRef, uint32_t> lane_sums_;  // of the folds in a vectorized loop
  std::optional<uint32_t> frame_;          // the address of scratch memory
  int64_t next_symbol_ = 0;
  const Compiler::Scope* scope_ = nullptr;
  symbolic::Substitution literals_;  // of counters of unrolled loops, and of lookups
  int64_t copies_ = 1;               // how often the code of this point is there
  TreeRef vector_;                   // the vectorized loop around this point
  int64_t lanes_ = 1;
};

}  // namespace
}  // namespace wasm

std::string emit_wasm(const loops::LoopTree& tree, const WasmOptions& options) {
  wasm::WasmModule draft;
  wasm::WasmEmitter drafted(tree, options, draft, {});
  drafted.write();
  wasm::WasmModule module(draft);
  const uint32_t kernel = wasm::WasmEmitter(tree, options, module, drafted.arrays_for_locals()).write();
  return module.bytes(kernel, "kernel");
}

Machine wasm_machine() {
  Machine machine{.vector_bytes = 16, .vector_registers = 16};
  machine.product_registers = 32;  // as in src/codegen/target.cpp
  return machine;
}

}  // namespace tenon
