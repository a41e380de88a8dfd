#include "core/file/safetensors.h"

#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "core/error.h"
#include "core/file/crc32c.h"
#include "core/file/weight_directory.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A fresh directory for one test.
std::string scratch() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + test->test_suite_name() + "." + test->name();
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

/// A file image: header length, header, then `data_bytes` bytes.
std::string image(const std::string& header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, '\x5a');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "a.safetensors");
}

void refuses_image(const std::string& file, const std::string& words) {
  EXPECT_THAT([&] { (void)parse(file); }, ThrowsMessage<Error>(HasSubstr(words)))
      << file.substr(0, 200);
  try {
    (void)parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
  }
}

void refuses(const std::string& header, std::size_t data_bytes, const std::string& words) {
  refuses_image(image(header, data_bytes), words);
}

std::string with_length(std::uint64_t length, std::size_t rest) {
  std::string text(8 + rest, '{');
  std::memcpy(text.data(), &length, 8);
  return text;
}

TEST(SafetensorsHeader, ReadsTensorsAndMetadata) {
  const auto header = parse(image(
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"__metadata__":{"format":"pt"},)"
      R"("a":{"shape":[],"dtype":"BF16","data_offsets":[8,10]},)"
      R"("none":{"shape":[0,5],"dtype":"I64","data_offsets":[8,8]}}   )",
      10));
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[1].name, "none") << "a tensor without elements has a place, no bytes";
  EXPECT_EQ(header.tensors[2].name, "a");
  EXPECT_TRUE(header.tensors[2].shape.empty());
  EXPECT_EQ(header.tensors[2].begin, header.data_start + 8);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, RefusesLengthsThatCannotBe) {
  refuses_image("", "file is shorter than its length field; where: a.safetensors; found: 0 bytes");
  refuses_image("1234567", "file is shorter than its length field");
  refuses_image(with_length(0, 8), "header is too short; where: a.safetensors; found: N = 0");
  refuses_image(with_length(1, 8), "header is too short; where: a.safetensors; found: N = 1");
  refuses_image(with_length(9, 8), "header length exceeds the file");
  refuses_image(with_length(100'000'001, 8), "header is longer than the limit");
  refuses_image("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
                "a pointer of Git LFS in place of the weights");
  refuses_image(with_length(std::uint64_t{1} << 63, 8), "N = 9223372036854775808, file 16 bytes");
  refuses_image(with_length(~std::uint64_t{0}, 8), "N = 18446744073709551615");
}

TEST(SafetensorsHeader, RefusesWhatIsNotJson) {
  refuses(" {}", 0, "header does not start with {");
  refuses("[]", 0, "header does not start with {");
  refuses("{\"a\xff\":1}", 0, "header is not valid JSON");
  refuses("{\"a\":", 0, "header is not valid JSON");
  refuses("{} x", 0, "header is not valid JSON");
  refuses(std::string("{}\0x", 4), 0, "header has a NUL byte");
  refuses("{\"a\":" + std::string(100000, '['), 0, "list where none belongs");
  refuses("{\"a\":{\"b\":{", 0, "unknown field");
  refuses("{\"__metadata__\":{\"b\":{}}}", 0, "object is nested too deep");
}

TEST(SafetensorsHeader, RefusesNamesTwiceOrImpossible) {
  const std::string tensor = R"({"dtype":"U8","shape":[1],"data_offsets":[)";
  refuses("{\"a\":" + tensor + "0,1]},\"a\":" + tensor + "1,2]}}", 2,
          "tensor name is given twice; where: a.safetensors; found: \"a\"");
  refuses(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
          "key is given twice");
  refuses(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "key is given twice");
  refuses(R"({"__metadata__":{},"__metadata__":{}})", 0, "key is given twice");
  refuses("{\"\":" + tensor + "0,1]}}", 1, "tensor name is empty");
  refuses("{\"" + std::string(1 << 20, 'n') + "\":" + tensor + "0,1]}}", 1,
          "tensor name is too long");
  refuses("{\"a\\u0000b\":" + tensor + "0,1]}}", 1, "tensor name has a control character");
  refuses("{\"../a\":" + tensor + "0,1]}}", 1, "tensor name climbs out of its directory");
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNotText) {
  refuses(R"({"__metadata__":{"k":1}})", 0, "value has the wrong type");
  refuses(R"({"__metadata__":{"k":null}})", 0, "value has the wrong type");
  refuses(R"({"__metadata__":[]})", 0, "list where none belongs");
  refuses(R"({"__metadata__":"x"})", 0, "value has the wrong type");
}

TEST(SafetensorsHeader, RefusesFieldsThatAreWrong) {
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  refuses(tensor("\"F7\"", "[1]", "[0,1]"), 1,
          "unknown dtype; where: a.safetensors, tensor \"a\"; found: \"F7\"");
  refuses(tensor("4", "[1]", "[0,1]"), 1, "value has the wrong type");
  refuses(tensor("[\"U8\"]", "[1]", "[0,1]"), 1, "list where none belongs");
  refuses(tensor("\"U8\"", "[-1]", "[0,1]"), 1, "number is negative");
  refuses(tensor("\"U8\"", "[1.0]", "[0,1]"), 1, "number is not whole");
  refuses(tensor("\"U8\"", "[1e2]", "[0,1]"), 1, "number is not whole");
  refuses(tensor("\"U8\"", "[99999999999999999999]", "[0,1]"), 1, "number is not whole");
  refuses(tensor("\"U8\"", "[18446744073709551615]", "[0,1]"), 1, "dimension is out of range");
  refuses(tensor("\"U8\"", "[\"1\"]", "[0,1]"), 1, "value has the wrong type");
  refuses(tensor("\"U8\"", "[[1]]", "[0,1]"), 1, "list where none belongs");
  refuses(tensor("\"U8\"", "1", "[0,1]"), 1, "value has the wrong type");
  refuses(tensor("\"U8\"", "[4294967296,4294967296,4294967296]", "[0,1]"), 1,
          "shape overflows 64 bits");
  refuses(tensor("\"F64\"", "[4611686018427387904]", "[0,0]"), 0, "shape overflows 64 bits");
  refuses(tensor("\"U8\"", "[1]", "[1,0]"), 1,
          "data_offsets end before they begin; where: a.safetensors, tensor \"a\"; found: 1, 0");
  refuses(tensor("\"U8\"", "[2]", "[0,2]"), 1, "data_offsets end past the file");
  refuses(tensor("\"F32\"", "[2]", "[0,7]"), 7,
          "byte range does not match shape and dtype; where: a.safetensors, tensor \"a\"; found: 7 "
          "bytes, shape x dtype = 8");
  refuses(tensor("\"U8\"", "[1]", "[0]"), 1, "tensor lacks");
  refuses(tensor("\"U8\"", "[1]", "[0,1,1]"), 1, "more than two numbers");
  refuses(R"({"a":{"dtype":"U8","shape":[1]}})", 0, "tensor lacks");
  refuses(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1}})", 1, "unknown field");
  refuses(R"({"a":7})", 0, "value has the wrong type");
}

TEST(SafetensorsHeader, RefusesOverlapsHolesAndTrailingBytes) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto b = [](int begin, int end) {
    return str(R"("b":{"dtype":"U8","shape":[)", end - begin, R"(],"data_offsets":[)", begin, ",",
               end, "]}");
  };
  refuses("{" + a + "," + b(2, 6) + "}", 6, "tensors overlap");
  refuses("{" + a + "," + b(0, 4) + "}", 4, "tensors overlap");
  refuses("{" + a + "," + b(5, 8) + "}", 8, "hole between tensors");
  refuses("{" + b(1, 5) + "}", 5, "hole between tensors");
  refuses("{" + a + "}", 5, "bytes after the last tensor");
  std::string many = "{";
  for (int i = 0; i < 100000; ++i)
    many +=
        str(i == 0 ? "" : ",", "\"t", i, R"(":{"dtype":"U8","shape":[9],"data_offsets":[0,9]})");
  refuses(many + "}", 9, "tensors overlap");
}

TEST(SafetensorsHeader, RefusesAFileThatWasCutWhileItWasRead) {
  const std::string path = scratch() + "/cut.safetensors";
  write_safetensors(real_file_system(), path, {});
  const InputFile file(real_file_system(), path);
  fs::resize_file(path, 100);
  EXPECT_THAT([&] { (void)read_safetensors_header(file); },
              ThrowsMessage<Error>(HasSubstr("file: ends too early; where: " + path)));
}

/// Tensors of several widths; contents follow from the names.
struct Content {
  std::vector<std::vector<std::byte>> data;
  std::vector<TensorBytes> tensors;

  void add(const std::string& name, StoredDtype dtype, std::vector<std::int64_t> shape) {
    const TensorSpec spec{name, dtype, std::move(shape)};
    std::vector<std::byte> bytes(spec.bytes());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + name.size() + i / 251);
    data.push_back(std::move(bytes));
    tensors.push_back({spec, data.back()});
  }
};

Content small_content() {
  Content content;
  content.add("b", StoredDtype::kFloat32, {3, 5});
  content.add("a", StoredDtype::kBfloat16, {7});
  content.add("\"quoted\" ü", StoredDtype::kUint8, {3});
  content.add("z", StoredDtype::kInt64, {});
  content.add("big", StoredDtype::kFloat32, {1200, 1100});
  content.add("empty", StoredDtype::kFloat32, {0, 4});
  return content;
}

TEST(SafetensorsWriter, WritesWhatIsReadBack) {
  const std::string path = scratch() + "/a.safetensors";
  const Content content = small_content();
  const WrittenFile written =
      write_safetensors(real_file_system(), path, content.tensors, {{"k", "v\n"}});
  EXPECT_EQ(written.data_start % 4096, 0U);
  const MappedSafetensors file(path);
  EXPECT_EQ(file.header().metadata.at("k"), "v\n");
  std::vector<std::string> order;
  for (const StoredTensor& tensor : file.header().tensors) {
    order.push_back(tensor.name);
    for (const TensorBytes& given : content.tensors) {
      if (given.name != tensor.name) continue;
      EXPECT_EQ(static_cast<const TensorSpec&>(given), tensor);
      EXPECT_TRUE(std::ranges::equal(file.bytes(tensor), given.data)) << tensor.name;
    }
  }
  EXPECT_THAT(order, testing::ElementsAre("z", "b", "big", "empty", "a", "\"quoted\" ü"));
}

TEST(SafetensorsWriter, GivesTheSameBytesForAnyOrderOfTheTensors) {
  const std::string directory = scratch();
  Content content = small_content();
  write_safetensors(real_file_system(), directory + "/a", content.tensors);
  std::ranges::reverse(content.tensors);
  write_safetensors(real_file_system(), directory + "/b", content.tensors);
  EXPECT_EQ(read_text_file(real_file_system(), directory + "/a", 1 << 30),
            read_text_file(real_file_system(), directory + "/b", 1 << 30));
}

TEST(SafetensorsWriter, ReportsTheChecksumsOfTheFile) {
  const std::string path = scratch() + "/a.safetensors";
  const WrittenFile written = write_safetensors(real_file_system(), path, small_content().tensors);
  const std::string text = read_text_file(real_file_system(), path, 1 << 30);
  const auto bytes = std::as_bytes(std::span(text));
  ASSERT_EQ(bytes.size(), written.bytes);
  EXPECT_EQ(written.crc32c, crc32c_by_table(bytes));
  ASSERT_EQ(written.block_crc32c.size(), 2U);
  EXPECT_EQ(written.block_crc32c[0], crc32c_by_table(bytes.first(kChecksumBlock)));
  EXPECT_EQ(written.block_crc32c[1], crc32c_by_table(bytes.subspan(kChecksumBlock)));
}

TEST(SafetensorsWriter, RefusesATensorTwiceAndMissingBytes) {
  const std::string path = scratch() + "/a.safetensors";
  const TensorSpec one{"a", StoredDtype::kFloat32, {2}};
  const TensorSpec other{"a", StoredDtype::kUint8, {2}};
  EXPECT_THAT(
      [&] {
        SafetensorsWriter(real_file_system(), path, {one, other}, {});
      },
      ThrowsMessage<Error>(HasSubstr("a tensor would be written twice")));
  SafetensorsWriter writer(real_file_system(), path, {one}, {});
  EXPECT_THAT([&] { (void)writer.finish(); },
              ThrowsMessage<Error>(HasSubstr("written bytes do not match the header")));
}

TEST(WeightDirectory, ReadsOneFileAndShardsAlike) {
  const std::string root = scratch();
  const Content content = small_content();
  fs::create_directories(root + "/source");
  replace_file(real_file_system(), root + "/source/config.json", "{\"a\": 1}\n");
  replace_file(real_file_system(), root + "/source/tokenizer.json", "{}\n");
  replace_file(real_file_system(), root + "/source/modeling.py", "import torch\n");
  HuggingFaceExport plan{.directory = root + "/one",
                         .source_directory = root + "/source",
                         .tensors = {content.tensors.begin(), content.tensors.end()},
                         .give = [&](const TensorSpec& tensor, const auto& append) {
                           for (const TensorBytes& given : content.tensors)
                             if (given.name == tensor.name) append(given.data);
                         }};
  write_hugging_face_directory(real_file_system(), plan);
  EXPECT_FALSE(fs::exists(root + "/one/modeling.py")) << "transformers does not run it";
  replace_file(real_file_system(), root + "/source/config.json", R"({"auto_map": {}})");
  plan.directory = root + "/many/";
  plan.max_shard_bytes = 100;
  write_hugging_face_directory(real_file_system(), plan);

  const WeightDirectory one(root + "/one");
  const WeightDirectory many(root + "/many");
  EXPECT_EQ(one.files().size(), 1U);
  EXPECT_EQ(many.files().size(), 3U);
  ASSERT_EQ(one.tensors().size(), content.tensors.size());
  for (const auto& [name, place] : one.tensors())
    EXPECT_TRUE(std::ranges::equal(place.bytes(), many.tensors().at(name).bytes())) << name;
  EXPECT_TRUE(fs::exists(root + "/many/config.json"));
  EXPECT_TRUE(fs::exists(root + "/many/tokenizer.json"));
  EXPECT_TRUE(fs::exists(root + "/many/modeling.py"));
  EXPECT_FALSE(fs::exists(root + "/many.tmp-export"));

  EXPECT_THAT([&] { write_hugging_face_directory(real_file_system(), plan); },
              ThrowsMessage<Error>(
                  HasSubstr("export: the directory exists already; where: " + root + "/many")));
  fs::remove(root + "/source/config.json");
  plan.directory = root + "/third";
  EXPECT_THAT([&] { write_hugging_face_directory(real_file_system(), plan); },
              ThrowsMessage<Error>(HasSubstr("the model directory has no config.json")));
}

TEST(WeightDirectory, RefusesDirectoriesThatAreNotWhole) {
  const std::string root = scratch();
  const auto refuses_directory = [&](const std::string& words,
                                     ExitCode exit = ExitCode::kCheckpointRefused) {
    try {
      WeightDirectory{root};
      ADD_FAILURE() << "no error: " << words;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
      EXPECT_EQ(error.exit_code(), exit) << error.what();
    }
  };
  refuses_directory("weights: no safetensors in the directory; where: " + root, ExitCode::kInput);
  const auto index = [&](const std::string& text) {
    replace_file(real_file_system(), root + "/model.safetensors.index.json", text);
  };
  Content content;
  content.add("a", StoredDtype::kFloat32, {2});
  write_safetensors(real_file_system(), root + "/x.safetensors", content.tensors);
  write_safetensors(real_file_system(), root + "/y.safetensors", content.tensors);
  index("{}");
  refuses_directory("index has no weight_map");
  index(R"({"weight_map":{"a":"../x.safetensors"}})");
  refuses_directory("index names a file outside the directory");
  index(R"({"weight_map":{"a":3}})");
  refuses_directory("index names no file");
  index(R"({"weight_map":{"a":"z.safetensors"}})");
  refuses_directory("shard is missing; where: " + root + "/z.safetensors");
  index(R"({"weight_map":{"b":"x.safetensors"}})");
  refuses_directory("tensor is not in the shard that the index names");
  index(R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})");
  refuses_directory("tensor is in two shards");
  replace_file(real_file_system(), root + "/model.safetensors", "1234567");
  refuses_directory("file is shorter than its length field; where: " + root + "/model.safetensors");
  EXPECT_THAT([&] { WeightDirectory{root + "/none"}; },
              ThrowsMessage<Error>(HasSubstr("weights: no such directory or file")));
}

}  // namespace
}  // namespace tributary
