#include "runtime/context.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/checked.h"
#include "runtime/elements.h"
#include "runtime/executor.h"
#include "runtime/out_of_range.h"
#include "runtime/scratch.h"
#include "runtime/services.h"
#include "runtime/shared.h"
#include "runtime/thread_pool.h"

namespace tenon::runtime {
namespace {

bool is_much_smaller(int64_t bytes, int64_t than) { return bytes < than / 2; }

}  // namespace

// ---- services -------------------------------------------------------------------------------------------------------

// The services of a context: the runtime's threads or the executor's, and scratch memory that the context counts.
// Released scratch is kept for the next task. Without a budget, the thread keeps it, for every context, and it is not
// counted. With a budget, the context keeps it, and counts it until it is dropped to make room.
class Context::Services : public tenon_services {
 public:
  Services(Allocator& allocator, const tenon_executor& executor)
      : tenon_services{executor.parallel ? run_on_executor : tenon_default_services()->parallel_for, allocate, release},
        allocator_(allocator),
        loop_(executor.parallel ? std::make_unique<ExecutorLoop>(executor) : nullptr) {}
  ~Services() { drop_kept(); }

  // What the executor threw in a run that failed otherwise is not of the next run.
  void start_run() {
    if (loop_) loop_->forget();
  }
  void check_executor() {
    if (loop_) loop_->check();
  }

  // Returns whether there was anything to drop.
  bool drop_kept() {
    const std::lock_guard lock(mutex_);
    return drop_kept_locked();
  }

 private:
  struct alignas(kAlignment) Header {
    int64_t bytes;
    Header* next;
  };
  static int64_t whole_size(int64_t bytes) { return bytes + static_cast<int64_t>(sizeof(Header)); }

  static Services& of(const tenon_services* services) {
    return *const_cast<Services*>(static_cast<const Services*>(services));
  }
  bool keeps() const { return allocator_.budget() != kNoBudget; }

  static int64_t run_on_executor(const tenon_services* services, int64_t begin, int64_t end, tenon_stretch stretch,
                                 void* context) {
    return of(services).loop_->run(begin, end, stretch, context);
  }

  static void* allocate(const tenon_services* services, int64_t bytes) {
    if (bytes < 0 || bytes > INT64_MAX - static_cast<int64_t>(sizeof(Header))) return nullptr;
    Services& self = of(services);
    Header* const kept = self.keeps() ? self.take_kept(bytes) : nullptr;
    Header* const block = kept ? kept : self.new_block(bytes);
    return block == nullptr ? nullptr : block + 1;
  }

  static void release(const tenon_services* services, void* memory) {
    if (memory == nullptr) return;
    Services& self = of(services);
    Header* const block = static_cast<Header*>(memory) - 1;
    if (self.keeps()) return self.keep(block);
    self.allocator_.release(block->bytes);
    release_scratch(block);
  }

  bool drop_kept_locked() {
    if (kept_ == nullptr) return false;
    while (Header* const block = kept_) {
      kept_ = block->next;
      allocator_.release(block->bytes);
      free_uncached_scratch(block, whole_size(block->bytes));
    }
    return true;
  }

  // Where the budget has no room, without what is kept. Meanwhile no thread keeps anything: its block would count.
  bool reserve(int64_t bytes) {
    if (allocator_.reserve(bytes)) return true;
    const std::lock_guard lock(mutex_);
    drop_kept_locked();
    return allocator_.reserve(bytes);
  }

  Header* new_block(int64_t bytes) {
    if (!reserve(bytes)) return nullptr;
    const int64_t whole = whole_size(bytes);
    void* const memory = keeps() ? allocate_uncached_scratch(whole) : allocate_scratch(whole);
    if (memory == nullptr) {
      allocator_.release(bytes);
      return nullptr;
    }
    return new (memory) Header{bytes, nullptr};
  }

  Header* take_kept(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Header** place = &kept_; *place != nullptr; place = &(*place)->next) {
      if ((*place)->bytes == bytes) return std::exchange(*place, (*place)->next);
    }
    return nullptr;
  }

  void keep(Header* block) {
    const std::lock_guard lock(mutex_);
    block->next = std::exchange(kept_, block);
  }

  Allocator& allocator_;
  const std::unique_ptr<ExecutorLoop> loop_;
  std::mutex mutex_;
  Header* kept_ = nullptr;  // newest first
};

// ---- creation -------------------------------------------------------------------------------------------------------

Context::Context(std::shared_ptr<const LoadedProgram> program, const ContextOptions& options,
                 std::shared_ptr<States> states)
    : program_(std::move(program)),
      graph_(program_->graph()),
      options_(options),
      allocator_(new_shared<Allocator>(options.budget)),
      services_(std::make_unique<Services>(*allocator_, options.executor)),
      kernel_services_(services_.get()),
      inputs_(graph_.inputs.size()),
      outputs_(graph_.outputs.size()),
      symbols_(graph_.symbols.size(), kUnknown),
      device_arenas_(graph_.spaces.size()),
      skips_(graph_.spaces.empty() ? 0 : graph_.tasks.size()),
      states_(states ? std::move(states) : new_shared<States>(Programs{program_}, allocator_)),
      retriever_(graph_),
      late_sizes_(program_->total_sizes()),
      held_(graph_.slots.size()),
      has_moves_(!graph_.spaces.empty()) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].shape.resize(graph_.slots[graph_.inputs[i].slot].shape.size(), -1);
    inputs_[i].strides = inputs_[i].shape;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].shape.resize(graph_.slots[graph_.outputs[i].slot].shape.size());
    outputs_[i].strides = outputs_[i].shape;
  }
  if (options_.telemetry) events_.reserve(graph_.tasks.size());
  for (const auto& [device, bytes] : options_.device_budgets) {
    if (!has_device(name_of_spec(device)))
      fail(TENON_INVALID_ARGUMENT, "there is a budget of ", bytes, " bytes for '", device,
           "', which is no device here");
  }
  find_states();
  if (has_moves_) states_->use_devices();  // for good: this context may run again after any other
  fuse();
}

void Context::find_states() {
  for (const StateInfo& own : states_of({program_})) {
    state_numbers_.push_back(states_->find(own.name));
    states_->check_type(state_numbers_.back(), own);
  }
}

Context::~Context() = default;

// Consecutive kernels are launched together. Late tasks are launched alone.
void Context::fuse() {
  for (uint32_t i = 0; i < graph_.tasks.size(); ++i) {
    const TaskNode& task = graph_.tasks[i];
    const bool is_plain = task.kind == TaskKind::Kernel && !task.is_late && task.wait_for == kNone;
    if (is_plain && !launches_.empty() && launches_.back().is_plain) {
      ++launches_.back().end;
    } else {
      launches_.push_back({i, i + 1, is_plain});
    }
  }
}

// Data is null if there is no memory, even after kept scratch is dropped.
Block Context::new_block(int64_t bytes) {
  Block block(allocator_, bytes);
  return block.data() == nullptr && services_->drop_kept() ? Block(allocator_, bytes) : std::move(block);
}

Block Context::allocate(int64_t bytes, std::string_view what) {
  Block block = new_block(bytes);
  if (block.data() == nullptr) fail_memory(what, bytes, frame_.get());
  return block;
}

void Context::fail_memory(std::string_view what, int64_t bytes, const Frame* frame) const {
  const int64_t needed = allocator_->would_need();
  if (needed == 0) fail(TENON_OUT_OF_MEMORY, "there is no memory for ", what, ", ", bytes, " bytes");
  allocator_->forget_refusal();
  fail(TENON_OVER_BUDGET, "program ", graph_.name, " needs at least ", needed, " bytes with ", what,
       ", and its budget is ", allocator_->budget(),
       ". Its largest tensors are:", frame ? largest_tensors(graph_, *frame, kHost) : "");
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

void Context::set_seed(int64_t seed) { seed_ = static_cast<uint64_t>(seed); }

namespace {

uint64_t drawn_seed() {
  uint64_t seed = 0;
  if (getentropy(&seed, sizeof(seed)) == 0) return seed;
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// SplitMix64, by Steele, Lea and Flood.
uint64_t following(uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

}  // namespace

void Context::draw_key() {
  static constexpr int64_t kShape[] = {2};
  const bool is_callers = inputs_[graph_.key].is_set && inputs_[graph_.key].tensor.data != key_;
  if (is_callers) return;
  const uint64_t seed = seed_ ? *seed_ : drawn_seed();
  if (seed_) seed_ = following(seed);
  key_[0] = static_cast<int64_t>(seed);
  set_input(graph_.key, {key_, TENON_I64, 1, kShape, nullptr});
}

void Context::bind() {
  if (graph_.key != kNone) draw_key();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].is_set) fail(TENON_INVALID_ARGUMENT, "input '", graph_.inputs[i].name, "' is not set");
  }
  std::ranges::fill(symbols_, kUnknown);
  if (!sizes_changed_ && frame_) {
    std::ranges::copy(frame_->symbols, symbols_.begin());
    return;
  }
  for (size_t i = 0; i < graph_.bindings.size(); ++i) {
    const format::Binding& binding = graph_.bindings[i];
    const int64_t size = inputs_[binding.input()].shape[binding.dim()];
    const int64_t left = checked_add(size, checked_mul(-1, evaluate(binding.rest(), graph_.code, symbols_)));
    if (checked_mod(left, binding.factor()) != 0) {
      const Expr& expected = graph_.slots[graph_.inputs[binding.input()].slot].shape[binding.dim()];
      fail(TENON_INVALID_ARGUMENT, "dimension ", binding.dim(), " of input '", graph_.inputs[binding.input()].name,
           "' must be ", expr_text(graph_, expected), ", got ", size);
    }
    symbols_[i] = checked_floordiv(left, binding.factor());
  }
  check_sizes();
  check_guards();
  take_frame();
  sizes_changed_ = false;
}

void Context::check_sizes() const {
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const TensorSlot& slot = graph_.slots[graph_.inputs[i].slot];
    for (size_t dim = 0; dim < slot.shape.size(); ++dim) {
      const int64_t expected = evaluate(slot.shape[dim], graph_.code, symbols_);
      const int64_t actual = inputs_[i].shape[dim];
      if (expected == actual) continue;
      if (slot.shape[dim].count() == 1 && graph_.code[slot.shape[dim].first()].op() == format::ExprOp::Constant) {
        fail_type(i, inputs_[i].tensor.dtype, inputs_[i].shape);
      }
      fail(TENON_INVALID_ARGUMENT, "dimension ", dim, " of input '", graph_.inputs[i].name, "' must be ",
           expr_text(graph_, slot.shape[dim]), " = ", expected, ", got ", actual);
    }
  }
  for (size_t i = 0; i < graph_.bindings.size(); ++i) {
    const SymbolInfo& symbol = graph_.symbols[i];
    if (symbols_[i] >= symbol.low && symbols_[i] <= symbol.high) continue;
    fail(TENON_INVALID_ARGUMENT, symbol.name, " is ", symbols_[i], ", which is outside of [", symbol.low, ", ",
         symbol.high == INT64_MAX ? "inf" : text_of(symbol.high), "]");
  }
}

// ---- what the model promises ----------------------------------------------------------------------------------------

namespace {

[[noreturn]] void fail_check(tenon_status status, const Check& check) {
  const std::string place = check.file.empty() ? "" : text_of(check.file, ":", check.line, ": ");
  fail(status, place, check.message);
}

bool is_zero(tenon_dtype dtype, const std::byte* element) {
  return is_float(dtype) ? load_real(dtype, element) == 0 : load_integer(dtype, element) == 0;
}

}  // namespace

void Context::check_guards() const {
  for (const Check& check : graph_.checks) {
    if (check.guard && evaluate(*check.guard, graph_.code, symbols_) == 0) fail_check(TENON_INVALID_ARGUMENT, check);
  }
}

void Context::check_conditions() {
  for (const Check& check : graph_.checks) {
    if (check.guard) continue;
    size_late(check.slot);
    const TensorView view = view_of(check.slot);
    const auto* element = static_cast<const std::byte*>(view.data);
    const int64_t bytes = bytes_of(check.slot);
    for (const std::byte* const end = element + bytes; element != end; element += size_of(view.dtype)) {
      if (is_zero(view.dtype, element)) fail_check(TENON_RUN_FAILED, check);
    }
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

void Context::take_frame() {
  std::shared_ptr<const Frame> frame = program_->frame(std::span(symbols_).first(graph_.bindings.size()));
  if (frame == frame_) return;
  frame_ = nullptr;  // until all memory is placed
  place_arenas(*frame);
  if (frame->arena_bytes > arena_.bytes() || is_much_smaller(frame->arena_bytes, arena_.bytes())) {
    arena_ = Block();
    Block block = new_block(frame->arena_bytes);
    if (block.data() == nullptr) fail_memory("temporaries", frame->arena_bytes, frame.get());
    arena_ = std::move(block);
  }
  frame_ = std::move(frame);
  place_own();
}

// Places what does not lie in the caller's memory.
void Context::place_own() {
  for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
    const TensorSlot& slot = graph_.slots[id];
    if (slot.home != id) continue;
    if (slot.kind == SlotKind::Constant && slot.space != kHost) {
      retriever_.place(id, program_->device_constant(id));
    } else if (slot.kind == SlotKind::Constant) {
      retriever_.place(id, const_cast<std::byte*>(program_->constant(slot.position)));
    }
    if (slot.kind == SlotKind::State) retriever_.place(id, states_->memory(state_numbers_[slot.position]));
    if (slot.kind == SlotKind::Temporary) retriever_.place(id, arena_place(id));
  }
  retriever_.resolve(symbols_);
}

std::byte* Context::arena_place(uint32_t slot) const {
  const uint32_t space = graph_.slots[slot].space;
  const int64_t offset = frame_->offsets[slot];
  return offset < 0 ? nullptr : (space == kHost ? arena_.data() : device_arenas_[space - 1].data()) + offset;
}

int64_t Context::bytes_of(uint32_t slot) const {
  return frame_->elements[slot] * static_cast<int64_t>(tenon_dtype_size(graph_.slots[slot].dtype));
}

void Context::prepare() {
  services_->start_run();
  failed_task_ = kNone;
  bind();
}

void Context::run() {
  std::optional<ThreadCount> threads;
  if (options_.threads > 0) threads.emplace(options_.threads);
  std::optional<States::Use> use;
  if (!state_numbers_.empty()) use.emplace(*states_);
  has_run_ = false;
  prepare();
  const bool has_moves = has_moves_ || states_->uses_devices();
  if (has_moves) place_moves();
  place_callers();
  events_.clear();
  timed_.clear();
  run_tasks();
  services_->check_executor();
  check_conditions();
  copy_outputs();
  if (has_moves) finish_outputs();
  apply_updates();
  if (has_moves) finish_moves();
  has_run_ = true;
}

void Context::fail_kernel(const TaskNode& task, const int64_t (&error)[4]) const {
  const auto& [kind, node, value, bound] = error;
  const KernelEntry& kernel = program_->kernel(task.kernel);
  if (kind == kTenonOutOfMemory) fail_memory(text_of("the scratch of ", task.name), 0, frame_.get());
  if (kernel.portable && kind == kTenonOutOfRange) throw OutOfRange(TENON_RUN_FAILED, kernel.portable->describe(error));
  if (kernel.portable) fail(TENON_RUN_FAILED, kernel.portable->describe(error));
  const std::string name = "%" + kernel.node_name(node);
  if (kind == kTenonOutOfRange) {
    throw OutOfRange(TENON_RUN_FAILED, text_of(name, ": index ", value, " is out of range for a size of ", bound));
  }
  if (kind == kTenonDivisionByZero) fail(TENON_RUN_FAILED, name, ": integer division of ", value, " by zero");
  fail(TENON_INTERNAL, name, " fails with ", kind, ", which is not a kind of error");
}

}  // namespace tenon::runtime
