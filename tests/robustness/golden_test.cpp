// Artifacts of every format version load and run, for ever.
#include <gtest/gtest.h>

#include "tests/robustness/support_golden.h"

namespace tenon::golden {
namespace {

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, RunsWithAndWithoutItsCode) {
  Artifact artifact = read(GetParam());
  for (const bool native : {true, false}) {
    Session session;
    ASSERT_EQ(session.load_file(artifact.path, native), TENON_OK) << tenon_error();
    ASSERT_EQ(session.create(), TENON_OK) << tenon_error();
    for (Case& run : artifact.runs) {
      std::vector<Array> outputs;
      ASSERT_EQ(session.run(run.inputs, &outputs), TENON_OK) << tenon_error();
      EXPECT_TRUE(close(outputs, run.outputs)) << "native: " << native;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(names()), [](const auto& name) { return label(name.param); });

}  // namespace
}  // namespace tenon::golden
