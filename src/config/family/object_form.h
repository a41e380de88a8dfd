#pragma once

#include <string_view>

namespace tributary::config {

/// How a family writes the objects of a picture and their boxes: as ms-swift does, whose
/// `QWENVL_BBOX_FORMAT=new` are the plain lists of Qwen's cookbook.
struct ObjectForm {
  std::string_view before_name = {};  // control tokens; empty: the name is plain text
  std::string_view after_name = {};
  std::string_view before_box = {};
  std::string_view after_box = {};
  std::string_view open = "[";  // plain text around the coordinates
  std::string_view close = "]";
  bool in_pairs = true;    // (x1,y1),(x2,y2); else x1, y1, x2, y2
  bool in_pixels = false;  // of the picture as the model sees it; else on a grid of 1000 a side
};

// Those of all families; what a family leaves out is [(x1,y1),(x2,y2)] on the grid.
inline constexpr ObjectForm kQwen2VlObjects{.before_name = "<|object_ref_start|>",
                                            .after_name = "<|object_ref_end|>",
                                            .before_box = "<|box_start|>",
                                            .after_box = "<|box_end|>",
                                            .open = "",
                                            .close = ""};
inline constexpr ObjectForm kPixelLists{.in_pairs = false, .in_pixels = true};
inline constexpr ObjectForm kGridLists{.in_pairs = false};
inline constexpr ObjectForm kInternVlObjects{.before_name = "<ref>",
                                             .after_name = "</ref>",
                                             .before_box = "<box>",
                                             .after_box = "</box>",
                                             .open = "[[",
                                             .close = "]]",
                                             .in_pairs = false};

}  // namespace tributary::config
