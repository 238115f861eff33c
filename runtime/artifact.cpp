#include "runtime/artifact.h"

#include <algorithm>

#include "format/entries_generated.h"
#include "format/native_generated.h"
#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/checksum.h"
#include "runtime/cpu_features.h"
#include "runtime/device_variant.h"
#include "runtime/loader.h"
#include "runtime/shared.h"
#include "runtime/states.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

using format::SectionKind;

constexpr const char* kFunction = "tenon_kernel";

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

// The prefix of the names of an entry's sections.
std::string prefix_of(const Container& container, std::string_view entry) {
  const std::vector<std::string> names = entry_names(container);
  const auto found = entry.empty() ? names.begin() : std::ranges::find(names, entry);
  if (found == names.end())
    fail(TENON_INVALID_ARGUMENT, "the file has no entry '", entry, "'; its entries are ", joined(names));
  return entries_of(container) == nullptr ? "" : *found + format::kEntrySeparator;
}

const Container::Section& first_program(const Container& container, std::string_view prefix) {
  for (const Container::Section& section : container.sections()) {
    if (section.kind == SectionKind::kProgram && section.name.starts_with(prefix)) return section;
  }
  if (container.find(SectionKind::kCheckpoint) != nullptr)
    fail(TENON_BAD_FILE, "this is a checkpoint of states, not a model");
  fail(TENON_BAD_FILE, "the file has no program", prefix.empty() ? "" : " ", prefix);
}

ProgramSections choose_sections(const Container& container, const LoadOptions& options) {
  const std::string prefix = prefix_of(container, options.entry);
  if (!options.native) {
    if (!options.device.empty() && options.device != "cpu")
      fail(TENON_INVALID_ARGUMENT, "device ", options.device, " runs code of the file, which is off");
    return {&first_program(container, prefix)};
  }
  DeviceVariant variant = choose_variant(container, prefix, options.device);
  if (variant.section != nullptr)
    return {variant.section, container.find(SectionKind::kDeviceNative, variant.section->name),
            std::move(variant.devices)};
  const Container::Section* const native = choose_native(container, prefix);
  if (native == nullptr) return {&first_program(container, prefix)};
  return {container.find(SectionKind::kProgram, native->name), native};
}

class ProgramLoader {
 public:
  ProgramLoader(std::shared_ptr<const Container> container, const ProgramSections& sections)
      : container_(std::move(container)), native_(sections.native), devices_(sections.devices), link_(sections.link) {}

  std::shared_ptr<const LoadedProgram> run(const Container::Section& section, const CallFinder& calls) {
    const format::Program& tables = program_of(section);
    if (const Container::Section* weights = container_->find(SectionKind::kWeights)) weights_ = weights->bytes;
    LoadedProgram::Parts parts{.tables = section.bytes, .calls = calls, .devices = devices_, .container = container_};
    for (const format::Blob& blob : span_of(tables.constants())) parts.constants.push_back(place_of(blob, weights_));
    for (const format::Blob& blob : span_of(tables.states())) parts.states.push_back(place_of(blob, weights_));
    for (const format::KernelCode* kernel : *tables.kernels()) parts.kernels.push_back(entry_of(*kernel));
    if (native_ != nullptr) add_native(parts.kernels, tables);
    return new_shared<const LoadedProgram>(std::move(parts));
  }

 private:
  KernelEntry entry_of(const format::KernelCode& kernel) const {
    if (kernel.device() != nullptr) return device_code(kernel);
    if (kernel.portable() == nullptr) fail(TENON_BAD_FILE, "a kernel has no portable form");
    const auto* const bytes = reinterpret_cast<const std::byte*>(kernel.portable()->data());
    return {.portable = new_shared<const PortableKernel>(PortableKernel::load({bytes, kernel.portable()->size()}))};
  }

  KernelEntry device_code(const format::KernelCode& kernel) const {
    if (kernel.space() == kHost || kernel.space() > devices_.size())
      fail(TENON_BAD_FILE, "there is code of a device for space ", kernel.space(), ", but there are ", devices_.size());
    KernelEntry entry{.space = kernel.space()};
    const std::shared_ptr<Device>& device = devices_[kernel.space() - 1];
    const std::span bytes = std::as_bytes(std::span(kernel.device()->data(), kernel.device()->size()));
    if (device) {
      entry.device = new_shared<const DeviceProgram>(
          device, Device::Code{{bytes.begin(), bytes.end()}, static_cast<uint64_t>(kernel.scratch())});
    }
    return entry;
  }

  // Code refers to its kernel by the checksum of the portable form, which says how large the arguments are.
  void add_native(std::vector<KernelEntry>& kernels, const format::Program& tables) const {
    const format::Native& native = native_of(*native_);
    const std::span<const format::NativeKernel> natives = span_of(native.kernels());
    const auto count = static_cast<size_t>(
        std::ranges::count_if(kernels, [](const KernelEntry& entry) { return entry.portable != nullptr; }));
    if (natives.size() != count)
      fail(TENON_BAD_FILE, "there is code for ", natives.size(), " kernels, and there are ", count);
    std::vector<std::shared_ptr<const LoadedCode>> loaded(native.objects()->size());
    size_t next = 0;
    for (flatbuffers::uoffset_t i = 0; i < kernels.size(); ++i) {
      if (!kernels[i].portable) continue;
      const format::NativeKernel& kernel = natives[next++];
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

  std::shared_ptr<const LoadedCode> load(const format::Object& object) const {
    const std::string_view bytes(reinterpret_cast<const char*>(object.bytes()->data()), object.bytes()->size());
    return link_ == nullptr ? LoadedCode::load(bytes) : link_(bytes);
  }

  std::shared_ptr<const Container> container_;
  const Container::Section* native_;
  const std::vector<std::shared_ptr<Device>>& devices_;
  LinkFunction* link_;
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
  const ProgramSections sections = choose_sections(*container, options);
  return load_sections(std::move(container), sections, options.calls);
}

std::shared_ptr<const LoadedProgram> load_sections(std::shared_ptr<const Container> container,
                                                   const ProgramSections& sections, const CallFinder& calls) {
  if (sections.program == nullptr) fail(TENON_BAD_FILE, "there is no program for the code of ", sections.native->name);
  return ProgramLoader(std::move(container), sections).run(*sections.program, calls);
}

std::vector<Entry> load_entries(const std::shared_ptr<const Container>& container, const LoadOptions& options) {
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<const LoadedProgram>> programs;
  for (const std::string& name : entry_names(*container)) {
    LoadOptions own = options;
    own.entry = name;
    entries.push_back({name, load_program(container, own)});
    programs.push_back(entries.back().program);
  }
  states_of(programs);
  return entries;
}

}  // namespace tenon::runtime
