#include "runtime/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace tenon::runtime {
namespace {

using testing::HasSubstr;

// A device of 1000 bytes, whose memory is the host's.
tenon_device_api small_device() {
  tenon_device_api api{.size = sizeof(tenon_device_api)};
  api.describe = [](const char*, tenon_device_info* info, tenon_text*) {
    info->name = "small";
    info->version = "1";
    info->doc = "a device for a test";
    info->memory = 1000;
    return TENON_OK;
  };
  api.open = [](const char*, tenon_device** device, tenon_text*) {
    static char place;
    *device = reinterpret_cast<tenon_device*>(&place);
    return TENON_OK;
  };
  api.compile = [](tenon_device*, const tenon_segment*, tenon_sink*, tenon_text*) { return TENON_OK; };
  api.load = [](tenon_device*, const void*, size_t, tenon_device_program**, tenon_text*) { return TENON_OK; };
  api.submit = [](tenon_device*, tenon_device_program*, const tenon_launch*, uint64_t*, tenon_text*) {
    return TENON_OK;
  };
  return api;
}

TEST(Device, HoldsNoMoreThanItHas) {
  const auto device = std::make_shared<Device>(small_device(), "");
  const DeviceBlock first(device, 600);
  EXPECT_EQ(device->used(), 600);
  try {
    const DeviceBlock second(device, 401);
    FAIL() << "there is no room for it";
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status(), TENON_OUT_OF_MEMORY);
    EXPECT_THAT(error.what(), HasSubstr("device small has 1000 bytes, and 600 are in use: there is no room for 401"));
  }
  {
    const DeviceBlock exactly(device, 400);
    EXPECT_EQ(device->used(), 1000);
  }
  EXPECT_EQ(device->used(), 600);
}

// A device that hands out the same address until a byte is asked for, as many an allocator may.
TEST(Device, AnEmptyTensorHasAnAddressOfItsOwn) {
  static uint64_t end;
  end = 4096;
  tenon_device_api api = small_device();
  api.allocate = [](tenon_device*, uint64_t bytes, uint64_t alignment, void** memory, tenon_text*) {
    *memory = reinterpret_cast<void*>(end);
    end += (bytes + alignment - 1) / alignment * alignment;
    return TENON_OK;
  };
  api.free = [](tenon_device*, void*) {};
  api.copy = [](tenon_device*, void*, const void*, uint64_t, int, uint64_t*, tenon_text*) { return TENON_OK; };
  const auto device = std::make_shared<Device>(api, "");
  const DeviceBlock first(device, 0), second(device, 0), third(device, 10);
  EXPECT_NE(first.data(), second.data());
  EXPECT_NE(second.data(), third.data());
  EXPECT_EQ(device->used(), 10);
  end = 4096;
  EXPECT_THROW(DeviceBlock(device, 10), StatusError);  // at the address of an empty tensor
}

// A device that allocates in the middle of what it allocated before.
TEST(Device, MemoryInsideOfOtherMemoryIsAnError) {
  static uint64_t next;
  next = 4096;
  tenon_device_api api = small_device();
  api.allocate = [](tenon_device*, uint64_t, uint64_t alignment, void** memory, tenon_text*) {
    *memory = reinterpret_cast<void*>(next);
    next += alignment;
    return TENON_OK;
  };
  api.free = [](tenon_device*, void*) {};
  api.copy = [](tenon_device*, void*, const void*, uint64_t, int, uint64_t*, tenon_text*) { return TENON_OK; };
  const auto device = std::make_shared<Device>(api, "");
  const DeviceBlock first(device, 2 * device->info().alignment);
  EXPECT_THROW(DeviceBlock(device, 1), StatusError);
}

TEST(Device, GivesAnEventOnce) {
  static bool is_given;
  is_given = false;
  tenon_device_api api = small_device();
  api.wait = [](tenon_device*, uint64_t, tenon_text*) { return TENON_OK; };
  api.events = [](tenon_device*, tenon_device_event* events, uint64_t, uint64_t* count, tenon_text*) {
    *count = is_given ? 0 : 1;
    if (!is_given) events[0] = {.ticket = 7, .begin_ns = 10, .end_ns = 30};
    is_given = true;
    return TENON_OK;
  };
  const auto device = std::make_shared<Device>(api, "");
  EXPECT_EQ(device->event_of(8).end_ns, 0u);
  EXPECT_EQ(device->event_of(7).end_ns, 30u);
  EXPECT_EQ(device->event_of(7).end_ns, 0u);
}

}  // namespace
}  // namespace tenon::runtime
