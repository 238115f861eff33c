#include "runtime/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "format/checkpoint_generated.h"
#include "runtime/artifact.h"
#include "runtime/checked.h"
#include "runtime/container_writer.h"
#include "runtime/elements.h"
#include "runtime/replace_file.h"
#include "runtime/structs.h"

namespace tenon::runtime {
namespace {

using Bytes = std::span<const std::byte>;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using format::SectionKind;

Bytes bytes_of(States& states, size_t i) { return {states.read(i), static_cast<size_t>(states.all()[i].bytes)}; }

// ---- writing --------------------------------------------------------------------------------------------------------

std::vector<Offset<format::Note>> notes_of(States& states, FlatBufferBuilder& b) {
  std::vector<Offset<format::Note>> notes;
  for (const auto& [key, value] : states.notes()) {
    const auto own_key = b.CreateString(key);
    notes.push_back(format::CreateNote(b, own_key, b.CreateString(value)));
  }
  return notes;
}

// The table, and the pieces of the weights that it refers to.
void add_tables(States& states, FlatBufferBuilder& b, std::vector<Bytes>& pieces) {
  std::vector<Offset<format::StateValue>> values;
  uint64_t end = 0;
  for (size_t i = 0; i < states.all().size(); ++i) {
    const StateInfo& info = states.all()[i];
    end = pad(pieces, end);
    const format::Blob blob(end, static_cast<uint64_t>(info.bytes));
    const auto name = b.CreateString(info.name);
    const auto shape = b.CreateVector(info.shape);
    values.push_back(format::CreateStateValue(b, name, static_cast<format::DType>(info.dtype), shape, &blob));
    pieces.push_back(bytes_of(states, i));
    end += blob.size();
  }
  const auto table = b.CreateVector(values);
  format::FinishCheckpointBuffer(b, format::CreateCheckpoint(b, table, b.CreateVector(notes_of(states, b))));
}

// ---- reading --------------------------------------------------------------------------------------------------------

StateInfo value_of(const format::StateValue& from, Bytes weights) {
  const auto shape = span_of(from.shape());
  StateInfo info{from.name()->str(), static_cast<tenon_dtype>(from.dtype()), {shape.begin(), shape.end()}};
  if (from.dtype() > format::DType::MAX) fail(TENON_BAD_FILE, "state '", info.name, "' has an unknown dtype");
  const format::Blob blob = from.data() ? *from.data() : format::Blob(0, 0);
  info.bytes = size_of(info.dtype);
  for (const int64_t size : shape) {
    if (size < 0) fail(TENON_BAD_FILE, "state '", info.name, "' has a size of ", size);
    info.bytes = checked_mul(info.bytes, size);
  }
  if (blob.size() != static_cast<uint64_t>(info.bytes)) {
    fail(TENON_BAD_FILE, "state '", info.name, "' has ", blob.size(), " bytes in the file");
  }
  info.initial = place_of(blob, weights);
  return info;
}

// The positions of the states' values in the file, in order.
std::vector<const std::byte*> match(const States& states, const Checkpoint& from) {
  std::vector<const std::byte*> found(states.all().size());
  for (const StateInfo& value : from.states) {
    const size_t i = states.find(value.name);
    if (i == found.size())
      fail(TENON_INVALID_ARGUMENT, "the file has a state '", value.name, "', which this program lacks");
    states.check_type(i, value);
    if (found[i] != nullptr) fail(TENON_BAD_FILE, "the file has state '", value.name, "' twice");
    found[i] = value.initial;
  }
  const auto missing = std::ranges::find(found, nullptr) - found.begin();
  if (missing == std::ssize(found)) return found;
  fail(TENON_INVALID_ARGUMENT, "the file has no state '", states.all()[static_cast<size_t>(missing)].name, "'");
}

void take(States& states, const Container& file) {
  Checkpoint from = read_checkpoint(file);
  const std::vector<const std::byte*> values = match(states, from);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bytes = static_cast<size_t>(states.all()[i].bytes);
    if (bytes > 0) std::memcpy(states.write(i), values[i], bytes);
  }
  states.notes().swap(from.notes);
}

// ---- safetensors ----------------------------------------------------------------------------------------------------

constexpr char kSafeNames[][5] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};

void append_string(std::string& json, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= ' ')
      json += c;
    else
      json.append("\\u00").append({kDigits[c >> 4], kDigits[c & 15]});
  }
  json += '"';
}

void append_tensor(std::string& json, const StateInfo& info, int64_t begin) {
  append_string(json, info.name);
  json += text_of(":{\"dtype\":\"", kSafeNames[info.dtype], "\",\"shape\":[");
  for (size_t i = 0; i < info.shape.size(); ++i) json += text_of(i > 0 ? "," : "", info.shape[i]);
  json += text_of("],\"data_offsets\":[", begin, ",", begin + info.bytes, "]}");
}

void append_notes(std::string& json, const Notes& notes) {
  json += "\"__metadata__\":{";
  for (const auto& [key, value] : notes) {
    if (json.back() != '{') json += ',';
    append_string(json, key);
    json += ':';
    append_string(json, value);
  }
  json += '}';
}

// Large elements first, so that all are aligned.
std::vector<size_t> aligned_order(const States& states) {
  std::vector<size_t> order;
  for (int64_t bytes = 8; bytes > 0; bytes /= 2) {
    for (size_t i = 0; i < states.all().size(); ++i) {
      if (size_of(states.all()[i].dtype) == bytes) order.push_back(i);
    }
  }
  return order;
}

}  // namespace

Checkpoint read_checkpoint(const Container& file) {
  const Container::Section* const section = file.find(SectionKind::kCheckpoint);
  const Container::Section* const weights = file.find(SectionKind::kWeights);
  if (section == nullptr || weights == nullptr) fail(TENON_BAD_FILE, "this is not a checkpoint");
  verify_tables(section->bytes, "checkpoint", [](auto& verifier) { return format::VerifyCheckpointBuffer(verifier); });
  const format::Checkpoint& from = *format::GetCheckpoint(section->bytes.data());
  Checkpoint result;
  for (const format::StateValue* value : *from.states()) result.states.push_back(value_of(*value, weights->bytes));
  if (from.notes() == nullptr) return result;
  for (const format::Note* note : *from.notes()) result.notes.emplace(note->key()->str(), note->value()->str());
  return result;
}

void save_states(States& states, const std::string& path) {
  const States::Use use(states);
  FlatBufferBuilder b;
  SectionContent weights{SectionKind::kWeights, "", {}};
  add_tables(states, b, weights.pieces);
  const Bytes table = std::as_bytes(std::span(b.GetBufferPointer(), b.GetSize()));
  const SectionContent sections[] = {{SectionKind::kCheckpoint, "", {table}}, std::move(weights)};
  with_path(path, [&] { replace_file(path, lay_out(sections).pieces, true); });
}

void load_states(States& states, const std::string& path) {
  const States::Use use(states);
  with_path(path, [&] { take(states, Container::open(path)); });
}

void export_states(States& states, const std::string& path) {
  const States::Use use(states);
  std::string header(sizeof(uint64_t), '\0');
  header += '{';
  append_notes(header, states.notes());
  std::vector<Bytes> pieces(1);
  int64_t end = 0;
  for (const size_t i : aligned_order(states)) {
    header += ',';
    append_tensor(header, states.all()[i], end);
    pieces.push_back(bytes_of(states, i));
    end += states.all()[i].bytes;
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t size = header.size() - sizeof size;
  std::memcpy(header.data(), &size, sizeof size);
  pieces[0] = std::as_bytes(std::span(header));
  with_path(path, [&] { replace_file(path, pieces, true); });
}

}  // namespace tenon::runtime
