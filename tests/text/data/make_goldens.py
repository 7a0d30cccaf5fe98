#!/usr/bin/env python3
"""Makes the goldens of tests/text from other people's tokenizers, so that the tests need neither them nor Python.

  make_goldens.py MODELS [HELDOUT]

MODELS holds SmolLM2-135M-Instruct.Q4_1.gguf and qwen2.5-coder-0.5b-instruct-q4_k_m.gguf (see data/models.json),
HELDOUT the documents (default: data/heldout of this repository). Writes, beside this script:
  hard_cases.json        texts that tokenizers trip over, with their ids under both models' tokenizers
  heldout_goldens.json   per document: how many ids, and the SHA-256 of the ids as little-endian int32
  tiny_bpe.json          a small vocabulary trained here, run under many pre-tokenizers
  tiny_sentencepiece.json  two small SentencePiece models trained here, and their ids
Needs: pip install transformers gguf tokenizers sentencepiece torch
"""
import base64, hashlib, io, json, pathlib, struct, sys, tempfile

import sentencepiece, tokenizers, transformers
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers as pre, trainers

HERE = pathlib.Path(__file__).resolve().parent
FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "qwen2": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"}
LIBRARIES = f"tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}"

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

HARD_CASES = {
    "empty": "",
    "one letter": "a",
    "one space": " ",
    "plain": "The ferry left at dawn, and nobody waved.",
    "no space at all": "Donaudampfschifffahrtsgesellschaftskapitän",
    "contractions": "I'm you're he's we've they'll she'd can't don't it's o'clock 'tis rock'n'roll",
    "upper-case contractions": "I'M YOU'RE HE'S WE'VE THEY'LL SHE'D CAN'T It'S we'Ll 'S'T'RE",
    "contraction of a long s": "it'ſ and 'ſ and 'K",
    "curly apostrophes": "I’m you’re he’s we’ve they’ll she’d can’t",
    "digits": "1 12 123 1234 12345 123456789 3.14159 1,000,000 2024-02-29 0x1F 007 1e-7",
    "digits against letters": "a1b22c333 4th H2O x86_64 v1.2.3 24h 7pm",
    "other numbers": "½ ¾ ² ³ Ⅷ ⅷ ①② ١٢٣ १२३ 一二三 𝟙𝟚 ৳৪ ㊿",
    "runs of spaces": "a  b   c    d        e                f",
    "leading spaces": "    four then text",
    "trailing spaces": "text then three   ",
    "only spaces": "       ",
    "spaces before a digit": "x   7  8 9",
    "spaces before punctuation": "x   ,  . !",
    "newlines": "a\nb\n\nc\n\n\nd\n\n\n\n\ne",
    "newlines with spaces": "a \n b\n  c  \n\n  d\n \n \n e   \n",
    "only newlines": "\n\n\n",
    "trailing newline": "line\n",
    "CRLF": "one\r\ntwo\r\n\r\nthree \r\n four\r\n",
    "lone CR": "one\rtwo\r\rthree\r",
    "tabs": "a\tb\t\tc\t \td \t e\t\n\tf",
    "code": "def f(x):\n    if x > 0:\n        return {'a': [1, 2], \"b\": None}\n\n\nclass A: pass\n",
    "more code": "for(int i=0;i<n;++i){a[i]+=b[i]*c[i];} // done\n#include <vector>\n\ttemplate<typename T>",
    "markup": "<p class=\"x\">Hi &amp; bye</p><!-- c --><br/>",
    "url": "https://example.org/a/b?q=1&r=%20x#frag user@example.org",
    "punctuation runs": "...!!!???---===###***~~~ «quoted» “quoted” ‘q’ — – … ¿qué? ¡ya!",
    "punctuation and newlines": "end.\n\nNext!\n\"Quote\"\n---\n",
    "accents, composed": "café naïve Zürich Ångström façade señor Ελλάδα Москва",
    "accents, decomposed": "cafe\u0301 nai\u0308ve Zu\u0308rich A\u030angstro\u0308m fac\u0327ade sen\u0303or",
    "several marks on a letter": "a\u0323\u0302 a\u0302\u0323 q\u0307\u0323 q\u0323\u0307 o\u031b\u0301",
    "a mark alone": "\u0301 \u0301\u0301 x \u0308",
    "singletons and exclusions": "\u212b \u2126 \u212a \u0958 \u0344 \u2adc \ufb1d \U0001d15e",
    "Hangul jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af 한글 \uac00\u11a8",
    "ligatures and width": "ﬁ ﬂ Ａｂｃ １２３ ｱｲｳ ㎏ ™ ℃",
    "Vietnamese": "Tiếng Việt có dấu: ừ, ạ, ổ, đ",
    "Devanagari": "नमस्ते दुनिया, क्षत्रिय श्री",
    "Thai": "สวัสดีชาวโลก ไม่มีช่องว่าง",
    "Arabic": "مَرْحَبًا بِالعَالَم ٢٠٢٤",
    "Hebrew": "שָׁלוֹם עוֹלָם",
    "Chinese": "你好，世界。今天天气很好！「引号」",
    "Japanese": "こんにちは世界。カタカナ、ｶﾅ と 漢字",
    "Korean": "안녕하세요 세계, 오늘은 날씨가 좋네요.",
    "mixed scripts": "GPTは大きいmodelです。Это test 测试abc一",
    "rare ideographs": "𠮷野家 㐂 龘 𪚥",
    "emoji": "😀😃 👍 ❤️ ☺ ✈️ 🚀🚀🚀",
    "emoji, joined": "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "emoji, flags and keycaps": "🇫🇷🇯🇵 🇺 1️⃣ #️⃣",
    "no-break spaces": "10\u00a0km a\u00a0\u00a0b \u00a0 c\u202fd e\u2007f",
    "other spaces": "a\u2003b\u2009c\u3000d\u1680e\u205ff\u2028g\u2029h\u0085i\u000bj\u000ck",
    "not spaces": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u180eg\u00adh",
    "byte order mark": "\ufeffstart",
    "controls": "a\u0000b\u0001c\u001bd\u007fe\u009ff",
    "direction marks": "a\u200eb\u200fc\u202ad\u202ce\u2066f\u2069",
    "private and unassigned": "\ue000 \uf8ff \U0010fffd \uffff \U000e0001",
    "mathematics": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, ∑ᵢ αᵢ² ≤ ∞ 𝒜𝔅ℂ",
    "box drawing": "┌──┬──┐\n│ a│ b│\n└──┴──┘\n",
    "zalgo": "Z\u0351\u036b\u0343a\u0301\u0489l\u0324g\u0336o\u0334",
    "special tokens' text": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><s></s><unk>",
    "half a special token": "<|im_end <|im_end|| |im_end|> <|im_end|>>",
    "special tokens in words": "a<|im_end|>b  <|im_end|>  c<|endoftext|>1",
    "user-defined tokens' text": "<tool_call>{}</tool_call> <repo_name>x<file_sep>y",
    "meta space": "a▁b ▁ ▁▁c Ġd Ċ",
    "long word": "ab" * 40,
    "long run of spaces": " " * 60 + "x",
    "long number": "9" * 40,
}


def vocabulary_text():
    """What the tiny vocabularies learn from: the cases themselves, all but the hardest scripts."""
    return [text for text in HARD_CASES.values() if len(text) < 150]


def model_tokenizer(folder, name):
    """The tokenizer as the model's own tokenizer.json has it, with the vocabulary that the GGUF carries."""
    fields = GGUFReader(str(folder / FILES[name])).fields
    contents = lambda key: fields["tokenizer.ggml." + key].contents()
    tokens, types = contents("tokens"), contents("token_type")
    merges = [tuple(merge.split(" ")) for merge in contents("merges")]
    t = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    if name == "smollm2":
        t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    else:
        t.normalizer = normalizers.NFC()
        t.pre_tokenizer = pre.Sequence([pre.Split(Regex(QWEN2), "isolated"),
                                        pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.add_special_tokens([AddedToken(token, normalized=False) for token, kind in zip(tokens, types) if kind == 3])
    t.add_tokens([AddedToken(token, normalized=False) for token, kind in zip(tokens, types) if kind == 4])
    return t


def ids_of(tokenizer, text, special):
    tokenizer.encode_special_tokens = not special  # the library's name for "as plain text"
    return tokenizer.encode(text, add_special_tokens=False).ids


def write(name, value):
    with open(HERE / name, "w", encoding="ascii") as file:
        file.write(dumps(value) + "\n")


def dumps(value, depth=0):
    """JSON with one line for each innermost list or object, so that changes are readable."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or depth == 3 or len(flat) < 110:
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        body = ",\n".join(f"{pad}{json.dumps(k)}: {dumps(v, depth + 1)}" for k, v in value.items())
        return "{\n" + body + "\n" + pad[1:] + "}"
    return "[\n" + ",\n".join(pad + dumps(v, depth + 1) for v in value) + "\n" + pad[1:] + "]"


def hard_cases(folder):
    cases = [{"name": name, "text": text} for name, text in HARD_CASES.items()]
    for model in FILES:
        t = model_tokenizer(folder, model)
        for case in cases:
            case[model] = ids_of(t, case["text"], False)
            with_special = ids_of(t, case["text"], True)
            if with_special != case[model]:
                case[model + "_special"] = with_special
    write("hard_cases.json", {
        "origin": f"make_goldens.py: {LIBRARIES}; vocabularies of {', '.join(FILES.values())}; *_special: with "
                  "special tokens' text taken as the tokens", "cases": cases})


def heldout(folder, documents):
    out = {}
    for model in FILES:
        t = model_tokenizer(folder, model)
        for path in sorted(documents.glob("*.txt")):
            ids = ids_of(t, path.read_bytes().decode("utf-8"), False)
            digest = hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()
            out.setdefault(path.name, {})[model] = {"ids": len(ids), "sha256": digest}
    for model in FILES:
        windows = {name: entry[model]["ids"] // 2048 for name, entry in out.items()}
        short = [name for name, count in windows.items() if count < 1]
        print(f"{model}: {sum(windows.values())} windows of 2,048 in {len(windows)} documents; too short: {short}")
    write("heldout_goldens.json", {
        "origin": f"make_goldens.py: {LIBRARIES}; vocabularies of {', '.join(FILES.values())}; no BOS, no special "
                  "tokens", "documents": out})


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ONLY = {**BYTE_LEVEL, "use_regex": False}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def stages(*list_of):
    return {"type": "Sequence", "pretokenizers": list(list_of)}


def added(token, content, **flags):
    return {"id": token, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


META = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
BYTE_VARIANTS = {
    "gpt2": {"pre_tokenizer": BYTE_LEVEL},
    "gpt2, prefix space": {"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}},
    "whole text": {"pre_tokenizer": BYTES_ONLY},
    "smollm": {"pre_tokenizer": stages({"type": "Digits", "individual_digits": True}, BYTE_LEVEL)},
    "runs of digits": {"pre_tokenizer": stages({"type": "Digits", "individual_digits": False}, BYTE_LEVEL)},
    "qwen2": {"normalizer": {"type": "NFC"}, "pre_tokenizer": stages(split({"Regex": QWEN2}), BYTES_ONLY)},
    "llama-bpe": {"pre_tokenizer": stages(split({"Regex": LLAMA3}), BYTES_ONLY), "ignore_merges": True},
    "NFD": {"normalizer": {"type": "NFD"}, "pre_tokenizer": BYTE_LEVEL},
    "NFKC": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}, "pre_tokenizer": BYTE_LEVEL},
    "NFKD": {"normalizer": {"type": "NFKD"}, "pre_tokenizer": BYTE_LEVEL},
    "removed": {"pre_tokenizer": stages(split({"Regex": r"\s+"}, "Removed"), BYTES_ONLY)},
    "removed, inverted": {"pre_tokenizer": stages(split({"Regex": r"\w+"}, "Removed", True), BYTES_ONLY)},
    "merged with previous": {"pre_tokenizer": stages(split({"String": "."}, "MergedWithPrevious"), BYTES_ONLY)},
    "merged with next": {"pre_tokenizer": stages(split({"Regex": r"[\s\d]"}, "MergedWithNext"), BYTES_ONLY)},
    "contiguous": {"pre_tokenizer": stages(split({"Regex": r"[^\S\n]"}, "Contiguous"), BYTES_ONLY)},
    "three splits": {"pre_tokenizer": stages(split({"Regex": r"\p{N}{1,3}"}), split({"Regex": r"[一-龥ぁ-ゔァ-ヴー]+"}),
                                             split({"Regex": r"[!-/:-~]?[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                                                             r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}),
                                             BYTES_ONLY)},
    "empty matches": {"pre_tokenizer": stages(split({"Regex": r"a*|(?=\p{Lu})"}), BYTES_ONLY)},
    "added tokens": {"pre_tokenizer": BYTE_LEVEL, "added_tokens": [
        added(9001, "<|im_end|>", special=True), added(9002, "<|im_start|>", special=True, rstrip=True, lstrip=True),
        added(9003, "  "), added(9004, "    "), added(9005, "th"), added(9006, "he", single_word=True),
        added(9007, "caf\u00e9", normalized=True), added(9008, "<tool_call>", lstrip=True)],
        "normalizer": {"type": "NFC"}},
}
TEXT_VARIANTS = {
    "llama2": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, META]}},
    "llama2, no prefix": {"normalizer": META},
    "metaspace": {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
                                    "split": True}},
    "metaspace, first": {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
                                           "split": False}, "added_tokens": [added(2, "</s>")]},
    "metaspace, never": {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never",
                                           "split": True}},
    "unknown, fused": {"normalizer": META, "byte_fallback": False, "fuse_unk": True},
    "unknown, apart": {"normalizer": META, "byte_fallback": False, "fuse_unk": False},
}
MODEL_KEYS = ("ignore_merges", "byte_fallback", "fuse_unk")


def tiny_bpe():
    """Two vocabularies: one that spells bytes, one of characters with a fallback to bytes, as Llama-2's."""
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    byte_level.train_from_iterator(vocabulary_text(), trainers.BpeTrainer(
        vocab_size=520, initial_alphabet=sorted(pre.ByteLevel.alphabet()), show_progress=False))
    text = Tokenizer(models.BPE())
    text.normalizer = normalizers.Replace(" ", "\u2581")
    text.train_from_iterator(vocabulary_text(), trainers.BpeTrainer(
        vocab_size=520, limit_alphabet=90, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    out = {"origin": f"make_goldens.py: {LIBRARIES}; the texts are those of hard_cases.json, in its order",
           "tokenizers": []}
    for trained, variants, defaults in ((byte_level, BYTE_VARIANTS, {}),
                                        (text, TEXT_VARIANTS, {"byte_fallback": True, "fuse_unk": True,
                                                               "unk_token": "<unk>"})):
        base = json.loads(trained.to_str())
        kind = {"vocab": base["model"]["vocab"], "merges": base["model"]["merges"], "variants": []}
        for name, variant in variants.items():
            model = {**base["model"], **defaults, **{k: variant[k] for k in MODEL_KEYS if k in variant}}
            full = {"version": "1.0", "added_tokens": variant.get("added_tokens", []),
                    "normalizer": variant.get("normalizer"), "pre_tokenizer": variant.get("pre_tokenizer"),
                    "model": model}
            for token in full["added_tokens"]:  # the library numbers tokens itself: new ones follow the vocabulary
                token["id"] = model["vocab"].get(token["content"], token["id"])
            fresh = [token for token in full["added_tokens"] if token["id"] > 9000]
            for i, token in enumerate(fresh):
                token["id"] = len(model["vocab"]) + i
            t = Tokenizer.from_str(json.dumps(full))
            entry = {"name": name, **{k: full[k] for k in ("added_tokens", "normalizer", "pre_tokenizer")},
                     "model": {k: model[k] for k in (*MODEL_KEYS, "unk_token") if model.get(k)},
                     "ids": [ids_of(t, case, False) for case in HARD_CASES.values()]}
            if full["added_tokens"]:
                entry["ids_special"] = [ids_of(t, case, True) for case in HARD_CASES.values()]
            kind["variants"].append(entry)
        out["tokenizers"].append(kind)
    write("tiny_bpe.json", out)


def piece_type(processor, i):
    """The type as SentencePiece's model files and GGUF number it."""
    return (2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 5 if processor.is_unused(i)
            else 6 if processor.is_byte(i) else 4 if processor.id_to_piece(i) in USER_DEFINED else 1)


USER_DEFINED = ["<tool_call>", "  "]


def settled(processor, text, name):
    """Whether one segmentation is the best: versions of the library break ties of unigram models differently."""
    if name != "unigram":
        return True
    best = processor.nbest_encode(text, nbest_size=2, return_type="proto").nbests
    return len(best) < 2 or abs(best[0].score - best[1].score) > 1e-3


def tiny_sentencepiece():
    out = {"origin": f"make_goldens.py: trained and run by {LIBRARIES}; the texts are those of hard_cases.json, in its "
                     "order", "models": []}
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")  # a character map small enough to keep here
    rules.write("41\t61\nFB01\t66 69\n65 301\tE9\n3000\t20\n9\t20\nAD\t\n1F1EB 1F1F7\t46 52\n")
    rules.flush()
    for name, options in {
        "llama": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                      remove_extra_whitespaces=False, user_defined_symbols=USER_DEFINED),
        "no prefix": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, add_dummy_prefix=False),
        "unigram": dict(model_type="unigram", normalization_rule_tsv=rules.name, hard_vocab_limit=False),
    }.items():
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for text in vocabulary_text() for line in text.replace("\0", "").split("\n")]),
            model_writer=file, vocab_size=700 if options["model_type"] == "bpe" else 500, character_coverage=0.98,
            num_threads=1, minloglevel=2, **options)
        p = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
        out["models"].append({"name": name, "proto": base64.b64encode(file.getvalue()).decode(),
                              "pieces": [[p.id_to_piece(i), p.get_score(i), piece_type(p, i)]
                                         for i in range(p.get_piece_size())],
                              "ids": [p.encode(case) if settled(p, case, name) else None for case in HARD_CASES.values()]})
    write("tiny_sentencepiece.json", out)


if __name__ == "__main__":
    models_folder = pathlib.Path(sys.argv[1])
    documents = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE.parents[2] / "data" / "heldout"
    hard_cases(models_folder)
    tiny_bpe()
    tiny_sentencepiece()
    if documents.is_dir():
        heldout(models_folder, documents)
