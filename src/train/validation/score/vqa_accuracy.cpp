#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "data/text/unicode_text.h"
#include "train/validation/score/answer_scores.h"

namespace tributary::train {
namespace {

using Replacement = std::pair<std::u32string_view, std::u32string_view>;

constexpr Replacement kNumbers[] = {{U"none", U"0"},  {U"zero", U"0"},  {U"one", U"1"},
                                    {U"two", U"2"},   {U"three", U"3"}, {U"four", U"4"},
                                    {U"five", U"5"},  {U"six", U"6"},   {U"seven", U"7"},
                                    {U"eight", U"8"}, {U"nine", U"9"},  {U"ten", U"10"}};
constexpr Replacement kContractions[] = {{U"'ow'sat", U"'ow's'at"},
                                         {U"'ows'at", U"'ow's'at"},
                                         {U"aint", U"ain't"},
                                         {U"arent", U"aren't"},
                                         {U"cant", U"can't"},
                                         {U"couldn'tve", U"couldn't've"},
                                         {U"couldnt", U"couldn't"},
                                         {U"couldnt've", U"couldn't've"},
                                         {U"couldve", U"could've"},
                                         {U"didnt", U"didn't"},
                                         {U"doesnt", U"doesn't"},
                                         {U"dont", U"don't"},
                                         {U"hadn'tve", U"hadn't've"},
                                         {U"hadnt", U"hadn't"},
                                         {U"hadnt've", U"hadn't've"},
                                         {U"hasnt", U"hasn't"},
                                         {U"havent", U"haven't"},
                                         {U"he'dve", U"he'd've"},
                                         {U"hed", U"he'd"},
                                         {U"hed've", U"he'd've"},
                                         {U"hes", U"he's"},
                                         {U"howd", U"how'd"},
                                         {U"howll", U"how'll"},
                                         {U"hows", U"how's"},
                                         {U"isnt", U"isn't"},
                                         {U"it'dve", U"it'd've"},
                                         {U"itd", U"it'd"},
                                         {U"itd've", U"it'd've"},
                                         {U"itll", U"it'll"},
                                         {U"maam", U"ma'am"},
                                         {U"mightn'tve", U"mightn't've"},
                                         {U"mightnt", U"mightn't"},
                                         {U"mightnt've", U"mightn't've"},
                                         {U"mightve", U"might've"},
                                         {U"mustnt", U"mustn't"},
                                         {U"mustve", U"must've"},
                                         {U"neednt", U"needn't"},
                                         {U"notve", U"not've"},
                                         {U"oclock", U"o'clock"},
                                         {U"oughtnt", U"oughtn't"},
                                         {U"ow's'at", U"'ow's'at"},
                                         {U"shant", U"shan't"},
                                         {U"she'dve", U"she'd've"},
                                         {U"shed've", U"she'd've"},
                                         {U"shouldn'tve", U"shouldn't've"},
                                         {U"shouldnt", U"shouldn't"},
                                         {U"shouldnt've", U"shouldn't've"},
                                         {U"shouldve", U"should've"},
                                         {U"somebody'd", U"somebodyd"},
                                         {U"somebody'dve", U"somebody'd've"},
                                         {U"somebodyd've", U"somebody'd've"},
                                         {U"somebodyll", U"somebody'll"},
                                         {U"somebodys", U"somebody's"},
                                         {U"someone'dve", U"someone'd've"},
                                         {U"someoned", U"someone'd"},
                                         {U"someoned've", U"someone'd've"},
                                         {U"someonell", U"someone'll"},
                                         {U"someones", U"someone's"},
                                         {U"something'dve", U"something'd've"},
                                         {U"somethingd", U"something'd"},
                                         {U"somethingd've", U"something'd've"},
                                         {U"somethingll", U"something'll"},
                                         {U"thats", U"that's"},
                                         {U"there'dve", U"there'd've"},
                                         {U"thered", U"there'd"},
                                         {U"thered've", U"there'd've"},
                                         {U"therere", U"there're"},
                                         {U"theres", U"there's"},
                                         {U"they'dve", U"they'd've"},
                                         {U"theyd", U"they'd"},
                                         {U"theyd've", U"they'd've"},
                                         {U"theyll", U"they'll"},
                                         {U"theyre", U"they're"},
                                         {U"theyve", U"they've"},
                                         {U"twas", U"'twas"},
                                         {U"wasnt", U"wasn't"},
                                         {U"we'dve", U"we'd've"},
                                         {U"wed've", U"we'd've"},
                                         {U"werent", U"weren't"},
                                         {U"weve", U"we've"},
                                         {U"whatll", U"what'll"},
                                         {U"whatre", U"what're"},
                                         {U"whats", U"what's"},
                                         {U"whatve", U"what've"},
                                         {U"whens", U"when's"},
                                         {U"whered", U"where'd"},
                                         {U"wheres", U"where's"},
                                         {U"whereve", U"where've"},
                                         {U"who'dve", U"who'd've"},
                                         {U"whod", U"who'd"},
                                         {U"whod've", U"who'd've"},
                                         {U"wholl", U"who'll"},
                                         {U"whos", U"who's"},
                                         {U"whove", U"who've"},
                                         {U"whyll", U"why'll"},
                                         {U"whyre", U"why're"},
                                         {U"whys", U"why's"},
                                         {U"wont", U"won't"},
                                         {U"wouldn'tve", U"wouldn't've"},
                                         {U"wouldnt", U"wouldn't"},
                                         {U"wouldnt've", U"wouldn't've"},
                                         {U"wouldve", U"would've"},
                                         {U"y'all'dve", U"y'all'd've"},
                                         {U"y'alld've", U"y'all'd've"},
                                         {U"y'allll", U"y'all'll"},
                                         {U"yall", U"y'all"},
                                         {U"yall'd've", U"y'all'd've"},
                                         {U"yall'll", U"y'all'll"},
                                         {U"you'dve", U"you'd've"},
                                         {U"youd", U"you'd"},
                                         {U"youd've", U"you'd've"},
                                         {U"youll", U"you'll"},
                                         {U"youre", U"you're"},
                                         {U"youve", U"you've"}};
constexpr std::u32string_view kPunctuation = UR"(;/[]"{}()=+\_-><@`,?!)";
constexpr std::size_t kMaxPeriods = 32;  // that the published program removes

std::u32string replaced(const std::u32string& word, std::span<const Replacement> replacements) {
  const auto own = std::ranges::find(replacements, word, &Replacement::first);
  return own == replacements.end() ? word : std::u32string(own->second);
}

/// Whether commas stand between two digits: 1,000.
bool has_grouped_digits(const std::u32string& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != U',' || !data::is_decimal(text[i - 1])) continue;
    while (i < text.size() && text[i] == U',') ++i;
    if (i < text.size() && data::is_decimal(text[i])) return true;
  }
  return false;
}

/// A mark beside a space is removed, and all marks are where digits are grouped; other marks become
/// spaces. Then the periods go that no digit follows.
std::u32string without_punctuation(const std::u32string& text) {
  const bool removes_all = has_grouped_digits(text);
  std::u32string plain = text;
  for (const char32_t mark : kPunctuation) {
    const bool removes = removes_all ||
                         text.find(std::u32string{mark, U' '}) != std::u32string::npos ||
                         text.find(std::u32string{U' ', mark}) != std::u32string::npos;
    if (removes)
      std::erase(plain, mark);
    else
      std::ranges::replace(plain, mark, U' ');
  }
  std::u32string kept;
  std::size_t periods = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool before_digit = i + 1 < plain.size() && data::is_decimal(plain[i + 1]);
    if (plain[i] == U'.' && !before_digit && periods++ < kMaxPeriods) continue;
    kept += plain[i];
  }
  return kept;
}

std::u32string stripped(const std::u32string& text) {
  const auto first = std::ranges::find_if_not(text, data::is_white_space);
  auto last = text.end();
  while (last != first && data::is_white_space(*(last - 1))) --last;
  return {first, last};
}

/// The words of an answer in one form.
std::vector<std::u32string> normalize(const std::string& text) {
  std::u32string characters = data::to_characters(text);
  for (char32_t& c : characters)
    if (c == U'\n' || c == U'\t') c = U' ';
  std::vector<std::u32string> words;
  for (const std::u32string& word :
       data::split_at_spaces(data::lower_case(without_punctuation(stripped(characters))))) {
    const std::u32string number = replaced(word, kNumbers);
    if (number == U"a" || number == U"an" || number == U"the") continue;
    words.push_back(replaced(number, kContractions));
  }
  return words;
}

}  // namespace

double vqa_accuracy(const std::string& answer, std::span<const std::string> references) {
  constexpr double kEnough = 3;  // references that agree
  const std::vector<std::u32string> own = normalize(answer);
  const std::int64_t equal = std::ranges::count_if(
      references, [&](const std::string& reference) { return normalize(reference) == own; });
  const std::int64_t all = std::ssize(references);
  if (all == 1) return static_cast<double>(equal);
  const auto accuracy = [](std::int64_t others) {
    return std::min(1.0, static_cast<double>(others) / kEnough);
  };
  const double with_it = accuracy(equal - 1);  // one that agrees is left out
  const double without_it = accuracy(equal);
  return (static_cast<double>(equal) * (equal > 0 ? with_it : 0) +
          static_cast<double>(all - equal) * without_it) /
         static_cast<double>(all);
}

}  // namespace tributary::train
