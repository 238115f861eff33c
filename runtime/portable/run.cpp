#include "runtime/portable/run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/checked.h"
#include "runtime/elements.h"
#include "runtime/portable_kernel.h"

namespace tenon::runtime::portable {
namespace {

struct Failure {
  int64_t kind;
  int64_t node = 0;
  int64_t value = 0;
  int64_t bound = 0;
};

// Scratch memory, released at the end of the scope.
class Block {
 public:
  Block(const tenon_services& services, int64_t bytes, uint32_t node)
      : services_(&services), memory_(services.allocate(&services, bytes)) {
    if (!memory_) throw Failure{kTenonOutOfMemory, node, bytes};
  }
  Block(Block&& other) noexcept : services_(other.services_), memory_(std::exchange(other.memory_, nullptr)) {}
  Block& operator=(Block&&) = delete;
  ~Block() {
    if (memory_) services_->release(services_, memory_);
  }

  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  const tenon_services* services_;
  void* memory_;
};

// The state that the threads of a run share.
struct Shared {
  const SizedKernel& kernel;
  const tenon_services& services;
  int64_t* error;
  int64_t step_limit;
  std::atomic<bool> failed = false;

  bool is_limited() const { return step_limit != PortableKernel::kNoLimit; }

  // The first failure is reported.
  int64_t report(const Failure& failure) {
    if (!failed.exchange(true)) {
      error[1] = failure.node;
      error[2] = failure.value;
      error[3] = failure.bound;
      error[0] = failure.kind;
    }
    return failure.kind;
  }

  template <class Body>
  int64_t guarded(Body body) noexcept {
    try {
      body();
      return 0;
    } catch (const Failure& failure) {
      return report(failure);
    } catch (const std::bad_alloc&) {
      return report({kTenonOutOfMemory});
    }
  }
};

template <class T>
struct Values {
  const T* data;
  int64_t step;  // 0: one value for all iterations
};

// An upper bound of the iterations before a guard changes.
int64_t iterations_until_change(int64_t value, int64_t stride, int64_t bound) {
  const auto steps = [](__int128_t distance, __int128_t by) {
    return static_cast<int64_t>(std::min<__int128_t>((distance + by - 1) / by, kStrip));
  };
  const __int128_t v = value, s = stride;
  if (s > 0 && v < 0) return steps(-v, s);
  if (s > 0 && v < bound) return steps(bound - v, s);
  if (s < 0 && v >= bound) return steps(v - bound + 1, -s);
  if (s < 0 && v >= 0) return steps(v + 1, -s);
  return kStrip;
}

// One thread's part of a run.
class Worker {
 public:
  // The worker that starts a run.
  Worker(Shared& shared, void* const* memory) : Worker(shared) {
    const SizedKernel& kernel = shared_.kernel;
    std::fill_n(numbers_, kernel.number_count, 0);
    std::ranges::copy(kernel.sizes, numbers_);
    std::ranges::copy(kernel.extents, extents_);
    for (size_t i = 0; i < kernel.buffers.size(); ++i) buffers_[i] = nullptr;
    const size_t arguments = kernel.argument_count;
    for (size_t i = 0; i < arguments; ++i) buffers_[i] = static_cast<std::byte*>(memory[i]);
    for (size_t i = arguments; i < kernel.buffers.size(); ++i) {
      if (shared_.is_limited() || kernel.buffers[i].parallel == kNone) add_scratch(i);
    }
  }

  // A worker of a parallel loop; it starts at the point that `other` has reached.
  Worker(const Worker& other, uint32_t parallel_loop) : Worker(other.shared_) {
    const SizedKernel& kernel = shared_.kernel;
    in_parallel_ = true;
    std::copy_n(other.numbers_, kernel.number_count, numbers_);
    std::copy_n(other.extents_, kernel.extents.size(), extents_);
    std::copy_n(other.buffers_, kernel.buffers.size(), buffers_);
    for (size_t i = kernel.argument_count; i < kernel.buffers.size(); ++i) {
      if (kernel.buffers[i].parallel == parallel_loop) add_scratch(i);
    }
  }

  void run() { run(shared_.kernel.roots); }

 private:
  // A row has one entry more than a strip: a scan keeps its total before the first element.
  static constexpr int64_t kRowBytes = (kStrip + 8) * 8;
  static constexpr int64_t kRooms = 6;

  explicit Worker(Shared& shared)
      : shared_(shared), steps_left_(shared.step_limit), own_(shared.services, own_bytes(shared.kernel), 0) {
    const SizedKernel& kernel = shared.kernel;
    std::byte* memory = own_.get();
    const auto take = [&](size_t bytes) { return std::exchange(memory, memory + bytes); };
    rooms_ = take(static_cast<size_t>(kRowBytes * kRooms));
    rows_ = take(static_cast<size_t>(kRowBytes) * kernel.row_count);
    numbers_ = reinterpret_cast<int64_t*>(take(8 * kernel.number_count));
    extents_ = reinterpret_cast<int64_t*>(take(8 * kernel.extents.size()));
    buffers_ = reinterpret_cast<std::byte**>(take(8 * kernel.buffers.size()));
  }

  static int64_t own_bytes(const SizedKernel& kernel) {
    const size_t words = kernel.number_count + kernel.extents.size() + kernel.buffers.size();
    return kRowBytes * (kRooms + static_cast<int64_t>(kernel.row_count)) + 8 * static_cast<int64_t>(words);
  }

  // The initial content is the same in every run, in case a kernel reads elements that it has not written.
  void add_scratch(size_t buffer) {
    const SizedBuffer& sized = shared_.kernel.buffers[buffer];
    const int64_t bytes = sized.bytes();
    buffers_[buffer] = scratch_.emplace_back(shared_.services, std::max<int64_t>(bytes, 1), sized.node).get();
    std::memset(buffers_[buffer], 0xff, static_cast<size_t>(bytes));
  }

  // ---- loops ----

  void run(const std::vector<Child>& children) {
    for (const Child& child : children) {
      if (child.is_loop) {
        run_loop(child.index);
      } else {
        spend(1);
        run_step(shared_.kernel.steps[child.index], 1);
      }
    }
  }

  void spend(int64_t steps) {
    if (!shared_.is_limited()) return;
    steps_left_ -= steps;
    if (steps_left_ < 0) throw Failure{kPortableOutOfSteps, 0, shared_.step_limit};
  }

  void run_loop(uint32_t index) {
    const SizedLoop& loop = shared_.kernel.loops[index];
    const int64_t extent = extents_[loop.variable];
    if (extent <= 0) return;
    const int64_t count = extent / loop.step + (extent % loop.step != 0 ? 1 : 0);
    const bool on_threads = loop.order == Order::Parallel && !in_parallel_ && !shared_.is_limited();
    on_threads ? run_parallel(index, count) : run_iterations(loop, 0, count);
  }

  struct Stretch {
    const Worker& caller;
    uint32_t loop;
  };

  static int64_t run_stretch(void* context, int64_t begin, int64_t end) {
    const auto& [caller, loop] = *static_cast<const Stretch*>(context);
    return caller.shared_.guarded([&] {
      Worker worker(caller, loop);
      worker.run_iterations(caller.shared_.kernel.loops[loop], begin, end);
    });
  }

  void run_parallel(uint32_t index, int64_t count) {
    Stretch stretch{*this, index};
    if (shared_.services.parallel_for(&shared_.services, 0, count, run_stretch, &stretch) != 0)
      throw Failure{shared_.error[0]};
  }

  void run_iterations(const SizedLoop& loop, int64_t begin, int64_t end) {
    loop.strip > 0 ? run_strips(loop, begin, end) : run_one_by_one(loop, begin, end);
  }

  void run_one_by_one(const SizedLoop& loop, int64_t begin, int64_t end) {
    const int64_t extent = extents_[loop.variable];
    for (int64_t i = begin; i < end; ++i) {
      spend(1);
      const int64_t iteration = loop.backwards() ? end - 1 - (i - begin) : i;
      numbers_[loop.counter] = iteration;
      extents_[loop.variable] = std::min(loop.step, extent - iteration * loop.step);
      for (const Derived& derived : loop.derived) {
        numbers_[derived.number] = apply(derived.op, base(derived.a), base(derived.b));
      }
      run(loop.children);
    }
    extents_[loop.variable] = extent;
  }

  void run_strips(const SizedLoop& loop, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += loop.strip) {
      const int64_t count = std::min(loop.strip, end - i);
      spend(count * static_cast<int64_t>(loop.children.size()));
      numbers_[loop.counter] = loop.backwards() ? end - 1 - (i - begin) : i;
      derive(loop.derived, count);
      for (const Child& child : loop.children) run_step(shared_.kernel.steps[child.index], count);
    }
  }

  // ---- positions ----

  int64_t base(const Position& position) const {
    uint64_t sum = static_cast<uint64_t>(position.constant);
    for (const SumTerm& term : position.numbers) {
      sum += static_cast<uint64_t>(term.factor) * static_cast<uint64_t>(numbers_[term.symbol]);
    }
    return static_cast<int64_t>(sum);
  }

  int64_t first(const Position& position, int64_t iteration) const {
    const uint64_t moved = static_cast<uint64_t>(position.stride) * static_cast<uint64_t>(iteration);
    return static_cast<int64_t>(static_cast<uint64_t>(base(position)) + moved);
  }

  std::byte* row(uint32_t index) const { return rows_ + index * kRowBytes; }
  int64_t* index_row(uint32_t index) const { return reinterpret_cast<int64_t*>(row(index)); }

  template <class T>
  T* room(int64_t index) const {
    return reinterpret_cast<T*>(rooms_ + index * kRowBytes);
  }

  // The values of a position in iterations [begin, begin + count) of the strip.
  void evaluate(const Position& position, int64_t begin, int64_t count, int64_t* values) const {
    uint64_t next = static_cast<uint64_t>(first(position, begin));
    for (int64_t i = 0; i < count; ++i, next += static_cast<uint64_t>(position.stride)) {
      uint64_t sum = next;
      for (const SumTerm& term : position.rows) {
        sum += static_cast<uint64_t>(term.factor) * static_cast<uint64_t>(index_row(term.symbol)[begin + i]);
      }
      values[i] = static_cast<int64_t>(sum);
    }
  }

  void derive(const std::vector<Derived>& list, int64_t count) {
    for (const Derived& derived : list) {
      int64_t* const a = room<int64_t>(0);
      int64_t* const b = room<int64_t>(1);
      evaluate(derived.a, 0, count, a);
      evaluate(derived.b, 0, count, b);
      int64_t* const values = index_row(derived.row);
      for (int64_t i = 0; i < count; ++i) values[i] = apply(derived.op, a[i], b[i]);
    }
  }

  [[noreturn]] void bad_access(uint32_t node, int64_t element, int64_t elements) const {
    throw Failure{kPortableBadAccess, node, element, elements};
  }

  // Elements of a buffer, all checked. Offsets, if needed, are written to the given room.
  Places places(uint32_t buffer, const Position& at, int64_t begin, int64_t count, int64_t offsets_room) const {
    const SizedBuffer& sized = shared_.kernel.buffers[buffer];
    const auto exists = [&](int64_t element) {
      return static_cast<uint64_t>(element) < static_cast<uint64_t>(sized.elements);
    };
    if (at.rows.empty()) {
      const int64_t from = first(at, begin);
      int64_t distance, last;
      const bool overflows =
          __builtin_mul_overflow(at.stride, count - 1, &distance) || __builtin_add_overflow(from, distance, &last);
      if (overflows || !exists(from)) bad_access(sized.node, from, sized.elements);
      if (!exists(last)) bad_access(sized.node, last, sized.elements);
      return {buffers_[buffer], from, at.stride, nullptr};
    }
    int64_t* const offsets = room<int64_t>(offsets_room);
    evaluate(at, begin, count, offsets);
    for (int64_t i = 0; i < count; ++i) {
      if (!exists(offsets[i])) bad_access(sized.node, offsets[i], sized.elements);
    }
    return {buffers_[buffer], 0, 0, offsets};
  }

  // ---- values ----

  static constexpr int64_t kOffsets = 4;     // the room for offsets of operands
  static constexpr int64_t kOutOffsets = 5;  // the room for offsets of results

  Places places(const SizedSource& source, int64_t begin, int64_t count) const {
    if (source.row != kNone) return {row(source.row), begin, 1, nullptr};
    return places(source.buffer, source.at, begin, count, kOffsets);
  }

  static bool is_one(const Places& places) { return !places.offsets && places.stride == 0; }

  Values<double> reals(const SizedSource& source, int64_t begin, int64_t count, double* values) const {
    if (source.kind == SourceKind::Constant) return {&source.real, 0};
    if (!is_float(source.dtype)) {
      const Values<int64_t> from = integers(source, begin, count, room<int64_t>(3));
      for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>(from.data[i * from.step]);
      return {values, 1};
    }
    const Places from = places(source, begin, count);
    const int64_t loaded = is_one(from) ? 1 : count;
    const tenon_dtype stored = shared_.kernel.buffers[source.buffer].dtype;
    load_reals(stored, from, loaded, values);
    if (stored != source.dtype) round_all_to(source.dtype, values, loaded);
    return {values, is_one(from) ? 0 : 1};
  }

  Values<int64_t> integers(const SizedSource& source, int64_t begin, int64_t count, int64_t* values) const {
    if (source.kind == SourceKind::Constant) return {&source.integer, 0};
    if (source.kind == SourceKind::Number) {
      evaluate(source.at, begin, count, values);
      return {values, 1};
    }
    const Places from = places(source, begin, count);
    load_integers(source.dtype, from, is_one(from) ? 1 : count, values);
    return {values, is_one(from) ? 0 : 1};
  }

  template <class T>
  Values<T> values(const SizedSource& source, int64_t begin, int64_t count, int64_t to_room) const {
    if constexpr (std::is_same_v<T, double>)
      return reals(source, begin, count, room<T>(to_room));
    else
      return integers(source, begin, count, room<T>(to_room));
  }

  static void load(tenon_dtype dtype, const Places& from, int64_t count, double* to) {
    load_reals(dtype, from, count, to);
  }
  static void load(tenon_dtype dtype, const Places& from, int64_t count, int64_t* to) {
    load_integers(dtype, from, count, to);
  }
  static void store(tenon_dtype dtype, const Places& to, int64_t count, Values<double> from) {
    store_reals(dtype, to, count, from.data, from.step);
  }
  static void store(tenon_dtype dtype, const Places& to, int64_t count, Values<int64_t> from) {
    store_integers(dtype, to, count, from.data, from.step);
  }

  tenon_dtype dtype_of_out(const SizedStep& step) const { return shared_.kernel.buffers[step.out].dtype; }

  Places out_places(const SizedStep& step, int64_t begin, int64_t count) const {
    if (step.row != kNone) return {row(step.row), begin, 1, nullptr};
    return places(step.out, step.at, begin, count, kOutOffsets);
  }

  // ---- steps ----

  void run_step(const SizedStep& step, int64_t count) {
    for (const SizedLookup& lookup : step.lookups) look_up(step, lookup, count);
    derive(step.derived, count);
    for (int64_t i = 0; i < count;) {
      const auto [holds, length] = stretch(step.where, i, count);
      if (holds) execute(step, i, length);
      i += length;
    }
    if (step.row != kNone) keep_last(step, count);
  }

  void look_up(const SizedStep& step, const SizedLookup& lookup, int64_t count) {
    const Values<int64_t> found = integers(lookup.source, 0, count, room<int64_t>(0));
    int64_t* const row = index_row(lookup.row);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = found.data[i * found.step];
      if (index < 0 || index >= lookup.bound) throw Failure{kTenonOutOfRange, step.node, index, lookup.bound};
      row[i] = index;
    }
  }

  struct Held {
    bool holds;
    int64_t count;  // the number of iterations
  };

  Held stretch(const std::vector<SizedGuard>& guards, int64_t begin, int64_t end) const {
    int64_t count = end - begin;
    for (const SizedGuard& guard : guards) {
      int64_t value;
      evaluate(guard.value, begin, 1, &value);
      const bool is_even = guard.value.rows.empty();
      count = std::min(count, is_even ? iterations_until_change(value, guard.value.stride, guard.bound) : 1);
      if (value < 0 || value >= guard.bound) return {false, count};
    }
    return {true, count};
  }

  // Copies the last iteration's entry of a row to the buffer.
  void keep_last(const SizedStep& step, int64_t count) {
    const Places to = places(step.out, step.at, 0, 1, kOutOffsets);
    const int64_t size = size_of(dtype_of_out(step));
    std::memcpy(to.memory + to.first * size, row(step.row) + (count - 1) * size, static_cast<size_t>(size));
  }

  void execute(const SizedStep& step, int64_t begin, int64_t count) {
    const bool real = is_float(dtype_of_out(step));
    switch (step.action) {
      case Action::Compute:
        return is_float(step.sources.back().dtype) ? compute<double>(step, begin, count)
                                                   : compute<int64_t>(step, begin, count);
      case Action::Move:
        return real ? move<double>(step, begin, count) : move<int64_t>(step, begin, count);
      case Action::Fold:
        return real ? fold<double>(step, begin, count) : fold<int64_t>(step, begin, count);
      case Action::Scan:
        return real ? scan<double>(step, begin, count) : scan<int64_t>(step, begin, count);
      case Action::Bitcast:
        return bitcast(step, begin, count);
    }
  }

  template <class T>
  void compute(const SizedStep& step, int64_t begin, int64_t count) {
    Operands<T> x = {};
    for (size_t i = 0; i < step.sources.size(); ++i) {
      const Values<T> operand = values<T>(step.sources[i], begin, count, static_cast<int64_t>(i));
      x.data[i] = operand.data;
      x.step[i] = operand.step;
    }
    if constexpr (std::is_same_v<T, int64_t>) {
      if (step.op->kind == ScalarKind::kDivides) check_divisors(step, x, count);
    }
    T* const result = room<T>(3);
    step.op->run(x, result, 1, count);
    store(dtype_of_out(step), out_places(step, begin, count), count, Values<T>{result, 1});
  }

  static void check_divisors(const SizedStep& step, const Operands<int64_t>& x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (x.data[1][i * x.step[1]] == 0) throw Failure{kTenonDivisionByZero, step.node, x.data[0][i * x.step[0]]};
    }
  }

  template <class T>
  void move(const SizedStep& step, int64_t begin, int64_t count) {
    const int64_t end = begin + count;
    while (begin < end) {
      int64_t length = end - begin;
      for (const SizedSource& source : step.sources) {
        const Held held = stretch(source.where, begin, begin + length);
        length = held.count;
        if (!held.holds) continue;
        const Values<T> from = values<T>(source, begin, length, 0);
        store(dtype_of_out(step), out_places(step, begin, length), length, from);
        break;
      }
      begin += length;
    }
  }

  // The total keeps its full width from one element to the next. It wraps at the end, which gives the same result.
  static bool is_wide(tenon_dtype dtype) { return dtype == TENON_F64 || !is_float(dtype); }

  template <class T>
  void fold(const SizedStep& step, int64_t begin, int64_t count) {
    const tenon_dtype dtype = dtype_of_out(step);
    const Places out = places(step.out, step.at, begin, count, kOutOffsets);
    const bool into_one = is_one(out) && is_wide(dtype);
    if (count > 1 && !into_one && (out.offsets || out.stride == 0)) {
      for (int64_t i = 0; i < count; ++i) fold<T>(step, begin + i, 1);
      return;
    }
    T* const total = room<T>(1);
    const Values<T> x = values<T>(step.sources[0], begin, count, 0);
    load(dtype, out, into_one ? 1 : count, total);
    const int64_t total_step = into_one ? 0 : 1;
    step.op->run(Operands<T>{{total, x.data, nullptr}, {total_step, x.step, 0}}, total, total_step, count);
    store(dtype, out, into_one ? 1 : count, Values<T>{total, 1});
  }

  template <class T>
  void scan(const SizedStep& step, int64_t begin, int64_t count) {
    const tenon_dtype dtype = shared_.kernel.buffers[step.carry].dtype;
    const Places carry = places(step.carry, step.carry_at, begin, count, kOutOffsets);
    if (count > 1 && !(is_one(carry) && is_wide(dtype))) {
      for (int64_t i = 0; i < count; ++i) scan<T>(step, begin + i, 1);
      return;
    }
    T* const totals = room<T>(1);  // the total before the first element, then after each
    const Values<T> x = values<T>(step.sources[0], begin, count, 0);
    load(dtype, carry, 1, totals);
    step.op->run(Operands<T>{{totals, x.data, nullptr}, {1, x.step, 0}}, totals + 1, 1, count);
    store(dtype, carry, 1, Values<T>{totals + count, 1});
    store(dtype_of_out(step), out_places(step, begin, count), count, Values<T>{totals + 1, 1});
  }

  // Copies bits: the payload of a NaN survives.
  void bitcast(const SizedStep& step, int64_t begin, int64_t count) {
    const SizedSource& source = step.sources[0];
    const Places from = bits_of(source, begin, count), to = out_places(step, begin, count);
    const auto size = size_of(source.dtype);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to.memory + to[i] * size, from.memory + from[i] * size, static_cast<size_t>(size));
    }
  }

  Places bits_of(const SizedSource& source, int64_t begin, int64_t count) const {
    const bool is_stored =
        source.kind == SourceKind::Element && shared_.kernel.buffers[source.buffer].dtype == source.dtype;
    if (is_stored) return places(source, begin, count);
    const Places bits = {room<std::byte>(3), 0, 1, nullptr};
    if (is_float(source.dtype))
      store(source.dtype, bits, count, reals(source, begin, count, room<double>(0)));
    else
      store(source.dtype, bits, count, integers(source, begin, count, room<int64_t>(0)));
    return bits;
  }

  Shared& shared_;
  int64_t steps_left_;
  bool in_parallel_ = false;
  Block own_;            // the memory of all of these
  std::byte* rooms_;     // temporary rows for operands and offsets of one step
  std::byte* rows_;      // by row
  int64_t* numbers_;     // by symbol and derived number
  int64_t* extents_;     // by variable: the extent of the innermost open loop over it
  std::byte** buffers_;  // by buffer
  std::vector<Block> scratch_;
};

}  // namespace

int64_t run(const SizedKernel& kernel, void* const* memory, int64_t* error, const tenon_services& services,
            int64_t step_limit) noexcept {
  Shared shared{kernel, services, error, step_limit};
  return shared.guarded([&] { Worker(shared, memory).run(); });
}

}  // namespace tenon::runtime::portable
