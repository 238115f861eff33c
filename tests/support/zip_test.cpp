#include "support/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string archive_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  ZipWriter writer;
  for (const auto& [name, data] : entries) writer.add(name, {bytes_of(data)});
  std::string text;
  for (const auto& piece : writer.finish()) text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return text;
}

std::string field(uint64_t value, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += i < 8 ? static_cast<char>(value >> (8 * i)) : 0;
  return text;
}

// An archive of one entry as most programs write it: 32-bit sizes, no ZIP64.
struct PlainArchive {
  std::string data = "hello";
  uint64_t method = 0;
  uint64_t flags = 0;
  uint64_t size = 5;
  uint64_t packed_size = 5;
  uint64_t offset = 0;
  uint64_t count = 1;
  std::string comment = {};
  std::string twin = {};  // a second entry of this name, at the same place

  std::string record(const std::string& name) const {
    return "PK\1\2" + field(20, 2) + field(20, 2) + field(flags, 2) + field(method, 2) + field(0, 4) +
           field(crc32_of(bytes_of(data)), 4) + field(packed_size, 4) + field(size, 4) + field(name.size(), 2) +
           field(0, 12) + field(offset, 4) + name;
  }

  std::string text() const {
    const std::string local =
        "PK\3\4" + field(20, 2) + field(0, 8) + field(0, 12) + field(1, 2) + field(0, 2) + "a" + data;
    const std::string directory = record("a") + (twin.empty() ? "" : record(twin));
    return local + directory + "PK\5\6" + field(0, 4) + field(count, 2) + field(count, 2) + field(directory.size(), 4) +
           field(local.size(), 4) + field(comment.size(), 2) + comment;
  }
};

std::string error_of(std::string text) {
  const auto entries = read_zip(std::as_writable_bytes(std::span(text)));
  return entries.ok() ? "no error" : entries.diagnostic().message;
}

TEST(Zip, ComputesTheUsualChecksum) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32_of(bytes_of(text)), 0xcbf43926u);
  EXPECT_EQ(crc32_of(bytes_of(text).subspan(4), crc32_of(bytes_of(text).first(4))), 0xcbf43926u);
}

TEST(Zip, ReadsWhatItWrites) {
  std::string archive = archive_of({{"a", "hello"}, {"folder/", ""}, {"folder/b", ""}});
  const auto entries = read_zip(std::as_writable_bytes(std::span(archive))).value();
  ASSERT_EQ(entries.size(), 2);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(entries[0].data.data()), entries[0].data.size()), "hello");
  EXPECT_EQ(entries[1].name, "folder/b");
  EXPECT_TRUE(entries[1].data.empty());
  for (const ZipEntry& entry : entries) EXPECT_NO_THROW(check_crc(entry));
}

TEST(Zip, ReadsPlainArchivesWithAComment) {
  std::string text = PlainArchive{.comment = "PK made by hand"}.text();
  const auto entries = read_zip(std::as_writable_bytes(std::span(text))).value();
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_NO_THROW(check_crc(entries[0]));
}

TEST(Zip, NoticesDamagedData) {
  std::string archive = archive_of({{"a", "hello"}});
  archive[archive.find("hello")] = 'j';
  const auto entries = read_zip(std::as_writable_bytes(std::span(archive))).value();
  EXPECT_THROW(check_crc(entries[0]), Error);
}

TEST(Zip, RejectsWhatItCannotRead) {
  EXPECT_EQ(error_of(""), "not a zip archive");
  EXPECT_EQ(error_of(std::string(100, 'x')), "not a zip archive");
  EXPECT_THAT(error_of(PlainArchive{.method = 8}.text()), HasSubstr("'a' in the zip archive is compressed"));
  EXPECT_THAT(error_of(PlainArchive{.flags = 1}.text()), HasSubstr("'a' in the zip archive is encrypted"));
  EXPECT_THAT(error_of(PlainArchive{.size = 4}.text()), HasSubstr("'a' has two sizes"));
  EXPECT_THAT(error_of(PlainArchive{.size = 500, .packed_size = 500}.text()), HasSubstr("an entry is outside of it"));
  EXPECT_THAT(error_of(PlainArchive{.offset = 3}.text()), HasSubstr("'a' is not there"));
  EXPECT_THAT(error_of(PlainArchive{.offset = 0xfffffffe}.text()), HasSubstr("an entry is outside of it"));
  EXPECT_THAT(error_of(PlainArchive{.count = 2}.text()), HasSubstr("its directory"));
  EXPECT_THAT(error_of(PlainArchive{.count = 60000}.text()), HasSubstr("too few entries"));
}

TEST(Zip, RejectsNamesThatCouldDoHarm) {
  const auto error_of_name = [](const std::string& name) { return error_of(archive_of({{"a", ""}, {name, "x"}})); };
  EXPECT_EQ(error_of_name("/etc/passwd"), "'/etc/passwd' in the zip archive is an absolute path");
  EXPECT_EQ(error_of_name("C:/x"), "'C:/x' in the zip archive is an absolute path");
  for (const char* name : {"..", "../x", "a/../x", "a/..", "../"}) {
    EXPECT_THAT(error_of_name(name), HasSubstr("in the zip archive leaves its folder")) << name;
  }
  EXPECT_THAT(error_of_name("a\\b"), HasSubstr("has a backslash in its name"));
  EXPECT_THAT(error_of_name("a\nb"), HasSubstr("control characters"));
  EXPECT_THAT(error_of_name(""), HasSubstr("has no name"));
  EXPECT_EQ(error_of_name("a"), "the zip archive has two entries 'a'");
  EXPECT_EQ(error_of_name("..a/b.."), "no error");
  EXPECT_EQ(error_of_name("a/b"), "no error");
}

TEST(Zip, RejectsAnEntryThatReachesIntoTheDirectory) {
  EXPECT_THAT(error_of(PlainArchive{.size = 9, .packed_size = 9}.text()), HasSubstr("'a' and 'the directory' overlap"));
}

TEST(Zip, RejectsEntriesThatOverlap) {
  EXPECT_THAT(error_of(PlainArchive{.count = 2, .twin = "b"}.text()), HasSubstr("'a' and 'b' overlap"));
}

}  // namespace
}  // namespace tenon
