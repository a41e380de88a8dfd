#include <algorithm>
#include <map>
#include <set>

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/file/weight_directory.h"
#include "core/log.h"
#include "model/family/all_families.h"
#include "model/model.h"
#include "model/weights/stored_tensors.h"

namespace tributary::model {
namespace {

using Place = WeightDirectory::Place;

/// Whether a tensor of an old file is a table that follows from the configuration.
bool is_derived_table(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".rotary_pos_emb.inv_freq") ||
         name.ends_with(".position_ids");
}

/// The tensors of a directory by their names in released checkpoints, without those of the other
/// parts of a larger model.
std::map<std::string, Place> locate_tensors(const config::ModelConfig& model,
                                            const WeightDirectory& weights) {
  const Family& family = find_family(model.family);
  std::map<std::string, Place> located;
  for (const auto& [name, place] : weights.tensors()) {
    if (is_derived_table(name) || !name.starts_with(model.tensor_prefix)) continue;
    const auto [entry, is_new] = located.try_emplace(released_name(family, name), place);
    TRIB_REQUIRE(is_new, .what = "model: weights hold a tensor under two names",
                 .where = place.file->path(),
                 .found = str(escaped(name), " and ", escaped(entry->second.tensor->name)));
  }
  return located;
}

/// The first names of a list, and how many there are in all.
std::string list_names(const std::string& title, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  if (names.empty()) return "";
  std::string text = str(title, " (", names.size(), "):");
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += " " + names[i] + ",";
  text.back() = names.size() > kShown ? ' ' : ';';
  return text + (names.size() > kShown ? "...; " : " ");
}

bool is_float(StoredDtype dtype) {
  return dtype == StoredDtype::kFloat32 || dtype == StoredDtype::kBfloat16 ||
         dtype == StoredDtype::kFloat16 || dtype == StoredDtype::kFloat64;
}

std::string describe(at::IntArrayRef found, at::IntArrayRef expected) {
  return tributary::str(found, " instead of ", expected);
}

struct Faults {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> mis_shaped;

  void raise_if_any(const std::string& directory) const {
    const std::string found = list_names("missing", missing) +
                              list_names("unexpected", unexpected) +
                              list_names("of another shape or type", mis_shaped);
    TRIB_REQUIRE(found.empty(), .what = "model: weights do not fit config.json", .where = directory,
                 .found = found.substr(0, found.rfind(';')),
                 .fix = "use the config.json and the weights of one model",
                 .exit = ExitCode::kCheckpointRefused);
  }
};

const std::string kHead = "lm_head.weight";
const std::string kEmbedding = "embed_tokens.weight";

/// The tensor whose name ends so, behind the prefix of a family; the end when there is none.
std::map<std::string, Place>::iterator find_ending(std::map<std::string, Place>& located,
                                                   const std::string& end) {
  return std::ranges::find_if(located, [&](const auto& entry) {
    const std::string& name = entry.first;
    return name == end || name.ends_with("." + end);
  });
}

/// Takes a head that config.json ties out of the list: it must be the embedding.
void take_tied(std::map<std::string, Place>& located) {
  const auto head = find_ending(located, kHead);
  if (head == located.end()) return;
  const auto embedding = find_ending(located, kEmbedding);
  if (embedding != located.end())  // else it is reported as missing
    TRIB_REQUIRE(at::equal(view_stored(*embedding->second.file, *embedding->second.tensor),
                           view_stored(*head->second.file, *head->second.tensor)),
                 .what = "model: weights hold a head that differs from the embedding",
                 .where = head->second.file->path(), .found = head->first,
                 .expected = str("equal to ", embedding->first, ", as config.json ties them"),
                 .fix = "set tie_word_embeddings to false in config.json to use both",
                 .exit = ExitCode::kCheckpointRefused);
  located.erase(head);
}

/// Lets a head that the files lack start as a copy of the embedding.
void copy_missing_head(const Model& model, const std::string& directory,
                       std::map<std::string, Place>& located) {
  const auto embedding = find_ending(located, kEmbedding);
  if (embedding == located.end() || find_ending(located, kHead) != located.end()) return;
  for (const auto& unit : model.units())
    for (const auto& parameter : unit->parameters()) {
      if (!parameter->name.ends_with(kHead)) continue;
      log_warning(str("model: ", directory, " has no ", parameter->name,
                      ": the head starts as a copy of the embedding; set tie_word_embeddings in "
                      "config.json to keep them equal"));
      located.emplace(parameter->name, embedding->second);
      return;
    }
}

struct Copy {
  const parallel::Unit& unit;
  const parallel::Parameter& parameter;
  Place place;
};

/// Bytes that a slow disk reads well before the watch takes the rank for one that hangs.
constexpr std::int64_t kBlockBytes = std::int64_t{16} << 20;

/// Copies a block of rows at a time.
/// shape: from and to [rows, ...], equal
void copy_in_blocks(const at::Tensor& from, const at::Tensor& to, const OnProgress& on_progress) {
  const std::int64_t rows = from.size(0);
  const auto bytes = static_cast<std::int64_t>(from.numel() * from.element_size());
  const std::int64_t step =
      std::max<std::int64_t>(1, rows * kBlockBytes / std::max(bytes, kBlockBytes));
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    to.narrow(0, row, count).copy_(from.narrow(0, row, count));
    if (on_progress) on_progress();
  }
}

/// Reads the part of a parameter in this rank's shard; other pages of the file are not touched.
void copy_own_part(const Copy& copy, const OnProgress& on_progress) {
  const at::Tensor stored = view_stored(*copy.place.file, *copy.place.tensor);
  for (const auto& [box, first] : copy.unit.boxes_of(copy.parameter)) {
    at::Tensor part = stored;
    for (std::size_t i = 0; i < box.lengths.size(); ++i)
      part = part.narrow(static_cast<std::int64_t>(i), box.offsets[i], box.lengths[i]);
    copy_in_blocks(part, copy.unit.shard_value().narrow(0, first, part.numel()).view(box.lengths),
                   on_progress);
  }
}

}  // namespace

void load_weights(Model& model, const std::string& directory, const OnProgress& on_progress) {
  const at::NoGradGuard no_grad;
  const WeightDirectory weights(directory);
  std::map<std::string, Place> located = locate_tensors(model.config(), weights);

  if (model.config().backbone.has_other_head)
    log_warning(str("model: ", directory,
                    " holds a head that differs from the embedding: both are used, though "
                    "config.json ties them"));
  if (model.config().backbone.tied_head)
    take_tied(located);
  else
    copy_missing_head(model, directory, located);

  Faults faults;
  std::vector<Copy> copies;
  std::set<std::string> used;  // a tied head on a stage of its own uses the embedding once more
  for (const auto& unit : model.units()) {
    if (unit->is_adapter()) continue;
    for (const auto& parameter : unit->parameters()) {
      const auto entry = located.find(parameter->name);
      if (entry == located.end()) {
        faults.missing.push_back(parameter->name);
        continue;
      }
      const StoredTensor& tensor = *entry->second.tensor;
      if (tensor.shape != parameter->shape)
        faults.mis_shaped.push_back(
            str(parameter->name, " ", describe(tensor.shape, parameter->shape)));
      else if (!is_float(tensor.dtype))
        faults.mis_shaped.push_back(str(parameter->name, " ", stored_name(tensor.dtype)));
      else
        copies.push_back({*unit, *parameter, entry->second});
      used.insert(parameter->name);
    }
  }
  for (const auto& [name, place] : located)
    if (!used.contains(name)) faults.unexpected.push_back(escaped(place.tensor->name));
  faults.raise_if_any(directory);
  for (const Copy& copy : copies) copy_own_part(copy, on_progress);
  for (const auto& unit : model.units()) unit->discard();
}

}  // namespace tributary::model
