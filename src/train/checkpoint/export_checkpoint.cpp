#include "train/checkpoint/export_checkpoint.h"

#include <array>
#include <vector>

#include "core/error.h"
#include "core/file/weight_directory.h"
#include "train/checkpoint/checkpoint_reader.h"

namespace tributary::train {

void export_checkpoint(const std::string& checkpoint, const std::string& model_directory,
                       const std::string& output, FileSystem& files) {
  const std::string source = model_directory.empty()
                                 ? read_checkpoint_facts(checkpoint, files).model_directory
                                 : model_directory;
  TRIB_REQUIRE(exists(files, source + "/config.json"),
               .what = "checkpoint: the model directory of the run has no config.json",
               .where = source, .fix = "name the model directory with --model DIR");
  constexpr std::string_view kFolder = "model/";
  CheckpointReader reader(checkpoint, Verify::kTouched, files);
  HuggingFaceExport content{
      .directory = output, .source_directory = source, .tensors = {}, .give = {}};
  for (const auto& [name, tensor] : reader.manifest().tensors)
    if (name.starts_with(kFolder))
      content.tensors.push_back({name.substr(kFolder.size()), tensor.dtype, tensor.shape});
  content.give = [&](const TensorSpec& tensor, const auto& append) {
    std::vector<std::byte> bytes(tensor.bytes());
    const std::array request{
        ReadRequest{std::string(kFolder) + tensor.name, whole_box(tensor.shape), bytes}};
    reader.read(request);
    append(bytes);
  };
  write_hugging_face_directory(files, content);
}

}  // namespace tributary::train
