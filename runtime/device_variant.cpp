#include "runtime/device_variant.h"

#include <algorithm>

#include "runtime/cpu_features.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

using format::SectionKind;

bool is_device_program(const Container::Section& section) { return section.kind == SectionKind::kDeviceProgram; }

// Returns why it does not fit, or opens it.
std::string open_space(const format::Space& space, std::string_view spec, std::shared_ptr<Device>& device) {
  const std::string_view name = name_of_spec(spec);
  if (!has_device(name)) return text_of("device ", name, " is not loaded: load its plug-in first");
  try {
    device = open_device(spec);
  } catch (const StatusError& error) {
    return error.message();
  }
  const std::string here = device->info().identity();
  return here == space.identity()->string_view() ? "" : text_of("the device here is ", here);
}

std::string missing_of(const Container& container, std::string_view name) {
  const Container::Section* const native = container.find(SectionKind::kDeviceNative, name);
  const std::vector<std::string> missing =
      native == nullptr ? std::vector<std::string>() : missing_features(native_of(*native).features()->string_view());
  return missing.empty() ? "" : text_of("the CPU lacks ", joined(missing));
}

}  // namespace

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const format::Program& program_of(const Container::Section& section) {
  verify_tables(section.bytes, "program", [](auto& verifier) { return format::VerifyProgramBuffer(verifier); });
  return *format::GetProgram(section.bytes.data());
}

const format::Native& native_of(const Container::Section& section) {
  verify_tables(section.bytes, "native section", [](auto& verifier) { return format::VerifyNativeBuffer(verifier); });
  return *format::GetNative(section.bytes.data());
}

DeviceVariant find_devices(const Container& container, const Container::Section& section, std::string_view wanted) {
  DeviceVariant variant{&section};
  const auto* const spaces = program_of(section).spaces();
  const std::string_view wanted_name = name_of_spec(wanted);
  bool is_used = wanted.empty();
  for (flatbuffers::uoffset_t i = 0; spaces != nullptr && i < spaces->size(); ++i) {
    const format::Space& space = *spaces->Get(i);
    const std::string_view spec = space.device()->string_view();
    const bool is_wanted = name_of_spec(spec) == wanted_name;
    const bool has_options = wanted.size() > wanted_name.size();
    is_used |= is_wanted;
    variant.needs += text_of(i == 0 ? "" : ", ", space.identity()->string_view());
    std::shared_ptr<Device>& device = variant.devices.emplace_back();
    if (variant.problem.empty()) variant.problem = open_space(space, is_wanted && has_options ? wanted : spec, device);
  }
  if (!is_used) variant.problem = text_of("it does not use ", wanted_name);
  if (variant.problem.empty()) variant.problem = missing_of(container, section.name);
  return variant;
}

DeviceVariant choose_variant(const Container& container, std::string_view prefix, std::string_view wanted) {
  if (wanted == "cpu") return {};
  if (!wanted.empty()) load_device(name_of_spec(wanted));
  std::string problems;
  for (const Container::Section& section : container.sections()) {
    if (!is_device_program(section) || !section.name.starts_with(prefix)) continue;
    DeviceVariant variant = find_devices(container, section, wanted);
    if (variant.problem.empty()) return variant;
    problems += text_of("\n  for ", variant.needs, ": ", variant.problem);
  }
  // An entry without tasks of devices has no such section.
  const bool has_devices = std::ranges::any_of(container.sections(), is_device_program);
  if (wanted.empty() || (problems.empty() && has_devices)) return {};
  fail(TENON_INVALID_ARGUMENT, "no program of the file runs on ", wanted,
       " here:", problems.empty() ? "\n  it has code for CPUs only" : problems);
}

}  // namespace tenon::runtime
