// The C functions of tenon-kernels.wasm, which js/kernels.mjs calls. Each returns a status of tenon.h; why one failed
// is tenon_error(). A text that one makes is kernels_text(). An object that one makes is the caller's: the function
// whose name ends with _free takes it back.
//
// Symbols of dimensions, and expressions over them, are their texts: "m.0", "2*m.0 + 1". Lists of Symbols have spaces.
#pragma once

#include <new>
#include <string>

#include "named/tensor.h"
#include "tenon/tenon.h"

#define EXPORT(name) extern "C" __attribute__((export_name(#name))) tenon_status name

namespace tenon::web {

void set_error(std::string text);
void set_text(std::string text);

template <class Body>
tenon_status guarded(Body body) {
  try {
    body();
    return TENON_OK;
  } catch (const Error& error) {
    const Diagnostic& diagnostic = error.diagnostic();
    set_error(diagnostic.where.known() ? diagnostic.text() : diagnostic.message);
    return TENON_INVALID_ARGUMENT;
  } catch (const std::bad_alloc&) {
    set_error("there is no memory left");
    return TENON_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_error(error.what());
    return TENON_INTERNAL;
  }
}

named::Expr expr_from(const char* text);
named::Symbol symbol_from(std::string_view text);
named::Symbols symbols_from(std::string_view texts);
DType dtype_from(std::string_view name);

std::string quoted(std::string_view text);  // as JSON

}  // namespace tenon::web
