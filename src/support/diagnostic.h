// Failure has two words in Tenon.
//
// A Diagnostic is the user's mistake: a malformed text, a shape that does not fit, an index out of range. It says what
// went wrong, where, with the values, and what to do. Inside the compiler `fail(...)` throws a Diagnostic as an
// `Error`. The functions that a folder offers return it in a `Result<T>`, and `Result::value()` throws it again.
//
// A failed `check(...)` is a bug of Tenon. It throws an `InternalError`, which never becomes a Diagnostic.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "support/message.h"

namespace tenon {

// A place in a text the user wrote: a graph file, or the model's source. Line and column count from 1; 0 is "unknown".
struct Location {
  std::string file;
  int line = 0;
  int column = 0;

  bool known() const { return line > 0 || !file.empty(); }
  bool operator==(const Location&) const = default;
};

std::string to_string(const Location& location);  // "model.py:12:3"

struct Diagnostic {
  std::string message;
  Location where;

  std::string text() const;  // "model.py:12:3: error: message"
};

class Error : public std::exception {
 public:
  explicit Error(Diagnostic diagnostic) : diagnostic_(std::move(diagnostic)), text_(diagnostic_.text()) {}
  const Diagnostic& diagnostic() const { return diagnostic_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Diagnostic diagnostic_;
  std::string text_;
};

class InternalError : public std::exception {
 public:
  explicit InternalError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

template <class... Args>
[[noreturn]] void fail(MessageFor<Args...> format, const Args&... args) {
  throw Error({fill_in(format, args...), {}});
}

template <class... Args>
[[noreturn]] void fail_at(Location where, MessageFor<Args...> format, const Args&... args) {
  throw Error({fill_in(format, args...), std::move(where)});
}

template <class... Args>
void check(bool holds, MessageFor<Args...> format, const Args&... args) {
  if (!holds) throw InternalError("internal error: " + fill_in(format, args...));
}

// Runs `body`. An Error that it throws without a place gets the place `where`.
template <class Body>
decltype(auto) located(const Location& where, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.diagnostic().where.known()) throw;
    throw Error({error.diagnostic().message, where});
  }
}

// A value, or the Diagnostic that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Diagnostic diagnostic) : state_(std::in_place_index<1>, std::move(diagnostic)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value; throws the diagnostic as an Error when there is none.
  const T& value() const& { return require(), std::get<0>(state_); }
  T& value() & { return require(), std::get<0>(state_); }
  T value() && { return require(), std::get<0>(std::move(state_)); }

  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  // Only when !ok().
  const Diagnostic& diagnostic() const { return std::get<1>(state_); }

 private:
  void require() const {
    if (!ok()) throw Error(diagnostic());
  }

  std::variant<T, Diagnostic> state_;
};

struct Unit {
  bool operator==(const Unit&) const = default;
};
using Status = Result<Unit>;

// Runs `body` and turns an Error that it throws into a Result. A body that returns nothing gives a Status.
template <class Body>
auto attempt(Body&& body) -> Result<std::conditional_t<std::is_void_v<decltype(body())>, Unit, decltype(body())>> {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return Unit{};
    } else {
      return body();
    }
  } catch (const Error& error) {
    return error.diagnostic();
  }
}

}  // namespace tenon
