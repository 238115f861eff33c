#include "tests/robustness/support_seal.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "runtime/artifact.h"
#include "runtime/checksum.h"
#include "runtime/context.h"
#include "runtime/error.h"

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

// Twice: a second run meets the state that the first one left.
void run(const std::shared_ptr<const runtime::LoadedProgram>& program, const std::shared_ptr<runtime::States>& states) {
  const runtime::TaskGraph& graph = program->graph();
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

Outcome try_file(std::span<const std::byte> file) {
  Outcome outcome;
  try {
    auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(file));
    const std::vector<runtime::Entry> entries = load_entries(container, {.native = false});
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

}  // namespace tenon::golden
