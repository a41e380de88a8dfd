#include "app/python/translate_error.h"

#include <nanobind/nanobind.h>

#include "core/error.h"

namespace tributary::app {
namespace {

namespace nb = nanobind;

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kInput:
      return "input";
    case Fault::kResource:
      return "resource";
    case Fault::kBug:
      return "bug";
  }
  return "bug";
}

/// A message may hold bytes of a file that are not UTF-8; they are escaped.
nb::object text(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                        "backslashreplace"));
}

void translate(const std::exception_ptr& raised, void* /*payload*/) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    const ErrorParts& parts = error.parts();
    const nb::object type = nb::module_::import_("tributary.errors").attr("Error");
    const nb::object value =
        type(text(error.what()), text(parts.what), text(parts.where), text(parts.found),
             text(parts.expected), text(parts.fix), name_of(error.fault()));
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

void register_error() { nb::register_exception_translator(translate); }

}  // namespace tributary::app
