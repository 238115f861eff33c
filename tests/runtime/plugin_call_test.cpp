#include "runtime/plugin_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "runtime/device.h"

namespace tenon::runtime {
namespace {

using testing::HasSubstr;

// Restores the settings of the process.
struct WithLimit {
  DeviceSettings before = device_settings();
  explicit WithLimit(double seconds) { set_device_settings({.seconds = seconds}); }
  ~WithLimit() { set_device_settings(before); }
};

template <class Body>
std::string failure(Body body) {
  try {
    call_plugin("npu", "submit", 0, body);
  } catch (const StatusError& error) {
    return error.what();
  }
  return "";
}

TEST(PluginCall, GivesWhatTheBodyMade) {
  const auto body = [](int& result, tenon_text*) {
    result += 2;
    return TENON_OK;
  };
  EXPECT_EQ(call_plugin("npu", "submit", 40, body), 42);
  const WithLimit limit(10);
  EXPECT_EQ(call_plugin("npu", "submit", 40, body), 42);
}

TEST(PluginCall, RunsWhereItWasCalledUnlessThereIsALimit) {
  const auto body = [](std::thread::id& id, tenon_text*) {
    id = std::this_thread::get_id();
    return TENON_OK;
  };
  EXPECT_EQ(call_plugin("npu", "submit", std::thread::id(), body), std::this_thread::get_id());
  const WithLimit limit(10);
  EXPECT_NE(call_plugin("npu", "submit", std::thread::id(), body), std::this_thread::get_id());
}

TEST(PluginCall, FailuresHaveTheDevicesName) {
  EXPECT_EQ(failure([](int&, tenon_text* error) { return tenon_write_text(error, TENON_RUN_FAILED, "too hot"); }),
            "device npu: too hot");
  EXPECT_EQ(failure([](int&, tenon_text*) { return static_cast<tenon_status>(77); }),
            "device npu: it failed without a reason");
  EXPECT_THAT(failure([](int&, tenon_text*) -> tenon_status { throw std::runtime_error("no"); }),
              HasSubstr("device npu: it threw an exception"));
}

TEST(PluginCall, TextsAreCutAtTheirCapacity) {
  const auto fill = [](int&, tenon_text* error) {
    std::fill_n(error->data, error->capacity, 'x');  // without a zero at its end
    return TENON_RUN_FAILED;
  };
  EXPECT_EQ(failure(fill), "device npu: " + std::string(512, 'x'));
  const auto overrun = [](int&, tenon_text* error) {
    error->data[error->capacity] = 'x';
    return TENON_OK;
  };
  EXPECT_THAT(failure(overrun), HasSubstr("device npu wrote past the end of its error text in submit()"));
}

TEST(PluginCall, AHangIsAnError) {
  const WithLimit limit(0.05);
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const auto hang = [release](int& result, tenon_text*) {
    while (!*release) std::this_thread::yield();
    result = 1;  // memory of the call, which is still there
    return TENON_OK;
  };
  EXPECT_THROW(call_plugin("npu", "wait", 0, hang), LostDevice);
  EXPECT_THAT(failure(hang), HasSubstr("device npu did not return from submit() within 0.05 s"));
  *release = true;
}

// ---- a device that is lost ----

std::atomic<bool> hangs = false;
std::atomic<int> calls = 0;

tenon_device_api hanging_device() {
  tenon_device_api api{.size = sizeof(tenon_device_api)};
  api.describe = [](const char*, tenon_device_info* info, tenon_text*) {
    info->name = "hanging";
    info->version = "1";
    return TENON_OK;
  };
  api.open = [](const char*, tenon_device**, tenon_text*) { return TENON_OK; };
  api.release = [](tenon_device*, tenon_device_program*) { ++calls; };
  api.compile = [](tenon_device*, const tenon_segment*, tenon_sink*, tenon_text*) { return TENON_OK; };
  api.load = [](tenon_device*, const void*, size_t, tenon_device_program**, tenon_text*) { return TENON_OK; };
  api.submit = [](tenon_device*, tenon_device_program*, const tenon_launch*, uint64_t*, tenon_text*) {
    ++calls;
    while (hangs) std::this_thread::yield();
    return TENON_OK;
  };
  return api;
}

TEST(PluginCall, NothingIsAskedOfALostDevice) {
  const WithLimit limit(1);  // long enough for the calls that do not hang, on a busy machine
  hangs = true, calls = 0;
  {
    const auto device = std::make_shared<Device>(hanging_device(), "");
    const DeviceBlock block(device, 100);
    const tenon_launch launch{.size = sizeof(tenon_launch)};
    EXPECT_THROW(device->submit(nullptr, launch), LostDevice);
    EXPECT_TRUE(device->is_lost());
    try {
      device->submit(nullptr, launch);
      FAIL() << "the device is lost";
    } catch (const StatusError& error) {
      EXPECT_THAT(error.what(), HasSubstr("device hanging did not return from submit() within 1 s"));
      EXPECT_THAT(error.what(), HasSubstr("start a new process"));
    }
    EXPECT_THROW(device->allocate(10), StatusError);
  }
  EXPECT_EQ(calls, 1);  // neither the second launch nor release
  hangs = false;
}

}  // namespace
}  // namespace tenon::runtime
