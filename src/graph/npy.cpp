#include "graph/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "support/checked.h"
#include "support/cursor.h"
#include "support/zip.h"

namespace tenon {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLongestHeader = size_t{1} << 20;
constexpr size_t kLargestRank = 64;  // NumPy's
constexpr size_t kAlignment = 64;
constexpr std::string_view kSuffix = ".npy";

struct Code {
  DType dtype;
  std::string_view code;  // without the byte order
};

constexpr std::array kCodes = {Code{DType::kF64, "f8"},  Code{DType::kF32, "f4"}, Code{DType::kF16, "f2"},
                               Code{DType::kBF16, "V2"}, Code{DType::kI64, "i8"}, Code{DType::kI32, "i4"},
                               Code{DType::kI16, "i2"},  Code{DType::kI8, "i1"},  Code{DType::kU8, "u1"},
                               Code{DType::kBool, "b1"}};

struct Header {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran_order = false;
  Sizes shape;
};

// ---- reading --------------------------------------------------------------------------------------------------------

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : cursor_(text) {}

  Header parse() {
    cursor_.expect("{");
    while (!cursor_.accept("}")) {
      parse_entry();
      if (!cursor_.accept(",")) {
        cursor_.expect("}");
        break;
      }
    }
    if (!cursor_.at_end()) cursor_.fail("text after the dictionary");
    for (std::string_view key : {"descr", "fortran_order", "shape"}) {
      if (!seen_.contains(key)) fail("'{}' is missing", key);
    }
    return header_;
  }

 private:
  void parse_entry() {
    const std::string_view key = quoted("a key");
    cursor_.expect(":");
    if (!seen_.insert(key).second) fail("'{}' appears twice", key);
    if (key == "descr") return parse_descr();
    if (key == "fortran_order") return parse_order();
    if (key == "shape") return parse_shape();
    fail("unknown key '{}'", key);
  }

  std::string_view quoted(std::string_view what) {
    for (std::string_view quote : {"'", "\""}) {
      if (!cursor_.accept(quote)) continue;
      const std::string_view text = cursor_.until(quote);
      cursor_.expect(quote);
      return text;
    }
    cursor_.fail("expected {} in quotes", what);
  }

  void parse_descr() {
    if (cursor_.peek() == '[') fail("structured arrays are not supported; save each field as an array of its own");
    const std::string_view descr = quoted("a dtype");
    const auto known = std::ranges::find(kCodes, descr.substr(std::min<size_t>(1, descr.size())), &Code::code);
    if (known == kCodes.end() || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) {
      fail(
          "dtype '{}' is not supported; cast the array to float64, float32, float16, bfloat16 (of ml_dtypes), int64, "
          "int32, int16, int8, uint8 or bool",
          descr);
    }
    header_.dtype = known->dtype;
    header_.big_endian = descr[0] == '>';
  }

  void parse_order() {
    header_.fortran_order = cursor_.accept_word("True");
    if (!header_.fortran_order && !cursor_.accept_word("False")) cursor_.fail("expected True or False");
  }

  void parse_shape() {
    cursor_.expect("(");
    while (!cursor_.accept(")")) {
      const int64_t size = cursor_.integer("a size");
      if (size < 0) fail("the size {} is negative", size);
      if (header_.shape.size() == kLargestRank) fail("more than {} dimensions", kLargestRank);
      header_.shape.push_back(size);
      cursor_.accept("L");  // as Python 2 wrote it
      if (cursor_.accept(",")) continue;
      cursor_.expect(")");
      break;
    }
  }

  Cursor cursor_;
  Header header_;
  std::set<std::string_view> seen_;
};

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

struct Parts {
  std::string_view header;
  Bytes data;
};

Parts split(Bytes file) {
  constexpr size_t kFixed = 8;  // the magic and the version
  if (file.size() < kFixed || !text_of(file).starts_with(kMagic)) fail("not a .npy file");
  const auto major = static_cast<int>(file[6]);
  if (major < 1 || major > 3) fail("version {} of the .npy format is not supported", major);
  const size_t width = major == 1 ? 2 : 4;
  if (file.size() < kFixed + width) fail("the .npy header is cut off");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= static_cast<size_t>(file[kFixed + i]) << (8 * i);
  if (length > kLongestHeader) fail("the .npy header of {} bytes is too long", length);
  const Bytes rest = file.subspan(kFixed + width);
  if (length > rest.size()) {
    fail("the .npy header is cut off: it has {} bytes, and the file has {} more", length, rest.size());
  }
  return {text_of(rest.first(length)), rest.subspan(length)};
}

Header parse_header(std::string_view text) {
  try {
    return HeaderParser(text).parse();
  } catch (const Error& error) {
    fail("malformed .npy header: {}", error.diagnostic().message);
  }
}

void swap_bytes(Tensor& tensor) {
  const int64_t size = size_of(tensor.dtype());
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    std::byte* element = tensor.data() + i * size;
    std::reverse(element, element + size);
  }
}

// A byte that is neither 0 nor 1 is true.
void normalize_bools(Tensor& tensor) {
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_integer(i, tensor.integer(i));
}

Tensor from_fortran_order(const Tensor& flat, const Sizes& shape) {
  Sizes reversed(shape.rbegin(), shape.rend());
  Sizes strides = contiguous_strides(reversed);
  std::ranges::reverse(strides);
  return Tensor::borrow(flat.dtype(), shape, std::move(strides), flat.data(), flat.owner()).contiguous();
}

Tensor make_tensor(const Header& header, Bytes data, const std::shared_ptr<void>& owner) {
  const bool aligned = reinterpret_cast<uintptr_t>(data.data()) % static_cast<size_t>(size_of(header.dtype)) == 0;
  const bool in_place = aligned && !header.big_endian && header.dtype != DType::kBool && owner != nullptr;
  if (in_place && !header.fortran_order) {
    return Tensor::borrow(header.dtype, header.shape, contiguous_strides(header.shape), data.data(), owner);
  }
  Tensor tensor = Tensor::zeros(header.dtype, header.shape);
  if (!data.empty()) std::memcpy(tensor.data(), data.data(), data.size());
  if (header.big_endian) swap_bytes(tensor);
  if (header.dtype == DType::kBool) normalize_bools(tensor);
  return header.fortran_order ? from_fortran_order(tensor, header.shape) : tensor;
}

Tensor parse(const FileContent& file) {
  const Parts parts = split(file.bytes);
  const Header header = parse_header(parts.header);
  const int64_t bytes = checked_mul(element_count(header.shape), size_of(header.dtype));
  const auto given = static_cast<int64_t>(parts.data.size());
  if (bytes > given) fail("the array is cut off: it has {} bytes, and {} are there", bytes, given);
  if (bytes < given) fail("{} bytes follow the array", given - bytes);
  return make_tensor(header, parts.data, file.owner);
}

NamedTensors parse_archive(const FileContent& file) {
  NamedTensors tensors;
  std::set<std::string> names;
  for (const ZipEntry& entry : read_zip(file.bytes).value()) {
    check_crc(entry);
    std::string name = entry.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    if (!names.insert(name).second) fail("two arrays are named '{}'", name);
    Result<Tensor> tensor = parse_npy({entry.data, file.owner});
    if (!tensor.ok()) fail("array '{}': {}", name, tensor.diagnostic().message);
    tensors.emplace_back(std::move(name), *std::move(tensor));
  }
  return tensors;
}

// Reads a file, and names it in what goes wrong with its content.
template <class Parse>
auto read_with(const std::string& path, Parse parse_content) {
  const FileContent file = read_file(path).value();
  try {
    return parse_content(file);
  } catch (const Error& error) {
    throw Error({error.diagnostic().message, {path}});
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------

std::string descr_of(DType dtype) {
  const auto code = std::ranges::find(kCodes, dtype, &Code::dtype);
  return fmt::format("{}{}", size_of(dtype) == 1 ? '|' : '<', code->code);
}

std::string tuple_of(const Sizes& shape) {
  std::string text = "(";
  for (size_t dim = 0; dim < shape.size(); ++dim) text += (dim > 0 ? " " : "") + std::to_string(shape[dim]) + ",";
  if (shape.size() > 1) text.pop_back();
  return text + ")";
}

std::string header_of(const Tensor& tensor) {
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                       descr_of(tensor.dtype()), tuple_of(tensor.shape()));
  const size_t fixed = kMagic.size() + 4;
  const size_t total = (fixed + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  dictionary.resize(total - fixed - 1, ' ');
  const size_t length = dictionary.size() + 1;
  if (length > 0xffff) fail("a tensor of rank {} does not fit a .npy header", tensor.rank());
  const char version_and_length[] = {1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return std::string(kMagic) + std::string(version_and_length, 4) + dictionary + "\n";
}

// One array as a file: its header, and its elements in row-major order.
struct Image {
  explicit Image(const Tensor& tensor) : elements(tensor.contiguous()), header(header_of(elements)) {}

  std::vector<std::span<const std::byte>> pieces() const {
    const auto size = static_cast<size_t>(elements.numel() * size_of(elements.dtype()));
    return {std::as_bytes(std::span(header)), {elements.data(), size}};
  }

  Tensor elements;
  std::string header;
};

}  // namespace

Result<Tensor> parse_npy(const FileContent& file) {
  return attempt([&] { return parse(file); });
}

Result<Tensor> read_npy(const std::string& path) {
  return attempt([&] { return read_with(path, parse); });
}

Result<NamedTensors> read_npz(const std::string& path) {
  return attempt([&] { return read_with(path, parse_archive); });
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  return attempt([&] { write_file(path, Image(tensor).pieces()).value(); });
}

Status write_npz(const std::string& path, const NamedTensors& tensors) {
  return attempt([&] {
    std::vector<Image> images;
    for (const auto& [name, tensor] : tensors) images.emplace_back(tensor);
    ZipWriter archive;
    for (size_t i = 0; i < images.size(); ++i) archive.add(tensors[i].first + std::string(kSuffix), images[i].pieces());
    write_file(path, archive.finish()).value();
  });
}

}  // namespace tenon
