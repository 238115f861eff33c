#include "runtime/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/error.h"

namespace tenon::runtime {
namespace {

constexpr uint64_t kMostRules = 4096;
constexpr int64_t kMostAlignment = 1 << 20;
constexpr uint64_t kMostScratch = uint64_t{1} << 48;

template <class... Args, class... Given>
void call(std::string_view device, tenon_status (*function)(Args...), Given... given) {
  HostFailure failure;
  failure.check(function(given..., failure.place()), "device ", device);
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 31 && name != "cpu" &&
         std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

DeviceInfo checked_info(const tenon_device_info& info) {
  const std::string_view name = info.name == nullptr ? "" : info.name;
  if (!is_name(name)) {
    fail(TENON_INVALID_ARGUMENT, "a device calls itself '", name,
         "'; a name has lower-case letters, digits and _, and is not cpu");
  }
  if (info.rule_count > kMostRules || (info.rule_count > 0 && info.rules == nullptr))
    fail(TENON_INVALID_ARGUMENT, "device ", name, " describes ", info.rule_count, " rules, which are not there");
  for (uint64_t i = 0; i < info.rule_count; ++i) {
    if (info.rules[i].op == nullptr) fail(TENON_INVALID_ARGUMENT, "device ", name, ": rule ", i, " names no op");
  }
  const auto alignment = static_cast<int64_t>(info.alignment == 0 ? kAlignment : info.alignment);
  if (alignment < 1 || alignment > kMostAlignment || (alignment & (alignment - 1)) != 0)
    fail(TENON_INVALID_ARGUMENT, "device ", name, " aligns to ", alignment, ", which is not a power of two up to ",
         kMostAlignment);
  return {.name = std::string(name),
          .version = info.version == nullptr ? "" : info.version,
          .doc = info.doc == nullptr ? "" : info.doc,
          .flags = info.flags,
          .rules = {info.rules, info.rule_count},
          .memory = static_cast<int64_t>(std::min<uint64_t>(info.memory, INT64_MAX)),
          .alignment = std::max(alignment, kAlignment),
          .crossing_seconds = std::max(info.crossing_seconds, 0.0),
          .bytes_per_second = std::max(info.bytes_per_second, 0.0),
          .tiles = info.tiles};
}

tenon_device_api checked_api(const tenon_device_api& given) {
  tenon_device_api api = {};
  if (given.size < offsetof(tenon_device_api, describe) + sizeof(api.describe))
    fail(TENON_INVALID_ARGUMENT, "a plug-in's table has a size of ", given.size);
  std::memcpy(&api, &given, std::min(given.size, sizeof(api)));
  const bool is_whole = api.describe && api.open && api.compile && api.load && api.submit;
  if (!is_whole) fail(TENON_INVALID_ARGUMENT, "a plug-in lacks describe, open, compile, load or submit");
  if ((api.allocate == nullptr) != (api.free == nullptr) || (api.allocate != nullptr && api.copy == nullptr))
    fail(TENON_INVALID_ARGUMENT, "a plug-in with memory of its own has allocate, free and copy");
  return api;
}

}  // namespace

// ---- a device -------------------------------------------------------------------------------------------------------

DeviceInfo Device::described(const tenon_device_api& api, const std::string& options) {
  tenon_device_info info{.size = sizeof(tenon_device_info)};
  call("of a plug-in", checked_api(api).describe, options.c_str(), &info);
  return checked_info(info);
}

Device::Device(const tenon_device_api& api, std::string options)
    : api_(checked_api(api)), options_(std::move(options)), info_(described(api, options_)) {
  call(info_.name, api_.open, options_.c_str(), &device_);
}

Device::~Device() {
  if (api_.release != nullptr) api_.release(device_, nullptr);
}

tenon_claim Device::claim(const tenon_segment& segment) {
  const std::lock_guard lock(mutex_);
  tenon_claim claim{.size = sizeof(tenon_claim), .seconds = -1};
  call(info_.name, api_.claim, device_, &segment, &claim);
  return claim;
}

Device::Code Device::compile(const tenon_segment& segment) {
  const std::lock_guard lock(mutex_);
  Code code;
  tenon_sink sink{.size = sizeof(tenon_sink), .self = &code.bytes};
  sink.write = [](void* self, const void* bytes, size_t count) -> tenon_status {
    auto& to = *static_cast<std::vector<std::byte>*>(self);
    const auto* const from = static_cast<const std::byte*>(bytes);
    try {
      to.insert(to.end(), from, from + count);
    } catch (const std::exception&) {
      return TENON_OUT_OF_MEMORY;
    }
    return TENON_OK;
  };
  call(info_.name, api_.compile, device_, &segment, &sink);
  code.scratch_bytes = sink.scratch_bytes;
  return code;
}

void* Device::allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (info_.memory > 0 && bytes > info_.memory - used())
    fail(TENON_OUT_OF_MEMORY, "device ", info_.name, " has ", info_.memory, " bytes, and ", used(),
         " are in use: there is no room for ", bytes, " more");
  void* memory = nullptr;
  const auto alignment = static_cast<size_t>(info_.alignment);
  if (api_.allocate == nullptr) {
    memory = std::aligned_alloc(alignment, static_cast<size_t>(checked_add(bytes, info_.alignment)) & ~(alignment - 1));
  } else {
    call(info_.name, api_.allocate, device_, static_cast<uint64_t>(bytes), static_cast<uint64_t>(alignment), &memory);
  }
  if (memory == nullptr) fail(TENON_OUT_OF_MEMORY, "device ", info_.name, " has no memory for ", bytes, " bytes");
  used_ += bytes;
  return memory;
}

void Device::free(void* memory, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  api_.free == nullptr ? std::free(memory) : api_.free(device_, memory);
}

Ticket Device::copy_in(void* to, const void* from, int64_t bytes) { return copy(to, from, bytes, true); }
Ticket Device::copy_out(void* to, const void* from, int64_t bytes) { return copy(to, from, bytes, false); }

Ticket Device::copy(void* to, const void* from, int64_t bytes, bool to_device) {
  if (bytes == 0) return kDone;
  const std::lock_guard lock(mutex_);
  Ticket ticket = kDone;
  if (api_.copy == nullptr) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else {
    call(info_.name, api_.copy, device_, to, from, static_cast<uint64_t>(bytes), static_cast<int>(to_device), &ticket);
  }
  return api_.wait == nullptr ? kDone : ticket;
}

Ticket Device::submit(tenon_device_program* program, const tenon_launch& launch) {
  const std::lock_guard lock(mutex_);
  Ticket ticket = kDone;
  call(info_.name, api_.submit, device_, program, &launch, &ticket);
  return api_.wait == nullptr ? kDone : ticket;
}

void Device::wait(Ticket ticket) {
  if (ticket != kDone) call(info_.name, api_.wait, device_, ticket);
}

tenon_device_event Device::event_of(Ticket ticket) {
  constexpr uint64_t kMost = 256;
  constexpr size_t kKept = 1 << 16;  // of runs that are not profiled
  const std::lock_guard lock(mutex_);
  for (uint64_t count = kMost; count >= kMost;) {
    const size_t known = events_.size() < kKept ? events_.size() : 0;
    events_.resize(known + kMost);
    count = 0;
    call(info_.name, api_.events, device_, events_.data() + known, kMost, &count);
    events_.resize(known + std::min(count, kMost));
  }
  const auto found = std::ranges::find(events_, ticket, &tenon_device_event::ticket);
  if (found == events_.end()) return {};
  const tenon_device_event event = *found;
  events_.erase(found);
  return event;
}

// ---- programs and memory --------------------------------------------------------------------------------------------

DeviceProgram::DeviceProgram(std::shared_ptr<Device> device, Device::Code code)
    : device_(std::move(device)), code_(std::move(code)) {
  if (code_.scratch_bytes > kMostScratch)
    fail(TENON_RUN_FAILED, "device ", device_->info_.name, " wants ", code_.scratch_bytes, " bytes of scratch");
  const std::lock_guard lock(device_->mutex_);
  call(device_->info_.name, device_->api_.load, device_->device_, static_cast<const void*>(code_.bytes.data()),
       code_.bytes.size(), &program_);
}

DeviceProgram::~DeviceProgram() {
  const std::lock_guard lock(device_->mutex_);
  if (device_->api_.release != nullptr && program_ != nullptr) device_->api_.release(device_->device_, program_);
}

DeviceBlock::DeviceBlock(std::shared_ptr<Device> device, int64_t bytes)
    : device_(std::move(device)), data_(static_cast<std::byte*>(device_->allocate(bytes))), bytes_(bytes) {}

DeviceBlock::DeviceBlock(std::shared_ptr<Device> device, void* data, int64_t bytes, std::shared_ptr<void> owner)
    : device_(std::move(device)),
      owner_(std::move(owner)),
      is_own_(false),
      data_(static_cast<std::byte*>(data)),
      bytes_(bytes) {}

DeviceBlock::~DeviceBlock() {
  if (data_ != nullptr && is_own_) device_->free(data_, bytes_);
}

}  // namespace tenon::runtime
