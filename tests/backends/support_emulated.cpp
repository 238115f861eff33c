#include "tests/backends/support_emulated.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/threads.h"
#include "runtime/kernel.h"
#include "runtime/loader.h"

namespace tenon::test {
namespace {

using codegen::EmulatedThread;
using Bytes = std::vector<std::byte>;
using format::cuda::ArgumentKind;
using Entry = void(const int64_t* parameters, const EmulatedThread* thread);

constexpr size_t kStack = 256 << 10;
constexpr int64_t kWarp = 32;

// ---- a block --------------------------------------------------------------------------------------------------------

class Block;

struct Fiber {
  EmulatedThread thread;  // the first member: functions get its address
  Block* block;
  ucontext_t context;
  enum State : uint8_t { kReady, kAtBarrier, kAtExchange, kDone } state = kReady;
  uint32_t word = 0;  // of an exchange: what it gives, then what it gets
  uint32_t distance = 0;
};

class Block {
 public:
  Block(Entry* entry, const std::vector<int64_t>& parameters, int64_t threads, int64_t number, int64_t blocks)
      : entry_(entry),
        parameters_(parameters),
        shared_(codegen::kMostSharedBytes, std::byte{0xa5}),
        fibers_(static_cast<size_t>(threads)) {
    for (size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      fiber.thread = {static_cast<int64_t>(i), threads, number, blocks, shared_.data(), &at_barrier, &exchange};
      fiber.block = this;
    }
    is_backwards_ = number % 2 == 0;
  }

  void run() {
    if (fibers_.size() == 1) return entry_(parameters_.data(), &fibers_[0].thread);
    for (Fiber& fiber : fibers_) start(fiber);
    while (resume_all()) release();
  }

 private:
  static void at_barrier(const EmulatedThread* self) { suspend(self, Fiber::kAtBarrier); }

  static uint32_t exchange(const EmulatedThread* self, uint32_t word, uint32_t distance) {
    Fiber& fiber = fiber_of(self);
    fiber.word = word, fiber.distance = distance;
    suspend(self, Fiber::kAtExchange);
    return fiber.word;
  }

  static Fiber& fiber_of(const EmulatedThread* self) {
    return *const_cast<Fiber*>(reinterpret_cast<const Fiber*>(self));
  }

  static void suspend(const EmulatedThread* self, Fiber::State state) {
    Fiber& fiber = fiber_of(self);
    if (fiber.block->fibers_.size() == 1) return;
    fiber.state = state;
    swapcontext(&fiber.context, &fiber.block->main_);
  }

  static void body(unsigned low, unsigned high) {
    auto* const fiber = reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low);
    fiber->block->entry_(fiber->block->parameters_.data(), &fiber->thread);
    fiber->state = Fiber::kDone;
  }

  void start(Fiber& fiber) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack(static_cast<size_t>(fiber.thread.thread));
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &main_;
    const auto address = reinterpret_cast<uint64_t>(&fiber);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&body), 2, static_cast<unsigned>(address),
                static_cast<unsigned>(address >> 32));
  }

  static void* stack(size_t number) {
    thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
    while (stacks.size() <= number) stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(kStack));
    return stacks[number].get();
  }

  bool resume_all() {
    bool any = false;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[is_backwards_ ? fibers_.size() - 1 - i : i];
      if (fiber.state != Fiber::kReady) continue;
      swapcontext(&main_, &fiber.context);
      any = true;
    }
    return any;
  }

  // Lets go what all others wait for as well.
  void release() {
    for (size_t first = 0; first < fibers_.size(); first += kWarp) {
      const std::span<Fiber> warp(&fibers_[first], std::min<size_t>(kWarp, fibers_.size() - first));
      const auto is_at = [](const Fiber& fiber) { return fiber.state == Fiber::kAtExchange; };
      if (!std::ranges::all_of(warp, is_at)) continue;
      std::vector<uint32_t> words;
      for (size_t i = 0; i < warp.size(); ++i) words.push_back(warp[i ^ warp[i].distance].word);
      for (size_t i = 0; i < warp.size(); ++i) warp[i].word = words[i], warp[i].state = Fiber::kReady;
    }
    const auto waits = [](const Fiber& fiber) { return fiber.state == Fiber::kAtBarrier; };
    const auto waits_or_ended = [&](const Fiber& fiber) { return waits(fiber) || fiber.state == Fiber::kDone; };
    if (std::ranges::all_of(fibers_, waits_or_ended)) {
      for (Fiber& fiber : fibers_) {
        if (waits(fiber)) fiber.state = Fiber::kReady;
      }
    }
    const bool goes_on = std::ranges::any_of(fibers_, [](const Fiber& f) { return f.state == Fiber::kReady; });
    const bool has_ended = std::ranges::all_of(fibers_, [](const Fiber& f) { return f.state == Fiber::kDone; });
    const bool has_failed = std::ranges::any_of(fibers_, [](const Fiber& f) { return f.state == Fiber::kDone; });
    if (goes_on || has_ended || has_failed) return;
    throw std::runtime_error("threads of a block wait for each other");
  }

  Entry* const entry_;
  const std::vector<int64_t>& parameters_;
  Bytes shared_;
  std::vector<Fiber> fibers_;
  ucontext_t main_ = {};
  bool is_backwards_;
};

// ---- a kernel -------------------------------------------------------------------------------------------------------

double real_at(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kF64: {
      double value;
      std::memcpy(&value, at, 8);
      return value;
    }
    case DType::kF32: {
      float value;
      std::memcpy(&value, at, 4);
      return value;
    }
    default: {
      Tensor one = Tensor::zeros(dtype, {1});
      std::memcpy(one.data(), at, 2);
      return one.real(0);
    }
  }
}

void set_real(std::byte* at, DType dtype, double value) {
  Tensor one = Tensor::zeros(dtype, {1});
  one.set_real(0, value);
  std::memcpy(at, one.data(), static_cast<size_t>(size_of(dtype)));
}

class EmulatedKernel : public Compiled {
 public:
  explicit EmulatedKernel(const loops::LoopTree& tree) : ir_(tree.ir), code_(compile_cuda(tree, "native")) {
    if (!code_.ptx.empty()) object_ = runtime::LoadedCode::load(code_.ptx);
    write_cuda_code(code_);  // its tables must be possible
  }

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(ir_, memory, sizes);
    symbolic::Bindings bindings;
    for (size_t i = 0; i < sizes.size(); ++i) bindings[code_.sizes[i]] = sizes[i];
    Bytes scratch(static_cast<size_t>(evaluate(code_.scratch, bindings)) + 256, std::byte{0xa5});
    std::array<int64_t, 4> error = {};
    const Launching launching{memory, bindings, scratch.data(), error.data()};
    for (const CudaStep& step : code_.steps) {
      std::visit([&](const auto& it) { launch(it, launching); }, step);
    }
    const std::string& name = code_.nodes[static_cast<size_t>(error[1])];
    if (error[0] == kTenonOutOfRange) fail("%{}: index {} is out of range for a size of {}", name, error[2], error[3]);
    if (error[0] == kTenonDivisionByZero) fail("%{}: integer division of {} by zero", name, error[2]);
  }

  std::string dump() const override { return to_text(code_).substr(0, to_text(code_).size() - code_.ptx.size()); }

 private:
  struct Launching {
    std::span<void* const> memory;
    const symbolic::Bindings& sizes;
    std::byte* scratch;
    int64_t* error;

    int64_t value(const Expr& expr) const { return evaluate(expr, sizes); }
    std::byte* at(const CudaAddress& address) const {
      std::byte* const base =
          address.buffer == CudaAddress::kScratch ? scratch : static_cast<std::byte*>(memory[address.buffer]);
      return base + value(address.offset);
    }
  };

  void launch(const CudaKernel& kernel, const Launching& it) const {
    std::vector<int64_t> parameters;
    for (const CudaArgument& argument : kernel.arguments) {
      const auto push = [&](const void* address) { parameters.push_back(reinterpret_cast<int64_t>(address)); };
      switch (argument.kind) {
        case ArgumentKind::Buffer:
          push(it.at({argument.item, argument.value}));
          break;
        case ArgumentKind::Scratch:
          push(it.at({CudaAddress::kScratch, argument.value}));
          break;
        case ArgumentKind::Number:
          parameters.push_back(it.value(argument.value));
          break;
        case ArgumentKind::Errors:
          push(it.error);
      }
    }
    auto* const entry = object_->function<Entry>(kernel.entry);
    const int64_t blocks = it.value(kernel.grid), threads = it.value(kernel.block);
    if (blocks < 0 || blocks > INT32_MAX) fail("a grid of {} blocks", blocks);
    if (blocks > 0 && (threads < 1 || threads > 1024 || (threads > 1 && threads % kWarp != 0)))
      fail("a block of {} threads", threads);
    for (int64_t block = 0; block < blocks; ++block) Block(entry, parameters, threads, block, blocks).run();
  }

  void launch(const CudaMatmul& product, const Launching& it) const {
    const int64_t m = it.value(product.m), n = it.value(product.n), k = it.value(product.k);
    struct Placed {
      std::byte* first;
      int64_t batch, row, column, bytes;
      std::byte* at(int64_t b, int64_t i, int64_t j) const {
        return first + (b * batch + i * row + j * column) * bytes;
      }
    };
    const auto placed = [&](const CudaMatmul::Matrix& matrix, DType dtype) {
      Placed result{it.at(matrix.address), it.value(matrix.batch), it.value(matrix.row), 1, size_of(dtype)};
      if (matrix.is_transposed) std::swap(result.row, result.column);
      return result;
    };
    const Placed x = placed(product.a, product.operand), y = placed(product.b, product.operand),
                 z = placed(product.d, product.result);
    for (int64_t b = 0; b < it.value(product.batch); ++b) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += real_at(x.at(b, i, l), product.operand) * real_at(y.at(b, l, j), product.operand);
          sum *= product.alpha;
          if (product.bias) {
            const int64_t at = j * size_of(product.result);
            sum += real_at(it.at(*product.bias) + at, product.result);
          }
          set_real(z.at(b, i, j), product.result, sum);
        }
      }
    }
  }

  const loops::IR ir_;
  const CudaCode code_;
  std::shared_ptr<const runtime::LoadedCode> object_;
};

}  // namespace

std::unique_ptr<Compiled> compile_emulated(const loops::LoopTree& tree) {
  return std::make_unique<EmulatedKernel>(tree);
}

}  // namespace tenon::test
