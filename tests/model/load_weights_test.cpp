#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include <ATen/ATen.h>

#include "core/error.h"
#include "model/model.h"
#include "model/weights/stored_tensors.h"
#include "tests/model/tiny_text_model.h"

namespace tributary::model {
namespace {

namespace fs = std::filesystem;
using config::ModelFamily;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::map<std::string, at::Tensor>;

/// A fresh directory that is removed with the test.
class LoadWeights : public testing::Test {
 protected:
  LoadWeights() {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~LoadWeights() override { fs::remove_all(directory_); }

  static Tensors tensors_of(const Model& model) {
    Tensors tensors;
    for (const auto& unit : model.units())
      for (const auto& parameter : unit->parameters())
        tensors[parameter->name] = parameter->value.detach().clone();
    return tensors;
  }
  void write(const Tensors& tensors, const std::string& file = "model.safetensors") const {
    write_tensors(directory_ / file, tensors);
  }
  void write_text(const std::string& file, const std::string& text) const {
    std::ofstream(directory_ / file) << text;
  }
  std::unique_ptr<Model> load(const config::ModelConfig& config) const {
    auto model = make_model(config);
    for (const auto& unit : model->units()) unit->materialize(at::kCPU, at::kFloat, true);
    load_weights(*model, directory_);
    return model;
  }

  const fs::path directory_ =
      fs::temp_directory_path() / (std::string("trib_load_weights_") +
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
  const config::ModelConfig config_ = tiny_config(ModelFamily::kQwen2);
  const Tensors tensors_ = tensors_of(*make_random_model(config_));
};

void expect_equal(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
}

TEST_F(LoadWeights, ReadsASingleFile) {
  write(tensors_);
  expect_equal(tensors_of(*load(config_)), tensors_);
}

TEST_F(LoadWeights, ReadsShards) {
  Tensors first;
  Tensors second;
  std::string map;
  for (const auto& [name, tensor] : tensors_) {
    const bool in_first = first.size() <= second.size();
    (in_first ? first : second)[name] = tensor;
    map +=
        (map.empty() ? "\"" : ",\"") + name + "\":\"" + (in_first ? "a" : "b") + ".safetensors\"";
  }
  write(first, "a.safetensors");
  write(second, "b.safetensors");
  write_text("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
  expect_equal(tensors_of(*load(config_)), tensors_);
}

TEST_F(LoadWeights, WidensHalfPrecision) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kDouble}) {
    Tensors stored;
    Tensors expected;
    for (const auto& [name, tensor] : tensors_) {
      stored[name] = tensor.to(dtype);
      expected[name] = stored[name].to(at::kFloat);
    }
    write(stored);
    expect_equal(tensors_of(*load(config_)), expected);
  }
}

TEST_F(LoadWeights, ReadsOverTablesThatAreNoParameters) {
  Tensors more = tensors_;
  more["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({3});
  write(more);
  expect_equal(tensors_of(*load(config_)), tensors_);
}

TEST_F(LoadWeights, ListsAllThatIsMissingUnexpectedOrMisShaped) {
  Tensors damaged = tensors_;
  damaged.erase("model.layers.1.mlp.down_proj.weight");
  damaged.erase("model.norm.weight");
  damaged["model.layers.0.mlp.extra.weight"] = at::ones({2});
  damaged["model.layers.0.self_attn.q_proj.bias"] = at::ones({5});
  damaged["model.layers.0.self_attn.k_proj.bias"] = at::ones({12}, at::kLong);
  write(damaged);
  EXPECT_THAT([&] { (void)load(config_); },
              ThrowsMessage<Error>(AllOf(
                  HasSubstr("input error: model: weights do not fit config.json"),
                  HasSubstr("missing (2): model.layers.1.mlp.down_proj.weight, model.norm.weight;"),
                  HasSubstr("unexpected (1): \"model.layers.0.mlp.extra.weight\";"),
                  HasSubstr("of another shape or type (2): "
                            "model.layers.0.self_attn.q_proj.bias [5] instead of [24], "
                            "model.layers.0.self_attn.k_proj.bias I64"))));
}

TEST_F(LoadWeights, TakesATiedHeadFromTheEmbedding) {
  const config::ModelConfig tied = tiny_config(ModelFamily::kQwen3);
  Tensors tensors = tensors_of(*make_random_model(tied));
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  write(tensors);
  tensors.erase("lm_head.weight");
  expect_equal(tensors_of(*load(tied)), tensors);
}

TEST_F(LoadWeights, RefusesATiedHeadThatDiffers) {
  const config::ModelConfig tied = tiny_config(ModelFamily::kQwen3);
  Tensors tensors = tensors_of(*make_random_model(tied));
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight") + 1;
  write(tensors);
  EXPECT_THAT([&] { (void)load(tied); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a head that differs from the embedding"),
                                         HasSubstr("set tie_word_embeddings to false"))));
}

TEST_F(LoadWeights, StartsAMissingHeadAsTheEmbeddingAloud) {
  Tensors tensors = tensors_;
  tensors.erase("lm_head.weight");
  write(tensors);
  testing::internal::CaptureStderr();
  const auto model = load(config_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("warning: "), HasSubstr("has no lm_head.weight")));
  EXPECT_TRUE(
      at::equal(tensors_of(*model).at("lm_head.weight"), tensors_.at("model.embed_tokens.weight")));
}

TEST_F(LoadWeights, ReadsWhatItExported) {
  const auto model = make_random_model(config_, 5);
  write_text("config.json", R"({"model_type":"qwen2","torch_dtype":"bfloat16"})");
  write_text("tokenizer.json", "{}");
  const fs::path target = directory_ / "exported";
  export_weights(*model, directory_, target);
  expect_equal(read_tensors(target / "model.safetensors"), tensors_of(*model));
  EXPECT_TRUE(fs::exists(target / "tokenizer.json"));
  std::ifstream config(target / "config.json");
  const std::string text((std::istreambuf_iterator<char>(config)), {});
  EXPECT_THAT(text, HasSubstr("\"torch_dtype\": \"float32\""));
}

}  // namespace
}  // namespace tributary::model
