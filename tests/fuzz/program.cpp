// The tables of a program in an artifact that is else well-formed, with 4 KB of weights: for the CPU, and with a
// device.
#include "tests/robustness/support_seal.h"

using tenon::format::SectionKind;

namespace {

tenon::golden::Piece piece(SectionKind kind, std::vector<std::byte> bytes) {
  return {{.kind = static_cast<uint32_t>(kind)}, std::move(bytes)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  static const bool is_loaded = (tenon::golden::load_null_device(), tenon::golden::load_scale_call(), true);
  (void)is_loaded;
  const auto file_of = [&](SectionKind kind) {
    return tenon::golden::joined(
        {piece(kind, {bytes.begin(), bytes.end()}), piece(SectionKind::kWeights, std::vector<std::byte>(4096))});
  };
  tenon::golden::try_file(file_of(SectionKind::kProgram));
  tenon::golden::try_devices(file_of(SectionKind::kDeviceProgram));
  return 0;
}
