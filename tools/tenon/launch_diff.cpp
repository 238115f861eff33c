#include "launch_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/device_backend.h"
#include "graph/value_names.h"
#include "segment_run.h"
#include "tiles/origin.h"

namespace tenon::cli {
namespace {

// ---- values ---------------------------------------------------------------------------------------------------------

std::string hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (size_t i = bytes.size(); i-- > 0;) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

// An element as its bits and, where the dtype is known, as a number.
std::string value_text(std::span<const uint8_t> bytes, std::optional<DType> dtype) {
  if (!dtype) return "0x" + hex(bytes);
  const bool is_real = is_float(*dtype);
  return fmt::format("{} (0x{})",
                     is_real
                         ? fmt::format("{}", load_real(*dtype, reinterpret_cast<const std::byte*>(bytes.data())))
                         : fmt::format("{}", load_integer(*dtype, reinterpret_cast<const std::byte*>(bytes.data()))),
                     hex(bytes));
}

std::span<const uint8_t> raw(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

// ---- command by command ---------------------------------------------------------------------------------------------

constexpr std::pair<uint32_t, const char*> kUnits[] = {
    {TENON_UNIT_LOAD, "load"}, {TENON_UNIT_COMPUTE, "compute"}, {TENON_UNIT_STORE, "store"}};
constexpr const char* kMemories[] = {"memory", "scratchpad", "accumulators"};

class CommandDiff {
 public:
  CommandDiff(const DiffLaunch& launch, const DiffSide& a, const DiffSide& b, const DiffFocus& focus)
      : launch_(launch), a_(a), b_(b), focus_(focus) {}

  DiffResult run() {
    LaunchMemory memory_b(*b_.program, launch_.buffers);
    const LaunchAnswers b = ask(b_, memory_b, true);
    LaunchMemory memory_a(*a_.program, launch_.buffers);
    const LaunchAnswers a = ask(a_, memory_a, !has_waves_);
    DiffResult result{.commands = a.digests.size()};
    for (size_t i = launch_.inputs; i < launch_.buffers.size(); ++i) result.outputs.push_back(memory_a.read(i));
    const std::optional<uint64_t> command = first_difference(a, b);
    if (command || !a.fault.empty() || !b.fault.empty()) {
      result.difference = described(command, a, b);
    } else {
      result.difference = of_memory(memory_a, memory_b);
    }
    return result;
  }

 private:
  // A device without waveforms is asked again, without that question.
  LaunchAnswers ask(const DiffSide& side, LaunchMemory& memory, bool with_waves) {
    LaunchQuestions questions{.digests = true, .logged = focus_.command};
    const tenon_launch it = memory.launch(launch_.sizes);
    if (focus_.command && !focus_.waves.empty() && with_waves) {
      questions.waved = focus_.command;
      questions.waves_path = focus_.waves;
      const Result<LaunchAnswers> answers = attempt([&] { return launch(*side.program, it, questions); });
      has_waves_ = answers.ok();
      if (answers.ok()) return *answers;
      waves_refusal_ += (waves_refusal_.empty() ? "" : "; ") + answers.diagnostic().message;
      if (&side == &a_) fail("there is no waveform: {}", waves_refusal_);
      questions.waved.reset();
    }
    return launch(*side.program, it, questions);
  }

  // The commands of a device that failed have digests up to where they got.
  static std::optional<uint64_t> first_difference(const LaunchAnswers& a, const LaunchAnswers& b) {
    const auto found = std::ranges::mismatch(a.digests, b.digests);
    if (found.in1 != a.digests.end()) return static_cast<uint64_t>(found.in1 - a.digests.begin());
    return b.failed ? b.failed : a.failed;
  }

  Difference described(std::optional<uint64_t> command, const LaunchAnswers& a, const LaunchAnswers& b) const {
    Difference it{.launch = launch_.name,
                  .command = command,
                  .commands = a.digests.size(),
                  .fault_a = a.fault,
                  .fault_b = b.fault};
    if (!command) return it;
    const CommandInfo info = command_of(*a_.program, *command);
    const auto* const unit = std::ranges::find(kUnits, info.unit, &std::pair<uint32_t, const char*>::first);
    it.unit = unit == std::end(kUnits) ? "" : unit->second;
    it.text = info.text;
    if (launch_.segment && info.node < launch_.segment->nodes().size()) set_node(it, *launch_.segment, {info.node});
    if (focus_.command == command) add_values(it, info, a.writes, b.writes);
    return it;
  }

  void add_values(Difference& it, const CommandInfo& info, const std::vector<CommandWrite>& a,
                  const std::vector<CommandWrite>& b) const {
    const auto found = std::ranges::mismatch(a, b);
    const auto number = found.in1 - a.begin();
    const CommandWrite* const left = found.in1 == a.end() ? nullptr : &*found.in1;
    const CommandWrite* const right = found.in2 == b.end() ? nullptr : &*found.in2;
    if (left == nullptr && right == nullptr) {
      it.where.push_back("its writes are equal when it is run again: what differs depends on earlier launches");
      return;
    }
    it.where.push_back(fmt::format("write {} of {}", number, std::max(a.size(), b.size())));
    const bool same_place =
        left && right && left->address == right->address && left->bytes.size() == right->bytes.size();
    const size_t at =
        same_place ? static_cast<size_t>(std::ranges::mismatch(left->bytes, right->bytes).in1 - left->bytes.begin())
                   : 0;
    const CommandWrite& shown = left ? *left : *right;
    add_origin(it, info, shown, at);
    const std::optional<DType> dtype = dtype_of(info, shown, at);
    const auto text = [&](const CommandWrite* write) { return write_text(write, shown, at, dtype, same_place); };
    it.a = text(left);
    it.b = text(right);
  }

  static std::string write_text(const CommandWrite* write, const CommandWrite& shown, size_t at,
                                std::optional<DType> dtype, bool same_place) {
    if (write == nullptr) return "nothing";
    const size_t size = dtype ? static_cast<size_t>(size_of(*dtype)) : 1, first = at / size * size;
    if (same_place && first + size <= write->bytes.size())
      return value_text(std::span(write->bytes).subspan(first, size), dtype);
    return fmt::format("{} bytes at {} of {}: 0x{}", write->bytes.size(), static_cast<int64_t>(write->address),
                       kMemories[shown.memory], hex(write->bytes));
  }

  const tenon_tile_action* action_of(const CommandInfo& info) const {
    return launch_.tiles && info.action < launch_.tiles->actions.size() ? &launch_.tiles->actions[info.action]
                                                                        : nullptr;
  }

  // Of the elements that a command writes, as far as its action tells.
  std::optional<DType> dtype_of(const CommandInfo& info, const CommandWrite& write, size_t at) const {
    const tenon_tile_action* const action = action_of(info);
    if (action == nullptr) return std::nullopt;
    if (action->kind == TENON_TILE_STORE) return static_cast<DType>(action->dtype);
    if (action->kind == TENON_TILE_MULTIPLY) return action->dtype == TENON_I8 ? DType::kI32 : DType::kF32;
    const std::optional<TileOrigin> origin = origin_of_byte(info, write, at);
    if (!origin || !origin->reads) return std::nullopt;
    return launch_.segment->type({origin->reads->value}).dtype;
  }

  std::optional<TileOrigin> origin_of_byte(const CommandInfo& info, const CommandWrite& write, size_t at) const {
    const tenon_tile_machine* const machine = a_.backend ? tile_machine_of(*a_.backend) : nullptr;
    if (!launch_.segment || !launch_.tiles || machine == nullptr || action_of(info) == nullptr) return std::nullopt;
    return origin_of(*launch_.segment, *launch_.tiles, *machine, info.action, static_cast<int64_t>(write.address + at));
  }

  void add_origin(Difference& it, const CommandInfo& info, const CommandWrite& write, size_t at) const {
    it.where.push_back(fmt::format("byte {} of {}{}", static_cast<int64_t>(write.address + at), kMemories[write.memory],
                                   buffer_text(write)));
    const std::optional<TileOrigin> origin = origin_of_byte(info, write, at);
    if (!origin) return;
    const auto name = [&](const TileElement& element) { return to_string(*launch_.segment, element); };
    const char* const what = write.memory == TENON_DEBUG_SCRATCHPAD ? "byte" : "column";
    it.where.push_back(fmt::format("outer {}, inner {}, {} {}", origin->outer, origin->inner, what, origin->element));
    if (origin->reads) it.where.push_back("reads from " + name(*origin->reads));
    if (origin->weights) it.where.push_back("multiplies by the tile at " + name(*origin->weights));
    if (origin->becomes) it.where.push_back("for " + name(*origin->becomes));
  }

  std::string buffer_text(const CommandWrite& write) const {
    if (write.memory != TENON_DEBUG_MEMORY) return "";
    if (write.buffer == TENON_SCRATCH) return ", scratch";
    const bool is_named = write.buffer < launch_.names.size();
    return fmt::format(", buffer {}{}", write.buffer, is_named ? ": " + launch_.names[write.buffer] : "");
  }

  // All commands agree, but not the memory that they leave.
  std::optional<Difference> of_memory(const LaunchMemory& a, const LaunchMemory& b) const {
    for (size_t i = launch_.inputs; i < launch_.buffers.size(); ++i) {
      const std::vector<std::byte> left = a.read(i), right = b.read(i);
      if (left == right) continue;
      const auto at = static_cast<size_t>(std::ranges::mismatch(left, right).in1 - left.begin());
      return Difference{.launch = launch_.name,
                        .commands = command_count(*a_.program),
                        .where = {fmt::format("all commands agree, but not byte {} of buffer {}", at, i)},
                        .a = value_text(raw(left).subspan(at, 1), {}),
                        .b = value_text(raw(right).subspan(at, 1), {})};
    }
    return std::nullopt;
  }

  const DiffLaunch& launch_;
  const DiffSide& a_;
  const DiffSide& b_;
  const DiffFocus& focus_;
  bool has_waves_ = false;
  std::string waves_refusal_;
};

// ---- by results -----------------------------------------------------------------------------------------------------

class ResultDiff {
 public:
  ResultDiff(const DiffLaunch& launch, const DiffSide& a, const DiffSide& b, double tolerance)
      : launch_(launch), a_(a), b_(b), tolerance_(tolerance) {}

  DiffResult run() {
    const auto [left, fault_a] = results_of(a_);
    const auto [right, fault_b] = results_of(b_);
    DiffResult result{.outputs = left};
    if (!fault_a.empty() || !fault_b.empty()) {
      result.difference = Difference{.launch = launch_.name, .fault_a = fault_a, .fault_b = fault_b};
      return result;
    }
    for (size_t i = 0; i < left.size() && !result.difference; ++i) {
      const size_t buffer = launch_.inputs + i;
      result.difference = of_values(launch_.names[buffer], launch_.types[buffer], left[i], right[i]);
    }
    if (result.difference) narrow(*result.difference);
    return result;
  }

 private:
  std::pair<std::vector<Bytes>, std::string> results_of(const DiffSide& side) const {
    LaunchMemory memory(*side.program, launch_.buffers);
    const LaunchAnswers answers = launch(*side.program, memory.launch(launch_.sizes), {});
    std::vector<Bytes> results;
    for (size_t i = launch_.inputs; i < launch_.buffers.size(); ++i) results.push_back(memory.read(i));
    return {std::move(results), answers.fault};
  }

  std::optional<Difference> of_values(const std::string& name, const std::optional<TensorType>& type, const Bytes& a,
                                      const Bytes& b) const {
    std::optional<Difference> it = value_difference(name, type ? type->dtype : DType::kU8, a, b, tolerance_);
    if (!it) return it;
    it->launch = launch_.name;
    it->location = launch_.location;
    return it;
  }

  // Finds the first node whose results differ when both devices give all values of the segment.
  void narrow(Difference& difference) const {
    const DeviceBackend* const a = a_.backend ? graph_compiler(*a_.backend) : nullptr;
    const DeviceBackend* const b = b_.backend ? graph_compiler(*b_.backend) : nullptr;
    if (!launch_.segment || a == nullptr || b == nullptr) return;
    const symbolic::Bindings sizes = bindings_of(launch_.size_exprs, launch_.sizes);
    const Graph all = with_all_values(*launch_.segment);
    const std::span inputs = std::span(launch_.buffers).first(launch_.inputs);
    const std::vector<Bytes> left = run_segment(*a, all, inputs, sizes), right = run_segment(*b, all, inputs, sizes);
    const std::vector<ValueRef> values = buffers_of(all);
    const std::vector<std::string> names = value_names(all);
    for (size_t i = 0; i < left.size(); ++i) {
      const ValueRef value = values[launch_.inputs + i];
      std::optional<Difference> found = of_values(names[value.id], all.type(value), left[i], right[i]);
      if (!found) continue;
      set_node(*found, all, all.producer(value));
      difference = *found;
      return;
    }
    difference.where.push_back("no value differs when both devices give all values of the segment");
  }

  const DiffLaunch& launch_;
  const DiffSide& a_;
  const DiffSide& b_;
  double tolerance_;
};

bool same_code(const runtime::DeviceProgram& a, const runtime::DeviceProgram& b) {
  return std::ranges::equal(a.code(), b.code());
}

bool is_close(double a, double b, double tolerance) {
  return a == b || (std::isnan(a) && std::isnan(b)) ||
         std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

std::optional<Difference> value_difference(const std::string& name, DType dtype, std::span<const std::byte> a,
                                           std::span<const std::byte> b, double tolerance) {
  const auto size = static_cast<size_t>(size_of(dtype));
  for (size_t i = 0; i + size <= a.size(); i += size) {
    if (std::memcmp(&a[i], &b[i], size) == 0) continue;
    if (tolerance > 0 && is_close(load_real(dtype, &a[i]), load_real(dtype, &b[i]), tolerance)) continue;
    return Difference{.where = {fmt::format("element {} of {}", i / size, name)},
                      .a = value_text(raw(a.subspan(i, size)), dtype),
                      .b = value_text(raw(b.subspan(i, size)), dtype)};
  }
  return std::nullopt;
}

void set_node(Difference& difference, const Graph& graph, NodeRef ref) {
  const Node& node = graph.node(ref);
  difference.node = fmt::format("{} = {}", value_names(graph)[node.results[0].id], node.op->name.get());
  difference.location = node.location;
}

DiffResult compare_launch(const DiffLaunch& launch, const DiffSide& a, const DiffSide& b, const DiffFocus& focus,
                          double tolerance) {
  const bool by_commands = has_commands(*a.program) && has_commands(*b.program) && same_code(*a.program, *b.program);
  if (by_commands) return CommandDiff(launch, a, b, focus).run();
  if (!focus.waves.empty()) fail("there are no commands to write a waveform around: the devices run different code");
  return ResultDiff(launch, a, b, tolerance).run();
}

}  // namespace tenon::cli
