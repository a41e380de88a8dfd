#include "app/report/page_frame.h"

#include "app/report/html.h"
#include "core/text.h"

namespace tributary::app {
namespace {

// The policy makes the browser refuse every request, whatever the data of the run contains.
constexpr const char* kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
)";

constexpr const char* kBrand =
    R"(<span class="brand"><svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" aria-hidden="true"><path d="M4 3c0 7 8 6 8 12v6"/><path d="M20 3c0 7-8 6-8 12"/></svg>Tributary</span>)";

std::string bar_of(const std::vector<PageLink>& links) {
  std::string text = str("<nav><div class=\"wrap\">\n", kBrand, "\n<span class=\"links\">");
  for (const PageLink& link : links)
    text += str("<a href=\"#", html(link.section), "\">", html(link.name), "</a>");
  return text + "</span>\n<button class=\"theme\" type=\"button\">Dark</button>\n</div></nav>\n";
}

}  // namespace

std::string open_page(const std::string& title, const std::vector<PageLink>& links) {
  return str(kHead, "<title>", html(title), " – Tributary</title>\n<style>\n", kPageStyle,
             "</style>\n</head>\n<body>\n", bar_of(links), "<main class=\"wrap\">\n");
}

std::string close_page(const std::string& footer, const std::string& scripts) {
  return str("</main>\n<footer class=\"wrap\">", footer,
             " The page holds all it shows and makes no request.</footer>\n<script>\n",
             kThemeScript, "</script>\n", scripts, "</body>\n</html>\n");
}

}  // namespace tributary::app
