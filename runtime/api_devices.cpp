// The C interface of devices: plug-ins, and tensors in the memory of devices.
#include <cstring>

#include "runtime/api.h"
#include "runtime/checked.h"
#include "runtime/elements.h"
#include "runtime/shared.h"
#include "runtime/strided.h"
#include "tenon/device.h"

using namespace tenon::runtime;  // NOLINT: this file is a face of it

struct tenon_device_tensor {
  std::shared_ptr<DeviceTensor> memory;
  tenon_dtype dtype;
  std::vector<int64_t> shape;
};

namespace {

int64_t bytes_of(const tenon_tensor& tensor) {
  int64_t bytes = size_of(tensor.dtype);
  for (int32_t i = 0; i < tensor.rank; ++i) bytes = checked_mul(bytes, tensor.shape[i]);
  return bytes;
}

// Row-major to other strides, or back.
void copy_rows(const tenon_tensor& tensor, std::byte* rows, bool to_rows) {
  const std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.rank));
  std::vector<int64_t> row_major(shape.size());
  row_major_strides(shape, row_major);
  const std::span<const int64_t> strides = tensor.strides ? std::span(tensor.strides, shape.size()) : row_major;
  const size_t element = tenon_dtype_size(tensor.dtype);
  if (to_rows)
    copy_strided(shape, element, rows, row_major, tensor.data, strides);
  else
    copy_strided(shape, element, tensor.data, strides, rows, row_major);
}

void check_type(const tenon_tensor& tensor) {
  tenon_tensor type = tensor;
  std::byte nothing[8] = {};
  if (type.data == nullptr) type.data = nothing;
  check_tensor(type);
}

tenon_device_tensor* made_of(const tenon_tensor& type, DeviceBlock block) {
  return new tenon_device_tensor{
      new_shared<DeviceTensor>(std::move(block)), type.dtype, {type.shape, type.shape + type.rank}};
}

void check_same(const tenon_device_tensor& tensor, const tenon_tensor& other) {
  if (other.dtype == tensor.dtype &&
      std::ranges::equal(tensor.shape, std::span(other.shape, static_cast<size_t>(other.rank))))
    return;
  fail(TENON_INVALID_ARGUMENT, "the tensor is ", tenon_dtype_name(tensor.dtype), tensor.shape, ", got memory for ",
       tenon_dtype_name(other.dtype), std::span(other.shape, static_cast<size_t>(other.rank)));
}

tenon_tensor type_of(const tenon_device_tensor& tensor) {
  return {nullptr, tensor.dtype, static_cast<int32_t>(tensor.shape.size()), tensor.shape.data(), nullptr};
}

}  // namespace

// ---- plug-ins ----

tenon_status tenon_load_plugin(const char* path, const char** name) {
  return guarded([=] {
    demand(path != nullptr, "tenon_load_plugin needs a path");
    const std::string_view loaded = load_plugin(path);
    if (name != nullptr) *name = loaded.data();
  });
}

tenon_status tenon_register_device(tenon_device_plugin plugin, const char** name) {
  return guarded([=] {
    demand(plugin != nullptr, "tenon_register_device needs a plug-in");
    const std::string_view registered = register_plugin(plugin);
    if (name != nullptr) *name = registered.data();
  });
}

size_t tenon_device_count(void) {
  size_t count = 0;
  guarded([&] { count = device_names().size(); });
  return count;
}

const char* tenon_device_name(size_t device) {
  const char* name = "";
  guarded([&] {
    const std::vector<std::string_view> names = device_names();
    demand_below(device, names.size(), "device");
    name = names[device].data();
  });
  return name;
}

// ---- tensors ----

tenon_status tenon_device_tensor_create(const char* device, const tenon_tensor* tensor, tenon_device_tensor** made) {
  return guarded([=] {
    demand(device != nullptr && tensor != nullptr && made != nullptr,
           "tenon_device_tensor_create needs a device, a tensor and a place for what it makes");
    check_type(*tensor);
    DeviceBlock block(open_device(device), bytes_of(*tensor));
    if (tensor->data != nullptr) {
      std::vector<std::byte> rows(static_cast<size_t>(block.bytes()));
      copy_rows(*tensor, rows.data(), true);
      block.device()->wait(block.device()->copy_in(block.data(), rows.data(), block.bytes()));
    }
    *made = made_of(*tensor, std::move(block));
  });
}

tenon_status tenon_device_tensor_wrap(const char* device, const tenon_tensor* tensor, void (*release)(void* owner),
                                      void* owner, tenon_device_tensor** made) {
  return guarded([=] {
    demand(device != nullptr && tensor != nullptr && made != nullptr,
           "tenon_device_tensor_wrap needs a device, a tensor and a place for what it makes");
    demand(tensor->data != nullptr && tensor->strides == nullptr, "the tensor must have data, row-major");
    check_tensor(*tensor);
    const std::shared_ptr<Device> opened = open_device(device);
    const auto alignment = static_cast<uintptr_t>(opened->info().alignment);
    if (reinterpret_cast<uintptr_t>(tensor->data) % alignment != 0)
      fail(TENON_INVALID_ARGUMENT, "the tensor's address is not aligned to ", alignment, ", as ", device, " wants it");
    const auto keep = [](void*) {};
    const std::shared_ptr<void> kept = owned(owner, release != nullptr ? release : keep);
    *made = made_of(*tensor, DeviceBlock(opened, tensor->data, bytes_of(*tensor), kept));
  });
}

void tenon_device_tensor_free(tenon_device_tensor* tensor) { delete tensor; }

tenon_status tenon_device_tensor_info(tenon_device_tensor* tensor, const char** device, tenon_tensor* info) {
  return guarded([=] {
    demand(tensor != nullptr && info != nullptr, "tenon_device_tensor_info needs a tensor and a place for its type");
    *info = type_of(*tensor);
    info->data = tensor->memory->on_device(tensor->memory->device());
    if (device != nullptr) *device = tensor->memory->device()->info().name.c_str();
  });
}

tenon_status tenon_device_tensor_read(tenon_device_tensor* tensor, const tenon_tensor* to) {
  return guarded([=] {
    demand(tensor != nullptr && to != nullptr, "tenon_device_tensor_read needs a tensor and memory");
    check_tensor(*to);
    check_same(*tensor, *to);
    copy_rows(*to, tensor->memory->on_host(), false);
  });
}

tenon_status tenon_set_input_on_device(tenon_context* context, size_t input, tenon_device_tensor* tensor) {
  return guarded([=] {
    demand(context != nullptr && tensor != nullptr, "tenon_set_input_on_device needs a context and a tensor");
    demand_below(input, context->owner->inputs.size(), "input");
    context->context.set_input(input, type_of(*tensor), tensor->memory);
  });
}

tenon_status tenon_set_output_on_device(tenon_context* context, size_t output, tenon_device_tensor* tensor) {
  return guarded([=] {
    demand(context != nullptr && tensor != nullptr, "tenon_set_output_on_device needs a context and a tensor");
    demand_below(output, context->owner->outputs.size(), "output");
    context->context.set_output(output, type_of(*tensor), tensor->memory);
  });
}
