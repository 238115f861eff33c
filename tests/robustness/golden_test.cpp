// Artifacts of every format version load and run, for ever.
#include <gtest/gtest.h>

#include "tenon/device.h"
#include "tests/robustness/support_golden.h"
#include "tests/robustness/support_seal.h"

extern "C" const tenon_device_api* tenon_device_plugin_v1(const tenon_host* host);  // examples/devices/hello.c

namespace tenon::golden {
namespace {

class Golden : public testing::TestWithParam<std::string> {};

void run_all(Session& session, Artifact& artifact) {
  ASSERT_EQ(session.create(), TENON_OK) << tenon_error();
  for (Case& run : artifact.runs) {
    std::vector<Array> outputs;
    ASSERT_EQ(session.run(run.inputs, &outputs), TENON_OK) << tenon_error();
    EXPECT_TRUE(close(outputs, run.outputs));
  }
}

TEST_P(Golden, RunsWithAndWithoutItsCode) {
  Artifact artifact = read(GetParam());
  for (const bool native : {true, false}) {
    Session session;
    ASSERT_EQ(session.load_file(artifact.path, native), TENON_OK) << tenon_error();
    run_all(session, artifact);
  }
}

TEST(CallGolden, RunsWithTheCallOfItsHost) {
  Artifact artifact = read("1.2/calls");
  tenon_register_call("golden.scale.default", nullptr, nullptr);
  Session session;
  ASSERT_EQ(session.load_file(artifact.path, true), TENON_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tenon_error()).find("\n  golden.scale.default"), std::string::npos) << tenon_error();
  load_scale_call();
  for (const bool native : {true, false}) {
    ASSERT_EQ(session.load_file(artifact.path, native), TENON_OK) << tenon_error();
    run_all(session, artifact);
    session.close();
  }
  tenon_register_call("golden.scale.default", nullptr, nullptr);
}

TEST(DeviceGolden, RunsOnTheDeviceOfItsCode) {
  Artifact artifact = read("1.2/devices");
  ASSERT_EQ(tenon_register_device(tenon_device_plugin_v1, nullptr), TENON_OK) << tenon_error();
  Session session;
  ASSERT_EQ(session.load_file(artifact.path, true, "hello"), TENON_OK) << tenon_error();
  run_all(session, artifact);
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(names()), [](const auto& name) { return label(name.param); });

}  // namespace
}  // namespace tenon::golden
