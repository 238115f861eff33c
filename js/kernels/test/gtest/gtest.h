// What the headers of tests that are compiled for wasm32 name of GoogleTest, which is not there.
#pragma once

namespace testing {
class AssertionResult;
}
