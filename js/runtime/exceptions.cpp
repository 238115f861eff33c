// C++ exceptions, which the C++ library for wasm32 lacks: what compiled code calls to throw and to catch.
//
// The engine unwinds: a throw carries the address of an Exception to the next landing pad. There, compiled code asks
// _Unwind_CallPersonality which of its clauses takes the exception, and rethrows if none does. What it asks with is the
// table that the compiler made of the function's clauses: the LSDA of the Itanium C++ ABI.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <typeinfo>

// A base of all classes of type_info in the C++ library, where its last virtual function compares types.
namespace __cxxabiv1 {  // NOLINT: the library's name
class __shim_type_info : public std::type_info {
 public:
  ~__shim_type_info() override;
  virtual void noop1() const;
  virtual void noop2() const;
  virtual bool can_catch(const __shim_type_info* thrown, void*& object) const = 0;
};
}  // namespace __cxxabiv1

namespace {

using Type = __cxxabiv1::__shim_type_info;

using Destructor = void*(void* object);  // returns the object, as all destructors of this target do

struct alignas(16) Exception {
  const Type* type;
  Destructor* destroy;
  void* caught;     // the object as the clause wants it: the address of its base class
  Exception* next;  // the exception whose handler threw this one
  int handlers;     // that run; negative while it is thrown again

  void* object() { return this + 1; }
  static Exception* of(void* object) { return static_cast<Exception*>(object) - 1; }
};

// For a bad_alloc when there is no memory at all.
struct {
  alignas(Exception) std::byte bytes[sizeof(Exception) + 64];
  bool is_taken;
} reserve;

void* take(size_t bytes) {
  if (void* const memory = std::malloc(bytes)) return memory;
  if (reserve.is_taken || bytes > sizeof reserve.bytes) std::terminate();
  reserve.is_taken = true;
  return reserve.bytes;
}

void give_back(void* memory) {
  if (memory == reserve.bytes)
    reserve.is_taken = false;
  else
    std::free(memory);
}

thread_local Exception* caught = nullptr;  // the innermost that this thread is handling

[[noreturn]] void throw_it(Exception* exception) {
  constexpr int kCppException = 0;  // the tag
  __builtin_wasm_throw(kCppException, exception);
}

// ---- the table of a function's clauses ------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(const uint8_t* at) : at_(at) {}
  const uint8_t* at() const { return at_; }
  uint8_t byte() { return *at_++; }

  uint32_t unsigned_number() {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t part = byte();
      value |= static_cast<uint32_t>(part & 0x7f) << shift;
      if (!(part & 0x80)) return value;
    }
  }

  int32_t signed_number() {
    uint32_t value = 0;
    for (int shift = 0;;) {
      const uint8_t part = byte();
      value |= static_cast<uint32_t>(part & 0x7f) << shift;
      shift += 7;
      if (part & 0x80) continue;
      const bool is_negative = part & 0x40;
      return static_cast<int32_t>(is_negative && shift < 32 ? value | ~0u << shift : value);
    }
  }

 private:
  const uint8_t* at_;
};

struct Clauses {
  const Type* const* types_end = nullptr;  // type i of the function lies i places before
  const uint8_t* first_action = nullptr;   // of this landing pad; null: it only cleans up
};

Clauses clauses_of(const uint8_t* table, uint32_t landing_pad) {
  constexpr uint8_t kOmitted = 0xff;
  Clauses clauses;
  Reader reader(table);
  if (reader.byte() != kOmitted) std::terminate();  // the compiler gives no start of landing pads for wasm
  if (reader.byte() != kOmitted) {
    const uint32_t offset = reader.unsigned_number();
    clauses.types_end = reinterpret_cast<const Type* const*>(reader.at() + offset);
  }
  reader.byte();  // the encoding of call sites, which are pairs of numbers
  const uint32_t size = reader.unsigned_number();
  const uint8_t* const actions = reader.at() + size;
  for (uint32_t i = 0; i < landing_pad; ++i) reader.unsigned_number(), reader.unsigned_number();
  reader.unsigned_number();  // the landing pad again
  const uint32_t action = reader.unsigned_number();
  if (action > 0) clauses.first_action = actions + action - 1;
  return clauses;
}

bool takes(const Type* type, Exception& exception) {
  void* object = exception.object();
  if (type != nullptr && !type->can_catch(exception.type, object)) return false;
  exception.caught = object;
  return true;
}

// The number of the clause that takes the exception; 0: none.
int32_t clause_for(Exception& exception, const Clauses& clauses) {
  for (const uint8_t* action = clauses.first_action; action != nullptr;) {
    Reader reader(action);
    const int32_t type = reader.signed_number();
    if (type > 0 && takes(clauses.types_end[-type], exception)) return type;
    const uint8_t* const from = reader.at();
    const int32_t next = reader.signed_number();
    action = next == 0 ? nullptr : from + next;
  }
  return 0;
}

}  // namespace

extern "C" {

// Compiled code sets the first two before it asks, and reads the third.
thread_local struct {
  uint32_t landing_pad;
  const uint8_t* table;
  int32_t clause;
} __wasm_lpad_context;  // NOLINT: the compiler's name

// Compiled code names it, and calls the function below instead.
void __gxx_personality_wasm0() {}

int32_t _Unwind_CallPersonality(void* exception) {
  auto& place = __wasm_lpad_context;
  place.clause = place.table == nullptr
                     ? 0
                     : clause_for(*static_cast<Exception*>(exception), clauses_of(place.table, place.landing_pad));
  return 0;
}

void* __cxa_allocate_exception(size_t bytes) {
  void* const memory = take(sizeof(Exception) + bytes);
  std::memset(memory, 0, sizeof(Exception));
  return static_cast<Exception*>(memory)->object();
}

void __cxa_free_exception(void* object) { give_back(Exception::of(object)); }

[[noreturn]] void __cxa_throw(void* object, std::type_info* type, Destructor* destroy) {
  Exception* const exception = Exception::of(object);
  exception->type = static_cast<const Type*>(type);
  exception->destroy = destroy;
  exception->caught = object;
  throw_it(exception);
}

void* __cxa_get_exception_ptr(void* exception) { return static_cast<Exception*>(exception)->caught; }

void* __cxa_begin_catch(void* thrown) {
  auto* const exception = static_cast<Exception*>(thrown);
  exception->handlers = std::abs(exception->handlers) + 1;
  if (exception != caught) {
    exception->next = caught;
    caught = exception;
  }
  return exception->caught;
}

void __cxa_end_catch() {
  Exception* const exception = caught;
  const bool is_thrown_again = exception->handlers < 0;
  exception->handlers += is_thrown_again ? 1 : -1;
  if (exception->handlers != 0) return;
  caught = exception->next;
  if (is_thrown_again) return;
  if (exception->destroy != nullptr) exception->destroy(exception->object());
  give_back(exception);
}

[[noreturn]] void __cxa_rethrow() {
  if (caught == nullptr) std::terminate();
  caught->handlers = -caught->handlers;
  throw_it(caught);
}

}  // extern "C"

// The library's own would end the program.
void* operator new(size_t bytes) {
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  void* memory = nullptr;
  const size_t wanted = static_cast<size_t>(alignment) < sizeof(void*) ? sizeof(void*) : static_cast<size_t>(alignment);
  if (posix_memalign(&memory, wanted, bytes == 0 ? 1 : bytes) == 0) return memory;
  throw std::bad_alloc();
}
