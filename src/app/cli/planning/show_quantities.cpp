#include "app/cli/planning/show_quantities.h"

#include <iomanip>

#include "core/text.h"

namespace tributary::app {

std::string in_milliseconds(Nanoseconds time) {
  return str(std::fixed, std::setprecision(3), 1e-6 * static_cast<double>(time.count), " ms");
}

std::string in_percent(double share, int decimals) {
  return str(std::fixed, std::setprecision(decimals), 100 * share, " %");
}

std::string in_gibibytes(Bytes bytes) {
  return str(std::fixed, std::setprecision(2), static_cast<double>(bytes.count) / (1 << 30),
             " GiB");
}

}  // namespace tributary::app
