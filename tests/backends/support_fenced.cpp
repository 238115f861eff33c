#include "tests/backends/support_fenced.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "codegen/objects.h"
#include "runtime/kernel.h"
#include "runtime/loader.h"

namespace tenon::test {
namespace {

using runtime::LoadedCode;

enum class Side : uint8_t { kStart, kEnd };

constexpr std::byte kUntouched{0xa5};
constexpr std::byte kGarbage{0xff};  // NaN as a float, a large one as an unsigned index

// Pages between two that cannot be touched.
class Fenced {
 public:
  Fenced(int64_t bytes, Side side, int64_t alignment) : bytes_(static_cast<size_t>(bytes)) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    inside_ = (bytes_ + page - 1) / page * page;
    size_ = inside_ + 2 * page;
    void* const memory = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("there is no memory for {} bytes between fences", bytes);
    first_ = static_cast<std::byte*>(memory) + page;
    if (inside_ > 0) ::mprotect(first_, inside_, PROT_READ | PROT_WRITE);
    std::fill_n(first_, inside_, kUntouched);
    const size_t padded = (bytes_ + static_cast<size_t>(alignment) - 1) / alignment * alignment;
    data_ = side == Side::kStart ? first_ : first_ + inside_ - padded;
    page_ = page;
  }
  Fenced(const Fenced&) = delete;
  ~Fenced() { ::munmap(first_ - page_, size_); }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void forbid_writes() const {
    if (inside_ > 0) ::mprotect(first_, inside_, PROT_READ);
  }
  bool is_intact_around() const {
    const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(first_, data_, is_untouched) &&
           std::all_of(data_ + bytes_, std::max(first_ + inside_, data_ + bytes_), is_untouched);
  }
  bool is_near(const void* address) const { return address >= first_ - page_ && address < first_ - page_ + size_; }

 private:
  size_t bytes_;
  size_t inside_;
  size_t size_;
  size_t page_;
  std::byte* first_;
  std::byte* data_;
};

// ---- services -------------------------------------------------------------------------------------------------------

thread_local Side scratch_side;
thread_local std::vector<std::unique_ptr<Fenced>>* scratch = nullptr;

void* allocate(const tenon_services*, int64_t bytes) {
  constexpr int64_t kAlignment = 64, kMost = int64_t{1} << 32;
  if (bytes > kMost) return nullptr;
  const auto& array = scratch->emplace_back(std::make_unique<Fenced>(bytes, scratch_side, kAlignment));
  std::fill_n(array->data(), array->bytes(), kGarbage);
  return array->data();
}

void release(const tenon_services*, void* memory) {
  if (!memory) return;
  const auto found =
      std::ranges::find(*scratch, static_cast<std::byte*>(memory), [](const auto& a) { return a->data(); });
  if (found == scratch->end()) {
    ADD_FAILURE() << "the kernel releases what it did not allocate";
    return;
  }
  EXPECT_TRUE((*found)->is_intact_around()) << "scratch of " << (*found)->bytes() << " bytes is written around";
  scratch->erase(found);
}

int64_t last_first(const tenon_services*, int64_t begin, int64_t end, tenon_stretch stretch, void* context) {
  for (int64_t at = end; at-- > begin;) {
    if (const int64_t error = stretch(context, at, at + 1)) return error;
  }
  return 0;
}

constexpr tenon_services kServices = {last_first, allocate, release};

// ---- violations -----------------------------------------------------------------------------------------------------

thread_local sigjmp_buf before_the_kernel;
thread_local const void* volatile violated = nullptr;

void leave_kernel(int, siginfo_t* info, void*) {
  violated = info->si_addr;
  siglongjmp(before_the_kernel, 1);
}

class CatchViolations {
 public:
  CatchViolations() {
    struct sigaction action = {};
    action.sa_sigaction = leave_kernel;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &before_);
  }
  CatchViolations(const CatchViolations&) = delete;
  ~CatchViolations() { ::sigaction(SIGSEGV, &before_, nullptr); }

 private:
  struct sigaction before_;
};

// ---- kernels --------------------------------------------------------------------------------------------------------

class FencedKernel : public Compiled {
 public:
  FencedKernel(std::shared_ptr<const LoadedCode> code, loops::IR ir) : code_(std::move(code)), ir_(std::move(ir)) {}

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(ir_, memory, sizes);
    for (const Side side : {Side::kStart, Side::kEnd}) run_at(side, memory, sizes);
  }

 private:
  using Arrays = std::vector<std::unique_ptr<Fenced>>;

  loops::NodeRef node_of(size_t array) const {
    const size_t reads = ir_.reads().size();
    return array < reads ? ir_.reads()[array] : ir_.writes()[array - reads];
  }

  std::unique_ptr<Fenced> array_for(loops::NodeRef ref, Side side, std::span<const int64_t> sizes) const {
    symbolic::Bindings bindings;
    for (size_t i = 0; i < sizes.size(); ++i) bindings.emplace(ir_.size_symbols()[i], sizes[i]);
    const TensorType type = ir_.type(ref);
    const int64_t size = size_of(type.dtype);
    return std::make_unique<Fenced>(element_count(evaluate(type.shape, bindings)) * size, side, size);
  }

  void run_at(Side side, std::span<void* const> memory, std::span<const int64_t> sizes) const {
    const size_t reads = ir_.reads().size();
    Arrays arrays;
    std::vector<void*> data;
    for (size_t i = 0; i < memory.size(); ++i) {
      const Fenced& array = *arrays.emplace_back(array_for(node_of(i), side, sizes));
      data.push_back(array.data());
      if (i >= reads) continue;
      if (array.bytes() > 0) std::memcpy(array.data(), memory[i], array.bytes());
      array.forbid_writes();
    }
    int64_t error[4] = {};
    const int64_t code = call(side, data, sizes, error, arrays);
    EXPECT_EQ(code != 0, error[0] != 0);
    if (code != 0)
      fail("%{} fails with {}: {}, {}", ir_.nodes()[static_cast<size_t>(error[1])].name, error[0], error[2], error[3]);
    for (size_t i = 0; i < memory.size(); ++i) {
      EXPECT_TRUE(arrays[i]->is_intact_around()) << describe(i, *arrays[i]) << " is written around";
      if (i >= reads && arrays[i]->bytes() > 0) std::memcpy(memory[i], arrays[i]->data(), arrays[i]->bytes());
    }
  }

  int64_t call(Side side, const std::vector<void*>& data, std::span<const int64_t> sizes, int64_t (&error)[4],
               const Arrays& arrays) const {
    Arrays own_scratch;
    scratch_side = side;
    scratch = &own_scratch;
    const auto function = code_->function<std::remove_pointer_t<tenon_kernel>>(codegen::kObjectFunction);
    const CatchViolations guard;
    if (sigsetjmp(before_the_kernel, 1) == 0) {
      const int64_t code = function(data.data(), sizes.data(), error, &kServices);
      EXPECT_TRUE(own_scratch.empty()) << "the kernel keeps " << own_scratch.size() << " arrays of scratch";
      return code;
    }
    ADD_FAILURE() << "the kernel touches what it must not: " << where(violated, arrays, own_scratch) << "\n"
                  << to_string(ir_);
    return 0;
  }

  std::string describe(size_t array, const Fenced& memory) const {
    return fmt::format("%{}, {} bytes", ir_.node(node_of(array)).name, memory.bytes());
  }

  std::string where(const void* address, const Arrays& arrays, const Arrays& own_scratch) const {
    const auto offset = [&](const Fenced& array) { return static_cast<const std::byte*>(address) - array.data(); };
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (arrays[i]->is_near(address)) return fmt::format("byte {} of {}", offset(*arrays[i]), describe(i, *arrays[i]));
    }
    for (const auto& array : own_scratch) {
      if (array->is_near(address)) return fmt::format("byte {} of scratch, {} bytes", offset(*array), array->bytes());
    }
    return fmt::format("{}", address);
  }

  std::shared_ptr<const LoadedCode> code_;
  loops::IR ir_;
};

struct FencedBackend : Backend {
  FencedBackend() : Backend("fenced") {}
  int hardware_requirement() const override { return kCpu; }
  loops::LoopTree schedule(const loops::IR& kernel) const override { return cpu_->schedule(kernel); }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    const loops::LoopTree* const trees[] = {&tree};
    return std::move(compile_fenced(trees)[0]);
  }

 private:
  std::shared_ptr<const Backend> cpu_ = find_backend("cpu").value();
};

}  // namespace

std::vector<std::unique_ptr<Compiled>> compile_fenced(std::span<const loops::LoopTree* const> trees,
                                                      const CpuOptions& options) {
  const auto cache = options.use_cache ? codegen::ObjectCache::from_environment() : std::nullopt;
  const codegen::Objects objects =
      codegen::compile_objects(trees, codegen::find_target(options.cpu), cache ? &*cache : nullptr);
  std::vector<std::unique_ptr<Compiled>> kernels;
  for (size_t i = 0; i < trees.size(); ++i) {
    kernels.push_back(
        std::make_unique<FencedKernel>(LoadedCode::load(objects.objects[objects.of_tree[i]]), trees[i]->ir));
  }
  return kernels;
}

std::shared_ptr<const Backend> fenced_cpu() { return std::make_shared<FencedBackend>(); }

}  // namespace tenon::test
