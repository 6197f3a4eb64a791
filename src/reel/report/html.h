// Text on its way into a page.
//
// Html is markup that is safe to place on a page: made by this room, every foreign text in it escaped. Text that comes
// from a file, a configuration or a person is a std::string and gets in through escape() alone.
#pragma once

#include <string>
#include <string_view>

namespace reel::report {

struct Html {
  std::string markup;
};

// `text` for content and for quoted attributes, in HTML and in SVG: & < > " ' become references; bytes that are not
// UTF-8 and control characters other than tab and line feed become U+FFFD, so that no text can break a page.
std::string escape(std::string_view text);

// RFC 4648, with padding: for data: addresses.
std::string base64(std::string_view bytes);

}  // namespace reel::report
