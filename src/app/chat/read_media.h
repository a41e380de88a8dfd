#pragma once

#include <string>

#include "app/engine/chat_model.h"

namespace tributary::app {

/// Reads and decodes a picture that the user named.
///
/// errors: Fault::kInput when it is no file, too large, or no picture that can be decoded
[[nodiscard]] ChatPicture read_picture(const std::string& path);

/// Puts a picture at the end of a turn of the request.
void add_picture(ChatPicture picture, data::Turn& turn, ChatRequest& request);

/// The same of a sound.
[[nodiscard]] ChatSound read_sound(const std::string& path);
void add_sound(ChatSound sound, data::Turn& turn, ChatRequest& request);
/// errors: Fault::kInput when the model hears nothing
void require_hearing(const ChatModel& model, const std::string& path, std::size_t sounds);

/// errors: Fault::kInput when the model sees nothing
void require_vision(const ChatModel& model, const std::string& path, std::size_t images);

}  // namespace tributary::app
