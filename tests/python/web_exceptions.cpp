// What js/runtime/exceptions.cpp promises: run() is the number of the first check that fails, 0 if none does.
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace {

int alive = 0;

struct Left {
  int left = 1;
  virtual ~Left() = default;
};
struct Right {
  int right = 2;
  virtual ~Right() = default;
};
struct Both : Left, Right {
  Both() { ++alive; }
  Both(const Both& other) : Left(other), Right(other) { ++alive; }
  ~Both() override { --alive; }
};

struct Guard {
  explicit Guard(int& count) : count_(count) {}
  ~Guard() { ++count_; }
  int& count_;
};

[[gnu::noinline]] void throw_both() { throw Both(); }

bool a_base_is_caught_at_its_place() {
  try {
    throw_both();
  } catch (const std::string&) {
    return false;
  } catch (const Right& right) {
    return right.right == 2 && alive == 1;
  }
  return false;
}

bool by_value() {
  try {
    throw_both();
  } catch (Both both) {  // NOLINT: a copy on purpose
    return alive == 2 && both.right == 2;
  }
  return false;
}

bool destructors_run_and_others_pass() {
  int count = 0;
  try {
    const Guard outer(count);
    try {
      const Guard inner(count);
      throw 7;
    } catch (const Both&) {
      return false;
    }
  } catch (int number) {
    return number == 7 && count == 2;
  }
  return false;
}

bool rethrown_keeps_the_object() {
  try {
    try {
      throw_both();
    } catch (const Left&) {
      throw;
    }
  } catch (...) {
    return alive == 1;
  }
  return false;
}

bool thrown_inside_of_a_handler() {
  try {
    try {
      throw_both();
    } catch (...) {
      throw std::string("second");
    }
  } catch (const std::string& text) {
    return text == "second" && alive == 0;
  }
  return false;
}

bool a_handler_of_its_own_inside_of_a_handler() {
  try {
    throw 1;
  } catch (int first) {
    try {
      throw_both();
    } catch (const Both&) {
      return first == 1 && alive == 1;
    }
  }
  return false;
}

bool the_librarys_own() {
  try {
    std::vector<char> many(size_t{0} - 1);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

bool no_memory() {
  try {
    ::operator delete(::operator new(size_t{0} - 4096));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

}  // namespace

extern "C" __attribute__((export_name("run"))) int run() {
  bool (*const checks[])() = {a_base_is_caught_at_its_place,
                              by_value,
                              destructors_run_and_others_pass,
                              rethrown_keeps_the_object,
                              thrown_inside_of_a_handler,
                              a_handler_of_its_own_inside_of_a_handler,
                              the_librarys_own,
                              no_memory};
  int number = 0;
  for (bool (*check)() : checks) {
    ++number;
    if (!check() || alive != 0) return number;
  }
  return 0;
}
