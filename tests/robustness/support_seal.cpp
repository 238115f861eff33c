#include "tests/robustness/support_seal.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "runtime/artifact.h"
#include "runtime/checksum.h"
#include "runtime/context.h"
#include "runtime/description.h"
#include "runtime/error.h"
#include "tenon/device.h"

namespace tenon::golden {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 20;
constexpr int64_t kMostSteps = 20'000;

std::span<format::Section> table_of(std::span<std::byte> file) {
  if (file.size() < sizeof(format::Header)) return {};
  const auto& header = *reinterpret_cast<const format::Header*>(file.data());
  const size_t room = (file.size() - sizeof header) / sizeof(format::Section);
  if (header.section_count > room) return {};
  return {reinterpret_cast<format::Section*>(file.data() + sizeof header), header.section_count};
}

bool lies_in(std::span<const std::byte> file, const format::Section& section) {
  return section.size <= file.size() && section.offset <= file.size() - section.size;
}

// Sizes that a symbolic dimension has: three, where the symbol allows it.
int64_t size_of_dim(const runtime::TaskGraph& graph, const runtime::Expr& expr, const std::vector<int64_t>& symbols) {
  return graph.is_bound(expr) ? runtime::evaluate(expr, graph.code, symbols) : 0;
}

struct Input {
  std::vector<int64_t> shape;
  std::unique_ptr<std::byte[]> data;
  tenon_tensor tensor;
};

// Numbers 1, 0, 1, ... in the first bytes of elements: small, whatever the dtype.
Input make_input(const runtime::TaskGraph& graph, const runtime::TensorSlot& slot,
                 const std::vector<int64_t>& symbols) {
  Input input;
  auto bytes = static_cast<int64_t>(tenon_dtype_size(slot.dtype));
  const auto width = static_cast<size_t>(bytes);
  for (const runtime::Expr& size : slot.shape) {
    input.shape.push_back(size_of_dim(graph, size, symbols));
    if (input.shape.back() < 0 || __builtin_mul_overflow(bytes, input.shape.back(), &bytes) || bytes > kMostBytes) {
      runtime::fail(TENON_INVALID_ARGUMENT, "an input is too large for a test");
    }
  }
  input.data.reset(new std::byte[static_cast<size_t>(bytes)]());
  for (size_t i = 0; i < static_cast<size_t>(bytes); i += 2 * width) input.data[i] = std::byte{1};
  input.tensor = {input.data.get(), slot.dtype, static_cast<int32_t>(input.shape.size()), input.shape.data(), nullptr};
  return input;
}

// What is shown of the program, and two runs: the second one meets the state that the first one left.
void run(const std::shared_ptr<const runtime::LoadedProgram>& program, const std::shared_ptr<runtime::States>& states) {
  const runtime::TaskGraph& graph = program->graph();
  describe_program(graph, nullptr, loops_of_file(graph));
  std::vector<int64_t> symbols;
  for (const runtime::SymbolInfo& symbol : graph.symbols)
    symbols.push_back(std::clamp<int64_t>(3, symbol.low, symbol.high));
  runtime::Context context(program, {.budget = kMostBytes, .threads = 1, .telemetry = true, .step_limit = kMostSteps},
                           states);
  std::vector<Input> inputs;
  for (const runtime::TensorInfo& input : graph.inputs) {
    inputs.push_back(make_input(graph, graph.slots[input.slot], symbols));
    context.set_input(inputs.size() - 1, inputs.back().tensor);
  }
  for (int i = 0; i < 2; ++i) context.run();
  describe_program(graph, context.frame(), loops_of_file(graph));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const tenon_tensor output = context.output_tensor(i);
    size_t bytes = tenon_dtype_size(output.dtype);
    for (int32_t dim = 0; dim < output.rank; ++dim) bytes *= static_cast<size_t>(output.shape[dim]);
    const std::vector<std::byte> copy(static_cast<std::byte*>(output.data),
                                      static_cast<std::byte*>(output.data) + bytes);
  }
  for (uint32_t task = 0; task < graph.tasks.size(); ++task) context.bytes_of_task(task), context.flops_of_task(task);
}

}  // namespace

void seal(std::span<std::byte> file) {
  const std::span<format::Section> table = table_of(file);
  if (table.empty()) return;
  for (format::Section& section : table) {
    if (lies_in(file, section)) section.checksum = runtime::checksum(file.subspan(section.offset, section.size));
  }
  auto& header = *reinterpret_cast<format::Header*>(file.data());
  header.checksum = 0;
  header.checksum = runtime::checksum(file.first(sizeof header + table.size_bytes()));
}

std::vector<Piece> pieces_of(std::span<const std::byte> file) {
  std::vector<std::byte> copy(file.begin(), file.end());
  std::vector<Piece> pieces;
  for (const format::Section& section : table_of(copy)) {
    const auto bytes = file.subspan(section.offset, section.size);
    pieces.push_back({section, {bytes.begin(), bytes.end()}});
  }
  return pieces;
}

std::vector<std::byte> joined(const std::vector<Piece>& pieces) {
  std::vector<std::byte> file(sizeof(format::Header) + pieces.size() * sizeof(format::Section));
  std::vector<format::Section> table;
  for (const Piece& piece : pieces) {
    const uint64_t alignment = format::alignment_of(piece.section.kind);
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    table.push_back(piece.section);
    table.back().offset = file.size();
    table.back().size = piece.bytes.size();
    file.insert(file.end(), piece.bytes.begin(), piece.bytes.end());
  }
  format::Header header{.major = format::kMajor,
                        .minor = format::kMinor,
                        .file_size = file.size(),
                        .section_count = static_cast<uint32_t>(table.size())};
  std::memcpy(header.magic, format::kMagic, sizeof header.magic);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, table.data(), table.size() * sizeof(format::Section));
  seal(file);
  return file;
}

namespace {

Outcome try_with(std::span<const std::byte> file, const runtime::LoadOptions& options) {
  Outcome outcome;
  try {
    auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(file));
    const std::vector<runtime::Entry> entries = load_entries(container, options);
    outcome.is_accepted = true;
    runtime::Programs programs;
    for (const runtime::Entry& entry : entries) programs.push_back(entry.program);
    const auto states = std::make_shared<runtime::States>(programs, std::make_shared<runtime::Allocator>(kMostBytes));
    for (const auto& program : programs) run(program, states);
    outcome.has_run = true;
  } catch (const runtime::StatusError&) {
  } catch (const std::bad_alloc&) {
  }
  return outcome;
}

}  // namespace

Outcome try_file(std::span<const std::byte> file) { return try_with(file, {.native = false}); }
Outcome try_devices(std::span<const std::byte> file) { return try_with(file, {.native = true}); }

namespace {

size_t elements_of(const tenon_tensor& tensor) {
  size_t count = 1;
  for (int32_t dim = 0; dim < tensor.rank; ++dim) count *= static_cast<size_t>(tensor.shape[dim]);
  return count;
}

tenon_status scale(void*, tenon_call* call, tenon_text*) {
  for (uint64_t output = 0; output < call->output_count; ++output) {
    tenon_tensor result = call->outputs[output];
    std::vector<int64_t> shape(result.shape, result.shape + result.rank);
    const tenon_tensor* const input = call->input_count > 0 ? &call->inputs[0] : nullptr;
    const bool is_scaled = input != nullptr && input->rank == result.rank && input->dtype == TENON_F32;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] < 0) shape[dim] = is_scaled ? input->shape[dim] : 1;
    }
    result.shape = shape.data();
    auto* const to = static_cast<float*>(call->make_output(call, output, shape.data()));
    if (to == nullptr) return TENON_OUT_OF_MEMORY;
    const size_t bytes = elements_of(result) * tenon_dtype_size(result.dtype);
    std::memset(to, 0, bytes);
    const size_t count =
        is_scaled && result.dtype == TENON_F32 ? std::min(elements_of(result), elements_of(*input)) : 0;
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<const float*>(input->data)[i] * 3;
  }
  return TENON_OK;
}

}  // namespace

void load_scale_call() { tenon_register_call("golden.scale.default", scale, nullptr); }

void load_null_device() {
  static const tenon_device_api api{
      .size = sizeof(tenon_device_api),
      .describe =
          [](const char*, tenon_device_info* info, tenon_text*) {
            info->name = "null";
            info->version = "1";
            return TENON_OK;
          },
      .open = [](const char*, tenon_device**, tenon_text*) { return TENON_OK; },
      .compile = [](tenon_device*, const tenon_segment*, tenon_sink*, tenon_text*) { return TENON_OK; },
      .load = [](tenon_device*, const void*, size_t, tenon_device_program**, tenon_text*) { return TENON_OK; },
      // Memory that a run may ask for is limited, here as in the host's budget.
      .allocate =
          [](tenon_device*, uint64_t bytes, uint64_t alignment, void** memory, tenon_text*) {
            const bool fits = bytes <= kMostBytes;
            *memory = fits ? std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment) : nullptr;
            return fits ? TENON_OK : TENON_OUT_OF_MEMORY;
          },
      .free = [](tenon_device*, void* memory) { std::free(memory); },
      .copy =
          [](tenon_device*, void* to, const void* from, uint64_t bytes, int, uint64_t*, tenon_text*) {
            std::memcpy(to, from, bytes);
            return TENON_OK;
          },
      .submit = [](tenon_device*, tenon_device_program*, const tenon_launch*, uint64_t*,
                   tenon_text*) { return TENON_OK; }};
  tenon_register_device([](const tenon_host*) { return &api; }, nullptr);
}

}  // namespace tenon::golden
