#include "runtime/plugin_call.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/shared.h"

namespace tenon::runtime {
namespace {

constexpr double kLongest = 1e9;  // seconds
constexpr size_t kTextBytes = 512, kFenceBytes = 256;
constexpr char kFence = 0x5a;

DeviceSettings settings_of_environment() {
  DeviceSettings settings;
  if (const char* const text = std::getenv("TENON_DEVICE_TIMEOUT"); text != nullptr && *text != 0) {
    char* end = nullptr;
    settings.seconds = std::strtod(text, &end);
    if (*end != 0 || !(settings.seconds >= 0 && settings.seconds <= kLongest))
      fail(TENON_INVALID_ARGUMENT, "TENON_DEVICE_TIMEOUT is '", text,
           "'; it is a number of seconds, or 0 for no limit");
  }
  const char* const guards = std::getenv("TENON_DEVICE_GUARDS");
  settings.guards = guards != nullptr && std::string_view(guards) == "1";
  return settings;
}

DeviceSettings& mutable_settings() {
  static DeviceSettings settings = settings_of_environment();
  return settings;
}

// A call with the memory that it writes. The thread that runs it may outlive the caller.
class PluginCall {
 public:
  explicit PluginCall(std::shared_ptr<PluginFrame> frame) : frame_(std::move(frame)) {
    std::memset(text_ + kTextBytes, kFence, kFenceBytes);
  }

  void run() noexcept {
    tenon_text error{text_, kTextBytes};
    try {
      status_ = frame_->run(&error);
    } catch (...) {
      status_ = tenon_write_text(&error, TENON_RUN_FAILED, "it threw an exception, which no plug-in may");
    }
  }

  // Whether the call returned in time.
  static bool run_apart(const std::shared_ptr<PluginCall>& call, double seconds) {
    try {
      std::thread([call] {
        call->run();
        const std::lock_guard lock(call->mutex_);
        call->is_done_ = true;
        call->done_.notify_one();
      }).detach();
    } catch (const std::system_error&) {
      fail(TENON_OUT_OF_MEMORY, "there is no thread for a call of a plug-in");
    }
    std::unique_lock lock(call->mutex_);
    return call->done_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return call->is_done_; });
  }

  void check(std::string_view device, const char* function) const {
    const bool is_intact =
        std::all_of(text_ + kTextBytes, text_ + sizeof text_, [](char letter) { return letter == kFence; });
    if (!is_intact)
      fail(TENON_RUN_FAILED, "device ", device, " wrote past the end of its error text in ", function,
           "(): the text has a capacity of ", kTextBytes, " bytes; use tenon_write_text");
    if (status_ == TENON_OK) return;
    const bool is_known = status_ >= TENON_INVALID_ARGUMENT && status_ < TENON_INTERNAL;
    const std::string_view text(text_, strnlen(text_, kTextBytes));
    fail(is_known ? status_ : TENON_RUN_FAILED, "device ", device, ": ",
         text.empty() ? std::string_view("it failed without a reason") : text);
  }

 private:
  std::shared_ptr<PluginFrame> frame_;
  tenon_status status_ = TENON_OK;
  char text_[kTextBytes + kFenceBytes] = {};  // the fence stays as it is
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
};

}  // namespace

const DeviceSettings& device_settings() { return mutable_settings(); }
void set_device_settings(const DeviceSettings& settings) { mutable_settings() = settings; }

void call_frame(std::string_view device, const char* function, std::shared_ptr<PluginFrame> frame) {
  const DeviceSettings& settings = device_settings();
  if (settings.before_call != nullptr) settings.before_call(device, function);
  const auto call = new_shared<PluginCall>(std::move(frame));
  if (settings.seconds == 0) {
    call->run();
  } else if (!PluginCall::run_apart(call, settings.seconds)) {
    throw LostDevice(TENON_RUN_FAILED,
                     text_of("device ", device, " did not return from ", function, "() within ", settings.seconds,
                             " s, the limit of a call; it is lost to this process"));
  }
  call->check(device, function);
}

}  // namespace tenon::runtime
