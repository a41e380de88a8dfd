#include "app/report/html.h"
#include "app/report/sections.h"
#include "core/text.h"

namespace tributary::app {
namespace {

/// A token as text; a line break shows as a sign before it breaks the line.
std::string shown_token(const std::string& token) {
  std::string text;
  for (const char c : html(token))
    text += c == '\n' ? std::string("<b>↵</b>\n") : std::string(1, c);
  return text;
}

std::string shown_piece(const TokenPiece& piece) {
  std::string tokens;
  for (const std::string& token : piece.tokens)
    tokens += str("<span>", shown_token(token), "</span>");
  if (piece.repeats)
    tokens = str("<span class=\"fold\">", tokens, " × ", show_count(*piece.repeats), "</span>");
  return piece.is_target ? "<mark>" + tokens + "</mark>" : tokens;
}

std::string sample_card(const SampleRecord& sample, ImageEmbedder& embedder) {
  std::string pieces;
  for (const TokenPiece& piece : sample.pieces) pieces += shown_piece(piece);
  const auto counted = [](const MaybeNumber& count, const char* what) {
    return count ? str(show_count(*count), " ", what) : std::string();
  };
  return str("<article class=\"card sample\">", picture_strip(sample.images, embedder),
             "<div class=\"words\"><div class=\"tag\"><span>", html(sample.source), " · ",
             html(sample.key), "</span><span>", counted(sample.tokens, "tokens"), ", ",
             counted(sample.target_tokens, "targets"), "</span></div><div class=\"tokens\">",
             pieces, "</div></div></article>\n");
}

}  // namespace

std::string sample_section(const RunRecord& run, ImageEmbedder& embedder) {
  std::string text =
      "<section id=\"samples\"><h2>Samples</h2>\n<p class=\"about\">Training samples of the first "
      "step, token by token, as the model sees them. The <mark>marked</mark> tokens are the ones "
      "that it learns; the place of a picture is one token many times.</p>\n";
  if (run.samples.empty())
    return text + missing_box("samples.jsonl", "the first step writes what it was trained on.") +
           "</section>\n";
  text += "<div class=\"samples\">\n";
  for (const SampleRecord& sample : run.samples) text += sample_card(sample, embedder);
  return text + "</div></section>\n";
}

}  // namespace tributary::app
