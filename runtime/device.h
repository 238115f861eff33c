// Devices: memory and code beside the CPU, behind the table of functions of include/tenon/device.h.
//
// A Device is an open device of a plug-in. It gives null entries of the table their defaults, checks what the plug-in
// returns, and throws a StatusError where the plug-in reports a failure. With a time limit (plugin_call.h), a call that
// does not return makes the device lost: every later call fails, and nothing that the plug-in may still touch is freed.
// The CPU needs none of this: tasks of the CPU run without a call to a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/device_debug.h"

namespace tenon::runtime {

// What describe() says, checked. The texts belong to the plug-in.
struct DeviceInfo {
  std::string name;
  std::string version;
  std::string doc;
  uint64_t flags = 0;
  std::span<const tenon_op_rule> rules = {};
  int64_t memory = 0;  // bytes; 0: not known
  int64_t alignment = 0;
  double crossing_seconds = 0;
  double bytes_per_second = 0;
  const tenon_tile_machine* tiles = nullptr;  // null: it is no tile machine. The compiler checks it.
  std::string build =
      {};  // a digest of the library that it is from: caches keep its code apart. Empty: of this program

  // Code of one identity runs on a device of the same identity: "npu 1.2".
  std::string identity() const { return name + " " + version; }
};

using Ticket = uint64_t;
inline constexpr Ticket kDone = 0;

class Device {
 public:
  // `options` is what the user wrote after the name. Throws a StatusError.
  Device(const tenon_device_api& api, std::string options, std::string build = "",
         const tenon_device_debug_api* debug = nullptr);
  ~Device();
  Device(const Device&) = delete;

  static DeviceInfo described(const tenon_device_api& api, const std::string& options);
  const DeviceInfo& info() const { return info_; }
  std::string spec() const { return options_.empty() ? info_.name : info_.name + ":" + options_; }
  bool has_claim() const { return api_.claim != nullptr; }
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  void refuse_if_lost();  // throws a StatusError that says why

  // ---- compilation ----
  // `owner` has the segment's memory: a lost device keeps it.
  tenon_claim claim(const tenon_segment& segment, std::shared_ptr<const void> owner);
  struct Code {
    std::vector<std::byte> bytes;
    uint64_t scratch_bytes = 0;
  };
  Code compile(const tenon_segment& segment, std::shared_ptr<const void> owner);

  // ---- memory ----
  // Aligned as the device wants it. What all programs and contexts hold may not exceed the memory that the device has.
  void* allocate(int64_t bytes);
  void free(void* memory, int64_t bytes);
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  // Throws a StatusError if the zones around blocks in the host's memory were written.
  void check_zones();

  // ---- the queue: launches and copies run in order. wait() must be called once for each ticket but kDone. ----
  Ticket copy_in(void* to, const void* from, int64_t bytes);
  Ticket copy_out(void* to, const void* from, int64_t bytes);
  Ticket submit(tenon_device_program* program, const tenon_launch& launch);
  void wait(Ticket ticket);

  // ---- times ----
  bool has_events() const { return api_.events != nullptr; }
  // When a launch or copy ran, after it was waited for. Each is given once; all 0 where the device does not know any
  // more.
  tenon_device_event event_of(Ticket ticket);

  // ---- tools, which call the plug-in themselves ----
  const tenon_device_debug_api* debug() const { return debug_; }  // null: the plug-in offers none
  tenon_device* handle() const { return device_; }

 private:
  friend class DeviceProgram;
  struct Sink;
  // Host memory that a copy uses in place of the caller's, while there is a time limit.
  struct Staged {
    void* to = nullptr;  // null: a copy to the device
    std::shared_ptr<std::vector<std::byte>> bytes;
    void finish() const;
  };

  // Calls a function of the plug-in (call_plugin), unless the device is lost.
  template <class Result, class Body>
  Result ask(const char* function, Result start, Body body);
  template <class Body>
  void quietly(const char* function, Body body) noexcept;
  void lose(const std::string& reason);
  void* new_block(int64_t bytes) const;
  void* asked_block(int64_t bytes);
  size_t zone_bytes() const;
  Ticket copy(void* to, const void* from, int64_t bytes, bool to_device);
  void keep_staged(Ticket ticket, Staged staged);
  uint64_t take_events();  // returns how many more there was room for

  tenon_device_api api_ = {};
  std::string options_;
  DeviceInfo info_;
  tenon_device* device_ = nullptr;
  const tenon_device_debug_api* debug_;
  std::atomic<int64_t> used_ = 0;
  std::mutex mutex_;                            // of calls but wait()
  std::vector<tenon_device_event> events_;      // that nobody asked for yet
  std::map<const std::byte*, int64_t> blocks_;  // of memory: addresses and bytes
  std::shared_ptr<std::list<Sink>> sinks_;      // of all compilations
  std::mutex late_mutex_;                       // of the next two
  std::map<Ticket, Staged> staged_;
  std::string lost_reason_;
  std::atomic<bool> is_lost_ = false;
};

// Loaded code of a device.
class DeviceProgram {
 public:
  // The program keeps the code and the device. Throws a StatusError.
  DeviceProgram(std::shared_ptr<Device> device, Device::Code code);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  tenon_device_program* get() const { return program_; }
  std::span<const std::byte> code() const { return code_->bytes; }
  int64_t scratch_bytes() const { return static_cast<int64_t>(code_->scratch_bytes); }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<const Device::Code> code_;
  tenon_device_program* program_ = nullptr;
};

// A block of a device's memory.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(std::shared_ptr<Device> device, int64_t bytes);
  // Memory of somebody else, which `owner` keeps; it may be null.
  DeviceBlock(std::shared_ptr<Device> device, void* data, int64_t bytes, std::shared_ptr<void> owner);
  DeviceBlock(DeviceBlock&& other) noexcept { swap(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBlock();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  void swap(DeviceBlock& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(owner_, other.owner_);
    std::swap(is_own_, other.is_own_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<void> owner_;
  bool is_own_ = true;  // the block frees its memory
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// ---- plug-ins by name -----------------------------------------------------------------------------------------------

// The first look-up loads the plug-ins that $TENON_PLUGINS names, separated by colons.

// Each returns the device's name. Throws a StatusError if the plug-in is none, or if another one has the name.
// Names live as long as the process, and end in zero.
std::string_view load_plugin(const std::string& path);
std::string_view register_plugin(tenon_device_plugin plugin);

std::vector<std::string_view> device_names();  // without the CPU
bool has_device(std::string_view name);        // whether it is loaded
// Whether there is a device of this name. That of this installation ("cuda") is loaded when somebody names it.
bool load_device(std::string_view name);
std::string library_of(std::string_view name);  // the path that was loaded; empty: it is part of this program

// A spec is a name, or a name and options: "npu", "npu:rate=2". A device that is open by the same spec is shared.
// Throws a StatusError for an unknown name, which lists the devices there are.
std::shared_ptr<Device> open_device(std::string_view spec);
std::string_view name_of_spec(std::string_view spec);

const tenon_host& plugin_host();  // what plug-ins are given

}  // namespace tenon::runtime
