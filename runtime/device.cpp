#include "runtime/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/error.h"
#include "runtime/plugin_call.h"
#include "runtime/shared.h"

namespace tenon::runtime {
namespace {

constexpr uint64_t kMostRules = 4096;
constexpr int64_t kMostAlignment = 1 << 20;
constexpr uint64_t kMostScratch = uint64_t{1} << 48;
constexpr uint64_t kMostCode = uint64_t{1} << 32;
constexpr uint64_t kMostEvents = 1 << 20;
constexpr size_t kZone = 256;  // bytes before and after a block, at least
constexpr unsigned char kZoneByte = 0xa5;

struct Nothing {};

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
  if (info.version == nullptr || *info.version == 0)
    fail(TENON_INVALID_ARGUMENT, "device ", name, " names no version; files and caches keep its code apart by it");
  if (!std::isfinite(info.crossing_seconds) || !std::isfinite(info.bytes_per_second))
    fail(TENON_INVALID_ARGUMENT, "device ", name, " describes transfers of ", info.bytes_per_second,
         " bytes in a second that take ", info.crossing_seconds, " s; 0 says that it is not known");
  return {.name = std::string(name),
          .version = info.version,
          .doc = info.doc == nullptr ? "" : info.doc,
          .flags = info.flags,
          .rules = {info.rules, static_cast<size_t>(info.rule_count)},
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

// Where compile() writes. It outlives the call: a plug-in that keeps it must not write into freed memory.
struct Device::Sink {
  std::vector<std::byte> bytes;
  std::atomic<bool> is_open = true;
  std::atomic<bool> is_misused = false;

  static tenon_status write(void* self, const void* bytes, size_t count) {
    auto& sink = *static_cast<Sink*>(self);
    if (!sink.is_open) sink.is_misused = true;
    if (!sink.is_open || (bytes == nullptr && count > 0)) return TENON_INVALID_ARGUMENT;
    if (count > kMostCode - std::min<uint64_t>(sink.bytes.size(), kMostCode)) return TENON_OUT_OF_MEMORY;
    try {
      const auto* const from = static_cast<const std::byte*>(bytes);
      sink.bytes.insert(sink.bytes.end(), from, from + count);
    } catch (const std::exception&) {
      return TENON_OUT_OF_MEMORY;
    }
    return TENON_OK;
  }
};

DeviceInfo Device::described(const tenon_device_api& api, const std::string& options) {
  const tenon_device_info start{.size = sizeof(tenon_device_info)};
  return checked_info(call_plugin("of a plug-in", "describe", start,
                                  [describe = checked_api(api).describe, options](auto& info, tenon_text* error) {
                                    return describe(options.c_str(), &info, error);
                                  }));
}

Device::Device(const tenon_device_api& api, std::string options, std::string build, const tenon_device_debug_api* debug)
    : api_(checked_api(api)),
      options_(std::move(options)),
      info_(described(api, options_)),
      debug_(debug),
      sinks_(new_shared<std::list<Sink>>()) {
  info_.build = std::move(build);
  device_ = ask("open", device_, [open = api_.open, given = options_](auto& device, tenon_text* error) {
    return open(given.c_str(), &device, error);
  });
}

Device::~Device() {
  if (api_.release != nullptr)
    quietly("release", [release = api_.release, device = device_] { release(device, nullptr); });
}

template <class Result, class Body>
Result Device::ask(const char* function, Result start, Body body) {
  refuse_if_lost();
  try {
    return call_plugin(info_.name, function, std::move(start), std::move(body));
  } catch (const LostDevice& lost) {
    lose(lost.message());
    throw;
  }
}

// A call that has no way to fail: of a destructor. It needs no memory unless there is a time limit. A lost device gets
// none.
template <class Body>
void Device::quietly(const char* function, Body body) noexcept {
  if (is_lost()) return;
  try {
    const DeviceSettings& settings = device_settings();
    if (settings.before_call != nullptr) settings.before_call(info_.name, function);
    if (settings.seconds == 0) return body();
    ask(function, Nothing(), [body](Nothing&, tenon_text*) {
      body();
      return TENON_OK;
    });
  } catch (...) {  // NOLINT: a plug-in that throws is no reason to end the process
  }
}

void Device::refuse_if_lost() {
  if (is_lost()) {
    const std::lock_guard lock(late_mutex_);
    fail(TENON_RUN_FAILED, lost_reason_, "; start a new process to use it again");
  }
}

void Device::lose(const std::string& reason) {
  const std::lock_guard lock(late_mutex_);
  lost_reason_ = reason;
  new auto(std::move(staged_));  // NOLINT: never freed, because the plug-in may still write there
  staged_.clear();
  is_lost_.store(true, std::memory_order_release);
}

tenon_claim Device::claim(const tenon_segment& segment, std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  return ask("claim", tenon_claim{.size = sizeof(tenon_claim), .seconds = -1},
             [claim = api_.claim, device = device_, &segment, owner](auto& result, tenon_text* error) {
               return claim(device, &segment, &result, error);
             });
}

Device::Code Device::compile(const tenon_segment& segment, std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(*sinks_, [](const Sink& sink) { return sink.is_misused.load(); }))
    fail(TENON_RUN_FAILED, "device ", info_.name, " wrote code after compile() had returned");
  Sink& sink = sinks_->emplace_back();
  const struct Close {
    Sink& sink;
    ~Close() { sink.is_open = false; }
  } close_at_end{sink};
  Code code;
  code.scratch_bytes = ask("compile", uint64_t{0},
                           [compile = api_.compile, device = device_, &segment, owner, sinks = sinks_, &sink](
                               uint64_t& scratch, tenon_text* error) {
                             tenon_sink to{.size = sizeof(tenon_sink), .self = &sink, .write = Sink::write};
                             const tenon_status status = compile(device, &segment, &to, error);
                             scratch = to.scratch_bytes;
                             return status;
                           });
  if (sink.bytes.empty())
    fail(TENON_RUN_FAILED, "device ", info_.name, " compiled segment ", segment.name,
         " without code: compile() returned before it wrote to the sink");
  code.bytes = std::move(sink.bytes);
  return code;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

void* Device::allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  refuse_if_lost();
  if (info_.memory > 0 && bytes > info_.memory - used())
    fail(TENON_OUT_OF_MEMORY, "device ", info_.name, " has ", info_.memory, " bytes, and ", used(),
         " are in use: there is no room for ", bytes, " more");
  auto* const memory =
      static_cast<std::byte*>(api_.allocate == nullptr ? new_block(bytes) : asked_block(std::max<int64_t>(bytes, 1)));
  if (memory == nullptr) fail(TENON_OUT_OF_MEMORY, "device ", info_.name, " has no memory for ", bytes, " bytes");
  blocks_[memory] = bytes;
  used_ += bytes;
  return memory;
}

// Of at least a byte: an empty tensor has an address that is no other's.
void* Device::asked_block(int64_t bytes) {
  void* const memory = ask(
      "allocate", static_cast<void*>(nullptr),
      [allocate = api_.allocate, device = device_, bytes, alignment = info_.alignment](void*& made, tenon_text* error) {
        return allocate(device, static_cast<uint64_t>(bytes), static_cast<uint64_t>(alignment), &made, error);
      });
  const auto* const first = static_cast<const std::byte*>(memory);
  if (reinterpret_cast<uintptr_t>(memory) % static_cast<size_t>(info_.alignment) != 0)
    fail(TENON_RUN_FAILED, "device ", info_.name, " allocated memory at ", reinterpret_cast<uintptr_t>(memory),
         ", which is not aligned to ", info_.alignment, " bytes, as it says that its tensors are");
  const auto after = blocks_.lower_bound(first);
  const bool meets_next = after != blocks_.end() && after->first - first < bytes;
  const bool meets_last = after != blocks_.begin() && first - std::prev(after)->first < std::prev(after)->second;
  if (memory != nullptr && (meets_next || meets_last))
    fail(TENON_RUN_FAILED, "device ", info_.name, " allocated ", bytes, " bytes that overlap memory in use");
  return memory;
}

void Device::free(void* memory, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  blocks_.erase(static_cast<std::byte*>(memory));
  if (is_lost()) return;  // the plug-in may still write there
  if (api_.free == nullptr) return std::free(static_cast<std::byte*>(memory) - zone_bytes());
  quietly("free", [free = api_.free, device = device_, memory] { free(device, memory); });
}

// ---- zones: what a launch writes a little outside of its memory harms nobody, and is found ----

size_t Device::zone_bytes() const { return std::max(kZone, static_cast<size_t>(info_.alignment)); }

void* Device::new_block(int64_t bytes) const {
  const size_t zone = zone_bytes(), alignment = static_cast<size_t>(info_.alignment);
  const auto whole =
      static_cast<size_t>(checked_add(bytes, checked_mul(3, static_cast<int64_t>(zone)))) & ~(alignment - 1);
  auto* const first = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  if (first == nullptr) return nullptr;
  std::memset(first, kZoneByte, zone);
  std::memset(first + zone + bytes, kZoneByte, zone);
  return first + zone;
}

void Device::check_zones() {
  if (api_.allocate != nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto is_touched = [](std::byte byte) { return byte != std::byte{kZoneByte}; };
  const auto zone = static_cast<int64_t>(zone_bytes());
  for (const auto& [memory, bytes] : blocks_) {
    const std::byte* const end = memory + bytes;
    const bool is_before = std::any_of(memory - zone, memory, is_touched);
    const auto* const past = std::find_if(end, end + zone, is_touched);
    if (!is_before && past == end + zone) continue;
    std::memset(const_cast<std::byte*>(memory) - zone, kZoneByte, static_cast<size_t>(zone));
    std::memset(const_cast<std::byte*>(end), kZoneByte, static_cast<size_t>(zone));
    fail(TENON_RUN_FAILED, "device ", info_.name, " wrote ", is_before ? "before the start" : "past the end",
         " of a block of ", bytes,
         " bytes of memory; `tenon device check` or TENON_DEVICE_GUARDS=1 tells which launch");
  }
}

// ---- the queue ------------------------------------------------------------------------------------------------------

Ticket Device::copy_in(void* to, const void* from, int64_t bytes) { return copy(to, from, bytes, true); }
Ticket Device::copy_out(void* to, const void* from, int64_t bytes) { return copy(to, from, bytes, false); }

Ticket Device::copy(void* to, const void* from, int64_t bytes, bool to_device) {
  if (bytes == 0) return kDone;
  const std::lock_guard lock(mutex_);
  if (api_.copy == nullptr) {
    refuse_if_lost();
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return kDone;
  }
  std::shared_ptr<std::vector<std::byte>> staged;
  void* const caller = to;
  if (device_settings().seconds > 0) {  // a call that is left behind must not touch the caller's memory
    staged = new_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    if (to_device) std::memcpy(staged->data(), from, staged->size());
    if (to_device) from = staged->data();
    if (!to_device) to = staged->data();
  }
  const Ticket ticket =
      ask("copy", kDone,
          [copy = api_.copy, device = device_, to, from, bytes, to_device, staged](Ticket& made, tenon_text* error) {
            return copy(device, to, from, static_cast<uint64_t>(bytes), static_cast<int>(to_device), &made, error);
          });
  if (staged) keep_staged(api_.wait == nullptr ? kDone : ticket, {to_device ? nullptr : caller, staged});
  return api_.wait == nullptr ? kDone : ticket;
}

void Device::keep_staged(Ticket ticket, Staged staged) {
  if (ticket == kDone) return staged.finish();
  const std::lock_guard lock(late_mutex_);
  if (!staged_.emplace(ticket, std::move(staged)).second)
    fail(TENON_RUN_FAILED, "device ", info_.name, " gave ticket ", ticket, " twice");
}

void Device::Staged::finish() const {
  if (to != nullptr) std::memcpy(to, bytes->data(), bytes->size());
}

Ticket Device::submit(tenon_device_program* program, const tenon_launch& launch) {
  const std::lock_guard lock(mutex_);
  std::vector<void*> buffers(launch.buffers, launch.buffers + launch.buffer_count);
  std::vector<int64_t> sizes(launch.sizes, launch.sizes + launch.size_count);
  const Ticket ticket =
      ask("submit", kDone,
          [submit = api_.submit, device = device_, program, copy = launch, buffers = std::move(buffers),
           sizes = std::move(sizes)](Ticket& made, tenon_text* error) mutable {
            copy.buffers = buffers.data();
            copy.sizes = sizes.data();
            return submit(device, program, &copy, &made, error);
          });
  return api_.wait == nullptr ? kDone : ticket;
}

void Device::wait(Ticket ticket) {
  if (ticket == kDone) return;
  ask("wait", Nothing(), [wait = api_.wait, device = device_, ticket](Nothing&, tenon_text* error) {
    return wait(device, ticket, error);
  });
  const std::lock_guard lock(late_mutex_);
  if (const auto staged = staged_.extract(ticket)) staged.mapped().finish();
}

// Events that the device did not give yet are appended to events_.
uint64_t Device::take_events() {
  constexpr uint64_t kMost = 256;
  struct Taken {
    std::vector<tenon_device_event> events;
    uint64_t count = 0;
  };
  constexpr tenon_device_event kFree{.ticket = ~uint64_t{0}};
  const Taken taken = ask("events", Taken{std::vector(2 * kMost, kFree)},
                          [events = api_.events, device = device_](Taken& to, tenon_text* error) {
                            return events(device, to.events.data(), kMost, &to.count, error);
                          });
  const auto is_free = [&](const tenon_device_event& event) { return event.ticket == kFree.ticket; };
  if (taken.count > kMost || !std::all_of(taken.events.begin() + kMost, taken.events.end(), is_free))
    fail(TENON_RUN_FAILED, "device ", info_.name, " gave ", taken.count, " events, and asked for were ", kMost,
         " at most");
  events_.insert(events_.end(), taken.events.begin(), taken.events.begin() + static_cast<std::ptrdiff_t>(taken.count));
  return kMost - taken.count;
}

tenon_device_event Device::event_of(Ticket ticket) {
  constexpr size_t kKept = 1 << 16;  // of runs that are not profiled
  const std::lock_guard lock(mutex_);
  if (events_.size() >= kKept) events_.clear();
  while (take_events() == 0) {
    if (events_.size() > kMostEvents) fail(TENON_RUN_FAILED, "device ", info_.name, " gives events without end");
  }
  const auto found = std::ranges::find(events_, ticket, &tenon_device_event::ticket);
  if (found == events_.end()) return {};
  const tenon_device_event event = *found;
  events_.erase(found);
  return event;
}

// ---- programs and blocks --------------------------------------------------------------------------------------------

DeviceProgram::DeviceProgram(std::shared_ptr<Device> device, Device::Code code)
    : device_(std::move(device)), code_(new_shared<const Device::Code>(std::move(code))) {
  if (code_->scratch_bytes > kMostScratch)  // of compile(), or of a file
    fail(TENON_RUN_FAILED, "device ", device_->info().name, " wants ", code_->scratch_bytes, " bytes of scratch");
  const std::lock_guard lock(device_->mutex_);
  program_ = device_->ask("load", program_,
                          [load = device_->api_.load, handle = device_->device_, code = code_](
                              tenon_device_program*& loaded, tenon_text* error) {
                            return load(handle, code->bytes.data(), code->bytes.size(), &loaded, error);
                          });
}

DeviceProgram::~DeviceProgram() {
  const std::lock_guard lock(device_->mutex_);
  if (device_->is_lost()) new auto(code_);  // NOLINT: never freed, because the plug-in may still read it
  if (device_->api_.release == nullptr || program_ == nullptr) return;
  device_->quietly("release", [release = device_->api_.release, handle = device_->device_, program = program_] {
    release(handle, program);
  });
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
