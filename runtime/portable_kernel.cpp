#include "runtime/portable_kernel.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "runtime/checked.h"
#include "runtime/portable/run.h"
#include "runtime/shared.h"

namespace tenon::runtime {

using portable::SizedKernel;
using portable::Tables;

struct PortableKernel::State {
  explicit State(const format::portable::Kernel& kernel) : tables(kernel) { verify(tables); }

  // The sized kernel for these sizes, which often are those of the last run.
  std::shared_ptr<const SizedKernel> sized_for(std::span<const int64_t> sizes) {
    {
      const std::lock_guard lock(mutex);
      if (last && std::ranges::equal(last->sizes, sizes)) return last;
    }
    auto sized = new_shared<const SizedKernel>(tables, sizes);
    const std::lock_guard lock(mutex);
    return last = std::move(sized);
  }

  Tables tables;
  std::mutex mutex;  // guards the members below
  std::shared_ptr<const SizedKernel> last;
};

PortableKernel::PortableKernel(std::unique_ptr<State> state) : state_(std::move(state)) {}
PortableKernel::PortableKernel(PortableKernel&&) noexcept = default;
PortableKernel& PortableKernel::operator=(PortableKernel&&) noexcept = default;
PortableKernel::~PortableKernel() = default;

PortableKernel PortableKernel::load(std::span<const std::byte> bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0) {
    fail(TENON_INVALID_ARGUMENT, "a portable kernel must be aligned to 8 bytes");
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!format::portable::VerifyKernelBuffer(verifier)) fail(TENON_BAD_FILE, "this is not a portable kernel");
  return PortableKernel(std::make_unique<State>(*format::portable::GetKernel(bytes.data())));
}

size_t PortableKernel::inputs() const { return state_->tables.input_count; }
size_t PortableKernel::outputs() const { return state_->tables.output_count; }
size_t PortableKernel::sizes() const { return state_->tables.size_count; }
size_t PortableKernel::nodes() const { return state_->tables.nodes.size(); }
std::string_view PortableKernel::node_name(size_t node) const { return state_->tables.nodes[node]; }

tenon_dtype PortableKernel::argument_dtype(size_t argument) const {
  return portable::dtype_of(state_->tables.buffers[argument].dtype());
}

int64_t PortableKernel::argument_elements(size_t argument, const int64_t* sizes) const {
  const Tables& tables = state_->tables;
  const int64_t elements = evaluate(tables.buffers[argument].elements(), tables.code, {sizes, tables.size_count});
  if (elements < 0) fail(TENON_INVALID_ARGUMENT, "argument ", argument, " has ", elements, " elements");
  return elements;
}

int64_t PortableKernel::scratch_bytes(const int64_t* sizes) const {
  const std::shared_ptr<const SizedKernel> sized = state_->sized_for({sizes, state_->tables.size_count});
  int64_t bytes = 0;
  for (size_t i = sized->argument_count; i < sized->buffers.size(); ++i) {
    bytes = checked_add(bytes, sized->buffers[i].bytes());
  }
  return bytes;
}

int64_t PortableKernel::run(void* const* memory, const int64_t* sizes, int64_t* error, const tenon_services* services,
                            int64_t step_limit) const {
  try {
    const std::shared_ptr<const SizedKernel> sized = state_->sized_for({sizes, state_->tables.size_count});
    return portable::run(*sized, memory, error, *services, step_limit);
  } catch (const std::bad_alloc&) {
    return error[0] = kTenonOutOfMemory;
  }
}

std::string PortableKernel::describe(const int64_t* error) const {
  const auto node = static_cast<size_t>(error[1]);
  const std::string_view name = node < nodes() ? node_name(node) : "";
  switch (error[0]) {
    case kTenonOutOfRange:
      return text_of("%", name, ": index ", error[2], " is out of range for a size of ", error[3]);
    case kTenonDivisionByZero:
      return text_of("%", name, ": integer division of ", error[2], " by zero");
    case kTenonOutOfMemory:
      return text_of("out of memory: %", name, " needs ", error[2], " bytes of scratch");
    case kPortableBadAccess:
      return text_of("a portable kernel is damaged: element ", error[2], " of %", name, ", which has ", error[3]);
    default:
      return text_of("the kernel takes more than ", error[2], " steps");
  }
}

}  // namespace tenon::runtime
