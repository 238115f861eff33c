#include "runtime/artifact.h"

#include <algorithm>

#include "format/entries_generated.h"
#include "format/native_generated.h"
#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/checksum.h"
#include "runtime/cpu_features.h"
#include "runtime/loader.h"
#include "runtime/states.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

using format::SectionKind;

constexpr const char* kFunction = "tenon_kernel";

const format::Native& native_of(const Container::Section& section) {
  verify_tables(section.bytes, "native section", [](auto& verifier) { return format::VerifyNativeBuffer(verifier); });
  return *format::GetNative(section.bytes.data());
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const format::Entries* entries_of(const Container& container) {
  const Container::Section* const section = container.find(SectionKind::kEntries);
  if (section == nullptr) return nullptr;
  verify_tables(section->bytes, "list of entries",
                [](auto& verifier) { return format::VerifyEntriesBuffer(verifier); });
  return format::GetEntries(section->bytes.data());
}

// The code for the best CPU that this machine is: the one that needs most features. Null if the file has no code.
const Container::Section* choose_native(const Container& container, std::string_view prefix) {
  const Container::Section* best = nullptr;
  size_t most = 0;
  std::string lacks;
  for (const Container::Section& section : container.sections()) {
    if (section.kind != SectionKind::kNative || !section.name.starts_with(prefix)) continue;
    const format::Native& native = native_of(section);
    const std::string_view features = native.features()->string_view();
    const std::vector<std::string> missing = missing_features(features);
    if (!missing.empty()) {
      lacks += text_of("\n  for ", native.cpu()->string_view(), " it lacks ", joined(missing));
      continue;
    }
    const auto needs = static_cast<size_t>(std::ranges::count(features, ',')) + 1;
    if (best == nullptr || needs > most) best = &section, most = needs;
  }
  if (best == nullptr && !lacks.empty()) {
    fail(TENON_UNSUPPORTED, "the file has no code for this CPU:", lacks,
         "\nCompile it again with --cpu for this machine, or load it without native code.");
  }
  return best;
}

class ProgramLoader {
 public:
  ProgramLoader(std::shared_ptr<const Container> container, const LoadOptions& options)
      : container_(std::move(container)), options_(options), prefix_(prefix_of(*container_, options.entry)) {}

  std::shared_ptr<const LoadedProgram> run() {
    if (options_.native) native_ = options_.level.empty() ? choose_native(*container_, prefix_) : native_of_level();
    const Container::Section& section = program_section();
    verify_tables(section.bytes, "program", [](auto& verifier) { return format::VerifyProgramBuffer(verifier); });
    const format::Program& tables = *format::GetProgram(section.bytes.data());
    if (const Container::Section* weights = container_->find(SectionKind::kWeights)) weights_ = weights->bytes;
    LoadedProgram::Parts parts{.tables = section.bytes, .container = container_};
    for (const format::Blob& blob : span_of(tables.constants())) parts.constants.push_back(place_of(blob, weights_));
    for (const format::Blob& blob : span_of(tables.states())) parts.states.push_back(place_of(blob, weights_));
    for (const format::KernelCode* kernel : *tables.kernels()) parts.kernels.push_back(portable(*kernel));
    if (native_ != nullptr) add_native(parts.kernels, tables);
    auto program = std::make_shared<const LoadedProgram>(std::move(parts));
    check_weights(program->graph());
    return program;
  }

 private:
  // The prefix of the names of its sections.
  static std::string prefix_of(const Container& container, std::string_view entry) {
    const std::vector<std::string> names = entry_names(container);
    const auto found = entry.empty() ? names.begin() : std::ranges::find(names, entry);
    if (found == names.end()) {
      fail(TENON_INVALID_ARGUMENT, "the file has no entry '", entry, "'; its entries are ", joined(names));
    }
    return entries_of(container) == nullptr ? "" : *found + format::kEntrySeparator;
  }

  const Container::Section* native_of_level() const {
    const Container::Section* section = container_->find(SectionKind::kNative, text_of(prefix_, options_.level));
    if (section == nullptr) fail(TENON_INVALID_ARGUMENT, "the file has no code for ", prefix_, options_.level);
    native_of(*section);
    return section;
  }

  const Container::Section& program_section() const {
    if (native_ != nullptr) {
      const Container::Section* section = container_->find(SectionKind::kProgram, native_->name);
      if (section == nullptr) fail(TENON_BAD_FILE, "there is no program for the code of ", native_->name);
      return *section;
    }
    const auto sections = container_->sections();
    const auto first = std::ranges::find_if(sections, [&](const Container::Section& section) {
      return section.kind == SectionKind::kProgram && section.name.starts_with(prefix_) &&
             (options_.level.empty() || section.name.substr(prefix_.size()) == options_.level);
    });
    if (first != sections.end()) return *first;
    if (container_->find(SectionKind::kCheckpoint) != nullptr)
      fail(TENON_BAD_FILE, "this is a checkpoint of states, not a model");
    fail(TENON_BAD_FILE, "the file has no program", prefix_.empty() ? "" : " ", prefix_, options_.level);
  }

  static KernelEntry portable(const format::KernelCode& kernel) {
    if (kernel.portable() == nullptr) fail(TENON_BAD_FILE, "a kernel has no portable form");
    const auto* const bytes = reinterpret_cast<const std::byte*>(kernel.portable()->data());
    return {.portable =
                std::make_shared<const PortableKernel>(PortableKernel::load({bytes, kernel.portable()->size()}))};
  }

  // Code refers to its kernel by the checksum of the portable form, which says how large the arguments are.
  void add_native(std::vector<KernelEntry>& kernels, const format::Program& tables) const {
    const format::Native& native = *format::GetNative(native_->bytes.data());
    const std::span<const format::NativeKernel> natives = span_of(native.kernels());
    if (natives.size() != kernels.size()) {
      fail(TENON_BAD_FILE, "there is code for ", natives.size(), " kernels, and there are ", kernels.size());
    }
    std::vector<std::shared_ptr<const LoadedCode>> loaded(native.objects()->size());
    for (flatbuffers::uoffset_t i = 0; i < kernels.size(); ++i) {
      const format::NativeKernel& kernel = natives[i];
      const auto* const portable = tables.kernels()->Get(i)->portable();
      const std::span bytes(reinterpret_cast<const std::byte*>(portable->data()), portable->size());
      if (kernel.object() >= loaded.size()) fail(TENON_BAD_FILE, "kernel ", i, " has no code");
      if (kernel.portable() != checksum(bytes)) fail(TENON_BAD_FILE, "the code of kernel ", i, " is another kernel's");
      std::shared_ptr<const LoadedCode>& code = loaded[kernel.object()];
      if (!code) code = load(*native.objects()->Get(kernel.object()));
      kernels[i].native = code->function<std::remove_pointer_t<tenon_kernel>>(kFunction);
      kernels[i].code = code;
    }
  }

  static std::shared_ptr<const LoadedCode> load(const format::Object& object) {
    return LoadedCode::load({reinterpret_cast<const char*>(object.bytes()->data()), object.bytes()->size()});
  }

  // A constant has as many bytes as its slot, whose shape has no symbols.
  static void check_weights(const TaskGraph& graph) {
    for (uint32_t id = 0; id < graph.slots.size(); ++id) {
      const TensorSlot& slot = graph.slots[id];
      const bool is_stored = slot.kind == SlotKind::Constant || slot.kind == SlotKind::State;
      if (slot.root != id || !is_stored) continue;
      int64_t bytes = static_cast<int64_t>(tenon_dtype_size(slot.dtype));
      for (const Expr& size : slot.shape) bytes = checked_mul(bytes, constant_size(graph, size));
      const Blob& blob =
          slot.kind == SlotKind::Constant ? graph.constants[slot.position] : graph.initial[slot.position];
      if (static_cast<uint64_t>(bytes) != blob.size()) {
        fail(TENON_BAD_FILE, "slot ", id, " needs ", bytes, " bytes of the weights, and has ", blob.size());
      }
    }
  }

  static int64_t constant_size(const TaskGraph& graph, const Expr& size) {
    verify(size, graph.code, 0);
    const int64_t value = evaluate(size, graph.code, {});
    if (value < 0) fail(TENON_BAD_FILE, "a constant has a size of ", value);
    return value;
  }

  std::shared_ptr<const Container> container_;
  LoadOptions options_;
  std::string prefix_;
  const Container::Section* native_ = nullptr;
  std::span<const std::byte> weights_;
};

}  // namespace

const std::byte* place_of(const format::Blob& blob, std::span<const std::byte> weights) {
  if (blob.size() > weights.size() || blob.offset() > weights.size() - blob.size()) {
    fail(TENON_BAD_FILE, "the ", blob.size(), " bytes from ", blob.offset(), " on are not in the weights, which have ",
         weights.size());
  }
  if (blob.offset() % kAlignment != 0) {
    fail(TENON_BAD_FILE, "the weights from ", blob.offset(), " on do not begin at a multiple of ", kAlignment);
  }
  return weights.data() + blob.offset();
}

std::vector<std::string> entry_names(const Container& container) {
  const format::Entries* const entries = entries_of(container);
  if (entries == nullptr) return {"main"};
  std::vector<std::string> names;
  for (const auto* name : *entries->names()) {
    if (name->size() == 0 || name->size() > format::kLongestEntry ||
        std::ranges::find(names, name->str()) != names.end())
      fail(TENON_BAD_FILE, "entry ", names.size(), " has no name of its own");
    names.push_back(name->str());
  }
  if (names.empty()) fail(TENON_BAD_FILE, "the list of entries is empty");
  return names;
}

std::shared_ptr<const LoadedProgram> load_program(std::shared_ptr<const Container> container,
                                                  const LoadOptions& options) {
  return ProgramLoader(std::move(container), options).run();
}

std::vector<Entry> load_entries(const std::shared_ptr<const Container>& container, const LoadOptions& options) {
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<const LoadedProgram>> programs;
  for (const std::string& name : entry_names(*container)) {
    entries.push_back({name, load_program(container, {options.native, options.level, name})});
    programs.push_back(entries.back().program);
  }
  states_of(programs);
  return entries;
}

}  // namespace tenon::runtime
