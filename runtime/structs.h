// Reads vectors of FlatBuffers in place.
#pragma once

#include <bit>
#include <span>

#include "format/expr_generated.h"
#include "runtime/error.h"

namespace tenon::runtime {

static_assert(std::endian::native == std::endian::little, "artifacts are read in place");

// FlatBuffers' verifier checks the alignment of a vector, but not of its structs. This does.
template <class T>
std::span<const T> aligned(const void* data, size_t count) {
  if (count == 0) return {};
  if (reinterpret_cast<uintptr_t>(data) % alignof(T) != 0) fail(TENON_BAD_FILE, "a table is not aligned");
  return {static_cast<const T*>(data), count};
}

// An absent vector is empty.
template <class T>
std::span<const T> span_of(const flatbuffers::Vector<const T*>* structs) {
  return structs ? aligned<T>(structs->Data(), structs->size()) : std::span<const T>();
}

template <class T>
std::span<const T> span_of(const flatbuffers::Vector<T>* numbers) {
  return numbers ? aligned<T>(numbers->Data(), numbers->size()) : std::span<const T>();
}

// `verify` is the verifier of the schema.
template <class Verify>
void verify_tables(std::span<const std::byte> bytes, const char* what, Verify verify) {
  constexpr flatbuffers::uoffset_t kDeepest = 16;
  constexpr flatbuffers::uoffset_t kMostTables = 50'000'000;
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kDeepest, kMostTables);
  if (!verify(verifier)) fail(TENON_BAD_FILE, "the ", what, " is not well-formed");
}

}  // namespace tenon::runtime
