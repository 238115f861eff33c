// Damaged files: cut short, or with a byte changed. Checksums find all of it; where somebody has put them right again,
// what is behind them holds: an error, or a run that touches only memory of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/robustness/support_golden.h"
#include "tests/robustness/support_seal.h"

namespace tenon::golden {
namespace {

class Damage : public testing::TestWithParam<std::string> {
 protected:
  // In memory that ends where the file does, so that a byte too many is seen.
  static tenon_status status_of(std::span<const std::byte> file) {
    Session session;
    return session.load(file, false);
  }

  Artifact artifact_ = read(GetParam());
};

TEST_P(Damage, EveryShorterFileIsRefused) {
  for (size_t size = 0; size < artifact_.bytes.size(); ++size) {
    const std::unique_ptr<std::byte[]> exact(new std::byte[size + 1]);
    std::memcpy(exact.get(), artifact_.bytes.data(), size);
    ASSERT_EQ(status_of({exact.get(), size}), TENON_BAD_FILE) << size;
  }
}

TEST_P(Damage, EveryChangedByteIsRefused) {
  for (std::byte& byte : artifact_.bytes) {
    const std::byte was = byte;
    for (const std::byte change : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      byte = was ^ change;
      ASSERT_NE(status_of(artifact_.bytes), TENON_OK) << &byte - artifact_.bytes.data();
    }
    byte = was;
  }
  EXPECT_EQ(status_of(artifact_.bytes), TENON_OK);
}

TEST_P(Damage, NoChangedByteWithTheRightChecksumHarms) {
  size_t accepted = 0, ran = 0, tried = 0;
  std::vector<Piece> pieces = pieces_of(artifact_.bytes);
  for (Piece& piece : pieces) {
    const auto kind = static_cast<format::SectionKind>(piece.section.kind);
    constexpr format::SectionKind kUnread[] = {format::SectionKind::kGraph, format::SectionKind::kNative,
                                               format::SectionKind::kDeviceProgram, format::SectionKind::kDeviceNative};
    if (std::ranges::find(kUnread, kind) != std::end(kUnread)) continue;
    for (std::byte& byte : piece.bytes) {
      const std::byte was = byte;
      for (const std::byte change : {std::byte{1}, std::byte{0xff}}) {
        byte = was ^ change;
        const Outcome outcome = try_file(joined(pieces));
        accepted += outcome.is_accepted, ran += outcome.has_run, ++tried;
      }
      byte = was;
    }
  }
  std::printf("%zu changes, of which %zu are accepted and %zu run to the end\n", tried, accepted, ran);
  EXPECT_GT(ran, tried / 100) << "the runs are not tested";
}

TEST_P(Damage, NoChangedByteOfTheTableHarms) {
  const size_t table = sizeof(format::Header) + pieces_of(artifact_.bytes).size() * sizeof(format::Section);
  for (size_t i = 0; i < table; ++i) {
    for (const std::byte change : {std::byte{1}, std::byte{2}, std::byte{0x80}, std::byte{0xff}}) {
      std::vector<std::byte> file = artifact_.bytes;
      file[i] ^= change;
      seal(file);
      try_file(file);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Damage, testing::ValuesIn(names()), [](const auto& name) { return label(name.param); });

}  // namespace
}  // namespace tenon::golden
