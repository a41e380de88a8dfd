"""Makes texts that are hard on a tokenizer: every script, marks, emoji, digits, white space.

Only code points that Unicode 14 has: PCRE2 10.42 knows no later ones, and what is a letter decides
where text is cut. Marks that came after Unicode 9 are kept apart (YOUNG_MARKS): the normaliser of
the `tokenizers` package does not know their order, Python's does.
"""

import unicodedata

from tokenizers import normalizers

SCRIPTS = {
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F)],
    "armenian": [(0x531, 0x58F)],
    "hebrew": [(0x591, 0x5F4)],
    "arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF)],
    "syriac": [(0x700, 0x74F)],
    "thaana": [(0x780, 0x7B1)],
    "nko": [(0x7C0, 0x7FF)],
    "devanagari": [(0x900, 0x97F)],
    "bengali": [(0x980, 0x9FE)],
    "gurmukhi": [(0xA01, 0xA76)],
    "gujarati": [(0xA81, 0xAFF)],
    "oriya": [(0xB01, 0xB77)],
    "tamil": [(0xB82, 0xBFA)],
    "telugu": [(0xC00, 0xC7F)],
    "kannada": [(0xC80, 0xCF2)],
    "malayalam": [(0xD00, 0xD7F)],
    "sinhala": [(0xD81, 0xDF4)],
    "thai": [(0xE01, 0xE5B)],
    "lao": [(0xE81, 0xECD), (0xED0, 0xEDF)],
    "tibetan": [(0xF00, 0xFDA)],
    "myanmar": [(0x1000, 0x109F)],
    "georgian": [(0x10A0, 0x10FF), (0x1C90, 0x1CBF)],
    "hangul": [(0xAC00, 0xD7A3), (0x3131, 0x318E)],
    "jamo": [(0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)],
    "ethiopic": [(0x1200, 0x139F)],
    "cherokee": [(0x13A0, 0x13FD), (0xAB70, 0xABBF)],
    "canadian": [(0x1400, 0x167F)],
    "ogham": [(0x1680, 0x169C)],
    "runic": [(0x16A0, 0x16F8)],
    "khmer": [(0x1780, 0x17F9)],
    "mongolian": [(0x1800, 0x18AA)],
    "balinese": [(0x1B00, 0x1B4C), (0x1B50, 0x1B7C)],
    "lepcha": [(0x1C00, 0x1C4F)],
    "tifinagh": [(0x2D30, 0x2D7F)],
    "hiragana": [(0x3041, 0x309F)],
    "katakana": [(0x30A0, 0x30FF), (0xFF66, 0xFF9F)],
    "bopomofo": [(0x3105, 0x312F)],
    "han": [(0x4E00, 0x9FFC), (0x3400, 0x4DBF), (0x20000, 0x2A6DD), (0xF900, 0xFAD9)],
    "yi": [(0xA000, 0xA48C)],
    "vai": [(0xA500, 0xA62B)],
    "javanese": [(0xA980, 0xA9DF)],
    "gothic": [(0x10330, 0x1034A)],
    "deseret": [(0x10400, 0x1044F)],
    "brahmi": [(0x11000, 0x1106F)],
    "chakma": [(0x11100, 0x11147)],
    "cuneiform": [(0x12000, 0x12399)],
    "hieroglyphs": [(0x13000, 0x1342E)],
    "mathematical": [(0x1D400, 0x1D7FF)],
    "adlam": [(0x1E900, 0x1E959)],
    "symbols": [(0x2010, 0x2027), (0x2030, 0x205E), (0x20A0, 0x20C0), (0x2100, 0x23FF),
                (0x2460, 0x26FF), (0x3000, 0x303F), (0xFE10, 0xFE19), (0xFF01, 0xFF65)],
    "private": [(0xE000, 0xE0FF), (0xF0000, 0xF00FF), (0xFFFE, 0xFFFF)],
}


def is_ordered_alike(mark):
    """Whether the package orders a mark as Unicode does, between the classes 1 and 240."""
    return all(normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)
               for text in [mark + "\u0334", "\u0345" + mark])


def list_assigned(ranges):
    points = [chr(point) for low, high in ranges for point in range(low, high + 1)]
    return [point for point in points if unicodedata.category(point) != "Cn"]


ALPHABETS = {
    script: [point for point in list_assigned(ranges) if is_ordered_alike(point)]
    for script, ranges in SCRIPTS.items() if script != "private"
}
ALPHABETS["private"] = [chr(point) for low, high in SCRIPTS["private"]
                        for point in range(low, high + 1)]
ALL_MARKS = list_assigned([(0x300, 0x36F), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0),
                           (0x591, 0x5BD), (0x64B, 0x65F), (0x93C, 0x94D), (0x9BE, 0x9D7),
                           (0xE31, 0xE4E), (0x3099, 0x309A), (0x1D165, 0x1D169)])
MARKS = [mark for mark in ALL_MARKS if is_ordered_alike(mark)]
YOUNG_MARKS = [mark for mark in ALL_MARKS if not is_ordered_alike(mark)]
DIGITS = [character for alphabet in ALPHABETS.values() for character in alphabet
          if unicodedata.category(character)[0] == "N"] + list("0123456789²³¼½")
SPACES = [*" \t\n\r\v\f", "\r\n", "\x85", "\xa0", "\u1680", *map(chr, range(0x2000, 0x200B)),
          "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "\x1c", "\x00"]
EMOJI = list_assigned([(0x1F300, 0x1F64F), (0x1F680, 0x1F6D7), (0x1F900, 0x1F9FF),
                       (0x2600, 0x27BF), (0x1FA70, 0x1FA74)])
SKINS = [chr(point) for point in range(0x1F3FB, 0x1F400)]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["'s", "'S", "'t", "'RE", "'ve", "'M",
                                                              "'ll", "'Ll", "'d", "'ſ", "’s"]


def pick_word(random, script=None):
    alphabet = ALPHABETS[script or random.choice(list(ALPHABETS))]
    return "".join(random.choices(alphabet, k=random.randint(1, 9)))


def pick_emoji(random):
    kind = random.randrange(5)
    if kind == 0:  # a family of several, joined
        return "\u200d".join(random.choice(EMOJI) + random.choice(["", "\ufe0f", *SKINS])
                             for _ in range(random.randint(2, 4)))
    if kind == 1:  # a flag
        return "".join(chr(random.randint(0x1F1E6, 0x1F1FF)) for _ in range(2))
    if kind == 2:  # a key cap
        return random.choice("0123456789#*") + "\ufe0f\u20e3"
    if kind == 3:  # a flag of a region, in tag characters
        return "\U0001f3f4" + "".join(map(chr, random.choices(range(0xE0061, 0xE007B), k=5)))
    return random.choice(EMOJI) + random.choice(["", "\ufe0f", *SKINS])


def pick_marked(random):
    """Bases with marks in an order that normalisation changes, or decomposed text."""
    if random.random() < 0.5:
        form = random.choice(["NFD", "NFKD", "NFC"])
        return unicodedata.normalize(form, pick_word(random, random.choice(
            ["latin", "greek", "cyrillic", "hangul", "hiragana", "katakana", "devanagari", "han",
             "hebrew", "arabic", "bengali", "tamil", "balinese", "chakma"])))
    return "".join(random.choice(random.choice(list(ALPHABETS.values())))
                   + "".join(random.choices(MARKS, k=random.randint(0, 4)))
                   for _ in range(random.randint(1, 4)))


def pick_fragment(random, tokens):
    kind = random.randrange(12)
    if kind < 3:
        return pick_word(random)
    if kind == 3:
        return pick_marked(random)
    if kind == 4:
        return pick_emoji(random)
    if kind == 5:
        return "".join(random.choices(DIGITS, k=random.randint(1, 6)))
    if kind == 6:
        return "".join(random.choices(SPACES, k=random.randint(1, 5)))
    if kind == 7:
        token = random.choice(tokens)
        return random.choice([token, token, token[:-1], token[1:], f" {token} ", token + token])
    if kind == 8:
        return "".join(random.choices(PUNCTUATION, k=random.randint(1, 5)))
    if kind == 9:
        return "".join(random.choices("abcdefghijklmnopqrstuvwxyzABCXYZ", k=random.randint(1, 12)))
    if kind == 10:
        return random.choice([" ", "\n", "  ", "\n\n", "\t"])
    return random.choice([" the", " and", "Hello", " world", "ing", " 2024", "don't", "I'LL"])


def make_marked_text(random):
    """Bases with many marks, young ones among them."""
    return "".join(random.choice("aeiouAEIOU\u0627\u05d0\u0915\uac00\u1100\u1161\u3046")
                   + "".join(random.choices(MARKS + 4 * YOUNG_MARKS, k=random.randint(0, 6)))
                   for _ in range(random.randint(1, 8)))


def make_text(random, tokens):
    """One text; a few are long runs, most are some fragments."""
    if random.random() < 0.01:
        return pick_fragment(random, tokens) * random.randint(20, 200)
    return "".join(pick_fragment(random, tokens) for _ in range(random.randint(0, 12)))
