#include "app/report/page_frame.h"

#include "app/report/html.h"
#include "app/report/page_assets.h"
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

}  // namespace

std::string open_page(const std::string& title) {
  return str(kHead, "<title>", html(title), " – Tributary</title>\n<style>\n", kPageStyle,
             "</style>\n</head>\n<body>\n");
}

}  // namespace tributary::app
