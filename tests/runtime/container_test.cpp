#include "runtime/container.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "program/container.h"
#include "runtime/checksum.h"
#include "runtime/error.h"
#include "support/file.h"
#include "tests/runtime/support_system.h"

namespace tenon::runtime {
namespace {

using format::SectionKind;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string_view text_of_section(const Container& container, SectionKind kind, std::string_view name = "") {
  const Container::Section* const section = container.find(kind, name);
  if (!section) return "(none)";
  return {reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size()};
}

std::vector<SectionContent> small_sections() {
  return {{SectionKind::kGraph, "", {bytes_of("a graph")}},
          {SectionKind::kProgram, "", {bytes_of("a pro"), bytes_of("gram")}},
          {SectionKind::kNative, "x86-64-v3", {bytes_of("code for v3")}},
          {SectionKind::kNative, "x86-64-v4", {}},
          {SectionKind::kWeights, "", {bytes_of("weights"), {}, bytes_of(" of two tensors")}}};
}

void expect_small_sections(const Container& container) {
  EXPECT_EQ(container.sections().size(), 5u);
  EXPECT_EQ(text_of_section(container, SectionKind::kGraph), "a graph");
  EXPECT_EQ(text_of_section(container, SectionKind::kProgram), "a program");
  EXPECT_EQ(text_of_section(container, SectionKind::kNative, "x86-64-v3"), "code for v3");
  EXPECT_EQ(text_of_section(container, SectionKind::kNative, "x86-64-v4"), "");
  EXPECT_EQ(text_of_section(container, SectionKind::kNative, "x86-64-v2"), "(none)");
  EXPECT_EQ(text_of_section(container, SectionKind::kWeights), "weights of two tensors");
  for (const Container::Section& section : container.sections()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(section.bytes.data()) % 64, 0u) << section.name;
  }
}

// A file's bytes, at an address that is a multiple of a page's.
class Image {
 public:
  explicit Image(std::span<const std::byte> bytes) : mapping_(bytes.size() + 1, PROT_READ | PROT_WRITE, kFlags, -1) {
    size_ = bytes.size();
    std::memcpy(mapping_.bytes().data(), bytes.data(), bytes.size());
  }
  std::span<std::byte> bytes() const { return mapping_.bytes().first(size_); }
  format::Header& header() const { return *reinterpret_cast<format::Header*>(mapping_.bytes().data()); }
  format::Section& section(size_t i) const { return reinterpret_cast<format::Section*>(&header() + 1)[i]; }

  void seal() const {
    header().checksum = 0;
    const size_t count = std::min<size_t>(header().section_count, 5);
    header().checksum = checksum(bytes().first(sizeof(format::Header) + count * sizeof(format::Section)));
  }

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  Mapping mapping_;
  size_t size_;
};

Image small_image() { return Image(container_bytes(small_sections())); }

// The error of a file, or nothing.
std::optional<StatusError> error_of(std::span<const std::byte> bytes) {
  try {
    Container::of_memory(bytes);
    return {};
  } catch (const StatusError& error) {
    return error;
  }
}

class ContainerFile : public ::testing::Test {
 protected:
  ContainerFile() : path_(::testing::TempDir() + "container_test." + std::to_string(::getpid()) + ".tenon") {}
  ~ContainerFile() override { ::unlink(path_.c_str()); }

  std::optional<StatusError> error_of_opening() const { return error_of_opening(path_); }
  static std::optional<StatusError> error_of_opening(const std::string& path) {
    try {
      Container::open(path);
      return {};
    } catch (const StatusError& error) {
      return error;
    }
  }

  std::string path_;
};

// ---- what is written is read ----------------------------------------------------------------------------------------

TEST(Container, MemoryGivesWhatWasWritten) {
  const Image image = small_image();
  expect_small_sections(Container::of_memory(image.bytes()));
}

TEST(Container, MemoryMayLieAnywhere) {
  const std::vector<std::byte> bytes = container_bytes(small_sections());
  std::vector<std::byte> moved(1);
  moved.insert(moved.end(), bytes.begin(), bytes.end());
  expect_small_sections(Container::of_memory(std::span(moved).subspan(1)));
}

TEST_F(ContainerFile, FileGivesWhatWasWritten) {
  ASSERT_TRUE(write_container(path_, small_sections()).ok());
  Container container = Container::open(path_);
  expect_small_sections(container);
  const Container other = std::move(container);
  expect_small_sections(other);
}

TEST_F(ContainerFile, WritingTwiceGivesTheSameBytes) {
  ASSERT_TRUE(write_container(path_, small_sections()).ok());
  const std::string first(read_file(path_).value().text());
  ASSERT_TRUE(write_container(path_, small_sections()).ok());
  EXPECT_EQ(first, read_file(path_).value().text());
  const std::vector<std::byte> bytes = container_bytes(small_sections());
  EXPECT_EQ(first, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

TEST(Container, ManyPiecesAreOneSection) {
  std::string text(3 * kChecksumBlock + 5, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3);
  for (const size_t piece : {size_t{1000}, size_t{kChecksumBlock}, size_t{kChecksumBlock + 1}, text.size()}) {
    SectionContent content{SectionKind::kWeights, "", {}};
    for (size_t at = 0; at < text.size(); at += piece) {
      content.pieces.push_back(bytes_of(std::string_view(text).substr(at, piece)));
    }
    const Image image(container_bytes({&content, 1}));
    EXPECT_TRUE(text_of_section(Container::of_memory(image.bytes()), SectionKind::kWeights) == text) << piece;
  }
}

TEST(Container, ThereMayBeNoSections) {
  const Image image(container_bytes({}));
  EXPECT_TRUE(Container::of_memory(image.bytes()).sections().empty());
}

TEST_F(ContainerFile, WhatWasVerifiedStays) {
  ASSERT_TRUE(write_container(path_, small_sections()).ok());
  const Container container = Container::open(path_);
  std::FILE* const file = std::fopen(path_.c_str(), "r+");
  ASSERT_NE(file, nullptr);
  const std::string junk(
      static_cast<size_t>(container.sections().back().bytes.data() - container.sections()[2].bytes.data()), 'x');
  std::fwrite(junk.data(), 1, junk.size(), file);
  std::fclose(file);
  EXPECT_EQ(text_of_section(container, SectionKind::kGraph), "a graph");
  EXPECT_EQ(text_of_section(container, SectionKind::kProgram), "a program");
}

// ---- damage ---------------------------------------------------------------------------------------------------------

TEST(Container, EveryShorterFileIsRefused) {
  const Image image = small_image();
  for (size_t size = 0; size < image.bytes().size(); ++size) {
    const auto error = error_of(image.bytes().first(size));
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->status(), TENON_BAD_FILE) << size << ": " << error->what();
  }
}

TEST(Container, EveryLongerFileIsRefused) {
  std::vector<std::byte> bytes = container_bytes(small_sections());
  bytes.push_back(std::byte{0});
  EXPECT_TRUE(error_of(Image(bytes).bytes()));
}

TEST(Container, EveryChangeOfAByteIsRefused) {
  const Image image = small_image();
  for (std::byte& byte : image.bytes()) {
    const std::byte was = byte;
    for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      byte = was ^ static_cast<std::byte>(change);
      EXPECT_TRUE(error_of(image.bytes())) << &byte - image.bytes().data() << " changed by " << change;
    }
    byte = was;
  }
  EXPECT_FALSE(error_of(image.bytes()));
}

TEST(Container, TransfersAsTextAreNamed) {
  const std::vector<std::byte> bytes = container_bytes(small_sections());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string unix = text, stripped = text;
  unix.erase(unix.find('\r'), 1);
  stripped[0] = static_cast<char>(stripped[0] & 0x7f);
  for (const std::string& changed : {unix, stripped, text.substr(0, 6)}) {
    EXPECT_THAT(error_of(bytes_of(changed))->message(), HasSubstr("transferred as text")) << changed.substr(0, 8);
  }
  EXPECT_THAT(error_of(bytes_of("PK\3\4 is a zip archive"))->message(), HasSubstr("not a Tenon file"));
  EXPECT_THAT(error_of({})->message(), HasSubstr("not a Tenon file"));
}

// ---- versions -------------------------------------------------------------------------------------------------------

TEST(Container, ANewerMajorVersionIsUnsupported) {
  const Image image = small_image();
  image.header().major = 2;
  image.header().minor = 7;
  image.seal();
  const auto error = error_of(image.bytes());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status(), TENON_UNSUPPORTED);
  EXPECT_THAT(error->message(), HasSubstr("format 2.7"));
  EXPECT_THAT(error->message(), HasSubstr("a Tenon that reads format 2"));
}

TEST(Container, ANewerMinorVersionMayHaveMoreSections) {
  const Image image = small_image();
  image.header().minor = 9;
  image.section(2).kind = 77;
  image.section(2).flags = 8;
  image.seal();
  const Container container = Container::of_memory(image.bytes());
  EXPECT_EQ(container.sections().size(), 4u);
  EXPECT_EQ(text_of_section(container, SectionKind::kWeights), "weights of two tensors");
  image.section(2).flags = format::kSectionRequired;
  image.seal();
  EXPECT_EQ(error_of(image.bytes())->status(), TENON_UNSUPPORTED);
}

TEST(Container, UnknownFlagsOfAKnownSectionAreUnsupported) {
  const Image image = small_image();
  image.section(0).flags = 2;
  image.seal();
  EXPECT_EQ(error_of(image.bytes())->status(), TENON_UNSUPPORTED);
}

// ---- hostile tables, with checksums that are right ------------------------------------------------------------------

struct Hostile {
  const char* what;
  std::function<void(const Image&)> change;
  const char* message;
};

const Hostile kHostile[] = {
    {"overlap", [](const Image& i) { i.section(1).offset = i.section(0).offset; }, "are taken"},
    {"not in order", [](const Image& i) { std::swap(i.section(0), i.section(1)); }, "bytes before section 0"},
    {"over the table", [](const Image& i) { i.section(0).offset = 64; }, "are taken"},
    {"past the end", [](const Image& i) { i.section(4).size += 1; }, "are taken"},
    {"short of the end", [](const Image& i) { i.section(4).size -= 1; }, "in no section"},
    {"offset + size wraps", [](const Image& i) { i.section(4).size = ~uint64_t{0} - 4000; }, "are taken"},
    {"far away", [](const Image& i) { i.section(4).offset = uint64_t{1} << 63; }, "are taken"},
    {"weights not on a page", [](const Image& i) { i.section(2).kind = 3; }, "not a multiple of 4096"},
    {"crooked", [](const Image& i) { i.section(3).offset -= 1; }, "not a multiple of 64"},
    {"the same twice", [](const Image& i) { std::memcpy(i.section(2).name, i.section(3).name, 32); }, "two sections"},
    {"name without an end", [](const Image& i) { std::memset(i.section(2).name, 'a', 32); }, "an invalid name"},
    {"name behind its end", [](const Image& i) { i.section(2).name[20] = 'a'; }, "an invalid name"},
    {"name not printable", [](const Image& i) { i.section(2).name[0] = '\n'; }, "an invalid name"},
    {"too many", [](const Image& i) { i.header().section_count = ~0u; }, "4294967295 sections"},
    {"more than fit", [](const Image& i) { i.header().section_count = 4000; }, "4000 sections"},
    {"fewer", [](const Image& i) { i.header().section_count = 4; }, ""},
    {"header flags", [](const Image& i) { i.header().flags = 1; }, "does not define"},
    {"reserved", [](const Image& i) { i.header().reserved[2] = 1; }, "does not define"},
    {"file size", [](const Image& i) { i.header().file_size = 0; }, "should have 0"},
};

TEST(Container, HostileTablesAreRefused) {
  for (const Hostile& hostile : kHostile) {
    const Image image = small_image();
    hostile.change(image);
    image.seal();
    const auto error = error_of(image.bytes());
    ASSERT_TRUE(error) << hostile.what;
    EXPECT_EQ(error->status(), TENON_BAD_FILE) << hostile.what;
    EXPECT_THAT(error->message(), HasSubstr(hostile.message)) << hostile.what;
  }
}

// ---- the system -----------------------------------------------------------------------------------------------------

TEST_F(ContainerFile, ErrorsNameThePath) {
  const auto missing = error_of_opening();
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status(), TENON_IO);
  EXPECT_THAT(missing->message(), StartsWith(path_ + ": cannot open: No such file"));
  ASSERT_TRUE(write_file(path_, "some text").ok());
  EXPECT_EQ(error_of_opening()->status(), TENON_BAD_FILE);
  EXPECT_THAT(error_of_opening()->message(), StartsWith(path_ + ": this is not a Tenon file"));
  ASSERT_TRUE(write_file(path_, "").ok());
  EXPECT_EQ(error_of_opening()->status(), TENON_BAD_FILE);
}

TEST_F(ContainerFile, OnlyRegularFilesAreOpened) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(error_of_opening()->message(), HasSubstr("not a regular file"));
  EXPECT_EQ(error_of_opening(::testing::TempDir())->status(), TENON_IO);
}

TEST_F(ContainerFile, AFailureOfTheSystemLeavesNothingBehind) {
  ASSERT_TRUE(write_container(path_, small_sections()).ok());
  int64_t calls = 0;
  {
    const testing::CountedSystem system;
    {
      const Container container = Container::open(path_);
      EXPECT_EQ(system.descriptors(), 0);
      EXPECT_GT(system.mapped(), 0);
    }
    EXPECT_EQ(system.mapped(), 0);
    calls = system.calls();
  }
  EXPECT_EQ(calls, 5);  // open, stat, map; memory for the graph and the program
  for (int64_t failing = 0; failing < calls; ++failing) {
    for (const int why : {EIO, ENOMEM}) {
      const testing::CountedSystem system(failing, why);
      const auto error = error_of_opening();
      ASSERT_TRUE(error) << failing;
      EXPECT_EQ(error->status(), why == EIO ? TENON_IO : TENON_OUT_OF_MEMORY);
      EXPECT_THAT(error->message(), StartsWith(path_ + ": cannot "));
      EXPECT_EQ(system.descriptors(), 0);
      EXPECT_EQ(system.mapped(), 0);
    }
  }
}

TEST_F(ContainerFile, ADamagedFileLeavesNothingBehind) {
  const Image image = small_image();
  image.bytes().back() ^= std::byte{1};
  const std::span<const std::byte> piece = image.bytes();
  ASSERT_TRUE(write_file(path_, {&piece, 1}).ok());
  const testing::CountedSystem system;
  EXPECT_TRUE(error_of_opening());
  EXPECT_EQ(system.descriptors(), 0);
  EXPECT_EQ(system.mapped(), 0);
}

constexpr size_t kMany = 1 << 20;

TEST_F(ContainerFile, PagesThatAreForgottenComeBackFromTheFile) {
  const std::string weights(kMany, 'w');
  ASSERT_TRUE(write_container(path_, {{{SectionKind::kWeights, "", {bytes_of(weights)}}}}).ok());
  const Container container = Container::open(path_);
  const std::span<const std::byte> bytes = container.find(SectionKind::kWeights)->bytes;
  EXPECT_GE(testing::resident(bytes), static_cast<int64_t>(kMany));
  container.forget(bytes.first(100));  // less than a page
  EXPECT_GE(testing::resident(bytes), static_cast<int64_t>(kMany));
  container.forget(bytes);
  EXPECT_LT(testing::resident(bytes), static_cast<int64_t>(kMany) / 16);
  EXPECT_EQ(text_of_section(container, SectionKind::kWeights), weights);
}

TEST(Container, MemoryThatIsNoFilesIsNotForgotten) {
  const std::string weights(kMany, 'w');
  const std::vector<SectionContent> sections = {{SectionKind::kWeights, "", {bytes_of(weights)}}};
  const Image image(container_bytes(sections));
  const Container borrowed = Container::of_memory(image.bytes());
  borrowed.forget(borrowed.find(SectionKind::kWeights)->bytes);
  EXPECT_EQ(text_of_section(borrowed, SectionKind::kWeights), weights);
  const std::string unaligned =
      "x" + std::string(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  const Container copied = Container::of_memory(bytes_of(unaligned).subspan(1));
  copied.forget(copied.find(SectionKind::kWeights)->bytes);
  EXPECT_EQ(text_of_section(copied, SectionKind::kWeights), weights);
}

}  // namespace
}  // namespace tenon::runtime
