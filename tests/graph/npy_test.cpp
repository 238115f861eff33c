#include "graph/npy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "support/zip.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// A folder that goes away with the test.
class Npy : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / fmt::format("tenon-{}-{}", test->name(), ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

FileContent content_of(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  return {std::as_writable_bytes(std::span(*owner)), owner};
}

std::string npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) text += static_cast<char>(dictionary.size() >> (8 * i));
  return text + std::string(dictionary) + std::string(data);
}

std::string header(std::string_view descr, std::string_view shape, bool fortran = false) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran ? "True" : "False",
                     shape);
}

std::string error_of(std::string text) {
  const Result<Tensor> tensor = parse_npy(content_of(std::move(text)));
  return tensor.ok() ? "no error" : tensor.diagnostic().message;
}

Tensor counting(DType dtype, Sizes shape) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_integer(i, i);
  return tensor;
}

TEST_F(Npy, WritesAndReadsEveryDtypeAndShape) {
  for (DType dtype : kAllDTypes) {
    for (const Sizes& shape : {Sizes{}, Sizes{0}, Sizes{1}, Sizes{5}, Sizes{2, 3}, Sizes{2, 0, 3}, Sizes{1, 2, 3, 4}}) {
      const Tensor tensor = counting(dtype, shape);
      ASSERT_TRUE(write_npy(path("x.npy"), tensor).ok());
      EXPECT_TRUE(identical(read_npy(path("x.npy")).value(), tensor)) << name_of(dtype) << shape.size();
    }
  }
}

TEST_F(Npy, KeepsBits) {
  Tensor tensor = Tensor::zeros(DType::kF32, {4});
  const uint32_t bits[] = {0x7fc00001, 0xff800000, 0x80000000, 1};  // a NaN with a payload, -inf, -0, the smallest
  std::memcpy(tensor.data(), bits, sizeof bits);
  ASSERT_TRUE(write_npy(path("x.npy"), tensor).ok());
  EXPECT_TRUE(identical(read_npy(path("x.npy")).value(), tensor));
}

TEST_F(Npy, WritesTheElementsOfAViewInOrder) {
  const Tensor x = counting(DType::kI32, {2, 3});
  const Tensor transposed = Tensor::borrow(DType::kI32, {3, 2}, {1, 3}, x.data(), x.owner());
  ASSERT_TRUE(write_npy(path("x.npy"), transposed).ok());
  const Tensor read = read_npy(path("x.npy")).value();
  EXPECT_EQ(read.shape(), (Sizes{3, 2}));
  EXPECT_EQ(read.integer(1), 3);
  EXPECT_TRUE(identical(read, transposed));
}

TEST_F(Npy, WritesTheHeaderThatNumPyWrites) {
  ASSERT_TRUE(write_npy(path("x.npy"), counting(DType::kF32, {3})).ok());
  const FileContent file = read_file(path("x.npy")).value();
  EXPECT_EQ(file.bytes.size(), 128 + 12);
  EXPECT_EQ(file.text().substr(10, 58), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } ");
  EXPECT_EQ(file.text()[127], '\n');
}

TEST_F(Npy, DoesNotChangeTheFileThroughTheTensor) {
  ASSERT_TRUE(write_npy(path("x.npy"), counting(DType::kI64, {3})).ok());
  Tensor mapped = read_npy(path("x.npy")).value();
  mapped.set_integer(0, 42);
  EXPECT_EQ(read_npy(path("x.npy")).value().integer(0), 0);
}

TEST_F(Npy, SaysWhichFileIsMissing) {
  const Result<Tensor> tensor = read_npy(path("none.npy"));
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.diagnostic().text(), path("none.npy") + ": error: cannot open: No such file or directory");
}

TEST_F(Npy, LeavesNothingBehindWhenWritingFails) {
  std::filesystem::create_directory(path("x.npy"));
  const Status status = write_npy(path("x.npy"), counting(DType::kF32, {3}));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.diagnostic().text(), HasSubstr("x.npy: error: cannot write: Is a directory"));
  EXPECT_THAT(write_npy(path("no/x.npy"), counting(DType::kF32, {3})).diagnostic().text(), HasSubstr("No such file"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1);
}

TEST_F(Npy, ReadsBigEndianAndFortranOrder) {
  const std::string big("\0\1\0\2\0\3\0\4\0\5\0\6", 12);
  const Tensor x = parse_npy(content_of(npy(header(">i2", "(2, 3)"), big))).value();
  EXPECT_TRUE(identical(x, [] {
    Tensor expected = counting(DType::kI16, {2, 3});
    for (int64_t i = 0; i < 6; ++i) expected.set_integer(i, i + 1);
    return expected;
  }()));
  const Tensor y = parse_npy(content_of(npy(header(">i2", "(2, 3)", true), big))).value();
  EXPECT_TRUE(y.is_contiguous());
  const int64_t expected[] = {1, 3, 5, 2, 4, 6};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(y.integer(i), expected[i]);
}

TEST_F(Npy, ReadsWhatOtherVersionsWrite) {
  for (int version : {1, 2, 3}) {
    EXPECT_EQ(parse_npy(content_of(npy(header("|i1", "(2,)"), "\1\2", version))).value().integer(1), 2) << version;
  }
  EXPECT_EQ(parse_npy(content_of(npy(header("<i2", "(2L,)"), std::string("\1\0\2\0", 4)))).value().integer(1), 2);
  EXPECT_EQ(
      parse_npy(content_of(npy("{\"shape\":(),\"fortran_order\":False,\"descr\":\"|u1\"}", "\7"))).value().integer(0),
      7);
}

TEST_F(Npy, ReadsAnyTrueByteAsOne) {
  const Tensor x = parse_npy(content_of(npy(header("|b1", "(3,)"), std::string("\0\1\2", 3)))).value();
  EXPECT_EQ(static_cast<int>(x.data()[2]), 1);
}

TEST_F(Npy, ReadsUnalignedData) {
  std::string text = npy(header("<f8", "(1,)") + "  ", std::string("\0\0\0\0\0\0\xf0\x3f", 8));
  EXPECT_EQ(parse_npy(content_of(text)).value().real(0), 1.0);
}

TEST_F(Npy, RejectsFilesThatAreNotNpy) {
  EXPECT_EQ(error_of(""), "not a .npy file");
  EXPECT_EQ(error_of("\x93NUMPX\1\0"), "not a .npy file");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\1\0", 8)), "the .npy header is cut off");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\1\0\x10", 9)), "the .npy header is cut off");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\1\0\x10\0{", 11)),
            "the .npy header is cut off: it has 16 bytes, and the file has 1 more");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)),
            "the .npy header of 4294967295 bytes is too long");
  EXPECT_EQ(error_of(npy(header("<f4", "()"), "1234", 9)), "version 9 of the .npy format is not supported");
  EXPECT_EQ(error_of(npy(header("<f4", "()"), "1234", 0)), "version 0 of the .npy format is not supported");
}

TEST_F(Npy, RejectsMalformedHeaders) {
  const auto malformed = [](std::string_view dictionary) { return error_of(npy(dictionary, "")); };
  EXPECT_THAT(malformed(""), HasSubstr("malformed .npy header: expected '{', got the end of the text"));
  EXPECT_THAT(malformed("{"), HasSubstr("expected a key in quotes"));
  EXPECT_THAT(malformed("{}"), HasSubstr("'descr' is missing"));
  EXPECT_THAT(malformed("{'descr'"), HasSubstr("expected ':'"));
  EXPECT_THAT(malformed("{'descr: '<f4'}"), HasSubstr("expected ':'"));
  EXPECT_THAT(malformed("{'descr': '<f4"), HasSubstr("expected '''"));
  EXPECT_THAT(malformed("{'descr': '<f4' 'shape': ()}"), HasSubstr("expected '}'"));
  EXPECT_THAT(malformed("{'descr': '<f4', 'descr': '<f4'}"), HasSubstr("'descr' appears twice"));
  EXPECT_THAT(malformed("{'color': 1}"), HasSubstr("unknown key 'color'"));
  EXPECT_THAT(malformed("{'fortran_order': 1}"), HasSubstr("expected True or False"));
  EXPECT_THAT(malformed("{'shape': 3}"), HasSubstr("expected '('"));
  EXPECT_THAT(malformed("{'shape': (3 4)}"), HasSubstr("expected ')'"));
  EXPECT_THAT(malformed("{'shape': (x,)}"), HasSubstr("expected a size"));
  EXPECT_THAT(malformed("{'shape': (-3,)}"), HasSubstr("the size -3 is negative"));
  EXPECT_THAT(malformed("{'shape': (99999999999999999999,)}"), HasSubstr("a size does not fit 64 bits"));
  EXPECT_THAT(malformed(header("<f4", "()") + "}"), HasSubstr("text after the dictionary"));
  std::string deep = "(";
  for (int i = 0; i < 65; ++i) deep += "1, ";
  EXPECT_THAT(malformed(header("<f4", deep + ")")), HasSubstr("more than 64 dimensions"));
}

TEST_F(Npy, SaysWhichDtypesItReads) {
  for (std::string_view descr : {"<u2", "<u4", "<u8", "<c8", "|O", "<U5", "|S5", "<f16", "f4", "", "<V4", "<M8[ns]"}) {
    EXPECT_THAT(error_of(npy(header(descr, "()"), "")), HasSubstr("is not supported; cast the array to float64"))
        << descr;
  }
  EXPECT_THAT(error_of(npy("{'descr': [('a', '<f4')], }", "")), HasSubstr("structured arrays are not supported"));
}

TEST_F(Npy, RejectsSizesThatDisagreeWithTheFile) {
  EXPECT_EQ(error_of(npy(header("<f4", "(3,)"), "12345678")), "the array is cut off: it has 12 bytes, and 8 are there");
  EXPECT_EQ(error_of(npy(header("<f4", "(1,)"), "12345678")), "4 bytes follow the array");
  EXPECT_THAT(error_of(npy(header("<f4", "(1000000000000,)"), "")), HasSubstr("the array is cut off"));
  EXPECT_THAT(error_of(npy(header("<f4", "(4611686018427387904,)"), "")), HasSubstr("integer overflow"));
  EXPECT_THAT(error_of(npy(header("<f4", "(4294967296, 4294967296)"), "")), HasSubstr("integer overflow"));
}

TEST_F(Npy, SurvivesEveryPrefixAndEveryChangedByte) {
  const std::string good = npy(header("<f4", "(2, 2)"), std::string(16, 'x'));
  ASSERT_TRUE(parse_npy(content_of(good)).ok());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_npy(content_of(good.substr(0, size))).ok()) << size;
  for (size_t at = 0; at < good.size(); ++at) {
    for (char byte : {'\0', '\xff', '(', '9', '\''}) {
      std::string changed = good;
      changed[at] = byte;
      (void)parse_npy(content_of(changed));
    }
  }
}

// ---- .npz -----------------------------------------------------------------------------------------------------------

TEST_F(Npy, WritesAndReadsArchives) {
  const NamedTensors tensors = {{"x", counting(DType::kF32, {2, 3})},
                                {"fc.weight", counting(DType::kI64, {})},
                                {"none", counting(DType::kBool, {0})}};
  ASSERT_TRUE(write_npz(path("x.npz"), tensors).ok());
  const NamedTensors read = read_npz(path("x.npz")).value();
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].first, tensors[i].first);
    EXPECT_TRUE(identical(read[i].second, tensors[i].second));
  }
  ASSERT_TRUE(write_npz(path("empty.npz"), {}).ok());
  EXPECT_TRUE(read_npz(path("empty.npz")).value().empty());
}

TEST_F(Npy, NamesTheArrayThatIsMalformed) {
  ZipWriter archive;
  const std::string bad = "hello";
  archive.add("x.npy", {std::as_bytes(std::span(bad))});
  ASSERT_TRUE(write_file(path("x.npz"), archive.finish()).ok());
  EXPECT_EQ(read_npz(path("x.npz")).diagnostic().text(), path("x.npz") + ": error: array 'x': not a .npy file");
}

TEST_F(Npy, RejectsTwoArraysOfOneName) {
  const NamedTensors twice = {{"x", counting(DType::kF32, {1})}, {"x", counting(DType::kF32, {2})}};
  ASSERT_TRUE(write_npz(path("x.npz"), twice).ok());
  EXPECT_THAT(read_npz(path("x.npz")).diagnostic().message, HasSubstr("two entries 'x.npy'"));
  ASSERT_TRUE(write_npy(path("x.npy"), counting(DType::kF32, {1})).ok());
  const FileContent array = read_file(path("x.npy")).value();
  ZipWriter archive;
  for (const char* name : {"x", "x.npy"}) archive.add(name, {array.bytes});
  ASSERT_TRUE(write_file(path("x.npz"), archive.finish()).ok());
  EXPECT_THAT(read_npz(path("x.npz")).diagnostic().message, HasSubstr("two arrays are named 'x'"));
}

TEST_F(Npy, SurvivesEveryPrefixAndEveryChangedByteOfAnArchive) {
  ASSERT_TRUE(write_npz(path("x.npz"), {{"x", counting(DType::kU8, {4})}, {"y", counting(DType::kU8, {4})}}).ok());
  const std::string good(read_file(path("x.npz")).value().text());
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_TRUE(write_file(path("cut.npz"), good.substr(0, size)).ok());
    EXPECT_FALSE(read_npz(path("cut.npz")).ok()) << size;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char byte : {'\0', '\1', '\xff'}) {
      std::string changed = good;
      changed[at] = byte;
      (void)read_zip(content_of(changed).bytes);
    }
  }
}

}  // namespace
}  // namespace tenon
