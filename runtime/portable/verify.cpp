// The rules of format/kernel.fbs. A verified kernel can run with any sizes and never reads outside of its tables.
// Checks that depend on sizes, above all of element positions, happen during the run.
#include "runtime/elements.h"
#include "runtime/error.h"
#include "runtime/portable/tables.h"

namespace tenon::runtime::portable {
namespace {

constexpr uint32_t kMostSymbols = 1 << 16;
constexpr size_t kDeepestLoops = 256;
// Counts every use of an expression: a sized kernel takes memory for each.
constexpr uint64_t kMostInstructions = 1 << 20;

template <class... Parts>
[[noreturn]] void refuse(Parts... parts) {
  fail(TENON_BAD_FILE, "a portable kernel is damaged: ", parts...);
}

void check_index(uint64_t index, size_t count, std::string_view what) {
  if (index >= count) refuse("it names ", what, " ", index, ", but there are ", count);
}

template <class Enum>
void check_enum(Enum value, std::string_view what) {
  if (value > Enum::MAX) refuse(static_cast<int>(value), " is no ", what);
}

void check_range(const Range& range, size_t count, std::string_view what) {
  if (range.first() > count || range.count() > count - range.first()) {
    refuse(range.count(), " ", what, " from ", range.first(), " on do not fit the table of ", count);
  }
}

class Verifier {
 public:
  explicit Verifier(const Tables& tables) : tables_(tables) {}

  void run() {
    check_counts();
    for (size_t i = 0; i < tables_.ops.size(); ++i) {
      if (!tables_.ops[i]) fail(TENON_UNSUPPORTED, "this runtime does not know the op ", tables_.op_names[i]);
    }
    known_.assign(tables_.symbol_count, false);
    std::fill_n(known_.begin(), tables_.size_count, true);
    for (const Expr& size : tables_.variables) check_expr(size);
    for (const Buffer& buffer : tables_.buffers) check_buffer(buffer);
    check_tree();
  }

 private:
  void check_counts() const {
    if (tables_.symbol_count > kMostSymbols) refuse("it has ", tables_.symbol_count, " symbols");
    if (tables_.size_count > tables_.symbol_count) refuse("more symbols are sizes than there are");
    if (tables_.argument_count() > tables_.buffers.size()) {
      refuse("it takes ", tables_.argument_count(), " arguments, but has ", tables_.buffers.size(), " buffers");
    }
  }

  // Uses only symbols that are known at this point of the walk.
  void check_expr(const Expr& expr) {
    instructions_ += expr.count();
    if (instructions_ > kMostInstructions)
      refuse("its expressions have more than ", kMostInstructions, " instructions");
    runtime::verify(expr, tables_.code, tables_.symbol_count);
    for (const Instruction& instruction : tables_.code.subspan(expr.first(), expr.count())) {
      if (instruction.op() == ExprOp::Symbol && !known_[static_cast<size_t>(instruction.value())]) {
        refuse("an expression names symbol ", instruction.value(), " where it has no value");
      }
    }
  }

  void check_expr_of_sizes(const Expr& expr) {
    check_expr(expr);
    for (const Instruction& instruction : tables_.code.subspan(expr.first(), expr.count())) {
      if (instruction.op() == ExprOp::Symbol && instruction.value() >= tables_.size_count) {
        refuse("a size or a bound depends on symbol ", instruction.value(), ", which is no size");
      }
    }
  }

  void check_buffer(const Buffer& buffer) {
    check_enum(buffer.dtype(), "dtype");
    check_index(buffer.node(), tables_.nodes.size(), "node");
    if (buffer.loop() != kNone) check_index(buffer.loop(), tables_.loops.size(), "loop");
    check_expr_of_sizes(buffer.elements());
  }

  // ---- loops ----

  void check_tree() {
    size_t next = 0;
    std::vector<const Loop*> open;
    for (uint32_t step = 0; step < tables_.steps.size(); ++step) {
      while (!open.empty() && end_of(open.back()->steps()) == step) close(open);
      while (next < tables_.loops.size() && tables_.loops[next].steps().first() == step) {
        enter(tables_.loops[next++], open);
      }
      check_step(tables_.steps[step]);
    }
    if (next != tables_.loops.size()) refuse("loop ", next, " starts at no step, or out of order");
  }

  void enter(const Loop& loop, std::vector<const Loop*>& open) {
    check_enum(loop.order(), "order of iterations");
    check_range(loop.steps(), tables_.steps.size(), "steps");
    if (loop.steps().count() == 0) refuse("a loop is empty");
    if (!open.empty() && end_of(loop.steps()) > end_of(open.back()->steps())) refuse("loops overlap");
    if (open.size() == kDeepestLoops) refuse("loops nest deeper than ", kDeepestLoops);
    check_index(loop.variable(), tables_.variables.size(), "variable");
    if (loop.step() < 1) refuse("a loop has step ", loop.step());
    define(loop.counter());
    open.push_back(&loop);
  }

  void close(std::vector<const Loop*>& open) {
    known_[open.back()->counter()] = false;
    open.pop_back();
  }

  void define(uint32_t symbol) {
    check_index(symbol, tables_.symbol_count, "symbol");
    if (known_[symbol]) refuse("symbol ", symbol, " has a value already");
    known_[symbol] = true;
  }

  // ---- steps ----

  void check_step(const Step& step) {
    check_enum(step.action(), "action");
    check_index(step.node(), tables_.nodes.size(), "node");
    check_range(step.sources(), tables_.sources.size(), "sources");
    check_range(step.lookups(), tables_.lookups.size(), "lookups");
    const auto lookups = part(tables_.lookups, step.lookups());
    for (const Lookup& lookup : lookups) check_lookup(lookup);
    for (const Lookup& lookup : lookups) define(lookup.symbol());
    check_guards(step.where());
    check_written(step.out(), step.at());
    for (const Source& source : part(tables_.sources, step.sources())) check_source(source);
    check_action(step);
    for (const Lookup& lookup : lookups) known_[lookup.symbol()] = false;
  }

  // Its index depends on loops only.
  void check_lookup(const Lookup& lookup) {
    check_index(lookup.source(), tables_.sources.size(), "source");
    const Source& source = tables_.sources[lookup.source()];
    check_source(source);
    if (is_float(dtype_of(source.dtype()))) refuse("an index is not an integer");
    if (source.where().count() != 0) refuse("an index has a guard");
    check_expr_of_sizes(lookup.bound());
  }

  void check_guards(const Range& guards) {
    check_range(guards, tables_.guards.size(), "guards");
    for (const Guard& guard : part(tables_.guards, guards)) {
      check_expr(guard.value());
      check_expr_of_sizes(guard.bound());
    }
  }

  void check_written(uint32_t buffer, const Expr& at) {
    check_index(buffer, tables_.buffers.size(), "buffer");
    if (buffer < tables_.input_count) refuse("a step writes input ", buffer);
    check_expr(at);
  }

  void check_source(const Source& source) {
    check_enum(source.kind(), "kind of source");
    check_enum(source.dtype(), "dtype");
    check_guards(source.where());
    if (source.kind() == SourceKind::Constant) return check_index(source.item(), tables_.constants.size(), "constant");
    check_expr(source.at());
    if (source.kind() == SourceKind::Number) {
      if (source.dtype() != format::DType::I64) refuse("a number is not an i64");
      return;
    }
    check_index(source.item(), tables_.buffers.size(), "buffer");
    const format::DType stored = tables_.buffers[source.item()].dtype();
    const bool is_wide = is_float(dtype_of(source.dtype())) && stored == format::DType::F64;
    if (stored != source.dtype() && !is_wide) refuse("a buffer is read as another dtype than it has");
  }

  void check_action(const Step& step) {
    const auto sources = part(tables_.sources, step.sources());
    if (sources.empty()) refuse("a step reads nothing");
    if (step.action() != Action::Move) {
      for (const Source& source : sources) {
        if (source.where().count() != 0) refuse("an operand has a guard");
      }
    }
    switch (step.action()) {
      case Action::Compute:
        return check_compute(step, sources);
      case Action::Move:
        return check_move(step, sources);
      case Action::Fold:
        return check_fold(step, sources, step.out());
      case Action::Scan:
        check_written(step.carry(), step.carry_at());
        if (is_real(step.carry()) != is_real(step.out())) refuse("a scan mixes floating and integer numbers");
        return check_fold(step, sources, step.carry());
      case Action::Bitcast:
        return check_bitcast(step, sources);
    }
  }

  bool is_real(uint32_t buffer) const { return is_float(dtype_of(tables_.buffers[buffer].dtype())); }

  const ScalarOp& op_of(const Step& step, bool real) const {
    check_index(step.op(), tables_.ops.size(), "op");
    const ScalarOp& op = *tables_.ops[step.op()];
    if (real ? !op.is_real : !op.is_integer)
      refuse("op ", op.name, " has no meaning for ", real ? "floats" : "integers");
    return op;
  }

  void check_compute(const Step& step, std::span<const Source> sources) const {
    const bool real = is_float(dtype_of(sources.back().dtype()));
    const ScalarOp& op = op_of(step, real);
    if (sources.size() != op.arity) {
      refuse("op ", op.name, " takes ", op.arity, " operands, not ", sources.size());
    }
    for (const Source& source : sources) {
      if (!real && is_float(dtype_of(source.dtype()))) refuse("a float is an operand of integer arithmetic");
    }
  }

  void check_move(const Step& step, std::span<const Source> sources) const {
    if (sources.back().where().count() != 0) refuse("a step that moves has no source for every case");
    for (const Source& source : sources) {
      if (is_float(dtype_of(source.dtype())) != is_real(step.out())) refuse("a move changes the kind of its number");
    }
  }

  void check_fold(const Step& step, std::span<const Source> sources, uint32_t total) const {
    const ScalarOp& op = op_of(step, is_real(total));
    if (op.kind != ScalarKind::kFolds) refuse("op ", op.name, " folds nothing");
    if (sources.size() != 1) refuse("a fold takes 1 operand, not ", sources.size());
    if (is_float(dtype_of(sources[0].dtype())) != is_real(total)) refuse("a fold changes the kind of its number");
  }

  void check_bitcast(const Step& step, std::span<const Source> sources) const {
    if (sources.size() != 1) refuse("a bitcast takes 1 operand, not ", sources.size());
    if (size_of(dtype_of(sources[0].dtype())) != size_of(dtype_of(tables_.buffers[step.out()].dtype()))) {
      refuse("a bitcast changes the size of an element");
    }
  }

  const Tables& tables_;
  std::vector<uint8_t> known_;  // by symbol: 1 if it is known
  uint64_t instructions_ = 0;
};

}  // namespace

void verify(const Tables& tables) { Verifier(tables).run(); }

}  // namespace tenon::runtime::portable
