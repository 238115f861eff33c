// The tables of a program in an artifact that is else well-formed, with 4 KB of weights.
#include "tests/robustness/support_seal.h"

using tenon::format::SectionKind;

namespace {

tenon::golden::Piece piece(SectionKind kind, std::vector<std::byte> bytes) {
  return {{.kind = static_cast<uint32_t>(kind)}, std::move(bytes)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  tenon::golden::try_file(tenon::golden::joined({piece(SectionKind::kProgram, {bytes.begin(), bytes.end()}),
                                                 piece(SectionKind::kWeights, std::vector<std::byte>(4096))}));
  return 0;
}
