#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/reading/ranges.h"
#include "config/run/run_keys.h"

// Turns a path of member pointers into a Key; for the files that hold lines of the table.
namespace tributary::config {

inline constexpr double kManySteps = 1e12;
// Keeps cu_seqlens and sums over a batch far from overflow.
inline constexpr double kManyTokens = 1 << 24;

// The names of an enumeration in the file, by value.
template <class Enum>
const std::vector<std::string>& names_of();
template <>
inline const std::vector<std::string>& names_of<Weights>() {
  static const std::vector<std::string> names{"random", "pretrained", "checkpoint"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Dtype>() {
  static const std::vector<std::string> names{"float32", "bfloat16"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<MropeMode>() {
  static const std::vector<std::string> names{"official", "hf5"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Packing>() {
  static const std::vector<std::string> names{"none", "online_best_fit", "best_fit_decreasing",
                                              "level"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Balance>() {
  static const std::vector<std::string> names{"none", "lpt", "lpt_2d"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Decay>() {
  static const std::vector<std::string> names{"constant", "linear", "cosine",
                                              "warmup_stable_decay"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<OnNonFinite>() {
  static const std::vector<std::string> names{"skip", "stop"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Shard>() {
  static const std::vector<std::string> names{"parameters", "optimizer"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<TooLong>() {
  static const std::vector<std::string> names{"drop", "refuse", "truncate"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<WeighBy>() {
  static const std::vector<std::string> names{"samples", "tokens"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<ObjectiveKind>() {
  static const std::vector<std::string> names{"next_token", "dpo"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<PairLoss>() {
  static const std::vector<std::string> names{"sigmoid", "ipo"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<AdapterKind>() {
  static const std::vector<std::string> names{"none", "lora", "dora"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<OptimizerKind>() {
  static const std::vector<std::string> names{"adamw", "muon", "adamw_8bit"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Bind>() {
  static const std::vector<std::string> names{"auto", "cores", "none"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Deterministic>() {
  static const std::vector<std::string> names{"auto", "yes", "no"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Release>() {
  static const std::vector<std::string> names{"auto", "after_forward", "never"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<PipelineOrder>() {
  static const std::vector<std::string> names{"gpipe", "1f1b",   "interleaved", "zb_h1",
                                              "zb_v",  "v_half", "v_min"};
  return names;
}
/// Only plans have the other placement.
template <>
inline const std::vector<std::string>& names_of<Placement>() {
  static const std::vector<std::string> names{"inline", "colocated", "separate", "flow"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<PoolOrder>() {
  static const std::vector<std::string> names{"data", "arrival"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<ReduceDtype>() {
  static const std::vector<std::string> names{"float32", "same"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Offload>() {
  static const std::vector<std::string> names{"none", "optimizer", "parameters"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<Collectives>() {
  static const std::vector<std::string> names{"device", "host"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<FeatureMemory>() {
  static const std::vector<std::string> names{"device", "host"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<BesideStages>() {
  static const std::vector<std::string> names{"all", "first"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<DrillFault>() {
  static const std::vector<std::string> names{"none", "kill", "stop", "fail"};
  return names;
}
template <>
inline const std::vector<std::string>& names_of<DrillPlace>() {
  static const std::vector<std::string> names{"forward", "backward",  "collective",
                                              "action",  "optimizer", "checkpoint"};
  return names;
}

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};

/// Follows member pointers from the configuration to one field, through item `item` of a list.
template <class Object>
Object& follow(Object& object, std::size_t) {
  return object;
}
template <class Object, class Member, class... Rest>
auto& follow(Object& object, std::size_t item, Member member, Rest... rest) {
  auto& next = object.*member;
  if constexpr (sizeof...(Rest) > 0 && IsList<std::remove_cvref_t<decltype(next)>>::value) {
    return follow(next[item], item, rest...);
  } else {
    return follow(next, item, rest...);
  }
}

template <auto... kPath>
struct Field {
  using Type = std::remove_cvref_t<decltype(follow(std::declval<RunConfig&>(), 0, kPath...))>;

  static KeyValue get(const RunConfig& config, std::size_t item) {
    const Type& value = follow(config, item, kPath...);
    if constexpr (std::is_same_v<Type, Tokens>) {
      return value.count;
    } else if constexpr (std::is_same_v<Type, Degree>) {
      return value.is_auto() ? KeyValue(std::string("auto")) : KeyValue(value.count);
    } else if constexpr (std::is_same_v<Type, std::vector<ModuleRecompute>>) {
      std::vector<std::string> words;
      for (const ModuleRecompute& each : value) words.push_back(word_of(each));
      return words;
    } else if constexpr (std::is_same_v<Type, std::vector<std::int64_t>>) {
      return write_ranks(value);
    } else if constexpr (std::is_enum_v<Type>) {
      return names_of<Type>()[static_cast<std::size_t>(value)];
    } else if constexpr (std::is_integral_v<Type> && !std::is_same_v<Type, bool>) {
      return static_cast<std::int64_t>(value);
    } else {
      return value;
    }
  }
  static void set(RunConfig& config, std::size_t item, const KeyValue& value) {
    Type& field = follow(config, item, kPath...);
    if constexpr (std::is_same_v<Type, Tokens>) {
      field.count = std::get<std::int64_t>(value);
    } else if constexpr (std::is_same_v<Type, Degree>) {
      const auto* count = std::get_if<std::int64_t>(&value);
      field.count = count == nullptr ? 0 : *count;
    } else if constexpr (std::is_same_v<Type, std::vector<ModuleRecompute>>) {
      field.clear();
      for (const std::string& word : std::get<std::vector<std::string>>(value))
        field.push_back(recompute_of_word(word).value());
    } else if constexpr (std::is_same_v<Type, std::vector<std::int64_t>>) {
      field = parse_ranks(std::get<std::string>(value)).value_or(Type{});
    } else if constexpr (std::is_enum_v<Type>) {
      const std::vector<std::string>& names = names_of<Type>();
      const auto name = std::find(names.begin(), names.end(), std::get<std::string>(value));
      field = static_cast<Type>(name - names.begin());
    } else if constexpr (std::is_integral_v<Type> && !std::is_same_v<Type, bool>) {
      field = static_cast<Type>(std::get<std::int64_t>(value));
    } else {
      field = std::get<Type>(value);
    }
  }
};

/// The text and the flags of a line of the table.
struct Say {
  std::string path;
  std::string meaning;
  std::string unit = {};
  KeyRange range = {};
  std::vector<std::string> choices = {};
  bool required = false;
};

template <auto... kPath>
Key key(Say say) {
  using Type = typename Field<kPath...>::Type;
  KeyType type = KeyType::kText;
  if constexpr (std::is_same_v<Type, bool>) {
    type = KeyType::kFlag;
  } else if constexpr (std::is_integral_v<Type> || std::is_same_v<Type, Tokens>) {
    type = KeyType::kWhole;
  } else if constexpr (std::is_same_v<Type, Degree>) {
    type = KeyType::kDegree;
  } else if constexpr (std::is_same_v<Type, double>) {
    type = KeyType::kNumber;
  } else if constexpr (std::is_same_v<Type, std::vector<std::int64_t>>) {
    type = KeyType::kRanks;
  } else if constexpr (IsList<Type>::value) {
    type = KeyType::kTexts;
  } else if constexpr (std::is_enum_v<Type>) {
    say.choices = names_of<Type>();
  }
  return {.path = std::move(say.path),
          .type = type,
          .unit = std::move(say.unit),
          .range = say.range,
          .choices = std::move(say.choices),
          .required = say.required,
          .meaning = std::move(say.meaning),
          .takes_every = std::is_same_v<Type, std::vector<ModuleRecompute>>,
          .get = Field<kPath...>::get,
          .set = Field<kPath...>::set};
}

}  // namespace tributary::config
