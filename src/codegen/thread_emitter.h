// Inside of codegen: the walk over a LoopTree that emits code of GPU threads (threads.h). A lane is a thread, so all
// values are scalars. thread_emitter.cpp has launches, loops and folds, thread_nodes.cpp memory and nodes.
#pragma once

#include <llvm/IR/Module.h>

#include <set>

#include "codegen/function.h"
#include "codegen/thread_plan.h"
#include "codegen/threads.h"
#include "codegen/values.h"

namespace tenon::codegen {

class ThreadEmitter {
 public:
  ThreadEmitter(llvm::Module& module, const loops::LoopTree& tree, const std::string& name, const Target& target);

  // The launches of a root: first those that start its accumulators.
  void emit(loops::TreeRef root);

  std::vector<Launch> launches;
  std::vector<DeviceScratch> scratch;

 private:
  using NodeRef = loops::NodeRef;
  using TreeRef = loops::TreeRef;
  using Expr = symbolic::Expr;
  using Symbol = symbolic::Symbol;
  using Compiler = loops::Compiler;
  using Value = llvm::Value;
  using Body = FunctionBuilder::Body;

  // One of the elements that a node reads or writes.
  struct Which {
    enum Role : uint8_t { kSelf, kInput, kPiece, kLookup, kCarry } role;
    size_t position = 0;
    auto operator<=>(const Which&) const = default;
  };
  struct Spot {
    Compiler::Access access;
    Expr position;  // over loop counters
  };
  // A loop, with the facts that hold inside of it.
  struct Inside {
    Expr count;
    Compiler::Scope scope;
  };

  static constexpr int64_t kMostBlocks = int64_t{1} << 30;
  static constexpr int64_t kVectorBytes = 16;         // of the widest loads and stores
  static constexpr int64_t kMostWidth = 8;            // elements of a thread that are neighbours
  static constexpr int64_t kLeastVectors = 1 << 14;   // threads that wide loads must leave busy
  static constexpr int64_t kStreamThreads = 256;      // of a block, where no block is needed
  static constexpr int64_t kMostFoldBlocks = 1024;    // of a fold on all blocks
  static constexpr int64_t kMostThreads = 512;        // of a block that folds
  static constexpr int64_t kWarp = 32;                // threads
  static constexpr int64_t kElementsOfThread = 32;    // of a loop that is spread over a block
  static constexpr int64_t kElementsOfPart = 4;       // of a fold on all blocks
  static constexpr int64_t kMostOwnTotal = 1 << 16;   // bytes of all arrays of a thread
  static constexpr int64_t kMostArrayBytes = 40960;   // of all arrays that a block shares
  static constexpr int64_t kMostPartBytes = 1 << 28;  // of an array of which each block or thread has a part

  // ---- launches ----
  void launch(TreeRef root, const std::string& suffix, const Expr& blocks, const Expr& threads, int64_t most_threads,
              const std::vector<LaunchParameter>& parameters, const Body& body);
  void start_launch(const Compiler::Fill& fill, TreeRef root, size_t number);
  void root_launch(TreeRef root);
  std::vector<LaunchParameter> parameters_of(const std::set<int64_t>& arrays);
  llvm::Function* gpu_entry(const std::string& name, const std::vector<LaunchParameter>& parameters,
                            int64_t most_threads);
  llvm::Function* emulated_entry(const std::string& name);
  Value* argument_of(llvm::Function* function, unsigned position, bool is_number);
  void bind(llvm::Function* function, const std::vector<LaunchParameter>& parameters);
  std::set<int64_t> memory_below(TreeRef root) const;
  void add_parts(TreeRef root, const Expr& blocks, const Expr& threads);
  Expr grid_of(TreeRef root, Expr* threads);
  Expr threads_of(TreeRef root);
  Expr count_of(const std::vector<TreeRef>& chain) const;
  int64_t scratch_number(int64_t mem_idx, const Expr& bytes);
  Expr bytes_of(const Compiler::Allocation& memory) const;
  void for_each_scratch(TreeRef root, const std::function<void(NodeRef, const Compiler::Allocation&)>& visit) const;

  // ---- loops ----
  void body(const std::vector<TreeRef>& children);
  void loop(TreeRef ref);
  void serial(TreeRef ref);
  void spread(TreeRef ref);
  void fold(TreeRef ref);
  void fold_parts(const std::vector<TreeRef>& chain, const std::function<void(NodeRef, Value*)>& finish);
  void finish_launch(TreeRef root, const Expr& blocks);
  Compiler::Allocation parts_of(NodeRef sum) const;
  Expr position_of_total(NodeRef sum, TreeRef loop) const;
  void in_chain(const std::vector<TreeRef>& chain, Value* first, Value* step, const Body& body, int64_t width = 1);
  std::optional<int64_t> narrowest_in(const std::vector<TreeRef>& chain);
  int64_t vector_width(const std::vector<TreeRef>& chain);
  int64_t elements_of_thread(const std::vector<TreeRef>& chain);
  void stream(const std::vector<TreeRef>& chain, Value* first, Value* step);
  void copies(TreeRef loop, int64_t width);
  Inside inside(TreeRef ref, const Compiler::Scope& scope) const;
  void in_scope(const Compiler::Scope& scope, const Body& body);
  void on_threads(const Body& body);  // the body runs on some threads, which differ
  void by_first_thread(const Body& body);

  // ---- what threads share ----
  void barrier();
  void barrier_before(const ThreadPlan::Touched& next);
  void note(const ThreadPlan::Touched& touched);
  Value* block_fold(const OpDef& op, DType dtype, Value* value);
  Value* warp_fold(const OpDef& op, DType dtype, Value* value);
  Value* from_lane(Value* value, int64_t distance);
  Value* shared_array(llvm::Type* type, int64_t count, const std::string& name);

  enum Member : unsigned;
  Value* member(Member member);
  Value* special(Member emulated);
  Value* thread();
  Value* thread_count();
  Value* block_number();
  Value* block_count();
  Value* exchanged(Value* word, int64_t distance);

  // ---- memory (thread_nodes.cpp) ----
  bool is_register(NodeRef ref) const;
  void declare(TreeRef root);
  Value* own_part(const Compiler::Allocation& memory);
  llvm::Align alignment(const Compiler::Allocation& memory, const Expr& position) const;
  Value* address_in(const Compiler::Allocation& memory, const Expr& position);
  void store(const Compiler::Allocation& memory, const Expr& position, Value* value);
  Value* load(const Compiler::Allocation& memory, const Expr& position);
  void start(const Compiler::Fill& fill, bool is_launch = false);
  void start_element(const Compiler::Fill& fill);
  Value* first_value(const Compiler::Fill& fill);
  const OpDef& fold_op(NodeRef ref) const;

  // ---- nodes (thread_nodes.cpp) ----
  void node(TreeRef ref);
  Compiler::Access access(TreeRef at, Which which) const;
  Spot& spot(TreeRef at, Which which);
  Value* read(TreeRef at, Which which);
  void write(TreeRef at, Value* value);
  void look_up(const loops::Lookup& lookup, TreeRef ref, size_t position);
  void leave_when(Value* bad, int64_t kind, NodeRef node, Value* value, const Expr& bound);
  llvm::Function* failed_function();
  std::vector<Value*> inputs_of(TreeRef ref);
  void emit(const loops::Compute& compute, TreeRef ref);
  void emit(const loops::View& view, TreeRef ref);
  void emit(const loops::Reduce& reduce, TreeRef ref);
  void emit(const loops::Scan& scan, TreeRef ref);
  void emit(const loops::Scatter& scatter, TreeRef ref);
  void emit(const loops::Write& write, TreeRef ref);
  template <class Action>
  void emit(const Action& action, TreeRef ref);
  Value* pieces(const loops::View& view, TreeRef ref, size_t first);
  Value* either(Value* condition, const std::function<Value*()>& yes, const std::function<Value*()>& no);
  Value* holds(const std::vector<loops::Constraint>& constraints);  // null: always true
  Value* holds_at(TreeRef at, Which which);
  Expr at_least_zero(const Expr& bound) const;
  // A copy of a body is for another element than its loop's counter says.
  Expr shifted(const Expr& expr) const {
    return copy_ == 0 ? expr : substitute(expr, {{copied_, Expr(copied_) + copy_}});
  }
  Value* index(const Expr& expr) { return f_->indices.value(shifted(expr)); }
  Value* number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  llvm::Module& module_;
  const loops::LoopTree& tree_;
  const loops::IR& ir_;
  const std::string name_;
  const Target& target_;
  llvm::IRBuilder<> b_;
  Values values_;
  Compiler compiler_;
  ThreadPlan plan_;
  const bool is_emulated_;

  // The state of the walk.
  FunctionBuilder* f_ = nullptr;
  std::map<int64_t, Value*> arrays_;               // by mem_idx
  std::map<int64_t, Value*> parts_;                // scratch of which each block or thread has a part: the whole
  std::unordered_map<NodeRef, Value*> registers_;  // nodes whose value needs no memory
  std::map<NodeRef, Value*> sums_;                 // that the threads of an open loop fold: a variable of each thread
  std::map<std::pair<TreeRef, Which>, Spot> spots_;
  const Compiler::Scope* scope_ = nullptr;
  Symbol copied_{"copied"};            // the counter of the loop whose body is copied
  int64_t copy_ = 0;                   // which of the copies
  int64_t width_ = 1;                  // how many there are
  bool has_threads_ = false;           // the blocks of this launch have more than one thread
  bool differs_ = false;               // this code runs on some threads, which differ
  ThreadPlan::Touched since_barrier_;  // shared memory
  Expr threads_ = 1;                   // of a block
  uint64_t shared_bytes_ = 0;          // of an emulated block
  int64_t fold_arrays_ = 0;            // arrays of totals so far
};

}  // namespace tenon::codegen
