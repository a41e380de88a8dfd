#pragma once

#include "app/engine/engine.h"

namespace tributary::app {

// One function per verb, in a file of the same name; engine.cpp puts them into the table.
RankOutcome run_train(const TrainOptions& options);
ExitCode run_encoder(const EncoderOptions& options);
ExitCode run_forward(const ForwardOptions& options);
RankOutcome run_evaluate(const EvaluateOptions& options);
std::unique_ptr<ChatModel> open_chat_model(const ChatModelOptions& options);
ExitCode run_profile(const ProfileOptions& options);
ExitCode inspect_checkpoint(const CheckpointOptions& options);
ExitCode verify_checkpoint(const CheckpointOptions& options);
ExitCode export_checkpoint(const CheckpointOptions& options);
AdaptedRun resolve_adapters(const config::RunConfig& run);

}  // namespace tributary::app
