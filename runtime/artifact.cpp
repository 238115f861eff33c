#include "runtime/artifact.h"

#include <algorithm>

#include "format/native_generated.h"
#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/checksum.h"
#include "runtime/cpu_features.h"
#include "runtime/loader.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

using format::SectionKind;

constexpr flatbuffers::uoffset_t kDeepest = 16;
constexpr flatbuffers::uoffset_t kMostTables = 50'000'000;
constexpr const char* kFunction = "tenon_kernel";

template <class Verify>
void verify_tables(const Container::Section& section, const char* what, Verify verify) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(section.bytes.data()), section.bytes.size(), kDeepest,
                                 kMostTables);
  if (!verify(verifier)) fail(TENON_BAD_FILE, "the ", what, " is not well-formed");
}

const format::Native& native_of(const Container::Section& section) {
  verify_tables(section, "native section", [](auto& verifier) { return format::VerifyNativeBuffer(verifier); });
  return *format::GetNative(section.bytes.data());
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The code of the best CPU that this machine is: the one that needs most of it. Null where the file has none at all.
const Container::Section* choose_native(const Container& container) {
  const Container::Section* best = nullptr;
  size_t most = 0;
  std::string lacks;
  for (const Container::Section& section : container.sections()) {
    if (section.kind != SectionKind::kNative) continue;
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
      : container_(std::move(container)), options_(options) {}

  std::shared_ptr<const Program> run() {
    if (options_.native) native_ = options_.level.empty() ? choose_native(*container_) : native_of_level();
    const Container::Section& section = program_section();
    verify_tables(section, "program", [](auto& verifier) { return format::VerifyProgramBuffer(verifier); });
    const format::Program& tables = *format::GetProgram(section.bytes.data());
    if (const Container::Section* weights = container_->find(SectionKind::kWeights)) weights_ = weights->bytes;
    Program::Parts parts{.tables = section.bytes, .owner = container_};
    for (const format::Blob& blob : span_of(tables.constants())) parts.constants.push_back(place_of(blob));
    for (const format::Blob& blob : span_of(tables.states())) parts.states.push_back(place_of(blob));
    for (const format::KernelCode* kernel : *tables.kernels()) parts.kernels.push_back(portable(*kernel));
    if (native_ != nullptr) add_native(parts.kernels, tables);
    auto program = std::make_shared<const Program>(std::move(parts));
    check_weights(program->graph());
    return program;
  }

 private:
  const Container::Section* native_of_level() const {
    const Container::Section* section = container_->find(SectionKind::kNative, options_.level);
    if (section == nullptr) fail(TENON_INVALID_ARGUMENT, "the file has no code for ", options_.level);
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
    const auto first = std::ranges::find(sections, SectionKind::kProgram, &Container::Section::kind);
    if (first == sections.end()) fail(TENON_BAD_FILE, "the file has no program");
    return *first;
  }

  const std::byte* place_of(const format::Blob& blob) const {
    if (blob.size() > weights_.size() || blob.offset() > weights_.size() - blob.size()) {
      fail(TENON_BAD_FILE, "the ", blob.size(), " bytes from ", blob.offset(),
           " on are not in the weights, which have ", weights_.size());
    }
    if (blob.offset() % kAlignment != 0) {
      fail(TENON_BAD_FILE, "the weights from ", blob.offset(), " on do not begin at a multiple of ", kAlignment);
    }
    return weights_.data() + blob.offset();
  }

  static KernelEntry portable(const format::KernelCode& kernel) {
    if (kernel.portable() == nullptr) fail(TENON_BAD_FILE, "a kernel has no portable form");
    const auto* const bytes = reinterpret_cast<const std::byte*>(kernel.portable()->data());
    return {.portable =
                std::make_shared<const PortableKernel>(PortableKernel::load({bytes, kernel.portable()->size()}))};
  }

  // Code belongs to a kernel by the checksum of its portable form, which says how large the arguments are.
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

  // A constant has as many bytes as its slot, which has no symbols.
  static void check_weights(const TaskGraph& graph) {
    for (uint32_t id = 0; id < graph.slots.size(); ++id) {
      const TensorSlot& slot = graph.slots[id];
      const bool is_stored = slot.kind == SlotKind::Constant || slot.kind == SlotKind::State;
      if (slot.root != id || !is_stored) continue;
      int64_t bytes = static_cast<int64_t>(tenon_dtype_size(slot.dtype));
      for (const Expr& size : slot.shape) bytes = checked_mul(bytes, constant_size(graph, size));
      const Blob& blob = slot.kind == SlotKind::Constant ? graph.constants[slot.position] : graph.states[slot.position];
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
  const Container::Section* native_ = nullptr;
  std::span<const std::byte> weights_;
};

}  // namespace

std::shared_ptr<const Program> load_program(std::shared_ptr<const Container> container, const LoadOptions& options) {
  return ProgramLoader(std::move(container), options).run();
}

}  // namespace tenon::runtime
