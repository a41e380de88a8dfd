#include "data/record/table_file.h"

#include "core/error.h"
#include "core/file/given_file.h"

namespace tributary::data {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& found) {
  TRIB_RAISE(Fault::kInput, .what = "data: this build reads no Parquet and no Arrow",
             .where = shown_path(path), .found = found,
             .fix = "run `make setup`, which installs pyarrow, and build again");
}

}  // namespace

std::unique_ptr<RecordFile> open_parquet(const std::string& path) { refuse(path, "Parquet"); }
std::unique_ptr<RecordFile> open_arrow(const std::string& path) { refuse(path, "Arrow"); }

}  // namespace tributary::data
