// Calls of a plug-in's functions. A plug-in is somebody else's code in this process: what a host can check of a call is
// checked here.
//
// Without a time limit a call runs on the calling thread. With one it runs on a thread of its own, so that a call that
// does not return ends as an error. Its thread is left behind, and so is the memory that it may still touch: a `Body`
// owns what it needs, and nothing that a caller may free.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/error.h"
#include "runtime/shared.h"

namespace tenon::runtime {

// How this process treats devices. Set it before devices are used.
struct DeviceSettings {
  double seconds = 0;   // a limit for each call of a plug-in; 0: none. At first $TENON_DEVICE_TIMEOUT
  bool guards = false;  // Put guard zones around the buffers of each launch. Slow. At first $TENON_DEVICE_GUARDS is 1
  // Called before each call of a plug-in, for tools that want to know where a process ended. Null: nobody looks.
  void (*before_call)(std::string_view device, const char* function) = nullptr;
};
const DeviceSettings& device_settings();  // throws a StatusError if a variable of the environment is no number
void set_device_settings(const DeviceSettings& settings);

// The call did not return within its time.
class LostDevice : public StatusError {
 public:
  using StatusError::StatusError;
};

// A call with the memory that it needs.
class PluginFrame {
 public:
  using Run = tenon_status (*)(PluginFrame& frame, tenon_text* error);
  explicit PluginFrame(Run run) : run_(run) {}
  tenon_status run(tenon_text* error) { return run_(*this, error); }

 private:
  const Run run_;
};
void call_frame(std::string_view device, const char* function, std::shared_ptr<PluginFrame> frame);

// Runs `tenon_status body(Result& result, tenon_text* error)`, which calls `function` of the plug-in, and returns the
// result, which begins as `start`. Throws a StatusError if the call fails, or breaks a rule.
template <class Result, class Body>
Result call_plugin(std::string_view device, const char* function, Result start, Body body) {
  struct Frame : PluginFrame {
    Frame(Result start, Body body) : PluginFrame(run), result(std::move(start)), body(std::move(body)) {}
    static tenon_status run(PluginFrame& self, tenon_text* error) {
      auto& own = static_cast<Frame&>(self);
      return own.body(own.result, error);
    }
    Result result;
    Body body;
  };
  const auto frame = new_shared<Frame>(std::move(start), std::move(body));
  call_frame(device, function, frame);
  return std::move(frame->result);
}

}  // namespace tenon::runtime
