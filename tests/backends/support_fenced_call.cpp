#include "tests/backends/support_fenced_call.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace tenon::test {
namespace {

enum class Side : uint8_t { kStart, kEnd };

constexpr std::byte kUntouched{0xa5};
constexpr std::byte kGarbage{0xff};  // NaN as a float, a large one as an unsigned index

std::string sized(const std::string& name, size_t bytes) { return name + ", " + std::to_string(bytes) + " bytes"; }

// Pages between two that cannot be touched.
class Fenced {
 public:
  Fenced(size_t bytes, Side side, int64_t alignment)
      : bytes_(bytes), page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    inside_ = (bytes_ + page_ - 1) / page_ * page_;
    size_ = inside_ + 2 * page_;
    void* const memory = ::mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    first_ = static_cast<std::byte*>(memory) + page_;
    if (inside_ > 0) ::mprotect(first_, inside_, PROT_READ | PROT_WRITE);
    std::fill_n(first_, inside_, kUntouched);
    const auto unit = static_cast<size_t>(alignment);
    const size_t padded = (bytes_ + unit - 1) / unit * unit;
    data_ = side == Side::kStart ? first_ : first_ + inside_ - padded;
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
  int64_t offset_of(const void* address) const { return static_cast<const std::byte*>(address) - data_; }

 private:
  size_t bytes_;
  size_t page_;
  size_t inside_;
  size_t size_;
  std::byte* first_;
  std::byte* data_;
};

using Memories = std::vector<std::unique_ptr<Fenced>>;

// ---- services -------------------------------------------------------------------------------------------------------

// What the kernel that runs has of its own.
struct Call {
  Side side;
  Memories scratch;
  std::string complaints;
};
thread_local Call* current = nullptr;

void* allocate(const tenon_services*, int64_t bytes) {
  constexpr int64_t kAlignment = 64, kMost = int64_t{1} << 32;
  if (bytes > kMost) return nullptr;
  const auto& array =
      current->scratch.emplace_back(std::make_unique<Fenced>(static_cast<size_t>(bytes), current->side, kAlignment));
  std::fill_n(array->data(), array->bytes(), kGarbage);
  return array->data();
}

void release(const tenon_services*, void* memory) {
  if (!memory) return;
  const auto found =
      std::ranges::find(current->scratch, static_cast<std::byte*>(memory), [](const auto& a) { return a->data(); });
  if (found == current->scratch.end()) {
    current->complaints += "the kernel releases what it did not allocate\n";
    return;
  }
  if (!(*found)->is_intact_around())
    current->complaints += sized("scratch", (*found)->bytes()) + " is written around\n";
  current->scratch.erase(found);
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

// ---- the call -------------------------------------------------------------------------------------------------------

class FencedCall {
 public:
  FencedCall(tenon_kernel kernel, std::span<const FencedArray> arrays, std::span<const int64_t> sizes)
      : kernel_(kernel), arrays_(arrays), sizes_(sizes) {}

  void run_at(Side side, FencedResult& result) {
    Call call{side, {}, {}};
    current = &call;
    place_arrays(side);
    run_kernel(result);
    for (size_t i = 0; i < arrays_.size(); ++i) take_back(i);
    result.complaints += call.complaints;
  }

 private:
  void place_arrays(Side side) {
    memories_.clear();
    for (const FencedArray& array : arrays_) {
      const Fenced& memory = *memories_.emplace_back(std::make_unique<Fenced>(array.bytes, side, array.alignment));
      if (array.is_output) continue;
      if (array.bytes > 0) std::memcpy(memory.data(), array.data, array.bytes);
      memory.forbid_writes();
    }
  }

  void run_kernel(FencedResult& result) const {
    std::vector<void*> data;
    for (const auto& memory : memories_) data.push_back(memory->data());
    std::fill_n(result.error, 4, 0);
    const CatchViolations guard;
    if (sigsetjmp(before_the_kernel, 1) != 0) {
      current->complaints += "the kernel touches what it must not: " + where(violated) + "\n";
      return;
    }
    result.code = kernel_(data.data(), sizes_.data(), result.error, &kServices);
    if ((result.code != 0) != (result.error[0] != 0))
      current->complaints += "the kernel returns another code than it tells\n";
    if (!current->scratch.empty())
      current->complaints += "the kernel keeps " + std::to_string(current->scratch.size()) + " arrays of scratch\n";
  }

  void take_back(size_t i) const {
    const FencedArray& array = arrays_[i];
    if (!memories_[i]->is_intact_around())
      current->complaints += sized(array.name, array.bytes) + " is written around\n";
    if (array.is_output && array.bytes > 0) std::memcpy(array.data, memories_[i]->data(), array.bytes);
  }

  std::string where(const void* address) const {
    const auto place = [&](const Fenced& memory, const std::string& name) {
      return "byte " + std::to_string(memory.offset_of(address)) + " of " + sized(name, memory.bytes());
    };
    for (size_t i = 0; i < memories_.size(); ++i) {
      if (memories_[i]->is_near(address)) return place(*memories_[i], arrays_[i].name);
    }
    for (const auto& memory : current->scratch) {
      if (memory->is_near(address)) return place(*memory, "scratch");
    }
    return "address " + std::to_string(reinterpret_cast<uintptr_t>(address));
  }

  tenon_kernel kernel_;
  std::span<const FencedArray> arrays_;
  std::span<const int64_t> sizes_;
  Memories memories_;
};

}  // namespace

FencedResult call_fenced(tenon_kernel kernel, std::span<const FencedArray> arrays, std::span<const int64_t> sizes) {
  FencedResult result;
  FencedCall call(kernel, arrays, sizes);
  for (const Side side : {Side::kStart, Side::kEnd}) {
    call.run_at(side, result);
    if (result.code != 0) break;
  }
  return result;
}

}  // namespace tenon::test
