#include "train/start/identity.h"

#include <array>
#include <set>

#include "core/file/file_system.h"
#include "core/sha256.h"
#include "data/text/chat_template.h"

namespace tributary::train {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;

/// Counts all parameters and their elements, and the elements that train: those have moments.
std::string describe_shape(const model::Model& model) {
  std::int64_t parameters = 0;
  std::int64_t elements = 0;
  std::int64_t trained = 0;
  std::set<std::string> names;  // a head that is tied over pipeline stages is there twice
  for (const auto& unit : model.units()) {
    for (const auto& parameter : unit->parameters()) {
      if (!names.insert(parameter->name).second) continue;
      ++parameters;
      elements += parameter->elements();
      if (unit->trainable()) trained += parameter->elements();
    }
  }
  return str(parameters, " tensors, ", elements, " elements, ", trained, " trained");
}

/// SHA-256 of a file of the model; `none` where there is no such file.
std::string digest_file(const std::string& path) {
  FileSystem& files = real_file_system();
  return exists(files, path) ? sha256(read_text_file(files, path, kMostFileBytes)) : "none";
}

/// SHA-256 of a short chat as the template writes it, so that a change of the program shows too.
std::string digest_template(const data::Tokenizer& tokenizer) {
  const data::ChatTemplate chat(tokenizer, {.system_prompt = "system"});
  const std::array<data::Turn, 2> turns{
      data::Turn{.role = data::Role::kUser, .parts = {std::string("question")}},
      data::Turn{.role = data::Role::kAssistant, .parts = {std::string("answer")}}};
  return sha256(chat.render(turns, data::ChatEnd::kLastTurn) +
                chat.render(std::span(turns).first(1), data::ChatEnd::kGenerationPrompt));
}

}  // namespace

RunIdentity identify(const Session& session) {
  const std::string& folder = session.config.model.path;
  std::string data;
  for (const data::SourceDigest& source : session.loader->state().sources)
    data += str(data.empty() ? "" : "; ", describe(source));
  RunIdentity identity = describe_identity(session.config);
  identity["model.shape"] = describe_shape(*session.model);
  identity["model.tokenizer"] = digest_file(folder + "/tokenizer.json");
  identity["model.preprocessor"] = digest_file(folder + "/preprocessor_config.json");
  identity["model.chat_template"] = digest_template(*session.tokenizer);
  identity["optimizer.kind"] = session.optimizer->kind();
  identity["data.digest"] = data;
  return identity;
}

}  // namespace tributary::train
