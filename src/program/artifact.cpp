#include "program/artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/cpu/cpu.h"
#include "backends/interpreter/portable_kernel.h"
#include "backends/moved.h"
#include "codegen/target.h"
#include "format/entries_generated.h"
#include "format/graph_generated.h"
#include "format/native_generated.h"
#include "program/container.h"
#include "program/portable.h"
#include "program/tables.h"
#include "runtime/artifact.h"
#include "runtime/checksum.h"
#include "support/cursor.h"
#include "support/digest.h"
#include "support/runtime_call.h"

namespace tenon {
namespace {

using format::SectionKind;
using Piece = std::span<const std::byte>;

Piece bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
Piece bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()))};
}

// ---- weights --------------------------------------------------------------------------------------------------------

// What is the same is stored once.
class WeightTable {
 public:
  std::optional<ByteRange> find(const Tensor& tensor) const {
    const Tensor whole = tensor.contiguous();
    const auto found = entries_.find(key_of(whole));
    if (found == entries_.end()) return {};
    for (const Entry& entry : found->second) {
      if (std::ranges::equal(entry.bytes, bytes_of(whole))) return entry.place;
    }
    return {};
  }

  ByteRange add(const Tensor& tensor) {
    if (const std::optional<ByteRange> found = find(tensor)) return *found;
    const Tensor whole = tensor.contiguous();
    const Piece bytes = bytes_of(whole);
    size_ = runtime::pad(pieces_, size_);
    const ByteRange place{size_, bytes.size()};
    pieces_.push_back(bytes);
    kept_.push_back(whole);
    size_ += bytes.size();
    entries_[key_of(whole)].push_back({bytes, place});
    return place;
  }

  SectionContent section() const { return {SectionKind::kWeights, "", pieces_}; }

 private:
  struct Entry {
    Piece bytes;
    ByteRange place;
  };

  static std::string key_of(const Tensor& tensor) {
    const Piece bytes = bytes_of(tensor);
    return digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).hex();
  }

  uint64_t size_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Tensor> kept_;
  std::map<std::string, std::vector<Entry>> entries_;
};

// ---- the graph ------------------------------------------------------------------------------------------------------

bool has_data(const Leaf& leaf) { return leaf.kind == LeafKind::kParameter || leaf.kind == LeafKind::kBuffer; }

const Tensor& result_of(const Program& program, const Packing& packing) {
  return program.constants[program.slots[packing.slot].position];
}

// How to get data back from what the program keeps of it, if that is all of it.
const Packing* packing_of(const Program& program, const Tensor& data) {
  for (const Packing& packing : program.packings) {
    if (packing.original.data() != data.data() || packing.original.shape() != data.shape()) continue;
    const std::optional<Tensor> back = moved_back(packing.kernel, result_of(program, packing));
    if (back && identical(*back, packing.original)) return &packing;
  }
  return nullptr;
}

// The bits of both: one has zeros where the other has elements, or they have the same.
void merge(Tensor& into, const Tensor& from) {
  std::byte* const to = into.data();
  const Piece bytes = bytes_of(from);
  for (size_t i = 0; i < bytes.size(); ++i) to[i] |= bytes[i];
}

// What the program keeps of parts of the data. Empty if that is not all of it.
std::vector<const Packing*> parts_of(const Program& program, const Tensor& data) {
  std::vector<const Packing*> parts;
  Tensor all;
  for (const Packing& packing : program.packings) {
    if (!packing.part || packing.part->whole.data() != data.data() || packing.part->whole.shape() != data.shape())
      continue;
    const std::optional<Tensor> part = moved_back(packing.kernel, result_of(program, packing));
    const std::optional<Tensor> back = part ? moved_back(packing.part->kernel, *part) : std::nullopt;
    if (!back) continue;
    if (!all.defined()) all = Tensor::zeros(data.dtype(), data.shape());
    merge(all, *back);
    parts.push_back(&packing);
  }
  return all.defined() && identical(all, data) ? parts : std::vector<const Packing*>();
}

// Which states the graph does not update: its text does not tell them from parameters.
std::vector<std::string> only_read_states(const Program& program) {
  std::set<std::string> updated;
  for (const Update& update : program.source->updates()) updated.insert(program.source->leaf(update.target)->name);
  std::vector<std::string> names;
  std::ranges::copy_if(program.leaf_names, std::back_inserter(names),
                       [&](const std::string& name) { return !updated.contains(name); });
  return names;
}

std::vector<flatbuffers::Offset<format::Assertion>> assertions_of(const Program& program,
                                                                  flatbuffers::FlatBufferBuilder& b) {
  std::vector<flatbuffers::Offset<format::Assertion>> entries;
  for (const Assertion& assertion : program.assertions) {
    const auto message = b.CreateString(assertion.message), file = b.CreateString(assertion.location.file);
    const auto guard = b.CreateString(assertion.guard ? to_string(*assertion.guard) : "");
    const auto output = static_cast<uint32_t>(assertion.output.value_or(kNoSlot));
    entries.push_back(format::CreateAssertion(b, message, output, guard, file, assertion.location.line));
  }
  return entries;
}

// After the program, whose weights it shares.
std::string graph_section(const Program& program, const Notes& notes, WeightTable& weights) {
  const Graph portable = with_constants_as_parameters(*program.source);
  flatbuffers::FlatBufferBuilder b;
  std::vector<format::Blob> leaves;
  std::vector<flatbuffers::Offset<format::Packed>> packed;
  for (const Leaf& leaf : portable.leaves()) {
    if (!has_data(leaf)) continue;
    std::optional<ByteRange> place = weights.find(leaf.data);
    const Packing* const packing = place ? nullptr : packing_of(program, leaf.data);
    if (packing) {
      const auto kernel = b.CreateString(to_string(packing->kernel));
      packed.push_back(format::CreatePacked(b, static_cast<uint32_t>(leaves.size()), kernel));
      place = weights.find(result_of(program, *packing));
    }
    for (const Packing* part : place ? std::vector<const Packing*>() : parts_of(program, leaf.data)) {
      const auto kernel = b.CreateString(to_string(part->kernel)),
                 taken = b.CreateString(to_string(part->part->kernel));
      const ByteRange at = *weights.find(result_of(program, *part));
      const format::Blob blob(at.offset, at.size);
      packed.push_back(format::CreatePacked(b, static_cast<uint32_t>(leaves.size()), kernel, taken, &blob));
      place = ByteRange{};
    }
    if (!place) place = weights.add(leaf.data);
    leaves.emplace_back(place->offset, place->size);
  }
  const auto text = b.CreateString(to_string(portable));
  std::vector<flatbuffers::Offset<format::Note>> entries;
  for (const auto& [key, value] : notes) {
    const auto own_key = b.CreateString(key);
    entries.push_back(format::CreateNote(b, own_key, b.CreateString(value)));
  }
  const auto places = b.CreateVectorOfStructs(leaves);
  const auto packings = b.CreateVector(packed);
  const auto own_notes = b.CreateVector(entries);
  const auto states = b.CreateVectorOfStrings(only_read_states(program));
  const auto assertions = b.CreateVector(assertions_of(program, b));
  format::FinishGraphTextBuffer(b, format::CreateGraphText(b, text, places, packings, own_notes, states, assertions));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

// ---- a variant ------------------------------------------------------------------------------------------------------

std::string external_note(int64_t call) { return fmt::format("external.{}", call); }

void check_portable(const Program& program, const Notes& notes) {
  std::string tasks;
  for (const Task& task : program.tasks) {
    const bool lacks_text = task.kind == TaskKind::kExternal && !notes.contains(external_note(task.call));
    if (task.kind != TaskKind::kReference && !lacks_text) continue;
    const std::string where = task.location.known() ? to_string(task.location) + ": " : "";
    tasks += fmt::format("\n  {}{}", where, task.name);
  }
  if (!tasks.empty())
    fail("program {} cannot be saved: these run only in the process that has PyTorch:{}", program.graph.name(), tasks);
}

std::optional<uint32_t> key_of(const Program& program, const Notes& notes) {
  const auto name = notes.find(kKeyNote);
  if (name == notes.end()) return std::nullopt;
  const Graph& graph = *program.source;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (graph.leaf(graph.inputs()[i])->name == name->second) return static_cast<uint32_t>(i);
  }
  fail("random numbers come from '{}', which is no input", name->second);
}

// Results of a call by their place among those that the program needs; others become None.
void renumber(CallTree& tree, const std::map<size_t, size_t>& places) {
  for (CallTree& child : tree.children) renumber(child, places);
  if (!tree.is_leaf() || tree.kind == CallTree::Kind::kConstant) return;
  const auto place = places.find(tree.position);
  if (place == places.end())
    tree = {.kind = CallTree::Kind::kConstant};
  else
    tree.position = place->second;
}

std::string call_text(const Task& task, const std::string& note) {
  CallForm form = parse_call_form(note).value();
  const std::vector<ValueRef>& results = task.body->nodes().back().results;
  std::map<size_t, size_t> places;
  for (size_t i = 0; i < task.body->outputs().size(); ++i) {
    const auto result = std::ranges::find(results, task.body->outputs()[i]) - results.begin();
    places.emplace(static_cast<size_t>(result), i);
  }
  renumber(form.results, places);
  return to_string(form);
}

std::string tables_of(const Program& program, const Notes& notes, WeightTable& weights,
                      const std::vector<std::string>& kernels) {
  FileTables file;
  file.key = key_of(program, notes);
  for (const Tensor& constant : program.constants) file.constants.push_back(weights.add(constant));
  for (const Tensor& leaf : program.leaves) file.leaves.push_back(weights.add(leaf));
  file.kernels = kernels;
  for (const Task& task : program.tasks) {
    file.calls.push_back(task.kind == TaskKind::kExternal ? call_text(task, notes.at(external_note(task.call))) : "");
  }
  return program_tables(program, &file);
}

[[noreturn]] void fail_without_code(const Program& program, const Task& task) {
  if (task.device.empty())
    fail("program {} was not compiled by the cpu backend: it has no code to save", program.graph.name());
  fail_at(task.location,
          "program {} cannot be saved: backend {} compiled {} and has no code for a file. A device can store its code "
          "(tenon/device.h)",
          program.graph.name(), task.device, task.name);
}

std::string native_section(const Program& program, const std::vector<std::string>& kernels) {
  const codegen::Target target = codegen::find_target(program.cpu);
  flatbuffers::FlatBufferBuilder b;
  std::map<std::string_view, uint32_t> numbers;
  std::vector<flatbuffers::Offset<format::Object>> objects;
  std::vector<format::NativeKernel> natives;
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    if (task.kind != TaskKind::kKernel) continue;
    const std::string_view object = object_of(*task.kernel);
    if (object.empty()) fail_without_code(program, task);
    const auto [found, is_new] = numbers.try_emplace(object, static_cast<uint32_t>(objects.size()));
    if (is_new) {
      b.ForceVectorAlignment(object.size(), 1, 16);
      const auto bytes = b.CreateVector(reinterpret_cast<const uint8_t*>(object.data()), object.size());
      objects.push_back(format::CreateObject(b, bytes));
    }
    natives.emplace_back(runtime::checksum(bytes_of(kernels[i])), found->second);
  }
  const auto cpu = b.CreateString(codegen::level_of(target)),
             features = b.CreateString(codegen::needed_features(target));
  format::FinishNativeBuffer(
      b, format::CreateNative(b, cpu, features, b.CreateVector(objects), b.CreateVectorOfStructs(natives)));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

// ---- the file -------------------------------------------------------------------------------------------------------

std::string entry_section(std::span<const ProgramEntry> entries) {
  std::vector<std::string> names;
  for (const ProgramEntry& entry : entries) names.push_back(entry.name);
  flatbuffers::FlatBufferBuilder b;
  format::FinishEntriesBuffer(b, format::CreateEntries(b, b.CreateVectorOfStrings(names)));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

std::vector<std::string> levels_of(const ProgramEntry& entry) {
  std::vector<std::string> levels;
  for (const Program* program : entry.variants) {
    if (!program->uses_devices()) levels.push_back(codegen::level_of(codegen::find_target(program->cpu)));
  }
  return levels;
}

void check_entries(std::span<const ProgramEntry> entries) {
  std::set<std::string> names;
  for (const ProgramEntry& entry : entries) {
    if (!is_identifier(entry.name) || entry.name.size() > format::kLongestEntry)
      fail("an entry is named by an identifier of at most {} characters, got '{}'", format::kLongestEntry, entry.name);
    if (!names.insert(entry.name).second) fail("two entries have the name '{}'", entry.name);
    if (levels_of(entry) != levels_of(entries[0]))
      fail("entries '{}' and '{}' are not compiled for the same CPUs", entries[0].name, entry.name);
  }
}

// That programs which name a state mean the same one.
class StateTable {
 public:
  void add(const Program& program, const std::string& entry) {
    std::set<std::string_view> own;
    for (size_t i = 0; i < program.leaves.size(); ++i) {
      const std::string& name = program.leaf_names[i];
      if (!own.insert(name).second) fail("two states of '{}' have the name '{}'", entry, name);
      const auto [found, is_new] = known_.try_emplace(name, Known{program.leaves[i], entry});
      if (!is_new) check_same(name, found->second, program.leaves[i], entry);
    }
  }

 private:
  struct Known {
    Tensor data;
    std::string entry;
  };

  static void check_same(const std::string& name, const Known& known, const Tensor& data, const std::string& entry) {
    if (!(type_of(known.data) == type_of(data)))
      fail("state '{}' is {} in '{}' and {} in '{}'", name, to_string(type_of(known.data)), known.entry,
           to_string(type_of(data)), entry);
    const bool is_same = known.data.data() == data.data() || identical(known.data, data);
    if (!is_same) fail("state '{}' does not start with the same values in '{}' and '{}'", name, known.entry, entry);
  }

  std::map<std::string, Known> known_;
};

// Sections point into what this holds.
class Artifact {
 public:
  Artifact(const std::vector<const Program*>& variants, const Notes& notes) {
    add_entry({"main", variants, notes}, "");
    sections_.push_back(weights_.section());
  }

  explicit Artifact(std::span<const ProgramEntry> entries) {
    check(!entries.empty(), "an artifact of no entries");
    check_entries(entries);
    add(SectionKind::kEntries, "", entry_section(entries));
    sections_.back().flags = format::kSectionRequired;
    for (const ProgramEntry& entry : entries) add_entry(entry, entry.name);
    sections_.push_back(weights_.section());
  }

  const std::vector<SectionContent>& sections() const { return sections_; }

 private:
  void add_entry(const ProgramEntry& entry, const std::string& name) {
    const std::string prefix = name.empty() ? "" : name + format::kEntrySeparator;
    std::vector<const Program*> plain, with_devices;
    std::ranges::partition_copy(entry.variants, std::back_inserter(with_devices), std::back_inserter(plain),
                                &Program::uses_devices);
    check(!plain.empty(), "an artifact of no program for the CPU");
    for (const Program* program : plain) {
      const std::string level = codegen::level_of(codegen::find_target(program->cpu));
      add_variant(*program, entry, SectionKind::kProgram, SectionKind::kNative, prefix + level);
    }
    // A reader takes the first that it can run: of the same devices, the one for the best CPU.
    std::ranges::stable_sort(with_devices, std::greater(), feature_count);
    for (size_t i = 0; i < with_devices.size(); ++i) {
      add_variant(*with_devices[i], entry, SectionKind::kDeviceProgram, SectionKind::kDeviceNative,
                  prefix + std::to_string(i));
    }
    add(SectionKind::kGraph, name, graph_section(*plain[0], entry.notes, weights_));
  }

  static size_t feature_count(const Program* program) {
    const std::string features = codegen::needed_features(codegen::find_target(program->cpu));
    return static_cast<size_t>(std::ranges::count(features, ','));
  }

  void add_variant(const Program& program, const ProgramEntry& entry, SectionKind kind, SectionKind native,
                   const std::string& name) {
    check_portable(program, entry.notes);
    states_.add(program, entry.name);
    std::vector<std::string> kernels;
    for (const Task& task : program.tasks) {
      kernels.push_back(task.kind == TaskKind::kKernel ? portable_kernel(*task.tree) : "");
    }
    add(kind, name, tables_of(program, entry.notes, weights_, kernels));
    add(native, name, native_section(program, kernels));
  }

  void add(SectionKind kind, std::string name, std::string content) {
    contents_.push_back(std::make_unique<std::string>(std::move(content)));
    sections_.push_back({kind, std::move(name), {bytes_of(*contents_.back())}});
  }

  StateTable states_;
  WeightTable weights_;
  std::vector<std::unique_ptr<std::string>> contents_;
  std::vector<SectionContent> sections_;
};

}  // namespace

Result<std::vector<std::byte>> artifact_bytes(const std::vector<const Program*>& variants, const Notes& notes) {
  return attempt([&] { return container_bytes(Artifact(variants, notes).sections()); });
}

Status write_artifact(const std::string& path, const std::vector<const Program*>& variants, const Notes& notes) {
  return attempt([&] { write_container(path, Artifact(variants, notes).sections()).value(); });
}

Result<std::vector<std::byte>> artifact_bytes(std::span<const ProgramEntry> entries) {
  return attempt([&] { return container_bytes(Artifact(entries).sections()); });
}

Status write_artifact(const std::string& path, std::span<const ProgramEntry> entries) {
  return attempt([&] { write_container(path, Artifact(entries).sections()).value(); });
}

Result<ArtifactSize> artifact_size(const std::vector<const Program*>& variants, const Notes& notes) {
  return attempt([&] {
    const Artifact artifact(variants, notes);
    ArtifactSize size{.file = runtime::container_size(artifact.sections())};
    for (const SectionContent& section : artifact.sections()) {
      if (section.kind == SectionKind::kWeights) size.weights += size_of(section);
      const bool is_code = section.kind == SectionKind::kNative || section.kind == SectionKind::kDeviceNative;
      if (is_code) size.code += size_of(section);
    }
    return size;
  });
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

// The name of its graph's section.
std::string entry_of(const runtime::Container& container, std::string_view entry) {
  if (container.find(SectionKind::kEntries) == nullptr) return "";
  return entry.empty() ? call_runtime([&] { return runtime::entry_names(container); })[0] : std::string(entry);
}

const format::GraphText& graph_text(const runtime::Container& container, std::string_view entry) {
  const runtime::Container::Section* const section = container.find(SectionKind::kGraph, entry_of(container, entry));
  if (!section) fail("the artifact has no graph");
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(section->bytes.data()), section->bytes.size());
  if (!format::VerifyGraphTextBuffer(verifier)) fail("the artifact's graph is not well-formed");
  return *format::GetGraphText(section->bytes.data());
}

// Undefined where the file does not have it.
Tensor stored(const TensorType& type, const format::Blob* blob,
              const std::shared_ptr<const runtime::Container>& owner) {
  const runtime::Container::Section* const weights = owner->find(SectionKind::kWeights);
  const Sizes shape = evaluate(type.shape, {});
  const auto bytes = static_cast<uint64_t>(checked_mul(element_count(shape), size_of(type.dtype)));
  if (!blob || !weights || blob->size() != bytes || bytes > weights->bytes.size() ||
      blob->offset() > weights->bytes.size() - bytes) {
    return {};
  }
  auto* const data = const_cast<std::byte*>(weights->bytes.data() + blob->offset());
  const std::shared_ptr<void> keeper(data, [owner](void*) {});
  return Tensor::borrow(type.dtype, shape, contiguous_strides(shape), data, keeper, Access::kReadOnly);
}

// How a leaf, or a part of it, is laid out.
struct PackedLeaf {
  loops::IR kernel;
  std::optional<loops::IR> part;
  const format::Blob* place;  // of a part
};

std::optional<Tensor> unpacked(const PackedLeaf& leaf, const format::Blob* blob,
                               const std::shared_ptr<const runtime::Container>& owner) {
  if (leaf.kernel.writes().size() != 1) return {};
  const TensorType packed_type = leaf.kernel.type(leaf.kernel.writes()[0]);
  if (!is_static(packed_type.shape)) return {};
  const Tensor packed = stored(packed_type, leaf.part ? leaf.place : blob, owner);
  const std::optional<Tensor> data = packed.defined() ? moved_back(leaf.kernel, packed) : std::nullopt;
  return data && leaf.part ? moved_back(*leaf.part, *data) : data;
}

// Of all parts together. Undefined where the file does not have them.
Tensor unpacked(const TensorType& type, const std::vector<PackedLeaf>& parts, const format::Blob* blob,
                const std::shared_ptr<const runtime::Container>& owner) {
  Tensor all;
  for (const PackedLeaf& part : parts) {
    const std::optional<Tensor> data = unpacked(part, blob, owner);
    if (!data || !data_fits(type, *data)) return {};
    if (all.defined() && all.shape() != data->shape()) return {};  // the type may leave the sizes open
    all.defined() ? merge(all, *data) : void(all = *data);
  }
  return all;
}

std::map<uint32_t, std::vector<PackedLeaf>> packed_leaves(const format::GraphText& from) {
  std::map<uint32_t, std::vector<PackedLeaf>> leaves;
  for (flatbuffers::uoffset_t i = 0; from.packed() && i < from.packed()->size(); ++i) {
    const format::Packed& packed = *from.packed()->Get(i);
    PackedLeaf leaf{loops::parse(packed.kernel()->str()).value(), {}, packed.place()};
    if (packed.part()) leaf.part = loops::parse(packed.part()->str()).value();
    leaves[packed.leaf()].push_back(std::move(leaf));
  }
  return leaves;
}

}  // namespace

Result<Graph> read_artifact_graph(const std::shared_ptr<const runtime::Container>& container, std::string_view entry) {
  return attempt([&] {
    const format::GraphText& from = graph_text(*container, entry);
    Graph graph = parse_graph(from.text()->string_view()).value();
    const std::map<uint32_t, std::vector<PackedLeaf>> packed = packed_leaves(from);
    flatbuffers::uoffset_t next = 0;
    for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
      if (!has_data(leaf)) continue;
      const auto parts = packed.find(next);
      const format::Blob* const blob = next < from.leaves()->size() ? from.leaves()->Get(next++) : nullptr;
      const Tensor data = parts == packed.end() ? stored(graph.type(leaf.value), blob, container)
                                                : unpacked(graph.type(leaf.value), parts->second, blob, container);
      if (!data.defined()) fail("the artifact has no data for '{}'", leaf.name);
      // What is updated is this process's own.
      graph.bind(leaf.name, leaf.kind == LeafKind::kBuffer ? data.copy() : data);
    }
    return graph;
  });
}

Result<Notes> read_notes(const runtime::Container& container, std::string_view entry) {
  return attempt([&] {
    Notes notes;
    const auto* const entries = graph_text(container, entry).notes();
    for (flatbuffers::uoffset_t i = 0; entries && i < entries->size(); ++i) {
      notes.emplace(entries->Get(i)->key()->str(), entries->Get(i)->value()->str());
    }
    return notes;
  });
}

namespace {

std::optional<size_t> key_of(const Notes& notes, const runtime::TaskGraph& graph) {
  if (graph.key != runtime::kNone) return graph.key;
  const auto note = notes.find(kKeyNote);
  if (note == notes.end()) return std::nullopt;
  const auto input = std::ranges::find(graph.inputs, note->second, &runtime::TensorInfo::name);
  if (input == graph.inputs.end()) fail("the note {} names '{}', which is no input", kKeyNote, note->second);
  const std::string type = type_text(graph, graph.slots[input->slot]);
  if (type != "i64[2]") fail("the note {} names '{}', which is {} and not i64[2]", kKeyNote, note->second, type);
  return static_cast<size_t>(input - graph.inputs.begin());
}

}  // namespace

Result<EntryCall> read_entry_call(const runtime::Container& container, std::string_view entry,
                                  const runtime::TaskGraph& graph) {
  return attempt([&] {
    const Notes notes = read_notes(container, entry).value();
    EntryCall call{.key = key_of(notes, graph)};
    call.form = read_call_form(notes, graph.inputs.size(), graph.outputs.size(), call.key).value();
    return call;
  });
}

// ---- compiling anew -------------------------------------------------------------------------------------------------

namespace {

std::vector<Assertion> read_assertions(const format::GraphText& from) {
  std::vector<Assertion> assertions;
  for (flatbuffers::uoffset_t i = 0; from.assertions() && i < from.assertions()->size(); ++i) {
    const format::Assertion& entry = *from.assertions()->Get(i);
    Assertion assertion{entry.message()->str(), {entry.file() ? entry.file()->str() : "", entry.line()}};
    const bool has_guard = entry.guard() && entry.guard()->size() > 0;
    if (has_guard) assertion.guard = symbolic::parse(entry.guard()->string_view()).value();
    if (!has_guard) assertion.output = entry.output();
    assertions.push_back(std::move(assertion));
  }
  return assertions;
}

}  // namespace

Result<EntrySource> read_entry_source(const std::shared_ptr<const runtime::Container>& container,
                                      const std::string& entry) {
  return attempt([&] {
    EntrySource source{.graph = read_artifact_graph(container, entry).value(),
                       .assertions = read_assertions(graph_text(*container, entry))};
    const auto* const states = graph_text(*container, entry).states();
    for (flatbuffers::uoffset_t i = 0; states && i < states->size(); ++i) source.states.insert(states->Get(i)->str());
    return source;
  });
}

}  // namespace tenon
