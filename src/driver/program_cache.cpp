#include "driver/program_cache.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <set>
#include <span>

#include "backends/cpu/cpu.h"
#include "backends/device_backend.h"
#include "codegen/version.h"
#include "program/portable.h"
#include "program/run.h"
#include "program/text.h"
#include "support/cursor.h"
#include "support/warning.h"

namespace tenon {
namespace {

bool has_plain_data(const Leaf& leaf) {
  return leaf.data.defined() && std::ranges::all_of(leaf.data.strides(), [](int64_t stride) { return stride >= 0; });
}

// What the programs of both backends depend on; nothing where one of them may be anything.
std::optional<std::string> identity_of(const Backend& backend, const std::string& here) {
  const std::string there = cpu_identity(backend);
  const std::string own = cpu_identity(*find_backend(here).value());
  if (there.empty() || own.empty()) return {};
  return there == own ? own : there + "\n" + own;
}

std::string text_of(const ProgramOptions& options) {
  std::string states;
  for (const std::string& name : options.states) states += " " + quote(name);
  return fmt::format("freeze {} states{} fallback {} budget {} kept {}", options.freeze, states,
                     options.fallback != nullptr, options.budget ? std::to_string(*options.budget) : "none",
                     bytes_of(options.kept));
}

bool is_large(const Leaf& leaf) { return leaf.kind == LeafKind::kConstant && leaf.data.numel() > kMostPrinted; }

std::string digest_of(const Tensor& tensor) {
  // One element that stands for all is not written out: a small file may have any number of such constants.
  const bool is_splat = std::ranges::all_of(tensor.strides(), [](int64_t stride) { return stride == 0; });
  const Tensor data =
      is_splat ? Tensor::borrow(tensor.dtype(), {}, {}, tensor.data(), tensor.owner()) : tensor.contiguous();
  const auto bytes = static_cast<size_t>(data.numel() * size_of(data.dtype()));
  return digest({reinterpret_cast<const char*>(data.data()), bytes}).hex();
}

// With the data of constants; what is large by its digest.
std::string text_of(const Graph& graph) {
  if (std::ranges::none_of(graph.leaves(), is_large)) return to_string(graph);
  std::string text;
  for (const Leaf& leaf : graph.leaves()) {
    if (is_large(leaf)) text += digest_of(leaf.data) + "\n";
  }
  return text + to_string(with_constants_as_parameters(graph));
}

// How many leaves from the first on lie in memory of each other. They are sorted by their data, where each begins.
size_t sharing(std::span<const Leaf* const> leaves) {
  for (size_t count = 1; count < leaves.size(); ++count) {
    const auto shares = [&](const Leaf* leaf) { return leaf->data.shares_memory_with(leaves[count]->data); };
    if (std::ranges::none_of(leaves.first(count), shares)) return count;
  }
  return leaves.size();
}

// Leaves that lie in the same memory, and how.
std::string text_of_sharing(const Graph& graph) {
  std::vector<const Leaf*> leaves;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind != LeafKind::kInput && leaf.data.numel() > 0) leaves.push_back(&leaf);
  }
  std::ranges::sort(leaves, {}, [](const Leaf* leaf) { return std::pair(leaf->data.data(), leaf->value); });
  std::set<std::string> lines;  // in the same order wherever they lie
  for (std::span<const Leaf* const> left = leaves; !left.empty();) {
    const auto group = left.first(sharing(left));
    left = left.subspan(group.size());
    if (group.size() == 1) continue;
    std::string line;
    for (const Leaf* leaf : group) {
      line += fmt::format("{}+{}[{}] ", leaf->value.id, leaf->data.data() - group[0]->data.data(),
                          fmt::join(leaf->data.strides(), ","));
    }
    lines.insert(line);
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// ---- an entry: the length of each part, then the parts: the text, and the objects ----

std::string packed(const ProgramText& program) {
  std::string lengths, parts;
  const auto add = [&](const std::string& part) {
    lengths += fmt::format("{} ", part.size());
    parts += part;
  };
  add(program.text);
  for (const std::string& object : program.objects) add(object);
  return lengths + "\n" + parts;
}

ProgramText unpacked(std::string_view entry) {
  const size_t end = entry.find('\n');
  if (end == std::string_view::npos) fail("an entry of the cache is not well-formed");
  Cursor lengths(entry.substr(0, end));
  std::string_view rest = entry.substr(end + 1);
  std::vector<std::string> parts;
  while (!lengths.at_end()) {
    const auto length = static_cast<size_t>(lengths.integer("a length"));
    if (length > rest.size()) fail("an entry of the cache is not well-formed");
    parts.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  if (parts.empty()) fail("an entry of the cache is not well-formed");
  ProgramText program{.text = std::move(parts[0]), .objects = {}};
  program.objects.assign(std::make_move_iterator(parts.begin() + 1), std::make_move_iterator(parts.end()));
  return program;
}

constexpr std::string_view kUnusable = "a program from the cache could not be used, and is compiled anew";

void report_mistake(std::string_view what, std::string_view why) {
  warn_once(
      fmt::format("{}: {}. Results are not affected. This is a bug of Tenon; please report it (TENON_CACHE=off "
                  "avoids it)",
                  what, why));
}

}  // namespace

ProgramCache::ProgramCache(const Graph& graph, const ProgramOptions& options, const Backend& backend) {
  const auto is_plain = [](const Leaf& leaf) { return leaf.kind == LeafKind::kInput || has_plain_data(leaf); };
  std::optional<codegen::ObjectCache> cache = codegen::ObjectCache::from_environment();
  if (!cache || !std::ranges::all_of(graph.leaves(), is_plain)) return;
  std::optional<std::string> identity = identity_of(backend, options.backend);
  for (const std::string& device : options.devices) {
    const std::string own = tenon::identity_of(*find_backend(device).value());
    if (own.empty()) return;
    if (identity) *identity += "\ndevice " + own;
  }
  if (!identity) return;
  cache_ = std::move(cache);
  key_ = fmt::format("program\n{}\n{}\n{}\n", codegen::compiler_version(), *identity, text_of(options));
  key_ += text_of_sharing(graph) + text_of(graph);
}

std::optional<Program> ProgramCache::find(const Module& module, const ProgramOptions& options) const {
  const std::optional<std::string> entry = cache_ ? cache_->find(key_) : std::nullopt;
  if (!entry) return {};
  try {
    std::vector<std::shared_ptr<const Graph>> segments;
    for (const ModuleSegment& segment : module.segments) segments.emplace_back(segment.module, &segment.module->graph);
    Program program = parse_program(unpacked(*entry), module.source, module.graph, options, segments).program;
    program.placement = module.placement;
    program.is_from_cache = true;
    program.runner = std::make_shared<const ProgramRunner>(program);
    return program;
  } catch (const Error& error) {
    // The user's mistake, which compilation reports, or an entry that cannot be read back, which store() reports.
    unusable_ = error.diagnostic().message;
    return {};
  } catch (const std::bad_alloc&) {
    return {};
  } catch (const std::exception& error) {
    report_mistake(kUnusable, error.what());
    return {};
  }
}

void ProgramCache::store(const Program& program, const ConstantHistory& history) const {
  if (!cache_) return;
  if (unusable_) report_mistake(kUnusable, *unusable_);
  try {
    cache_->store(key_, packed(text_of(program, history)));
  } catch (const std::bad_alloc&) {
    return;
  } catch (const std::exception& error) {
    report_mistake("a compiled program could not be kept in the cache", error.what());
  }
}

}  // namespace tenon
