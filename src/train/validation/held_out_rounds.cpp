#include "train/validation/held_out_rounds.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "mesh/exchange_bytes.h"

namespace tributary::train {
namespace {

std::size_t bytes_of(const data::PictureSize& size) {
  return static_cast<std::size_t>(size.height * size.width) * 3;
}

/// The facts of a question for the other ranks of the replica; its sample carries the rows.
Json facts_of(const Question& question) {
  Json sizes = Json::array();
  for (const data::PictureSize& size : question.picture_sizes)
    sizes.push_back({size.height, size.width});
  return {{"position", question.position},
          {"prompt", question.held_out.prompt},
          {"question", question.held_out.question},
          {"answer", question.held_out.answer},
          {"pictures", std::move(sizes)}};
}

std::vector<Question> take_questions(std::string_view message) {
  std::vector<Question> questions;
  while (!message.empty()) {
    const Json facts = data::take_facts(message);
    Question& question = questions.emplace_back();
    question.position = facts.at("position").get<std::int64_t>();
    question.held_out.prompt = facts.at("prompt").get<std::vector<std::int32_t>>();
    question.held_out.question = facts.at("question").get<std::string>();
    question.held_out.answer = facts.at("answer").get<std::string>();
    for (const Json& size : facts.at("pictures"))
      question.picture_sizes.push_back(
          {.height = size.at(0).get<std::int64_t>(), .width = size.at(1).get<std::int64_t>()});
    question.held_out.sample = data::take_sample(message);
  }
  return questions;
}

/// The rank that reads the sample at this position.
int reader_of(const ReplicaReaders& readers, const HeldOutRound& round, std::int64_t position) {
  for (std::size_t replica = 0; replica < round.positions.size(); ++replica) {
    const std::vector<std::int64_t>& own = round.positions[replica];
    const auto found = std::ranges::lower_bound(own, position);
    if (found != own.end() && *found == position)
      return readers.rank(static_cast<std::int64_t>(replica),
                          (found - own.begin()) % readers.count());
  }
  TRIB_RAISE(Fault::kBug, .what = "train: question is not of the round", .found = str(position));
}

}  // namespace

std::vector<std::int64_t> measure_held_out(const Session& session, int source,
                                           std::int64_t samples) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(samples));
  for (std::int64_t i = session.mesh->rank(); i < samples; i += session.mesh->size()) {
    const Result<SampleShape> shape = session.held_out->describe(source, i);
    if (shape) tokens[static_cast<std::size_t>(i)] = shape.value().tokens.count;
  }
  return session.mesh->world().sum(std::move(tokens));
}

std::vector<HeldOutRound> deal_rounds(std::span<const std::int64_t> tokens, std::int64_t replicas,
                                      std::int64_t capacity) {
  std::vector<HeldOutRound> rounds;
  std::vector<std::int64_t> load;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    const std::int64_t size = tokens[static_cast<std::size_t>(i)];
    if (size == 0) continue;
    auto least = std::ranges::min_element(load);
    if (rounds.empty() || (*least > 0 && *least + size > capacity)) {
      rounds.emplace_back().positions.resize(static_cast<std::size_t>(replicas));
      load.assign(static_cast<std::size_t>(replicas), 0);
      least = load.begin();
    }
    *least += size;
    rounds.back().positions[static_cast<std::size_t>(least - load.begin())].push_back(i);
  }
  return rounds;
}

RoundPart read_round(const Session& session, const ReplicaReaders& readers, int source,
                     const HeldOutRound& round) {
  RoundPart part;
  const auto& own = round.positions[static_cast<std::size_t>(session.mesh->data_index())];
  for (std::size_t i = 0; readers.own() >= 0 && i < own.size(); ++i) {
    if (static_cast<std::int64_t>(i) % readers.count() != readers.own()) continue;
    Result<data::HeldOutSample> loaded = session.held_out->load(source, own[i]);
    if (!loaded) continue;
    Question question{.position = own[i], .held_out = std::move(loaded).value()};
    for (const data::Picture& picture : question.held_out.pictures)
      question.picture_sizes.push_back({.height = picture.height, .width = picture.width});
    part.decoded[own[i]] = std::move(question.held_out.pictures);
    part.questions.push_back(std::move(question));
  }
  if (!readers.pass()) return part;
  const auto write = [&](data::MediaRows rows) {
    std::string message;
    for (const Question& question : part.questions) {
      data::append_facts(message, facts_of(question));
      data::append_sample(message, question.held_out.sample, rows);
    }
    return message;
  };
  for (const std::string& message : readers.pass_on(session.mesh->world(), write))
    std::ranges::move(take_questions(message), std::back_inserter(part.questions));
  std::ranges::sort(part.questions, {}, &Question::position);
  return part;
}

std::vector<std::vector<data::Picture>> collect_pictures(const mesh::Group& world,
                                                         const ReplicaReaders& readers,
                                                         const HeldOutRound& round,
                                                         const std::vector<KeptQuestion>& kept,
                                                         RoundPart& part) {
  std::vector<std::string> to_each(static_cast<std::size_t>(world.size()));
  for (const KeptQuestion& question : kept)
    if (const auto own = part.decoded.find(question.position); own != part.decoded.end())
      for (const data::Picture& picture : own->second)
        to_each.front().append(picture.rgb.begin(), picture.rgb.end());
  const std::vector<std::string> from_each = mesh::exchange_bytes(world, to_each);
  std::vector<std::vector<data::Picture>> pictures;
  if (world.index() != 0) return pictures;
  std::vector<std::size_t> taken(from_each.size());  // bytes
  for (const KeptQuestion& question : kept) {
    const auto rank = static_cast<std::size_t>(reader_of(readers, round, question.position));
    std::vector<data::Picture>& own = pictures.emplace_back();
    for (const data::PictureSize& size : question.sizes) {
      const auto first = from_each[rank].begin() + static_cast<std::ptrdiff_t>(taken[rank]);
      taken[rank] += bytes_of(size);
      own.push_back({.width = static_cast<int>(size.width),
                     .height = static_cast<int>(size.height),
                     .rgb = {first, first + static_cast<std::ptrdiff_t>(bytes_of(size))}});
    }
  }
  return pictures;
}

}  // namespace tributary::train
