#pragma once

#include <array>
#include <string_view>

namespace tributary::data {

/// The goods in the demo's shops, with at most four letters: the width of a small picture.
inline constexpr std::array<std::string_view, 12> kGoods{
    "tea", "cup", "pen", "book", "lamp", "soap", "rice", "milk", "cake", "fork", "hat", "key"};

/// Questions about the first lines of a list.
inline constexpr std::array<const char*, 3> kPlaceQuestions{"Which is first?", "Which is second?",
                                                            "Which is third?"};

}  // namespace tributary::data
