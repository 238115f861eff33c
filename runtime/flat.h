// Vectors of FlatBuffers as spans. Its verifier looks at where a vector lies, not at how its structs are aligned: that
// is checked here.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <span>

#include "runtime/error.h"

namespace tenon::runtime {

template <class T>
std::span<const T> aligned_span(const void* data, size_t size) {
  if (size == 0) return {};
  if (reinterpret_cast<uintptr_t>(data) % alignof(T) != 0) fail(TENON_BAD_FILE, "a table does not lie as it must");
  return {static_cast<const T*>(data), size};
}

// Null is empty.
template <class T>
std::span<const T> structs(const flatbuffers::Vector<const T*>* vector) {
  return vector ? aligned_span<T>(vector->Data(), vector->size()) : std::span<const T>();
}
template <class T>
std::span<const T> numbers(const flatbuffers::Vector<T>* vector) {
  return vector ? aligned_span<T>(vector->Data(), vector->size()) : std::span<const T>();
}

}  // namespace tenon::runtime
