#include "train/validation/held_out_rounds.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "mesh/exchange_bytes.h"
#include "train/balance/predict_load.h"

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
          {"references", question.held_out.references},
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
    question.held_out.references = facts.at("references").get<std::vector<std::string>>();
    for (const Json& size : facts.at("pictures"))
      question.picture_sizes.push_back(
          {.height = size.at(0).get<std::int64_t>(), .width = size.at(1).get<std::int64_t>()});
    question.held_out.sample = data::take_sample(message);
  }
  return questions;
}

/// The samples of a round in one order on all ranks, and how they travel.
struct RoundRoutes {
  std::vector<std::int64_t> positions;         // replica after replica
  std::map<std::int64_t, SampleRoute> routes;  // by position
  // Where encoders have meshes of their own: the samples by their headers, and their media.
  std::vector<SampleShape> shapes;
  std::vector<schedule::PackedBins> packs;  // [replicas] one bin, or none
  DealtItems media;                         // of one round
};

/// Reads the headers of a round, by which its media are dealt. A sample whose header is bad has
/// none.
void describe_round(const Session& session, int source, const HeldOutRound& round,
                    RoundRoutes& routed) {
  for (const std::vector<std::int64_t>& own : round.positions) {
    schedule::PackedBins& pack = routed.packs.emplace_back(schedule::PackedBins{{0}, {}});
    for (const std::int64_t position : own) {
      const Result<SampleShape> shape = session.held_out->describe(source, position);
      pack.items.push_back(static_cast<std::int32_t>(routed.shapes.size()));
      routed.shapes.push_back(shape ? shape.value() : SampleShape{});
    }
    if (!own.empty()) pack.first.push_back(static_cast<std::int32_t>(pack.items.size()));
  }
}

/// Deals the media of a round, whose samples have these shapes.
DealtItems deal_round(const Session& session, std::span<const SampleShape> shapes,
                      std::span<const schedule::PackedBins> packs) {
  DealtItems items;
  for (const FeatureEdge& edge : session.lanes.edges) {
    schedule::MediaSeats seats = edge.seats;
    seats.passes = 0;  // one pass encodes them all
    items.push_back(schedule::list_media(shapes, packs, edge.takes));
    schedule::deal_media(
        seats,
        media_cost(session.model_config, session.config.model, edge.encoder, session.times.get()),
        items.back());
    items.back().resize(1);
  }
  return items;
}

RoundRoutes route_round(const Session& session, int source, const HeldOutRound& round) {
  RoundRoutes routed;
  if (session.lanes.has_encoders_apart()) {
    describe_round(session, source, round, routed);
    routed.media = deal_round(session, routed.shapes, routed.packs);
  }
  for (const std::vector<std::int64_t>& own : round.positions)
    routed.positions.insert(routed.positions.end(), own.begin(), own.end());
  const auto seats = seats_of_samples(routed.media, routed.positions.size());
  std::size_t index = 0;
  for (std::size_t replica = 0; replica < round.positions.size(); ++replica) {
    std::int64_t place = 0;
    for (const std::int64_t position : round.positions[replica])
      routed.routes.emplace(position, session.router->route(static_cast<std::int64_t>(replica),
                                                            place++, seats[index++]));
  }
  return routed;
}

/// Reads those samples of the round that this rank reads.
void read_own(const Session& session, int source, const RoundRoutes& routed, RoundPart& part) {
  for (const auto& [position, route] : routed.routes) {
    part.readers.emplace(position, route.reader);
    if (!session.router->duty_of(route).reads) continue;
    Result<data::HeldOutSample> loaded = session.held_out->load(source, position);
    if (!loaded) continue;
    Question question{.position = position, .held_out = std::move(loaded).value()};
    for (const data::Picture& picture : question.held_out.pictures)
      question.picture_sizes.push_back({.height = picture.height, .width = picture.width});
    part.decoded[position] = std::move(question.held_out.pictures);
    part.questions.push_back(std::move(question));
  }
}

/// Leaves out the media of samples that their readers have refused, and takes those that this rank
/// encodes. collective: over all ranks
void take_media(const Session& session, RoundRoutes routed, RoundPart& part) {
  std::vector<std::int64_t> is_read(routed.positions.size());
  std::vector<data::EncodedSample> samples;
  for (std::size_t i = 0; i < is_read.size(); ++i) {
    is_read[i] = part.decoded.contains(routed.positions[i]) ? 1 : 0;
    const auto own = std::ranges::find(part.questions, routed.positions[i], &Question::position);
    if (own == part.questions.end()) continue;
    samples.push_back(own->held_out.sample);
    samples.back().id = static_cast<std::int64_t>(i);
  }
  is_read = session.mesh->world().sum(std::move(is_read));
  for (std::size_t i = 0; i < is_read.size(); ++i)
    if (is_read[i] == 0) routed.shapes[i] = {};
  part.media.items = deal_round(session, routed.shapes, routed.packs);
  for (std::size_t edge = 0; edge < routed.media.size(); ++edge)
    TRIB_CHECK(!schedule::keep_seats(routed.media[edge], part.media.items[edge]).has_value(),
               .what = "train: sample of a round has no seat");
  for (const EncoderLane& own : session.lanes.encoders)
    part.media.inputs[own.encoder] = collate_encoder_input(
        samples, items_of_pass(own, part.media.items, /*pass=*/0),
        /*first_id=*/0, session.model->encoder_layouts().at(own.encoder), session.device);
}

}  // namespace

std::vector<std::int64_t> measure_held_out(const Session& session, int source,
                                           std::int64_t samples) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(samples));
  const mesh::Group& world = session.mesh->world();
  for (std::int64_t i = world.index(); i < samples; i += world.size()) {
    const Result<SampleShape> shape = session.held_out->describe(source, i);
    if (shape) tokens[static_cast<std::size_t>(i)] = shape.value().tokens.count;
  }
  return world.sum(std::move(tokens));
}

std::vector<HeldOutRound> deal_rounds(std::span<const std::int64_t> tokens, std::int64_t replicas,
                                      std::int64_t capacity) {
  std::vector<HeldOutRound> rounds;
  std::vector<std::int64_t> load;
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
    const std::int64_t size = tokens[static_cast<std::size_t>(i)];
    if (size == 0) continue;
    auto min = std::ranges::min_element(load);
    if (rounds.empty() || (*min > 0 && *min + size > capacity)) {
      rounds.emplace_back().positions.resize(static_cast<std::size_t>(replicas));
      load.assign(static_cast<std::size_t>(replicas), 0);
      min = load.begin();
    }
    *min += size;
    rounds.back().positions[static_cast<std::size_t>(min - load.begin())].push_back(i);
  }
  return rounds;
}

RoundPart read_round(const Session& session, int source, const HeldOutRound& round) {
  RoundPart part;
  RoundRoutes routed = route_round(session, source, round);
  read_own(session, source, routed, part);
  if (session.router->passes()) {
    const auto write = [&](const data::RowsOf& rows_of) {
      std::string message;
      for (const Question& question : part.questions) {
        const std::optional<ModalitySet> with_rows = rows_of(question.position);
        if (!with_rows) continue;
        data::append_facts(message, facts_of(question));
        data::append_sample(message, question.held_out.sample, *with_rows);
      }
      return message;
    };
    std::vector<Question> received;
    for (const std::string& message : session.router->pass_along(routed.routes, write))
      std::ranges::move(take_questions(message), std::back_inserter(received));
    std::ranges::move(received, std::back_inserter(part.questions));
  }
  std::ranges::sort(part.questions, {}, &Question::position);
  if (session.lanes.has_encoders_apart()) take_media(session, std::move(routed), part);
  const auto is_own = [&](const Question& question) {
    const std::int64_t replica = session.mesh->data_index();
    return replica >= 0 &&
           std::ranges::binary_search(round.positions[static_cast<std::size_t>(replica)],
                                      question.position);
  };
  std::erase_if(part.questions, [&](const Question& question) { return !is_own(question); });
  return part;
}

Microbatch collate_round(const Session& session, const RoundPart& part) {
  std::vector<const data::EncodedSample*> samples;
  for (const Question& question : part.questions) samples.push_back(&question.held_out.sample);
  Microbatch microbatch =
      samples.empty()
          ? idle_microbatch()
          : collate(samples, session.model_config, session.config.model.mrope, session.device,
                    rows_taken_inline(session.model->layout(), session.lanes));
  microbatch.batch.encode_apart = encode_apart(*session.model, session.lanes, part.media);
  return microbatch;
}

std::vector<std::vector<data::Picture>> collect_pictures(const mesh::Group& world,
                                                         const std::vector<KeptQuestion>& kept,
                                                         const RoundPart& part) {
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
    const auto rank = static_cast<std::size_t>(part.readers.at(question.position));
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
