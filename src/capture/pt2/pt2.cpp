#include "capture/pt2/pt2.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "capture/pt2/archive.h"
#include "capture/pt2/schema.h"
#include "capture/pt2/verify.h"
#include "capture/pt2/weights.h"

namespace tenon {
namespace pt2 {
namespace {

struct ScalarTypeInfo {
  int64_t number;
  std::string_view name;
  std::optional<DType> dtype = {};
};

constexpr std::array kScalarTypes = {ScalarTypeInfo{1, "uint8", DType::kU8},
                                     ScalarTypeInfo{2, "int8", DType::kI8},
                                     ScalarTypeInfo{3, "int16", DType::kI16},
                                     ScalarTypeInfo{4, "int32", DType::kI32},
                                     ScalarTypeInfo{5, "int64", DType::kI64},
                                     ScalarTypeInfo{6, "float16", DType::kF16},
                                     ScalarTypeInfo{7, "float32", DType::kF32},
                                     ScalarTypeInfo{8, "float64", DType::kF64},
                                     ScalarTypeInfo{9, "complex32"},
                                     ScalarTypeInfo{10, "complex64"},
                                     ScalarTypeInfo{11, "complex128"},
                                     ScalarTypeInfo{12, "bool", DType::kBool},
                                     ScalarTypeInfo{13, "bfloat16", DType::kBF16},
                                     ScalarTypeInfo{28, "uint16"},
                                     ScalarTypeInfo{29, "float8_e4m3fn"},
                                     ScalarTypeInfo{30, "float8_e5m2"},
                                     ScalarTypeInfo{31, "float8_e4m3fnuz"},
                                     ScalarTypeInfo{32, "float8_e5m2fnuz"},
                                     ScalarTypeInfo{33, "float8_e8m0fnu"},
                                     ScalarTypeInfo{34, "uint32"},
                                     ScalarTypeInfo{35, "uint64"}};

const ScalarTypeInfo* info_of(int64_t number) {
  const auto* found = std::ranges::find(kScalarTypes, number, &ScalarTypeInfo::number);
  return found == kScalarTypes.end() ? nullptr : found;
}

ExportedProgram read(const FileContent& file, std::string_view model) {
  const Archive archive(file);
  const std::string name = archive.model_named(model);
  const std::string entry = fmt::format("models/{}.json", name);
  const auto document = archive.json(entry);
  ExportedProgram program = SchemaReader().program(document->root());
  program.name = name;
  program.weights = read_weights(archive, name);
  program.constants = read_constants(archive, name);
  verify(program, entry);
  return program;
}

}  // namespace

std::string TorchDType::name() const {
  const ScalarTypeInfo* info = info_of(number);
  return info != nullptr ? std::string(info->name) : fmt::format("dtype number {}", number);
}

std::optional<DType> TorchDType::dtype() const {
  const ScalarTypeInfo* info = info_of(number);
  return info != nullptr ? info->dtype : std::nullopt;
}

DType TorchDType::require() const {
  if (const auto known = dtype()) return *known;
  fail("Tenon has no dtype {}: use f64 f32 f16 bf16 i64 i32 i16 i8 u8 or bool", name());
}

const symbolic::Expr& SymValue::require() const {
  if (!problem.empty()) fail("{}", problem);
  return expr;
}

std::vector<symbolic::Expr> TensorMeta::shape() const {
  std::vector<symbolic::Expr> result;
  for (const SymValue& size : sizes) result.push_back(size.require());
  return result;
}

const Tensor& Weight::require() const {
  if (!problem.empty()) fail("{}", problem);
  return tensor;
}

const Weight* ExportedProgram::find_data(const InputSpec& input) const {
  const bool in_weights = input.kind == InputKind::kParameter || (input.kind == InputKind::kBuffer && input.persistent);
  const Dictionary<Weight>& home = in_weights ? weights : constants;
  const auto found = home.find(input.target);
  return found == home.end() ? nullptr : &found->second;
}

}  // namespace pt2

Result<pt2::ExportedProgram> read_pt2(const FileContent& file, std::string_view model) {
  return attempt([&] { return pt2::read(file, model); });
}

Result<pt2::ExportedProgram> read_pt2(const std::string& path, std::string_view model) {
  Result<FileContent> file = read_file(path);
  if (!file.ok()) return file.diagnostic();
  Result<pt2::ExportedProgram> program = read_pt2(*file, model);
  if (!program.ok()) return Diagnostic{program.diagnostic().message, {path}};
  return program;
}

}  // namespace tenon
