#include "capture/pt2/weights.h"

#include <fmt/format.h>

#include <cstring>

#include "capture/pt2/schema.h"
#include "support/checked.h"

namespace tenon::pt2 {
namespace {

constexpr size_t kAlignment = 8;  // of the largest element
// A tensor may repeat its elements by a stride of 0, and so stand for far more than is stored. Somebody will make it
// whole, so there is a limit.
constexpr int64_t kLargestRepeated = int64_t{1} << 30;

struct Storage {
  Bytes bytes;
  std::shared_ptr<void> owner;
};

// One of weights and constants: a folder with a list of what is in it.
class Payloads {
 public:
  Payloads(const Archive& archive, std::string folder) : archive_(archive), folder_(std::move(folder)) {}

  Dictionary<Weight> read(const std::string& config) {
    const auto document = archive_.json(folder_ + config);
    Dictionary<Weight> result;
    const Json entries = document->root()["config"];
    entries.for_each_member([&](std::string_view name, const Json& entry) {
      if (!result.emplace(std::string(name), weight(entry)).second) entries.fail("'{}' appears twice", name);
    });
    return result;
  }

 private:
  Weight weight(const Json& json) {
    const std::string path = folder_ + std::string(json["path_name"].string());
    Weight weight;
    weight.is_parameter = json["is_param"].boolean();
    weight.pickled = json["use_pickle"].boolean();
    if (weight.pickled) {
      weight.problem = fmt::format("'{}' is pickled, and only Python can load it", path);
      return weight;
    }
    const Json meta_json = json["tensor_meta"];
    const TensorMeta meta = schema_.tensor_meta(meta_json);
    weight.dtype = meta.dtype;
    weight.requires_grad = meta.requires_grad;
    if (archive_.find(path) == nullptr) json.fail("'{}' is missing in the archive", path);
    if (meta.layout != Layout::kStrided) {
      weight.problem =
          fmt::format("'{}' has the layout {}, and only strided ones are supported", path, name_of(meta.layout));
    } else if (!meta.dtype.dtype()) {
      weight.problem = fmt::format("'{}' has the dtype {}, which Tenon lacks", path, meta.dtype.name());
      weight.foreign = meta_json.located([&] { return foreign(path, meta); });
    } else {
      weight.tensor = meta_json.located([&] { return tensor(path, meta); });
    }
    return weight;
  }

  Tensor tensor(const std::string& path, const TensorMeta& meta) {
    const DType dtype = *meta.dtype.dtype();
    Sizes sizes = constants(meta.sizes, "size");
    Sizes strides = constants(meta.strides, "stride");
    const int64_t offset = constant(meta.storage_offset, "storage offset");
    if (offset < 0) fail("the storage offset {} is negative", offset);
    const Storage& storage = storage_of(path);
    check_extent(path, storage.bytes.size(), dtype, sizes, strides, offset);
    const bool is_empty = element_count(sizes) == 0;
    std::byte* data = is_empty ? nullptr : storage.bytes.data() + offset * size_of(dtype);
    return Tensor::borrow(dtype, std::move(sizes), std::move(strides), data, storage.owner);
  }

  std::shared_ptr<const ForeignData> foreign(const std::string& path, const TensorMeta& meta) {
    const Storage& storage = storage_of(path);
    const auto size = static_cast<int64_t>(storage.bytes.size());
    return std::make_shared<ForeignData>(
        ForeignData{Tensor::borrow(DType::kU8, {size}, {1}, storage.bytes.data(), storage.owner), meta.dtype,
                    constants(meta.sizes, "size"), constants(meta.strides, "stride"),
                    constant(meta.storage_offset, "storage offset")});
  }

  static int64_t constant(const SymValue& value, std::string_view what) {
    const symbolic::Expr& expr = value.require();
    if (!expr.is_constant()) fail("the {} {} of stored data is not a number", what, expr);
    return expr.constant();
  }

  static Sizes constants(const std::vector<SymValue>& values, std::string_view what) {
    Sizes result;
    for (const SymValue& value : values) result.push_back(constant(value, what));
    return result;
  }

  static void check_extent(const std::string& path, size_t stored, DType dtype, const Sizes& sizes,
                           const Sizes& strides, int64_t offset) {
    const int64_t count = element_count(sizes);
    if (count == 0) return;
    const auto available = static_cast<int64_t>(stored);
    if (available == 0) fail("'{}' has no data: the model was exported without its weights", path);
    int64_t last = offset;
    for (size_t dim = 0; dim < sizes.size(); ++dim) last = checked_add(last, checked_mul(sizes[dim] - 1, strides[dim]));
    const int64_t needed = checked_mul(checked_add(last, 1), size_of(dtype));
    if (needed > available) fail("the tensor needs {} bytes of '{}', which has {}", needed, path, available);
    const int64_t whole = checked_mul(count, size_of(dtype));
    if (whole > std::max(available, kLargestRepeated)) {
      fail("the tensor repeats the {} bytes of '{}' to {} bytes", available, path, whole);
    }
  }

  // Of one entry, for all tensors in it. PyTorch aligns entries; an archive that was packed anew may not.
  const Storage& storage_of(const std::string& path) {
    const auto [found, is_new] = storages_.try_emplace(path);
    if (!is_new) return found->second;
    const Bytes bytes = archive_.entry(path).data;
    const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0;
    found->second = is_aligned ? Storage{bytes, archive_.file().owner} : aligned_copy(bytes);
    return found->second;
  }

  static Storage aligned_copy(Bytes bytes) {
    const Tensor copy = Tensor::zeros(DType::kU8, {static_cast<int64_t>(bytes.size())});
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return {Bytes(copy.data(), bytes.size()), copy.owner()};
  }

  const Archive& archive_;
  std::string folder_;
  SchemaReader schema_;
  std::map<std::string, Storage> storages_;
};

// Before PyTorch 2.9 all tensors were one pickle.
void check_not_legacy(const Archive& archive, const std::string& folder, const std::string& model) {
  const std::string legacy = folder + model + ".pt";
  if (archive.find(legacy) == nullptr) return;
  fail("'{}' is pickled, and only Python can load it: load the file with torch.export.load, and save it again", legacy);
}

Dictionary<Weight> read_payloads(const Archive& archive, const std::string& folder, const std::string& model,
                                 std::string_view suffix) {
  check_not_legacy(archive, folder, model);
  return Payloads(archive, folder).read(fmt::format("{}{}", model, suffix));
}

}  // namespace

Dictionary<Weight> read_weights(const Archive& archive, const std::string& model) {
  return read_payloads(archive, "data/weights/", model, "_weights_config.json");
}

Dictionary<Weight> read_constants(const Archive& archive, const std::string& model) {
  return read_payloads(archive, "data/constants/", model, "_constants_config.json");
}

}  // namespace tenon::pt2
