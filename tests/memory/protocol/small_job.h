#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/protocol/member.h"

namespace tributary::memory {

// A job of one controller, two producers and two consumers, and a look at what its cores ask for.

inline constexpr std::uint16_t kController = 0, kProducer = 1, kOther = 2, kConsumer = 3,
                               kConsumer2 = 4;
inline constexpr std::uint32_t kPageBytes = 64, kPages = 8;

[[nodiscard]] inline TimePoint at_ms(std::int64_t milliseconds) {
  return {milliseconds * 1'000'000};
}

[[nodiscard]] inline Role role_of(std::uint16_t process) {
  if (process == kController) return Role::kController;
  return process < kConsumer ? Role::kProducer : Role::kConsumer;
}

[[nodiscard]] inline PeerIdentity peer(std::uint16_t process, std::uint32_t epoch = 1) {
  return {.rank = process,
          .role = role_of(process),
          .process = process,
          .incarnation = 1,
          .epoch = epoch};
}

[[nodiscard]] inline MemberIdentity member(std::uint16_t process) {
  return {.process = process, .controller = kController, .incarnation = 1, .epoch = 1};
}

[[nodiscard]] inline SegmentRow row_of(std::uint16_t producer, std::uint32_t epoch = 1) {
  return {.process = producer,
          .length = std::uint64_t{kPages} * kPageBytes,
          .page_bytes = kPageBytes,
          .epoch = epoch,
          .incarnation = 1};
}

[[nodiscard]] inline PageTable first_table() {
  return PageTable::make({row_of(kProducer), row_of(kOther)}).value();
}

[[nodiscard]] inline MessageReceived from(std::uint16_t process, Message message,
                                          std::uint32_t epoch = 1) {
  return {.from = peer(process, epoch), .message = std::move(message)};
}

/// An object of one page at a producer.
[[nodiscard]] inline ObjectHandle handle_of(std::uint64_t sample, std::uint16_t producer,
                                            std::uint64_t generation = 1, std::uint32_t page = 0,
                                            std::uint32_t epoch = 1) {
  const std::uint64_t gva =
      GlobalAddress::make(Tier::kDram, producer, std::uint64_t{page} * kPageBytes).value().bits();
  return {.fields = {.key = {.sample = sample},
                     .first_gva = gva,
                     .generation = generation,
                     .bytes = 10,
                     .epoch = epoch,
                     .process = producer,
                     .dtype = static_cast<std::uint8_t>(ElementType::kU8),
                     .extent_count = 1},
          .extents = {{.gva = gva, .bytes = 10}}};
}

/// The actions of one kind.
template <class T>
[[nodiscard]] std::vector<T> all_of(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions)
    if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
  return found;
}

/// The messages of one kind that are sent, with where they go.
template <class T>
[[nodiscard]] std::vector<std::pair<std::uint16_t, T>> sent(const std::vector<Action>& actions) {
  std::vector<std::pair<std::uint16_t, T>> found;
  for (const Send& send : all_of<Send>(actions))
    if (const T* one = std::get_if<T>(&send.message)) found.emplace_back(send.to, *one);
  return found;
}

}  // namespace tributary::memory
