#include "app/python/read_numbers.h"

#include <cstring>
#include <nanobind/ndarray.h>

#include "core/error.h"

namespace tributary::app {
namespace {

namespace nb = nanobind;

std::string shown(nb::handle value) {
  nb::str text = nb::repr(value);
  return std::string(text.c_str()).substr(0, 200);
}

double checked(double number, const std::string& where) {
  TRIB_REQUIRE(number >= 0 && number <= kMaxWhole, .what = "app: number out of range",
               .where = where, .found = str(number), .expected = "0 to 2^53");
  return number;
}

/// Converts a number of Python or of any library, which has __float__ or __index__.
double to_number(nb::handle value, const std::string& where) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) {
    const bool is_large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    PyErr_Clear();
    TRIB_REQUIRE(is_large, .what = "app: not a number", .where = where, .found = shown(value),
                 .expected = "a number from 0 to 2^53");
    TRIB_REQUIRE(!is_large, .what = "app: number out of range", .where = where,
                 .found = shown(value), .expected = "0 to 2^53");
  }
  return checked(number, where);
}

template <class T>
double element(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

using Reader = double (*)(const char*);

/// The function that reads an element of a dtype; nullptr for a dtype that is not supported.
Reader reader_of(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto is = [&](Code code, int bits) {
    return dtype.code == static_cast<std::uint8_t>(code) && dtype.bits == bits && dtype.lanes == 1;
  };
  if (is(Code::Int, 64)) return element<std::int64_t>;
  if (is(Code::Int, 32)) return element<std::int32_t>;
  if (is(Code::Int, 16)) return element<std::int16_t>;
  if (is(Code::Int, 8)) return element<std::int8_t>;
  if (is(Code::UInt, 64)) return element<std::uint64_t>;
  if (is(Code::UInt, 32)) return element<std::uint32_t>;
  if (is(Code::UInt, 16)) return element<std::uint16_t>;
  if (is(Code::UInt, 8)) return element<std::uint8_t>;
  if (is(Code::Float, 64)) return element<double>;
  if (is(Code::Float, 32)) return element<float>;
  return nullptr;
}

using Array = nb::ndarray<nb::ro, nb::device::cpu>;

void read_array(const Array& array, NumberTable& table) {
  TRIB_REQUIRE(array.ndim() == 1 || array.ndim() == 2, .what = "app: array of another rank",
               .where = table.source, .found = str(array.ndim(), " dimensions"),
               .expected = "1, or 2: rows and columns");
  const Reader read = reader_of(array.dtype());
  TRIB_REQUIRE(
      read != nullptr, .what = "app: dtype cannot be used", .where = table.source,
      .found = str("code ", int{array.dtype().code}, ", ", int{array.dtype().bits}, " bits"),
      .expected = "integers, or floats of 32 or 64 bits");
  const bool is_flat = array.ndim() == 1;
  const std::size_t size = array.dtype().bits / 8;
  table.width = is_flat ? 1 : static_cast<std::int64_t>(array.shape(1));
  const auto* data = static_cast<const char*>(array.data());
  table.values.reserve(array.size());
  for (std::size_t row = 0; row < array.shape(0); ++row) {
    for (std::int64_t column = 0; column < table.width; ++column) {
      const std::int64_t offset = static_cast<std::int64_t>(row) * array.stride(0) +
                                  (is_flat ? 0 : column * array.stride(1));
      const double number = read(data + offset * static_cast<std::int64_t>(size));
      if (!(number >= 0 && number <= kMaxWhole)) {
        (void)checked(number, is_flat ? str(table.source, "[", row, "]")
                                      : str(table.source, "[", row, "][", column, "]"));
      }
      table.values.push_back(number);
    }
  }
}

bool is_row(nb::handle item) {
  return PySequence_Check(item.ptr()) != 0 && !PyUnicode_Check(item.ptr()) &&
         !PyBytes_Check(item.ptr());
}

void read_sequence(nb::handle given, NumberTable& table) {
  const auto rows = nb::steal<nb::object>(PySequence_Fast(given.ptr(), "a sequence"));
  if (!rows.is_valid()) throw nb::python_error();
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(rows.ptr());
  for (Py_ssize_t row = 0; row < count; ++row) {
    const nb::handle item = PySequence_Fast_GET_ITEM(rows.ptr(), row);
    if (!is_row(item)) {
      if (row == 0) table.width = 1;
      TRIB_REQUIRE(table.width == 1, .what = "app: row of another width",
                   .where = table.place_of(row), .found = "a number",
                   .expected = str(table.width, " numbers, as in row 0"));
      const double number = PyFloat_CheckExact(item.ptr()) ? PyFloat_AS_DOUBLE(item.ptr()) : -1;
      table.values.push_back(
          number >= 0 && number <= kMaxWhole ? number : to_number(item, table.place_of(row)));
      continue;
    }
    const auto cells = nb::steal<nb::object>(PySequence_Fast(item.ptr(), "a sequence"));
    if (!cells.is_valid()) throw nb::python_error();
    const Py_ssize_t width = PySequence_Fast_GET_SIZE(cells.ptr());
    if (row == 0) table.width = width;
    TRIB_REQUIRE(width == table.width && width > 0, .what = "app: row of another width",
                 .where = table.place_of(row), .found = str(width, " numbers"),
                 .expected = row == 0 ? "one number or more" : str(table.width, ", as in row 0"));
    for (Py_ssize_t column = 0; column < width; ++column) {
      table.values.push_back(to_number(PySequence_Fast_GET_ITEM(cells.ptr(), column),
                                       str(table.place_of(row), "[", column, "]")));
    }
  }
}

}  // namespace

NumberTable read_numbers(nb::handle given, const std::string& name) {
  NumberTable table;
  table.source = name;
  table.has_lines = false;
  Array array;
  const bool is_text = PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr());
  if (!is_text && nb::try_cast(given, array)) {
    read_array(array, table);
  } else {
    TRIB_REQUIRE(!is_text && PySequence_Check(given.ptr()) != 0 && !PyDict_Check(given.ptr()),
                 .what = "app: not a sequence of numbers", .where = name, .found = shown(given),
                 .expected = "a list, a tuple or an array on the CPU");
    read_sequence(given, table);
  }
  TRIB_REQUIRE(!table.values.empty(), .what = "app: sequence holds no numbers", .where = name,
               .expected = "a number, or a row of numbers, for each item");
  return table;
}

}  // namespace tributary::app
