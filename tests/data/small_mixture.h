#pragma once

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "core/error.h"
#include "data/loader/loader.h"
#include "data/record/record.h"
#include "tests/data/temporary_folder.h"

namespace tributary::data {

/// Gives the characters of the first turn as tokens; refuses a record whose text is "bad", and one
/// whose text is "long" as too long. Sleeps for a time that differs from record to record, so that
/// threads finish out of order.
class LetterEncoder final : public SampleEncoder {
 public:
  Result<SampleShape> describe(const Record& record) const override {
    auto sample = encode(record);
    if (!sample) return sample.refusal();
    return sample.value().shape();
  }
  Result<EncodedSample> encode(const Record& record) const override {
    ++encoded;
    const std::string text = std::get<std::string>(record.turns.front().parts.front());
    std::this_thread::sleep_for(std::chrono::microseconds(text.size() * 7919 % 300));
    if (text == "stop") throw std::runtime_error("encoder broke");
    if (text.starts_with("bad")) return Refusal{"too_ugly", "text is " + text};
    if (text.starts_with("loud")) return Refusal{"no_sound", "1 sounds"};
    if (text.starts_with("long")) return Refusal{kTooLong, "9 tokens, limit 8"};
    EncodedSample sample;
    sample.key = record.key;
    sample.tokens.assign(text.begin(), text.end());
    sample.targets.assign(text.size(), 1);
    return sample;
  }
  Result<HeldOutSample> encode_held_out(const Record& record) const override {
    auto sample = encode(record);
    if (!sample) return sample.refusal();
    HeldOutSample held_out;
    held_out.sample = std::move(sample).value();
    held_out.answer = "x";
    return held_out;
  }
  mutable std::atomic<int> encoded = 0;
};

inline std::string line_of(const std::string& text) {
  return R"({"messages":[{"role":"user","content":")" + text +
         R"("},{"role":"assistant","content":"x"}]})"
         "\n";
}

/// One record per line: "<name><i>", padded to different lengths.
inline std::string lines_of(const std::string& name, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += line_of(str(name, i) + std::string(static_cast<std::size_t>(i % 13), '.'));
  return text;
}

inline std::string text_of(const EncodedSample& sample) {
  return {sample.tokens.begin(), sample.tokens.end()};
}

class LoaderTest : public testing::Test {
 protected:
  LoaderOptions options(int workers = 2) const {
    LoaderOptions options;
    options.data.sources = {source("small", 1.0), source("large", 3.0)};
    options.data.workers = workers;
    options.data.bad_at_least = 1000;
    options.seed = 11;
    options.batch_samples = 8;
    return options;
  }
  config::SourceSection source(const std::string& name, double weight = 1.0) const {
    return {.name = name,
            .path = folder_.at(name + ".jsonl"),
            .held_out = "",
            .images = "",
            .weight = weight};
  }
  void SetUp() override {
    folder_.write("small.jsonl", lines_of("s", 10));
    folder_.write("large.jsonl",
                  lines_of("l", 50) + line_of("bad one") + "{broken\n" + lines_of("m", 30));
  }
  /// "id source key text" of the samples of `batches` batches.
  std::vector<std::string> list(Loader& loader, int batches) const {
    std::vector<std::string> samples;
    for (int i = 0; i < batches; ++i)
      for (const EncodedSample& sample : loader.next_batch())
        samples.push_back(
            str(sample.id, " ", sample.source, " ", sample.key, " ", text_of(sample)));
    return samples;
  }
  /// Constructs a loader, takes batches until it fails, and returns the message.
  std::string failure(const LoaderOptions& chosen, ExitCode code = ExitCode::kInput) const {
    try {
      Loader loader(chosen, encoder_);
      for (int i = 0; i < 200; ++i) (void)loader.next_batch();
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), code);
      return error.what();
    }
    return "no failure";
  }

  TemporaryFolder folder_;
  LetterEncoder encoder_;
};

}  // namespace tributary::data
